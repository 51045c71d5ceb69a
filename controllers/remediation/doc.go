// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remediation reconciles IngotRemediations: what Cluster API's
// MachineHealthCheck makes of an unhealthy Machine (external remediation). It gathers
// the Machine, its host and its Node, asks remediation.Remedy, and takes that one step: a
// power cycle is asked for in the host's claim, by optimistic lock, and made by the
// host's controller; a Machine that it did not help is handed to its owner by the
// condition OwnerRemediated, as MachineHealthCheck itself would.
//
// It keeps nothing in memory or in status that a decision needs, and must not know BMCs,
// nor switch, release or delete anything by itself. A Node is only read, and only where
// the workload cluster answers.
//
//	err := (&remediation.Reconciler{
//		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Workloads: clusters,
//		Recorder: mgr.GetEventRecorder("ingot"), Clock: clock.RealClock{},
//	}).SetupWithManager(mgr, clusters, controller.Options{})
package remediation
