// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machine reconciles IngotMachines: it claims a host for each (I1), shows
// how its install and first boot go, and releases it when the Machine is deleted
// (I6, I7). It never touches a server: the host controller does, moved by the claim.
//
//	err := (&machine.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), ...}).SetupWithManager(ctx, mgr, opts)
package machine
