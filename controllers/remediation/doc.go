// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remediation reconciles IngotRemediations, which Cluster API's MachineHealthCheck creates
// for unhealthy Machines (external remediation). Each reconcile reads the Machine, its host and
// its Node, calls Decide of inventory/remediation, and executes one step:
//
//   - It requests a power cycle in the host's claim, by optimistic lock. The host controller
//     carries it out.
//   - It delegates a Machine that power cycles did not repair to its owner by the condition
//     OwnerRemediated, as MachineHealthCheck would.
//
// Decisions need nothing from memory or status. The package does not contact BMCs and does not
// release or delete anything. It only reads Nodes, and only if the workload cluster answers.
//
//	err := (&remediation.Reconciler{
//		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Workloads: clusters,
//		Recorder: mgr.GetEventRecorder("ingot"), Clock: clock.RealClock{},
//	}).SetupWithManager(mgr, clusters, controller.Options{})
package remediation
