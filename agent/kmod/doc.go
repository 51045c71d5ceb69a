// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kmod loads the kernel modules that the hardware at hand asks for, from
// the small set that the agent's initramfs carries.
//
// It knows the set and the kernel's modalias strings, and no driver by name.
// hack/images writes the set: the modules, a file "order" with every module and
// what must be loaded before it (with a question mark where that may fail), and a
// file "alias" with the patterns of modules.alias:
//
//	nvme: nvme_core
//	libcrc32c: ?crc32c_generic ?crc32c_intel
//	alias pci:v*d*sv*sd*bc01sc08i02* nvme
//
//	set, err := kmod.Open(os.DirFS("/modules"), kmod.Insert)
//	err = set.Settle(os.DirFS("/sys"))  // load what is asked for, until nothing new is
//	err = set.Load("ext4")              // or one by name
package kmod
