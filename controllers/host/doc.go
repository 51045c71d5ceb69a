// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package host reconciles IngotHosts. It contains no policy: each reconcile gathers one
// observation, lets lifecycle.Next decide, executes exactly one step, and writes the status
// in one place.
//
// docs/book/develop/architecture.md draws one reconcile. Each step of the diagram is one call
// in Reconcile and takeStep (host_controller.go):
//
//   - preconditions.go: pause, moves, restored backups, clock, and the checks right before a
//     step that changes a server
//   - observe.go: what the decision is made from
//   - bmccalls.go: calls to BMCs, classes of their errors, and the guard against another
//     server behind the same BMC
//   - execute.go: one function for each kind of step
//   - status.go: what conditions, health and events show
//   - bmcstate.go: hostMemory, all that is remembered between two reconciles
//   - adapters.go: how packages firmware and rotation take part
//   - setup.go: watches, BMC event streams, metrics
//
// Packages bmccredentials, ipam, rotation and firmware do parts of the work. They decide
// nothing about retries, waits or orders.
//
// Claim, record and order are written by optimistic lock on the version that was decided on.
// A step that changes a server is taken only after a live read has shown that this version
// is still the newest (I2).
//
//	err := (&host.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), BMC: pool, ...}).SetupWithManager(mgr, opts)
package host
