// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podnet is the network plugin of the lab's clusters: what an operator
// installs in a cluster that Ingot's templates made, for servers on one segment.
//
// On every node a pod of Manifest runs Run, in the node's own network. It gives
// containerd a CNI configuration of Debian's plugins bridge, host-local and portmap
// for the addresses that Kubernetes gave the Node (spec.podCIDR), routes those of
// other Nodes to their addresses, and hides pods behind their node's address
// towards everybody else. PlanFor decides all of it; Run carries it out.
//
// It must not know Ingot, nor how the servers came to be. It speaks IPv4, and has no
// network policies: it is for tests.
//
//	manifest, err := podnet.Manifest("10.244.0.0/16", "10.77.0.50:6443") // kubectl apply -f -
package podnet
