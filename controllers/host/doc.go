// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package host reconciles IngotHosts. It knows no policy: each reconcile gathers
// one observation (the BMC, the objects that the host names), lets
// lifecycle.Next decide, executes exactly one step, and saves the status in one
// place.
//
// A host is asked at moments of its own, the less the better it is and the more its BMC
// tells by itself (polls.go); what fails is asked ever more seldom (contact.go); what
// ails is told and stops nothing (health.go).
//
// Rooms of their own, which it calls with a view of the host: access (how the BMC is
// reached), address (of the boot NIC), rotation (of the BMC's password) and firmware.
// A retry, a wait or an order is decided by none of them.
//
// The ledger is written by optimistic lock on the version that was decided on;
// a physical step is taken only after a live read has shown that this version is
// still the newest (I2).
//
//	err := (&host.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), BMC: pool, ...}).SetupWithManager(mgr, opts)
package host
