// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package uki makes unified kernel images: one UEFI program with the kernel, its initramfs and
// its command line, so that firmware with Secure Boot verifies all three by one signature (UAPI
// group, specification "Unified Kernel Image").
//
// It writes sections into a PE file and knows nothing of hosts, networks, or the content of the
// command line. It does not sign: the operator has the key.
//
//	image, err := uki.Build(uki.Parts{Stub: stub, Kernel: kernel, Initrd: initrd, CommandLine: "quiet ingot.pin=…"})
//	line, err := uki.CommandLine(image)
package uki
