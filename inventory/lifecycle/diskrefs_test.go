// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// Each reference of an order for all disks names one disk, even with equal serial numbers or two paths
// to one disk.
func TestDiskRefsOf(t *testing.T) {
	type d = agentapi.Disk
	for name, c := range map[string]struct {
		disks []d
		paths []string
	}{
		"one":                       {[]d{{Serial: "A", Path: "p1"}}, []string{""}},
		"two":                       {[]d{{Serial: "A", Path: "p1"}, {Serial: "B", Path: "p2"}}, []string{"", ""}},
		"two paths":                 {[]d{{Serial: "A", WWN: "w", Path: "p1"}, {Serial: "A", WWN: "w", Path: "p2"}, {Serial: "R", Path: "p3"}}, []string{"p1", "p2", ""}},
		"one serial number":         {[]d{{Serial: "A", Path: "p1"}, {Serial: "A", WWN: "w", Path: "p2"}}, []string{"p1", ""}},
		"one serial, another size":  {[]d{{Serial: "A", Path: "p1"}, {Serial: "A", Path: "p2", SizeBytes: 9e9}}, []string{"", ""}},
		"neither serial nor WWN":    {[]d{{Path: "p1"}, {Path: "p2"}}, []string{"p1", "p2"}},
		"a WWN for two serial ones": {[]d{{Serial: "A", WWN: "w", Path: "p1"}, {Serial: "B", WWN: "w", Path: "p2"}}, []string{"", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.disks {
				c.disks[i].Name = string(rune('a' + i))
				c.disks[i].SizeBytes = max(c.disks[i].SizeBytes, 8e9)
			}
			var paths []string
			for i, ref := range inventory.DiskRefsOf(inventory.HardwareFromAgent(agentapi.Hardware{Disks: c.disks}).Disks) {
				paths = append(paths, ref.Path)
				for j, disk := range c.disks {
					if inventory.AgentDiskRef(ref).Matches(disk) != (i == j) {
						t.Errorf("%+v names %+v", ref, disk)
					}
				}
			}
			if diff := cmp.Diff(c.paths, paths); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
		})
	}
}

// Of several disks with equal names, as many must be found.
func TestMissingDisksWithEqualNames(t *testing.T) {
	twin := func(name, path string) infrav1.HardwareDisk {
		d := disk(name, 100, "S")
		d.Path = path
		return d
	}
	known := []infrav1.HardwareDisk{twin("/dev/sda", "p1"), twin("/dev/sdb", "p2")}
	for name, c := range map[string]struct {
		found []infrav1.HardwareDisk
		want  int
	}{
		"both":                {known, 0},
		"both, moved":         {[]infrav1.HardwareDisk{twin("/dev/sdc", "p2"), twin("/dev/sdd", "p5")}, 0},
		"a third":             {append([]infrav1.HardwareDisk{twin("/dev/sdc", "p3")}, known...), 0},
		"one":                 {known[1:], 1},
		"one and another":     {[]infrav1.HardwareDisk{known[0], disk("/dev/sdb", 100, "T")}, 1},
		"none, and told once": {nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := MissingDisks(known, c.found, []infrav1.DiskReference{{SerialNumber: "S"}}); len(got) != c.want {
				t.Errorf("missing %+v, want %d", got, c.want)
			}
		})
	}
}
