// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func disk(name string, gigabytes int64, serial string) infrav1.HardwareDisk {
	size, spins := gigabytes*BytesPerGB, false
	return infrav1.HardwareDisk{Name: name, SerialNumber: serial, SizeBytes: &size, Rotational: &spins}
}

// placed is a disk with the place that udev names, and the one that is recorded.
func placed(disk infrav1.HardwareDisk, byPath, path string) infrav1.HardwareDisk {
	disk.ByPath, disk.Path = byPath, path
	return disk
}

func TestSelectRootDisk(t *testing.T) {
	big := resource.MustParse("100G")
	at := func(place string) *infrav1.RootDeviceHints {
		return &infrav1.RootDeviceHints{DeviceName: "/dev/disk/by-path/" + place}
	}
	places := []infrav1.HardwareDisk{
		placed(disk("/dev/sda", 500, "a"), "pci-1-ata-1.0", "pci-1-ata-1"), placed(disk("/dev/sdb", 100, "b"), "pci-1-ata-1.1", "pci-1-ata-1"),
		placed(disk("/dev/sdc", 100, "c"), "pci-1-ata-2.0", "pci-1-ata-2"), placed(disk("/dev/sdd", 2, "d"), "pci-2-sas-phy3-lun-0", "pci-2-scsi-0:0:3:0"),
		placed(disk("/dev/sde", 100, "e"), "", "pci-3-nvme-1"), placed(disk("/dev/vda", 100, "f"), "pci-4", "pci-4"), placed(disk("/dev/sdf", 100, "g"), "", ""),
		disk("/dev/cciss/c0d0", 900, "h"),
	}
	for _, tc := range []struct {
		name  string
		disks []infrav1.HardwareDisk
		hints *infrav1.RootDeviceHints
		want  string
		err   error
	}{
		{"the smallest", []infrav1.HardwareDisk{disk("/dev/sda", 500, "a"), disk("/dev/sdb", 100, "b")}, nil, "/dev/sdb", nil},
		{"not the boot stick", []infrav1.HardwareDisk{disk("/dev/sda", 500, "a"), disk("/dev/sdb", 2, "b")}, nil, "/dev/sda", nil},
		{"the boot stick when it is named", []infrav1.HardwareDisk{disk("/dev/sda", 500, "a"), disk("/dev/sdb", 2, "b")},
			&infrav1.RootDeviceHints{SerialNumber: "b"}, "/dev/sdb", nil},
		{"big enough", []infrav1.HardwareDisk{disk("/dev/sda", 500, "a"), disk("/dev/sdb", 99, "b")},
			&infrav1.RootDeviceHints{MinSize: &big}, "/dev/sda", nil},
		{"all hints hold", []infrav1.HardwareDisk{disk("/dev/sda", 500, "a")}, &infrav1.RootDeviceHints{SerialNumber: "a", Model: "x"}, "", ErrNoDisk},
		{"no disk", nil, nil, "", ErrNoDisk},
		{"the same serial number twice", []infrav1.HardwareDisk{disk("/dev/sda", 500, "a"), disk("/dev/sdb", 500, "a")}, nil, "", ErrDiskAmbiguous},
		{"at a place", places, at("pci-1-ata-2.0"), "/dev/sdc", nil},
		{"at a place, by its older name", places, at("pci-1-ata-2"), "/dev/sdc", nil},
		{"a slave", places, at("pci-1-ata-1.1"), "/dev/sdb", nil},
		{"master or slave", places, at("pci-1-ata-1"), "", ErrDiskAmbiguous},
		{"master or slave, told apart", places, &infrav1.RootDeviceHints{DeviceName: "/dev/disk/by-path/pci-1-ata-1", SerialNumber: "a"}, "/dev/sda", nil},
		{"a small one at a place", places, at("pci-2-sas-phy3-lun-0"), "/dev/sdd", nil},
		{"as it is recorded, which is no place", places, at("pci-2-scsi-0:0:3:0"), "", ErrNoDisk},
		{"inspected by an older release", places, at("pci-3-nvme-1"), "", ErrNoDisk},
		{"virtio by its older name", places, at("virtio-pci-4"), "/dev/vda", nil},
		{"nothing is virtio there", places, at("virtio-pci-3-nvme-1"), "", ErrNoDisk},
		{"nothing at the place", places, at("pci-1-ata-3"), "", ErrNoDisk},
		{"no place", places, at(""), "", ErrNoDisk},
		{"a part of a place", places, at("pci-1-ata"), "", ErrNoDisk},
		{"two paths to the disk at a place", append([]infrav1.HardwareDisk{placed(disk("/dev/sdz", 100, "c"), "pci-9-ata-2.0", "pci-9-ata-2")}, places...), at("pci-1-ata-2.0"), "", ErrDiskAmbiguous},
		{"a name with a slash", places, &infrav1.RootDeviceHints{DeviceName: "/dev/cciss/c0d0"}, "/dev/cciss/c0d0", nil},
		{"nothing names it", []infrav1.HardwareDisk{disk("/dev/sda", 500, "")}, nil, "", ErrDiskAmbiguous},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := SelectRootDisk(tc.disks, tc.hints)
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got.Name); diff != "" {
				t.Errorf("disk (-want +got):\n%s", diff)
			}
		})
	}
}

// pick draws from a few values, so that hints hit and identities collide.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func randomDisks(r *rand.Rand) []infrav1.HardwareDisk {
	var disks []infrav1.HardwareDisk
	for i := range r.IntN(6) {
		size, spins := pick(r, int64(0), 1, 2, 8, 64, 100, 480)*BytesPerGB, pick(r, true, false)
		disks = append(disks, infrav1.HardwareDisk{
			Name: "/dev/sd" + string(rune('a'+i)), Model: pick(r, "", "FastDisk 9", "slow"), Vendor: pick(r, "", "ACME"),
			SerialNumber: pick(r, "", "s1", "s2", "s3", "s4", "s5"), WWN: pick(r, "", "w1", "0xW2"),
			HCTL: pick(r, "", "0:0:0:0", "1:0:0:0"), Path: pick(r, "", "pci-1", "pci-2", "pci-3"), ByPath: pick(r, "", "pci-1", "at-2"), SizeBytes: &size, Rotational: &spins,
		})
	}
	return disks
}

func randomHints(r *rand.Rand) *infrav1.RootDeviceHints {
	if r.IntN(4) == 0 {
		return nil
	}
	some := func(values ...string) string {
		if r.IntN(3) > 0 {
			return ""
		}
		return pick(r, values...)
	}
	h := &infrav1.RootDeviceHints{DeviceName: some("/dev/sda", "/dev/sdb", byPath+"pci-1", byPath+"at-2"), HCTL: some("0:0:0:0"), Model: some("fastdisk", "SLOW"),
		Vendor: some("acme"), SerialNumber: some("s1", "s2"), WWN: some("w1", "0xw2")}
	if r.IntN(3) == 0 {
		h.MinSize, h.MaxSize = DiskQuantity(pick(r, int64(1), 50)*BytesPerGB), DiskQuantity(pick(r, int64(64), 100)*BytesPerGB)
	}
	if r.IntN(4) == 0 {
		spins := pick(r, true, false)
		h.Rotational = &spins
	}
	return h
}

// I12: the selected disk meets every hint in any order of the list, and no other disk has its identity.
func TestRootDiskProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	chosen, ambiguous := 0, 0
	for range 50000 {
		disks, hints := randomDisks(r), randomHints(r)
		got, err := SelectRootDisk(disks, hints)
		r.Shuffle(len(disks), func(i, j int) { disks[i], disks[j] = disks[j], disks[i] })
		again, errAgain := SelectRootDisk(disks, hints)
		if got.Name != again.Name || errors.Is(err, ErrNoDisk) != errors.Is(errAgain, ErrNoDisk) {
			t.Fatalf("the order of the list matters: %v, %v", got.Name, again.Name)
		}
		if errors.Is(err, ErrDiskAmbiguous) {
			ambiguous++
		}
		if err != nil {
			continue
		}
		chosen++
		if why := violated(got, hints); why != "" {
			t.Fatalf("%+v chosen against hint %s of %+v", got, why, *hints)
		}
		for _, other := range disks {
			if other.Name != got.Name && other.SerialNumber == got.SerialNumber && other.WWN == got.WWN &&
				(got.SerialNumber != "" || got.WWN != "" || other.Path == got.Path) {
				t.Fatalf("%s chosen, and %s has the same identity", got.Name, other.Name)
			}
		}
	}
	if chosen < 1000 || ambiguous < 1000 {
		t.Errorf("the property is hardly tested: %d chosen, %d ambiguous", chosen, ambiguous)
	}
}

// violated restates the hints one by one, in other words than the code.
func violated(d infrav1.HardwareDisk, h *infrav1.RootDeviceHints) string {
	if h == nil {
		return ""
	}
	for name, broken := range map[string]bool{
		"deviceName":   !slices.Contains([]string{"", d.Name, "/dev/disk/by-path/" + d.ByPath}, h.DeviceName),
		"hctl":         h.HCTL != "" && d.HCTL != h.HCTL,
		"model":        !strings.Contains(strings.ToUpper(d.Model), strings.ToUpper(h.Model)),
		"vendor":       !strings.Contains(strings.ToUpper(d.Vendor), strings.ToUpper(h.Vendor)),
		"serialNumber": h.SerialNumber != "" && d.SerialNumber != h.SerialNumber,
		"wwn":          h.WWN != "" && !strings.EqualFold(d.WWN, h.WWN),
		"minSize":      h.MinSize != nil && *d.SizeBytes < h.MinSize.Value(),
		"maxSize":      h.MaxSize != nil && *d.SizeBytes > h.MaxSize.Value(),
		"rotational":   h.Rotational != nil && *d.Rotational != *h.Rotational,
	} {
		if broken {
			return name
		}
	}
	return ""
}
