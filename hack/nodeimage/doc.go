// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeimage makes disk images of Kubernetes nodes that an IngotMachine can
// install: Debian with cloud-init (package debian), containerd, kubelet and kubeadm,
// and the container images of a control plane in containerd's store, so that a
// server needs no registry.
//
// Nothing is downloaded as a binary. Kubernetes of the version asked for, and etcd,
// CoreDNS and pause of the versions that its kubeadm names, kube-vip and containerd
// are built from Go modules; iptables, nft, runc and the CNI plugins are Debian's.
// Container images are made of these programs without an engine, and imported by
// the very containerd of the image inside the tree that mmdebstrap makes.
//
// What a version needs is read from its own module (Release); what goes where is
// said by pure functions (kubeModule, containers, System); Build does it.
//
// It must not know Ingot, nor what will boot the image.
//
//	cache, err := debian.OpenCache()
//	dir, err := nodeimage.Build(ctx, cache, "v1.36.3")
//	// dir holds disk.raw.zst, disk.raw.zst.sha256 and images.txt
package nodeimage
