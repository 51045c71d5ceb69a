// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeimage builds disk images of Kubernetes nodes for IngotMachines: Debian with
// cloud-init (package debian), containerd, kubelet and kubeadm, and the container images of a
// control plane in containerd's store, so that a server needs no registry.
//
// No binaries are downloaded. Kubernetes in the requested version, etcd, CoreDNS and pause in the
// versions of its kubeadm, kube-vip and containerd are built from Go modules. iptables, nft, runc
// and the CNI plugins come from Debian. Container images are built from these programs without a
// container engine, and imported by the image's containerd inside mmdebstrap's tree.
//
// Release contains the versions that a Kubernetes release needs, read from its module. Pure
// functions (kubeModule, containers, System) define the content, and Build builds it.
//
// The package does not know Ingot or what boots the image.
//
//	cache, err := debian.OpenCache()
//	dir, err := nodeimage.Build(ctx, cache, "v1.36.3")
//	// dir contains disk.raw.zst, disk.raw.zst.sha256 and images.txt
package nodeimage
