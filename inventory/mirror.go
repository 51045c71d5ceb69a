// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"fmt"
	"slices"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// SelectRootDisks chooses what an image may be written to (I12): one disk as
// SelectRootDisk does, or the two of a mirror. With hints of its members the first pair,
// by size and then by name, whose disks each satisfy theirs; without, of those disks that
// hints choose, the two smallest of the same size and make of medium, and where there are
// no such two, the two smallest. raid and hints may be nil.
//
// It fails as SelectRootDisk does; each disk has to be told from every other.
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

// suitable disks for hints, the one to prefer first.
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

// alike takes two of at least two disks that are sorted by size.
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

// RootBytes is how large a disk is that disks chosen for a root make together: of a
// mirror the smallest counts. It leaves out the little that the array itself needs.
func RootBytes(chosen []infrav1.HardwareDisk) int64 {
	if len(chosen) == 0 {
		return 0
	}
	return diskSize(slices.MinFunc(chosen, compareDisks))
}
