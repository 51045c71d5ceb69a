// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// MinRootDiskBytes is the least size of a disk that is chosen without being named:
// smaller ones are boot sticks, SD cards and a BMC's virtual drives. Hints that
// name a disk (deviceName, hctl, serialNumber, the three of wwn) or give
// minSizeGigabytes say what is big enough themselves.
const MinRootDiskBytes = 4_000_000_000

// BytesPerGB is what disk makers, and the API, mean by a gigabyte.
const BytesPerGB = 1_000_000_000

// Why no root disk was chosen.
var (
	// ErrNoDisk: no disk satisfies every hint.
	ErrNoDisk = errors.New("no disk suits")
	// ErrDiskAmbiguous: the disk cannot be told from another one after a reboot.
	ErrDiskAmbiguous = errors.New("disk cannot be told from another")
)

// SelectRootDisk chooses the disk that an image may be written to (I12): every hint
// that is set holds; of several disks the smallest that is big enough (see
// MinRootDiskBytes), then the first by serial number, WWN, path and name. The order
// of the list does not matter. hints may be nil.
//
// It fails with ErrNoDisk when none suits, and with ErrDiskAmbiguous when serial
// number and WWN (or the path, where a disk has neither) of the disk chosen also
// name another one, or the place that the hints name is that of several: better no disk
// than perhaps the wrong one.
func SelectRootDisk(disks []infrav1.HardwareDisk, hints *infrav1.RootDeviceHints) (infrav1.HardwareDisk, error) {
	var suitable []infrav1.HardwareDisk
	for _, disk := range disks {
		if bigEnough(disk, hints) && MatchesHints(disk, hints) {
			suitable = append(suitable, disk)
		}
	}
	if len(suitable) == 0 {
		return infrav1.HardwareDisk{}, fmt.Errorf("%w: %s, of %s", ErrNoDisk, describeHints(hints), describeDisks(disks))
	}
	chosen := slices.MinFunc(suitable, compareDisks)
	if err := cmp.Or(placedApart(chosen, disks, hints), toldApart(chosen, disks)); err != nil {
		return infrav1.HardwareDisk{}, err
	}
	return *chosen.DeepCopy(), nil
}

func compareDisks(a, b infrav1.HardwareDisk) int {
	return cmp.Or(
		cmp.Compare(diskSize(a), diskSize(b)),
		cmp.Compare(a.SerialNumber, b.SerialNumber),
		cmp.Compare(a.WWN, b.WWN),
		cmp.Compare(a.Path, b.Path),
		cmp.Compare(a.Name, b.Name),
	)
}

func diskSize(disk infrav1.HardwareDisk) int64 {
	if disk.SizeBytes == nil {
		return 0
	}
	return *disk.SizeBytes
}

// bigEnough applies the least size where the hints do not.
func bigEnough(disk infrav1.HardwareDisk, hints *infrav1.RootDeviceHints) bool {
	if diskSize(disk) <= 0 {
		return false
	}
	if hints != nil && (hints.DeviceName != "" || hints.HCTL != "" || hints.SerialNumber != "" || hints.WWN != "" ||
		hints.WWNWithExtension != "" || hints.WWNVendorExtension != "" || hints.MinSizeGigabytes != nil) {
		return true
	}
	return diskSize(disk) >= MinRootDiskBytes
}

func MatchesHints(disk infrav1.HardwareDisk, hints *infrav1.RootDeviceHints) bool {
	if hints == nil {
		return true
	}
	return deviceNameHolds(disk, hints.DeviceName) &&
		(hints.HCTL == "" || hints.HCTL == disk.HCTL) &&
		containsFold(disk.Model, hints.Model) &&
		containsFold(disk.Vendor, hints.Vendor) &&
		(hints.SerialNumber == "" || hints.SerialNumber == disk.SerialNumber) &&
		wwnHolds(disk.WWN, hints) &&
		(hints.MinSizeGigabytes == nil || diskSize(disk) >= *hints.MinSizeGigabytes*BytesPerGB) &&
		(hints.MaxSizeGigabytes == nil || diskSize(disk) <= *hints.MaxSizeGigabytes*BytesPerGB) &&
		(hints.Rotational == nil || disk.Rotational != nil && *disk.Rotational == *hints.Rotational)
}

// byPath is where udev names disks by their places.
const byPath = "/dev/disk/by-path/"

// deviceNameHolds compares the kernel's name, or the place that udev names: of SATA and virtio
// disks it has an older name too. The recorded path is no place: behind SAS its numbers go
// by the order of discovery.
func deviceNameHolds(disk infrav1.HardwareDisk, name string) bool {
	place, isPlace := strings.CutPrefix(name, byPath)
	if !isPlace {
		return name == "" || name == disk.Name
	}
	if older, virtio := strings.CutPrefix(place, "virtio-"); virtio && strings.HasPrefix(disk.Name, "/dev/vd") {
		place = older
	}
	return place != "" && (place == disk.ByPath || strings.HasPrefix(disk.ByPath, place+".") && strings.Contains(place, "-ata-"))
}

// placedApart sees to it that a place which a hint names is that of one disk: udev's older
// name is the same for master and slave of a SATA port.
func placedApart(chosen infrav1.HardwareDisk, disks []infrav1.HardwareDisk, hints *infrav1.RootDeviceHints) error {
	if hints == nil || !strings.HasPrefix(hints.DeviceName, byPath) {
		return nil
	}
	for _, other := range disks {
		if other.Name != chosen.Name && MatchesHints(other, hints) {
			return fmt.Errorf("%w: %s and %s are both at %s; name the disk by byPath of the IngotHardware, or by its serial number or WWN",
				ErrDiskAmbiguous, chosen.Name, other.Name, hints.DeviceName)
		}
	}
	return nil
}

// wwnHolds compares the three hints about a World Wide Name. A name of NAA format 6
// (SPC-5 section 7.7.6.6.4) has 32 digits, of which the last 16 are the vendor's
// extension; udev calls the first 16 ID_WWN.
func wwnHolds(wwn string, hints *infrav1.RootDeviceHints) bool {
	name, extension := wwn, ""
	if len(wwn) == len("0x")+32 && strings.HasPrefix(strings.ToLower(wwn), "0x") {
		name, extension = wwn[:18], "0x"+wwn[18:]
	}
	return (hints.WWN == "" || strings.EqualFold(hints.WWN, wwn) || strings.EqualFold(hints.WWN, name)) &&
		(hints.WWNWithExtension == "" || strings.EqualFold(hints.WWNWithExtension, wwn)) &&
		(hints.WWNVendorExtension == "" || strings.EqualFold(hints.WWNVendorExtension, extension))
}

func containsFold(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// toldApart sees to it that what names the disk names no other.
func toldApart(chosen infrav1.HardwareDisk, disks []infrav1.HardwareDisk) error {
	ref := DiskRefOf(chosen)
	if ref.SerialNumber == "" && ref.WWN == "" && ref.Path == "" {
		return fmt.Errorf("%w: %s has no serial number, no WWN and no path", ErrDiskAmbiguous, chosen.Name)
	}
	for _, other := range disks {
		if other.Name != chosen.Name && DiskNames(ref, other) {
			return fmt.Errorf("%w: %s and %s have the same serial number %q and WWN %q; several paths to one disk are not supported",
				ErrDiskAmbiguous, chosen.Name, other.Name, ref.SerialNumber, ref.WWN)
		}
	}
	return nil
}

// names says whether the reference, its size aside, names the disk.
func DiskNames(ref infrav1.DiskReference, disk infrav1.HardwareDisk) bool {
	return (ref.SerialNumber == "" || ref.SerialNumber == disk.SerialNumber) &&
		(ref.WWN == "" || ref.WWN == disk.WWN) &&
		(ref.Path == "" || ref.Path == disk.Path)
}

// DiskRefOf returns what names the disk over reboots: serial number and WWN, or the
// path where it has neither, and the size as a guard. It mirrors agentapi.Disk.Ref.
func DiskRefOf(disk infrav1.HardwareDisk) infrav1.DiskReference {
	ref := infrav1.DiskReference{SerialNumber: disk.SerialNumber, WWN: disk.WWN}
	if ref.SerialNumber == "" && ref.WWN == "" {
		ref.Path = disk.Path
	}
	if size := diskSize(disk); size > 0 {
		ref.SizeBytes = &size
	}
	return ref
}

// DiskRefsOf are what names each of a server's disks in an order for all of them. Where
// serial number and WWN name two, which may be two disks of a maker who does not tell them
// apart, or two paths to one, the path says which is meant: that holds for one boot, and
// after it the two may have changed places.
func DiskRefsOf(disks []infrav1.HardwareDisk) []infrav1.DiskReference {
	var refs []infrav1.DiskReference
	for _, disk := range disks {
		ref := DiskRefOf(disk)
		if slices.ContainsFunc(disks, func(other infrav1.HardwareDisk) bool {
			return other.Name != disk.Name && DiskNames(ref, other) && diskSize(other) == diskSize(disk)
		}) {
			ref.Path = disk.Path
		}
		refs = append(refs, ref)
	}
	return refs
}
