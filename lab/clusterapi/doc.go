// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterapi writes a clusterctl repository of Cluster API itself (core,
// kubeadm bootstrap, kubeadm control plane) from the module that hack/tools pins,
// as its release would have it, and a clusterctl configuration that knows only
// what is given here. Nothing is downloaded by clusterctl.
//
// It must not know where the cluster runs, nor Ingot's own kinds.
//
//	config, err := clusterapi.WriteRepository(ctx, set, clusterapi.Repository{Dir: dir})
//	// clusterctl init --config=<config> --bootstrap=kubeadm --control-plane=kubeadm ...
package clusterapi
