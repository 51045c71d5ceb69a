// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeimage shows that the shipped cluster template makes nodes on the image
// of "make node-image".
//
// A Template is what kubeadm's bootstrap provider makes of the shipped file, by that
// provider's own code. Its user data is checked against kubeadm itself, and, with
// INGOT_NODE_VERSION, booted: cloud-init and kubeadm make a control plane on the
// image in QEMU, on BIOS and on UEFI ("make test-node-image"). Nothing of Ingot
// runs: it is the image, the template and the instance metadata that are tried.
//
//	t, err := nodeimage.Read("templates/cluster-template.yaml", variables)
//	userData, err := t.Init(nodeimage.Addition{After: []string{"bash /run/report"}})
package nodeimage
