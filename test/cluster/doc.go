// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster is a Kubernetes cluster for real: a release of this source tree
// installed by clusterctl into a management cluster with pods (lab/node), virtual
// servers with real firmware behind emulated BMCs, a shipped cluster template with
// nothing changed but variables, and the image of "make node-image". Cluster API,
// its kubeadm providers, kube-vip, kubeadm, kubelet and containerd are the real ones.
//
// Its whole life takes three servers in three racks: one more worker, whose kubelet is not
// told its provider ID, and one less, a rack that is labelled anew, a worker that loses its
// power and is healed by Cluster API's health check and an IngotRemediation, an upgrade of
// Kubernetes without a spare server for workers, and the end. The short form takes two
// servers, the ClusterClass instead of the default template, and leaves out what is between.
//
// It needs root and the images, and runs with INGOT_CLUSTER_VERSION and, for the whole
// life, INGOT_CLUSTER_FROM, as in "make e2e-cluster KUBERNETES_VERSION=v1.36.3
// UPGRADE_FROM=v1.35.4" and "make e2e-cluster-short". INGOT_CLUSTER_OUT is where the
// timeline of the machines goes (test/timeline). With INGOT_CLUSTER_HOLD=1h everything
// stays for an hour as it is when a scene failed.
//
// TestPowerCuts ("make e2e-power-cuts") is another play: the power of a worker's server
// is cut at moments of its line.
package cluster
