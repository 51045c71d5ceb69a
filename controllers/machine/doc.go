// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machine reconciles IngotMachines. It claims one host for each machine (I1), shows the
// progress of install and first boot, and releases the host when the Machine is deleted (I6,
// I7). It does not contact BMCs: the host controller acts on the claim.
//
//	err := (&machine.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), ...}).SetupWithManager(ctx, mgr, opts)
package machine
