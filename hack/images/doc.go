// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command images builds the files that the lab boots and installs, from Debian packages of the
// machine's apt sources and from Go modules, without root privileges, loop devices or mounts:
//
//	go run ./hack/images agent   # kernel and initramfs of the agent
//	go run ./hack/images os      # a bootable Debian image with cloud-init
//	go run ./hack/images ignition  # the same with Ignition instead of cloud-init
//	go run ./hack/images -kubernetes v1.36.3 node   # the same as a Kubernetes node
//
// Results are in $INGOT_CACHE/images/{agent,test,ignition,node-<version>}/<key>. The key is a
// checksum of all inputs. The symbolic link "current" next to them names the last result. Existing
// results are not rebuilt.
//
// The command knows nothing of Ingot except the path of the agent's command. Package debian builds
// disks, and package nodeimage defines the content of a node.
package main
