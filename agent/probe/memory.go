// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"io/fs"
	"strconv"
	"strings"

	"github.com/u-root/u-root/pkg/smbios"
)

// memory is what is installed, by the SMBIOS memory devices (type 17), where the kernel
// manages about as much: it takes a little for itself. Else, where modules are mirrored,
// mapped out or not in the table, it is what the kernel manages, in whole GiB.
func memory(root fs.FS) int64 {
	const gib = 1 << 30
	installed, managed := installedMemory(root), KernelMemory(root)
	if managed == 0 || managed <= installed && installed <= managed+managed/4+4*gib {
		return installed
	}
	return (managed + gib - 1) / gib * gib
}

func installedMemory(root fs.FS) int64 {
	entry, err := fs.ReadFile(root, "sys/firmware/dmi/tables/smbios_entry_point")
	if err != nil {
		return 0
	}
	tables, err := fs.ReadFile(root, "sys/firmware/dmi/tables/DMI")
	if err != nil {
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

// isMemory says whether a module of a known size is one that programs run in, and not one
// that keeps data (DSP0134, sections 7.18.2 and 7.18.6). Those that the firmware uses as
// memory nevertheless show in what the kernel manages.
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

// KernelMemory is what the running kernel manages, in bytes; 0 where it does not say.
func KernelMemory(root fs.FS) int64 { return parseMemTotal(text(root, "proc/meminfo")) }
