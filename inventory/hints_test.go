// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// An unmet hint lists the values of the disks.
func TestUnmetHints(t *testing.T) {
	a, b := disk("/dev/sda", 500, "S-1"), disk("/dev/sdb", 2000, "")
	a.Model, a.Vendor, a.WWN, a.HCTL = "FastDisk 9", "ACME", "0x5000c500a1b2c3d4", "0:0:0:0"
	b.Rotational = nil
	two := []infrav1.HardwareDisk{b, a}
	var many []infrav1.HardwareDisk
	for _, letter := range "abcdefgh" {
		many = append(many, disk("/dev/sd"+string(letter), 100, "S-"+string(letter)))
	}
	tests := []struct {
		name  string
		disks []infrav1.HardwareDisk
		hints *infrav1.RootDeviceHints
		want  []UnmetHint
	}{
		{"no hints", two, nil, nil},
		{"all hold", two, &infrav1.RootDeviceHints{SerialNumber: "S-1", Model: "fastdisk", WWN: "0x5000C500A1B2C3D4", Rotational: new(false)}, nil},
		{"each on another disk", two, &infrav1.RootDeviceHints{SerialNumber: "S-1", MinSize: new(resource.MustParse("1000G"))}, nil},
		{"none of them", two, &infrav1.RootDeviceHints{DeviceName: "/dev/sdc", HCTL: "1:0:0:0", Model: "slow", Vendor: "other", SerialNumber: "S-2", WWN: "w",
			WWNWithExtension: "0x1", WWNVendorExtension: "0x2", MinSize: new(resource.MustParse("3000G")), MaxSize: new(resource.MustParse("100G")), Rotational: new(true)}, []UnmetHint{
			{"deviceName", "/dev/sdc", "/dev/sda, /dev/sdb"},
			{"hctl", "1:0:0:0", `/dev/sda "0:0:0:0", /dev/sdb without`},
			{"model", "slow", `/dev/sda "FastDisk 9", /dev/sdb without`},
			{"vendor", "other", `/dev/sda "ACME", /dev/sdb without`},
			{"serialNumber", "S-2", `/dev/sda "S-1", /dev/sdb without`},
			{"wwn", "w", `/dev/sda "0x5000c500a1b2c3d4", /dev/sdb without`},
			{"wwnWithExtension", "0x1", `/dev/sda "0x5000c500a1b2c3d4", /dev/sdb without`},
			{"wwnVendorExtension", "0x2", `/dev/sda "0x5000c500a1b2c3d4", /dev/sdb without`},
			{"minSize", "3T", "/dev/sda (500G), /dev/sdb (2T)"},
			{"maxSize", "100G", "/dev/sda (500G), /dev/sdb (2T)"},
			{"rotational", true, "/dev/sda false, /dev/sdb unknown"}}},
		{"one of many disks", many, &infrav1.RootDeviceHints{SerialNumber: "S-z", Rotational: new(false)}, []UnmetHint{
			{"serialNumber", "S-z", `/dev/sda "S-a", /dev/sdb "S-b", /dev/sdc "S-c", /dev/sdd "S-d", /dev/sde "S-e", /dev/sdf "S-f" and 2 more`}}},
		{"a place", []infrav1.HardwareDisk{placed(a, "pci-1-ata-1.0", "pci-1-ata-1"), b}, &infrav1.RootDeviceHints{DeviceName: "/dev/disk/by-path/pci-1-ata-2"}, []UnmetHint{
			{"deviceName", "/dev/disk/by-path/pci-1-ata-2", `/dev/sda "pci-1-ata-1.0", /dev/sdb without`}}},
		{"no disks", nil, &infrav1.RootDeviceHints{Rotational: new(false)}, []UnmetHint{{"rotational", false, "none"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, UnmetHints(tt.disks, tt.hints)); diff != "" {
				t.Errorf("unmet (-want +got):\n%s", diff)
			}
		})
	}
}

// If a disk is selected, no hint is unmet.
func TestUnmetHintsAgreeWithSelection(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	seen := 0
	for range 20000 {
		disks, hints := randomDisks(r), randomHints(r)
		_, err := SelectRootDisk(disks, hints)
		unmet := UnmetHints(disks, hints)
		if len(unmet) > 0 && !errors.Is(err, ErrNoDisk) {
			t.Fatalf("%+v is not met, but the choice says %v", unmet, err)
		}
		if len(unmet) > 0 {
			seen++
		}
	}
	if seen < 1000 {
		t.Errorf("hints that are not met were seen %d times", seen)
	}
}
