// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe reads what a Linux kernel says of the server's hardware: SMBIOS,
// processors, memory, network interfaces, disks.
//
// It reads files only, below a root given as fs.FS, so that every fact has a test
// on a made-up tree. It opens no disk and sends nothing; what the facts mean for
// selection or identity is the manager's concern.
//
//	hardware, err := probe.Read(os.DirFS("/"))
//	disks := probe.Disks(os.DirFS("/"))
package probe
