// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe reads hardware facts from the Linux kernel: SMBIOS, processors, memory,
// network interfaces, disks.
//
// It only reads files below a root given as fs.FS, so that tests use artificial trees. It
// opens no disk.
//
//	hardware, err := probe.Read(os.DirFS("/"))
//	disks := probe.Disks(os.DirFS("/"))
package probe
