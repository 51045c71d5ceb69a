// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs a real management cluster without containers and
// without root: etcd, kube-apiserver and kube-controller-manager as child
// processes on loopback, and on request the real Cluster API (core, kubeadm
// bootstrap, kubeadm control plane), installed by clusterctl and run as
// processes with their webhooks on. There is no kubelet and no scheduler: what
// would be a pod does not run.
//
// Snapshot, Restore and StartCopy save etcd, put it back and start a second management cluster
// on what was saved, with etcd's own tools.
//
// Everything it writes (keys, etcd's data, logs, kubeconfig) lies in one state
// directory; a directory is for one life, the next start wants an empty one.
// The children die with the process that started them, also when that is
// killed.
//
// The programs are those of hack/tools ("make tools"). The package knows
// nothing of Ingot's own kinds and must not import bmc or pxe.
//
// Listeners: all but one kind are on 127.0.0.1. The webhook servers of the
// Cluster API managers have no option for the address and listen on all of the
// machine's addresses, with a certificate that only this control plane trusts;
// they answer admission and conversion questions and change nothing.
//
//	cp, err := controlplane.Start(ctx, controlplane.Options{Dir: dir})
//	if err != nil { ... }
//	defer cp.Stop()
//	err = cp.InstallClusterAPI(ctx)
//	fmt.Println("export KUBECONFIG=" + cp.Kubeconfig())
package controlplane
