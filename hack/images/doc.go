// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command images builds the files that the lab boots and installs, from Debian
// packages of the machine's own apt sources and Go modules, without root, loop
// devices or mounts:
//
//	go run ./hack/images agent   # kernel and initramfs of the agent
//	go run ./hack/images os      # a bootable Debian image with cloud-init
//	go run ./hack/images ignition  # one that Ignition sets up, in place of cloud-init
//	go run ./hack/images -kubernetes v1.36.3 node   # the same as a node of a cluster
//
// Results lie under $INGOT_CACHE/images/{agent,test,ignition,node-<version>}/<key>, where
// the key is a checksum of everything the result is made from, and the symbolic
// link "current" beside them names the last one built. A result that exists is not
// built again.
//
// It knows nothing of Ingot but the path of the agent's command: what an image
// means to the manager is not its concern. How disks are made is package debian's,
// what a node holds package nodeimage's.
package main
