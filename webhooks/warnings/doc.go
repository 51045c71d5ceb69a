// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package warnings tells what is legal but will not work with the inventory as it is:
// a selector that matches no host, a failure domain label that no host carries, a
// network with fewer addresses than hosts or with a control plane's endpoint among them,
// a reservation on a network that is not there. Each warning names the field, its value
// and a remedy.
//
// A warning never stands in the way: it is read from a cache in which nothing is
// copied, the search ends with the first host that will do and in any case after a
// second, and where the cache cannot be read there is none. The package never writes,
// never asks the API server or a BMC, and knows nothing of conditions: a host that
// is broken today still counts, because it is there.
//
//	o := warnings.Outlook{Reader: mgr.GetClient()}
//	warnings := o.Machine(ctx, "dc1", field.NewPath("spec"), machine.Spec)
package warnings
