// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reservation reserves hosts for Clusters and reconciles IngotReservations.
//
// Planner reserves all hosts that a Cluster needs, or none. Any number of replicas may use it
// concurrently. Reconciler shows how much of each reservation is claimed, and ends it. The
// outstanding number is not stored: it is derived from the machines that have hosts
// (allocation.Outstanding).
//
// Package allocation decides about hosts, and controllers/machine claims them. Reservations are
// safe without a lock because the planner writes its request before it counts hosts, and a
// machine writes its intent before it reads reservations: at least one sees the other.
//
// HostCache keeps one immutable list of hosts per namespace and drops it when a host changes. A list
// for each plan exceeds the limit of "make bench-hooks", and an incremental index gave the same
// answers with 365 more lines.
//
//	planner := &reservation.Planner{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}}
//	plan, err := planner.Reserve(ctx, cluster.UID, request)
//	if err == nil && !plan.Satisfied {
//		// blocked: plan.Message states the missing hosts
//	}
package reservation
