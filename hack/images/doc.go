// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command images builds the files that the lab boots and installs, from Debian
// packages of the machine's own apt sources, without root, loop devices or
// mounts:
//
//	go run ./hack/images agent   # kernel and initramfs of the agent
//	go run ./hack/images os      # a bootable Debian image with cloud-init
//
// Results lie under $INGOT_CACHE/images/{agent,test}/<key>, where the key is a
// checksum of everything the result is made from, and the symbolic link
// "current" beside them names the last one built. A result that exists is not
// built again.
//
// It knows nothing of Ingot but the path of the agent's command: what an image
// means to the manager is not its concern.
package main
