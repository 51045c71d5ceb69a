// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"io/fs"
	"strconv"
	"strings"

	"github.com/u-root/u-root/pkg/smbios"
)

// memory returns the installed memory by the SMBIOS memory devices (type 17) if the kernel
// manages nearly as much. Otherwise modules are mirrored, mapped out or missing in the table,
// and it returns the memory that the kernel manages, in whole GiB.
func memory(root fs.FS) int64 {
	const gib = 1 << 30
	installed, managed := installedMemory(root), KernelMemory(root)
	if managed == 0 || managed <= installed && installed <= managed+managed/4+4*gib {
		return installed
	}
	return (managed + gib - 1) / gib * gib
}

func installedMemory(root fs.FS) int64 {
	entry, entryErr := fs.ReadFile(root, "sys/firmware/dmi/tables/smbios_entry_point")
	tables, tablesErr := fs.ReadFile(root, "sys/firmware/dmi/tables/DMI")
	if entryErr != nil || tablesErr != nil {
		return 0
	}
	info, err := smbios.ParseInfo(entry, tables)
	if err != nil {
		return 0
	}
	devices, err := info.GetMemoryDevices()
	if err != nil {
		return 0
	}
	var sum int64
	for _, d := range devices {
		if isMemory(d) {
			sum += int64(d.GetSizeBytes())
		}
	}
	return sum
}

// isMemory reports whether a module has a known size and is not persistent (DSP0134, sections
// 7.18.2 and 7.18.6). Persistent modules that firmware uses as memory show in KernelMemory.
func isMemory(d *smbios.MemoryDevice) bool {
	const unknownSize, logical, nvdimmN, optane = 0xffff, 0x1f, 4, 7
	keeps := d.Type == logical || d.Technology >= nvdimmN && d.Technology <= optane
	return !keeps && d.Size != unknownSize
}

func parseMemTotal(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0
			}
			return n << 10
		}
	}
	return 0
}

// KernelMemory is the memory that the running kernel manages, in bytes; 0: unknown.
func KernelMemory(root fs.FS) int64 { return parseMemTotal(text(root, "proc/meminfo")) }
