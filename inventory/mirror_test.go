// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func mirror(members ...infrav1.RootDeviceHints) *infrav1.SoftwareRAID {
	return &infrav1.SoftwareRAID{Level: infrav1.SoftwareRAIDLevel1, Members: members}
}

func rotating(d infrav1.HardwareDisk) infrav1.HardwareDisk {
	d.Rotational = new(true)
	return d
}

func TestSelectRootDisks(t *testing.T) {
	a, b, c := disk("/dev/sda", 480, "A"), disk("/dev/sdb", 480, "B"), disk("/dev/sdc", 960, "C")
	stick, odd := disk("/dev/sdd", 1, "D"), disk("/dev/sde", 128, "E")
	for _, tc := range []struct {
		name    string
		disks   []infrav1.HardwareDisk
		hints   *infrav1.RootDeviceHints
		raid    *infrav1.SoftwareRAID
		want    string
		size    int64 // in GB
		err     error
		message string
	}{
		{name: "no mirror", disks: []infrav1.HardwareDisk{b, a}, want: "A", size: 480},
		{name: "two alike", disks: []infrav1.HardwareDisk{c, b, stick, a}, raid: mirror(), want: "A B", size: 480},
		{name: "two alike before a smaller one", disks: []infrav1.HardwareDisk{odd, c, b, a}, raid: mirror(), want: "A B", size: 480},
		{name: "no two alike", disks: []infrav1.HardwareDisk{c, odd, a}, raid: mirror(), want: "E A", size: 128},
		{name: "of one size, not of one make", disks: []infrav1.HardwareDisk{a, rotating(b), disk("/dev/sdf", 480, "F")}, raid: mirror(), want: "A F", size: 480},
		{name: "by hints", disks: []infrav1.HardwareDisk{a, b, c, disk("/dev/sdf", 960, "F")}, hints: &infrav1.RootDeviceHints{MinSize: new(resource.MustParse("500G"))}, raid: mirror(), want: "C F", size: 960},
		{name: "one disk", disks: []infrav1.HardwareDisk{a, stick}, raid: mirror(), err: ErrNoDisk, message: "softwareRAID needs two disks, and 1 suits"},
		{name: "hints that choose one", disks: []infrav1.HardwareDisk{a, b}, hints: &infrav1.RootDeviceHints{SerialNumber: "B"}, raid: mirror(), err: ErrNoDisk, message: "serialNumber B"},
		{name: "two paths to one disk", disks: []infrav1.HardwareDisk{a, disk("/dev/sdb", 480, "A")}, raid: mirror(), err: ErrDiskAmbiguous},
		{name: "a second path to a member", disks: []infrav1.HardwareDisk{a, b, disk("/dev/sdc", 480, "B")}, raid: mirror(), err: ErrDiskAmbiguous},
		{name: "members by name, the first first", disks: []infrav1.HardwareDisk{a, b, c}, raid: mirror(infrav1.RootDeviceHints{SerialNumber: "C"}, infrav1.RootDeviceHints{SerialNumber: "A"}), want: "C A", size: 480},
		{name: "the first member leaves the second its only disk", disks: []infrav1.HardwareDisk{a, b},
			raid: mirror(infrav1.RootDeviceHints{Rotational: new(false)}, infrav1.RootDeviceHints{SerialNumber: "A"}), want: "B A", size: 480},
		{name: "members by their places", disks: []infrav1.HardwareDisk{placed(a, "pci-1-ata-1.0", "pci-1-ata-1"), placed(b, "pci-1-ata-2.0", "pci-1-ata-2"), c},
			raid: mirror(infrav1.RootDeviceHints{DeviceName: "/dev/disk/by-path/pci-1-ata-2"}, infrav1.RootDeviceHints{DeviceName: "/dev/disk/by-path/pci-1-ata-1.0"}), want: "B A", size: 480},
		{name: "a member at a place of two disks", disks: []infrav1.HardwareDisk{placed(a, "pci-1-ata-1.0", "pci-1-ata-1"), placed(b, "pci-1-ata-1.1", "pci-1-ata-1"), c}, err: ErrDiskAmbiguous,
			message: "both at /dev/disk/by-path/pci-1-ata-1", raid: mirror(infrav1.RootDeviceHints{SerialNumber: "C"}, infrav1.RootDeviceHints{DeviceName: "/dev/disk/by-path/pci-1-ata-1"})},
		{name: "members of which one is not there", disks: []infrav1.HardwareDisk{a, b}, err: ErrNoDisk, message: "serialNumber X (0 disks)",
			raid: mirror(infrav1.RootDeviceHints{SerialNumber: "A"}, infrav1.RootDeviceHints{SerialNumber: "X"})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := SelectRootDisks(tc.disks, tc.hints, tc.raid)
			if !errors.Is(err, tc.err) || err != nil && !strings.Contains(err.Error(), tc.message) {
				t.Fatalf("%v, want %v %q", err, tc.err, tc.message)
			}
			var names []string
			for _, d := range got {
				names = append(names, d.SerialNumber)
			}
			if diff := cmp.Diff(tc.want, strings.Join(names, " ")); diff != "" || RootBytes(got) != tc.size*BytesPerGB {
				t.Errorf("%d bytes: %s", RootBytes(got), diff)
			}
		})
	}
}

// I12 of mirrors: both disks meet their hints in any order of the list, and neither has the identity of
// another disk.
func TestMirrorProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 5))
	chosen := 0
	for range 50000 {
		disks, hints, raid := randomDisks(r), randomHints(r), mirror()
		if one, other := randomHints(r), randomHints(r); one != nil && other != nil && r.IntN(2) == 0 {
			raid = mirror(*one, *other)
		}
		got, err := SelectRootDisks(disks, hints, raid)
		r.Shuffle(len(disks), func(i, j int) { disks[i], disks[j] = disks[j], disks[i] })
		again, errAgain := SelectRootDisks(disks, hints, raid)
		if (err == nil) != (errAgain == nil) || !cmp.Equal(got, again) {
			t.Fatalf("the order of the list matters: %v %v, %v %v", got, err, again, errAgain)
		}
		if err != nil {
			continue
		}
		chosen++
		if len(got) != 2 || got[0].Name == got[1].Name || RootBytes(got) > diskSize(got[0]) || RootBytes(got) > diskSize(got[1]) {
			t.Fatalf("%+v", got)
		}
		for i, d := range got {
			must := hints
			if len(raid.Members) > 0 {
				must = &raid.Members[i]
			}
			if !MatchesHints(d, must) || toldApart(d, disks) != nil {
				t.Fatalf("member %d: %+v does not satisfy %+v, or is two disks", i, d, must)
			}
		}
	}
	if chosen < 1000 {
		t.Errorf("only %d mirrors", chosen)
	}
}
