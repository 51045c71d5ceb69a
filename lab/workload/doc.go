// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workload provides workload clusters without containers and virtual machines: API servers
// in memory (sigs.k8s.io/cluster-api/test), each with etcd members. Simulated servers (lab/server)
// create and join them with the user data of their installation. Cluster API works with them as
// with real clusters: the KubeadmControlPlane counts members and connects to their etcd, Machines
// find their Nodes, and health checks detect a server that is off.
//
// A server passes its NoCloud seed at each boot. The package does the work of cloud-init, kubeadm
// and the kubelet: it renders jinja variables, decodes files, and finds the configuration of
// "kubeadm init" or "kubeadm join" in runcmd. Init creates a cluster with the given keys. A join
// needs a valid token and, for a control plane, the same keys. The Node has the values of the
// kubelet's arguments. After a power-off, the Node becomes unknown and the etcd member stops;
// without a majority of members the API server stops too. When the same instance boots again, its
// Node is ready again. User data without kubeadm has no effect.
//
// An API server listens at its Cluster's controlPlaneEndpoint. The endpoint is reserved first and
// acts as a load balancer: it accepts connections while a control plane serves, and resets them
// otherwise.
//
// Limits: no pod runs, nothing is scheduled, and every client with a certificate of the cluster is
// authorized. The package does not know Ingot and must not import bmc or pxe.
//
//	plane, err := workload.Start(ctx, workload.Config{Address: netip.MustParseAddr("127.0.0.1")})
//	defer plane.Close()
//	endpoint, err := plane.Reserve() // for Cluster.spec.controlPlaneEndpoint
//	s, err := server.New(server.Config{…, System: plane.Boot})
package workload
