// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node copies labels from hosts to the Nodes of workload clusters: the host's rack as
// topology.kubernetes.io/zone, and the labels that IngotCluster.spec.nodeLabels selects. An
// annotation of the Node lists the copied labels, so that Ingot removes only its own. Labels that
// Cluster API copies from the Machine are left to Cluster API. If another client keeps changing a
// label, Ingot restores it at a lower rate.
//
// A Node without a provider ID, whose kubelet was not configured with one (the release's templates
// do so), is found by the server's UUID and gets its provider ID, if inventory.MatchNode is
// certain.
//
// Nodes are read through Cluster API's ClusterCache. A workload cluster that is not connected is no
// error: its connection triggers a reconcile. The package does not contact BMCs and changes
// nothing in the management cluster.
//
//	err := (&node.Reconciler{Client: mgr.GetClient(), Clusters: clusters, Recorder: recorder, Clock: clock.RealClock{}}).
//		SetupWithManager(mgr, clusters, controller.Options{})
package node
