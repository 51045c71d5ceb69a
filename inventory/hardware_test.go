// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestHardwareFromAgent(t *testing.T) {
	got := HardwareFromAgent(agentapi.Hardware{
		UUID: "ABC-1", Serial: " SN1 ", Product: strings.Repeat("p", 300), Firmware: "OpenFirmware", Architecture: "riscv64", MemoryBytes: -1,
		NICs: []agentapi.NIC{{MAC: "52:54:00:00:00:02", Name: "eth1"}, {MAC: "52:54:00:00:00:01"}, {MAC: "52:54:00:00:00:02"}, {MAC: "nonsense"}},
		Disks: []agentapi.Disk{{Name: "/dev/sdb", Serial: strings.Repeat("s", 129), WWN: "w", SizeBytes: 5}, {Name: "/dev/sda", Model: "a\x00b\xff"},
			{Name: ""}, {Name: "/dev/sda"}},
		StorageWithoutDriver: []agentapi.PCIDevice{{Address: "0000:3b:00.0", ID: "1000:0073"}, {Address: "0000:3b:00.0", ID: "x"},
			{ID: "nowhere"}, {Address: "0000:01:00.0", ID: strings.Repeat("9", 65)}},
	})
	want := infrav1.IngotHardwareSpec{
		System: infrav1.HardwareSystem{UUID: "abc-1", SerialNumber: "SN1", Product: strings.Repeat("p", 255) + "…"},
		NICs:   []infrav1.HardwareNIC{{MAC: "52:54:00:00:00:01", Carrier: new(false)}, {MAC: "52:54:00:00:00:02", Name: "eth1", Carrier: new(false)}},
		Disks: []infrav1.HardwareDisk{
			{Name: "/dev/sda", Model: "ab", SizeBytes: new(int64(0)), Rotational: new(false)},
			{Name: "/dev/sdb", WWN: "w", SizeBytes: new(int64(5)), Rotational: new(false)}},
		StorageWithoutDriver: []infrav1.HardwareController{{Address: "0000:01:00.0", ID: strings.Repeat("9", 63) + "…"}, {Address: "0000:3b:00.0", ID: "1000:0073"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

func TestDiskRefsAgree(t *testing.T) {
	for _, d := range []agentapi.Disk{
		{Name: "/dev/sda", Serial: "s", WWN: "w", Path: "pci-1", SizeBytes: 7},
		{Name: "/dev/sda", Path: "pci-1", SizeBytes: 7},
	} {
		spec := HardwareFromAgent(agentapi.Hardware{Disks: []agentapi.Disk{d}})
		ref := AgentDiskRef(DiskRefOf(spec.Disks[0]))
		if diff := cmp.Diff(d.Ref(), ref); diff != "" || !ref.Matches(d) {
			t.Errorf("reference (-agent +inventory):\n%s", diff)
		}
	}
}

func TestSummarize(t *testing.T) {
	spec := infrav1.IngotHardwareSpec{MemoryBytes: 64 << 30, CPU: infrav1.HardwareCPU{Cores: 16, Threads: 32},
		Disks: []infrav1.HardwareDisk{disk("/dev/sda", 480, "s"), disk("/dev/sdb", 20, "t")}}
	want := infrav1.HardwareSummary{Cores: 16, Memory: MemoryQuantity(64 << 30), Disk: DiskQuantity(500 * BytesPerGB)}
	if diff := cmp.Diff(want, Summarize(spec)); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// FuzzHardwareFromAgent: whatever an agent says, the schema takes what is made of it.
func FuzzHardwareFromAgent(f *testing.F) {
	f.Add([]byte(`{"uuid":"A","nics":[{"mac":"52:54:00:00:00:01"}],"disks":[{"name":"/dev/sda","serial":"s","sizeBytes":-5}]}`), 3)
	f.Add([]byte(`{"serial":"\u0000\ud800","product":"`+strings.Repeat("ö", 300)+`","memoryBytes":-9,"cpu":{"cores":-1}}`), 300)
	f.Add([]byte(`{"storageWithoutDriver":[{"address":"0000:3b:00.0","id":"1000:0073"},{"address":"\u0000"}]}`), 1)
	f.Fuzz(func(t *testing.T, body []byte, copies int) {
		var said agentapi.Hardware
		if json.Unmarshal(body, &said) != nil {
			return
		}
		for i := range min(max(copies, 0), 400) {
			said.Disks = append(said.Disks, agentapi.Disk{Name: strings.Repeat("d", i%80)})
		}
		got := HardwareFromAgent(said)
		if len(got.NICs) > maxNICs || len(got.Disks) > MaxDisks || got.MemoryBytes < 0 || got.CPU.Cores < 0 {
			t.Errorf("out of bounds: %d NICs, %d disks", len(got.NICs), len(got.Disks))
		}
		fits := func(text string, n int) {
			if !utf8.ValidString(text) || utf8.RuneCountInString(text) > n || strings.ContainsRune(text, 0) {
				t.Errorf("%q does not fit in %d", text, n)
			}
		}
		fits(got.System.UUID, maxSystemID)
		fits(got.System.SerialNumber, maxText)
		fits(got.System.Product, maxText)
		fits(got.CPU.Model, maxText)
		for i, d := range got.Disks {
			fits(d.Name, maxShort)
			fits(d.SerialNumber, maxDiskID)
			fits(d.WWN, maxDiskID)
			fits(d.HCTL, maxSCSI)
			fits(d.Path, maxDiskPath)
			fits(d.ByPath, maxDiskPath)
			if *d.SizeBytes < 0 || d.Name == "" || i > 0 && got.Disks[i-1].Name >= d.Name {
				t.Errorf("disk %d: %+v", i, d)
			}
		}
		for i, c := range got.StorageWithoutDriver {
			fits(c.Address, maxShort)
			fits(c.ID, maxShort)
			if c.Address == "" || i >= maxControllers || i > 0 && got.StorageWithoutDriver[i-1].Address >= c.Address {
				t.Errorf("controller %d: %+v", i, c)
			}
		}
		for i, n := range got.NICs {
			if len(n.MAC) != 17 || i > 0 && got.NICs[i-1].MAC >= n.MAC {
				t.Errorf("NIC %d: %+v", i, n)
			}
		}
	})
}
