// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory is the pure domain of Ingot: which disk, which host, which
// failure domain, and what a host needs next. Values in, decisions out: it knows
// no Kubernetes client, no network and no clock of its own.
//
//	decision := inventory.Next(host, observation, inventory.DefaultPolicy())
//	switch step := decision.Step.(type) {
//	case inventory.PowerOff: ...
//	}
package inventory
