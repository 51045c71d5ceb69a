// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kmod loads the kernel modules for the present hardware from the small set in the
// agent's initramfs.
//
// It matches modalias strings and knows no driver by name. hack/images writes the set: the
// modules, a file "order" with each module and its prerequisites (with a question mark if
// they may fail), and a file "alias" with the patterns of modules.alias:
//
//	nvme: nvme_core
//	libcrc32c: ?crc32c_generic ?crc32c_intel
//	alias pci:v*d*sv*sd*bc01sc08i02* nvme
//
//	set, err := kmod.Open(os.DirFS("/modules"), kmod.Insert)
//	n, err := set.Settle(os.DirFS("/sys"))  // load until there are no new devices
//	err = set.Load("ext4")                  // load by name
package kmod
