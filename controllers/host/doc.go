// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package host reconciles IngotHosts. It contains no policy: each reconcile gathers one
// observation, lets lifecycle.Next decide, executes exactly one step, and writes the status
// in one place.
//
//	sequenceDiagram
//	    participant Q as queue
//	    participant R as Reconciler
//	    participant A as API server
//	    participant B as BMC
//	    participant L as lifecycle.Next
//	    Q->>R: Reconcile (watch, poll or BMC event)
//	    R->>A: get host, add finalizer
//	    R->>A: preconditions: pause, restored state, clock
//	    R->>A: observe: hardware, network, duplicates, machine
//	    R->>B: observe: power, health, identity, NICs, firmware
//	    R->>L: decide(observation)
//	    L-->>R: one step, rule, reason, message
//	    opt the step changes the server
//	        R->>A: read host and Cluster live, save what must survive a crash
//	        R->>B: execute: power, boot, virtual media, firmware
//	    end
//	    opt the step changes the spec
//	        R->>A: execute: patch by optimistic lock
//	    end
//	    R->>A: write status if it changed, record events
//	    R-->>Q: requeue after the step's wait or the next poll
//
// Each step of the diagram is one call in Reconcile and takeStep (host_controller.go):
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
