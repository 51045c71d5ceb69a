// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node runs a real management cluster of one node: etcd, the Kubernetes
// control plane, containerd, kubelet, kube-proxy and CoreDNS as processes in network,
// mount and process namespaces of their own, with pods from images that are made
// here of the programs of hack/tools. On it a real clusterctl installs a real
// cert-manager and Cluster API, and whatever else it is given, as pods.
//
// It needs root, the programs of "hack/packages.sh e2e-clusterctl" and the groups
// node, dns, containerd and certmanager of hack/tools besides the usual ones.
// It knows nothing of Ingot's own kinds and must not import bmc or pxe.
//
// Everything that a node writes lies in one temporary directory, except what the
// kernel keeps: a pair of interfaces (ingot-node0 here, eth0 there) and control
// groups of the same name. Close leaves nothing of all that. When the process
// that started a node is killed, the node's processes and interfaces go with it.
// Several nodes can run at once; each takes the next free link.
//
// The network: this machine is HostAddress (10.250.N.1) and the node Address
// (10.250.N.2). Pods reach HostAddress and see other addresses of this machine
// only if it forwards; the name server knows Services alone. No packet filter or setting of
// this machine is changed.
//
//	n, err := node.Start(ctx, node.Config{Archives: []string{"ingot-v0.1.0.tar"}})
//	if err != nil { ... }
//	defer n.Close()
//	err = n.Init(ctx, node.Init{
//		Others:    []clusterapi.Entry{{Name: "ingot", Kind: "InfrastructureProvider", URL: components}},
//		Arguments: []string{"--infrastructure=ingot"},
//	})
//	fmt.Println("export KUBECONFIG=" + n.Kubeconfig())
package node
