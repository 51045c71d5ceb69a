// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster is a Kubernetes cluster for real: a release of this source tree
// installed by clusterctl into a management cluster with pods (lab/node), virtual
// servers with real firmware behind emulated BMCs, the shipped cluster template with
// nothing changed but variables, and the image of "make node-image". Cluster API,
// its kubeadm providers, kube-vip, kubeadm, kubelet and containerd are the real ones.
//
// It needs root and the image, and runs with INGOT_CLUSTER_VERSION, as in
// "make e2e-cluster KUBERNETES_VERSION=v1.36.3".
package cluster
