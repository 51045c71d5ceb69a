// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workload serves workload clusters without containers and without virtual
// machines: API servers in memory (sigs.k8s.io/cluster-api/test), each with etcd
// members behind it, which simulated servers (lab/server) bring up and join by the
// user data they were installed with. To Cluster API it is all real: the
// KubeadmControlPlane counts members and forwards to their etcd, Machines find
// their Nodes, health checks see a server that is off.
//
// A server hands its NoCloud seed over at each boot. What cloud-init, kubeadm and
// the kubelet would do with it happens here: jinja variables are filled in, files
// decoded, the configuration of "kubeadm init" or "kubeadm join" found in runcmd;
// init makes a cluster with the keys that it was given, a join needs a valid token
// and, for a control plane, the same keys. The Node carries what the kubelet's
// arguments say. When the power goes, the Node's state becomes unknown, the etcd
// member silent, and without a majority of them the API server too; when the same
// instance boots again, its Node is back. User data that runs no kubeadm has no
// effect.
//
// An API server listens where its Cluster's controlPlaneEndpoint says. The
// endpoint is reserved first and acts as a load balancer: it takes connections for
// as long as a control plane is behind it, and resets them otherwise.
//
// What it does not do: no pod runs, nothing is scheduled, authorisation lets every
// client through that has a certificate of the cluster. It knows nothing of Ingot
// and must not import bmc or pxe.
//
//	plane, err := workload.Start(ctx, workload.Config{Address: netip.MustParseAddr("127.0.0.1")})
//	defer plane.Close()
//	endpoint, err := plane.Reserve() // for Cluster.spec.controlPlaneEndpoint
//	s, err := server.New(server.Config{…, System: plane.Boot})
package workload
