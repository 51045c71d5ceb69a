// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package warnings finds valid values that do not work with the current inventory: a selector that
// matches no host, a failure domain label that no host has, a network with fewer addresses than
// hosts or with a control plane endpoint in its range, a reservation on a network that does not
// exist. Each warning names the field, its value and a remedy.
//
// A warning never delays or fails a request for long: it reads from a cache without copies, takes
// at most one second, and is skipped if the cache cannot be read. The package never writes, never
// calls the API server or a BMC, and ignores conditions: an unhealthy host still counts.
//
//	c := warnings.Checker{Reader: mgr.GetClient()}
//	warnings := c.Machine(ctx, "dc1", field.NewPath("spec"), machine.Spec)
package warnings
