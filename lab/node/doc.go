// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node runs a real management cluster with one node: etcd, the Kubernetes control plane,
// containerd, kubelet, kube-proxy and CoreDNS as processes in their own network, mount and process
// namespaces. Pods use images that contain the programs of hack/tools. A real clusterctl installs a
// real cert-manager, Cluster API and other providers as pods.
//
// It needs root, the programs of "hack/packages.sh e2e-clusterctl", and the groups node, dns,
// containerd and certmanager of hack/tools in addition to the usual ones. It does not know Ingot's
// own kinds and must not import bmc or pxe.
//
// A node writes only to one temporary directory and to the kernel: a pair of interfaces (ingot-node0
// on the machine, eth0 in the node) and control groups with the same name. Close removes all of
// them. If the process that started a node is killed, the node's processes and interfaces end too.
// Several nodes can run at once; each uses the next free link.
//
// The machine's address in the node's network is HostAddress (10.250.N.1), and the node's is Address
// (10.250.N.2). Pods reach HostAddress; they reach other addresses only if the machine forwards. The
// name server resolves only Services. The package changes no packet filter or setting of the
// machine.
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
