// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reservation promises hosts to Clusters, and looks after what was promised.
//
// Planner makes promises: all hosts that a Cluster needs, or none, from any number of
// replicas at once. Reconciler shows how far each promise is met, and ends it. What is
// left of a promise is never counted: it is derived from the machines that hold hosts
// (allocation.Outstanding), so that nothing can get out of step.
//
// The package decides nothing about hosts, which inventory does, and claims none, which
// controllers/machine does; that it asks before it counts, and they look before they
// claim, is what keeps a promise (decision 0163).
//
//	planner := &reservation.Planner{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}}
//	plan, err := planner.Promise(ctx, cluster.UID, request)
//	if err == nil && !plan.Satisfied {
//		// blocked: plan.Message says what is missing
//	}
package reservation
