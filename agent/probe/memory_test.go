// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/ingot-metal/ingot/agent/probe"
)

// module is an SMBIOS memory device (DSP0134, section 7.18).
type module struct {
	kind, technology byte
	// size in MiB; 7FFFh: the extended size field counts.
	size     uint16
	extended uint32
}

const (
	ddr4, logical   = 0x1a, 0x1f
	dram, nvdimmN   = 3, 4
	unknown, larger = 0xffff, 0x7fff
)

// dimm returns a module of that many GiB.
func dimm(gib uint32) module { return module{ddr4, dram, larger, gib << 10} }

func (m module) encode(handle int) []byte {
	b := make([]byte, 0x54)
	b[0], b[1], b[2] = 17, byte(len(b)), byte(handle)
	binary.LittleEndian.PutUint16(b[0x0c:], m.size)
	b[0x0e], b[0x12], b[0x28] = 9, m.kind, m.technology
	binary.LittleEndian.PutUint32(b[0x1c:], m.extended)
	return append(b, 0, 0)
}

// withModules returns the files of a server with modules and the kernel's memory.
func withModules(kernelKiB int64, modules ...module) fstest.MapFS {
	var table []byte
	for i, m := range modules {
		table = append(table, m.encode(i)...)
	}
	table = append(table, 127, 4, 0xff, 0xff, 0, 0)
	entry := make([]byte, 24)
	copy(entry, "_SM3_")
	entry[6], entry[7], entry[8], entry[10] = 24, 3, 2, 1
	binary.LittleEndian.PutUint32(entry[12:], uint32(len(table)))
	var sum byte
	for _, b := range entry {
		sum += b
	}
	entry[5] = -sum
	return fstest.MapFS{
		"proc/cpuinfo": {Data: []byte("processor : 0\n")},
		"proc/meminfo": {Data: fmt.Appendf(nil, "MemTotal: %d kB\n", kernelKiB)},
		"sys/firmware/dmi/tables/smbios_entry_point": {Data: entry},
		"sys/firmware/dmi/tables/DMI":                {Data: table},
	}
}

// Persistent memory counts only if the kernel uses it as memory.
func TestMemoryIsThatOfTheKernel(t *testing.T) {
	const kib = 1 << 20 // of one GiB
	for name, c := range map[string]struct {
		kernelKiB int64
		modules   []module
		wantGiB   int64
	}{
		"kernel reserves some":         {251 * kib, []module{dimm(128), dimm(128)}, 256},
		"small":                        {2*kib - 100_000, []module{{ddr4, dram, 2048, 0}}, 2},
		"persistent memory":            {31 * kib, []module{dimm(32), {logical, 0, larger, 256 << 10}}, 32},
		"NVDIMM":                       {31 * kib, []module{dimm(32), {ddr4, nvdimmN, 16 << 10, 0}}, 32},
		"persistent memory as memory":  {500*kib + 1, []module{dimm(96), {logical, 0, larger, 512 << 10}}, 501},
		"unknown sizes":                {251*kib + 1, []module{{ddr4, dram, unknown, 0}, {ddr4, dram, unknown, 0}}, 252},
		"mapped out":                   {124 * kib, []module{dimm(64), dimm(64), dimm(64), dimm(64)}, 124},
		"mirrored":                     {62*kib - 1, []module{dimm(64), dimm(64)}, 62},
		"no table":                     {7*kib + 1, nil, 8},
		"kernel's memory is not known": {0, []module{dimm(32)}, 32},
	} {
		t.Run(name, func(t *testing.T) {
			root := withModules(c.kernelKiB, c.modules...)
			got, err := probe.Read(root)
			if err != nil || got.MemoryBytes != c.wantGiB<<30 {
				t.Errorf("%d MiB, %v, want %d GiB", got.MemoryBytes>>20, err, c.wantGiB)
			}
			if n := probe.KernelMemory(root); n != c.kernelKiB<<10 {
				t.Errorf("the kernel has %d", n)
			}
		})
	}
}
