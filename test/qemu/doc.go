// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package qemu boots real firmware in QEMU by Ingot's boot server, over
// the lab's network in user space, without privileges.
//
// INGOT_QEMU says how much: "bios" runs one BIOS line (make test), "all" runs
// every one (make test-full); without it everything is skipped. Kernel and
// initramfs come from `make agent-image`.
package qemu
