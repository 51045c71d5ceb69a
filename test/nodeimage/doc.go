// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeimage boots the image of a Kubernetes node in QEMU and has kubeadm
// make a control plane on it, as the shipped template says. Nothing of Ingot runs:
// it is the image, the template's data and the instance metadata that are tried.
//
// It needs the image of "make node-image" and runs with INGOT_NODE_VERSION, as in
// "make test-node-image KUBERNETES_VERSION=v1.36.3".
package nodeimage
