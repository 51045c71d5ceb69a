// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"fmt"
	"slices"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// SelectRootDisks selects the disks for an image (I12): one disk as SelectRootDisk does, or the two
// of a mirror. With raid.Members it takes the first pair, by size and name, whose disks meet the
// hints of each member. Without members it takes, of the disks that meet hints, the two smallest
// of equal size and medium, or else the two smallest. raid and hints may be nil.
//
// It fails as SelectRootDisk does.
func SelectRootDisks(disks []infrav1.HardwareDisk, hints *infrav1.RootDeviceHints, raid *infrav1.SoftwareRAID) ([]infrav1.HardwareDisk, error) {
	if raid == nil {
		disk, err := SelectRootDisk(disks, hints)
		if err != nil {
			return nil, err
		}
		return []infrav1.HardwareDisk{disk}, nil
	}
	chosen, err := memberDisks(disks, hints, raid)
	if err != nil {
		return nil, err
	}
	for i := range chosen {
		if err := toldApart(chosen[i], disks); err != nil {
			return nil, err
		}
		chosen[i] = *chosen[i].DeepCopy()
	}
	return chosen, nil
}

func memberDisks(disks []infrav1.HardwareDisk, hints *infrav1.RootDeviceHints, raid *infrav1.SoftwareRAID) ([]infrav1.HardwareDisk, error) {
	if len(raid.Members) == 2 {
		one, other := suitable(disks, &raid.Members[0]), suitable(disks, &raid.Members[1])
		for _, a := range one {
			for _, b := range other {
				if a.Name != b.Name {
					return []infrav1.HardwareDisk{a, b}, cmp.Or(placedApart(a, disks, &raid.Members[0]), placedApart(b, disks, &raid.Members[1]))
				}
			}
		}
		return nil, fmt.Errorf("%w: no two disks for softwareRAID.members, one with %s (%d disks), the other with %s (%d disks), of %s",
			ErrNoDisk, describeHints(&raid.Members[0]), len(one), describeHints(&raid.Members[1]), len(other), describeDisks(disks))
	}
	all := suitable(disks, hints)
	if len(all) < 2 {
		return nil, fmt.Errorf("%w: softwareRAID needs two disks, and %d suits: %s, of %s", ErrNoDisk, len(all), describeHints(hints), describeDisks(disks))
	}
	return alike(all), nil
}

// suitable returns the disks that meet the hints, the preferred one first.
func suitable(disks []infrav1.HardwareDisk, hints *infrav1.RootDeviceHints) []infrav1.HardwareDisk {
	var all []infrav1.HardwareDisk
	for _, disk := range disks {
		if bigEnough(disk, hints) && MatchesHints(disk, hints) {
			all = append(all, disk)
		}
	}
	slices.SortFunc(all, compareDisks)
	return all
}

// alike returns two of at least two disks that are sorted by size.
func alike(sorted []infrav1.HardwareDisk) []infrav1.HardwareDisk {
	for i, a := range sorted {
		for _, b := range sorted[i+1:] {
			if diskSize(a) != diskSize(b) {
				break
			}
			if spins(a) == spins(b) {
				return []infrav1.HardwareDisk{a, b}
			}
		}
	}
	return slices.Clone(sorted[:2])
}

func spins(disk infrav1.HardwareDisk) bool { return disk.Rotational != nil && *disk.Rotational }

// RootBytes returns the size of the root disk that the selected disks form: that of the smallest. It
// ignores the metadata of the array.
func RootBytes(chosen []infrav1.HardwareDisk) int64 {
	if len(chosen) == 0 {
		return 0
	}
	return diskSize(slices.MinFunc(chosen, compareDisks))
}
