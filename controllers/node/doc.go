// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node keeps the Nodes of workload clusters in step with the hosts that they run
// on: the host's rack as topology.kubernetes.io/zone, and the labels that
// IngotCluster.spec.nodeLabels chooses. What it has written it remembers in an annotation
// of the Node, so that a label which the host loses goes, and nobody else's does. What
// Cluster API takes from the Machine it leaves to Cluster API, and a label that something
// else changes each time it puts back less and less often.
//
// A Node that has no provider ID, since its kubelet was not told (the templates of the
// release do), is found by the server's UUID and given one, also when it registers again,
// and only where inventory.WhichNode is sure.
//
// Nodes are reached by Cluster API's ClusterCache. A workload cluster that does not
// answer is no error: its connection brings its machines here again. The package must not
// know BMCs, and changes nothing in the management cluster.
//
//	err := (&node.Reconciler{Client: mgr.GetClient(), Clusters: clusters, Recorder: recorder, Clock: clock.RealClock{}}).
//		SetupWithManager(mgr, clusters, controller.Options{})
package node
