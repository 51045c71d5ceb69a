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

// MinRootDiskBytes is the minimum size of a disk that no hint names. Smaller ones are boot sticks,
// SD cards and virtual drives of BMCs. It does not apply with hints that name a disk (deviceName,
// hctl, serialNumber, the wwn hints) or with minSize.
const MinRootDiskBytes = 4_000_000_000

// BytesPerGB is a gigabyte as in disk sizes and in the API.
const BytesPerGB = 1_000_000_000

// The errors of SelectRootDisk.
var (
	// ErrNoDisk means that no disk meets all hints.
	ErrNoDisk = errors.New("no disk suits")
	// ErrDiskAmbiguous means that the disk cannot be distinguished from another one after a
	// reboot.
	ErrDiskAmbiguous = errors.New("disk cannot be told from another")
)

// SelectRootDisk selects the disk for an image (I12). It must meet all hints. Of several disks it
// takes the smallest of at least MinRootDiskBytes, then the first by serial number, WWN, path and
// name. The order of the list does not matter. hints may be nil.
//
// It fails with ErrNoDisk if no disk suits. It fails with ErrDiskAmbiguous if serial number and
// WWN (or the path, if a disk has neither) also name another disk, or if the hinted device name
// does.
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

// bigEnough applies the minimum size unless the hints replace it.
func bigEnough(disk infrav1.HardwareDisk, hints *infrav1.RootDeviceHints) bool {
	if diskSize(disk) <= 0 {
		return false
	}
	if hints != nil && (hints.DeviceName != "" || hints.HCTL != "" || hints.SerialNumber != "" || hints.WWN != "" ||
		hints.WWNWithExtension != "" || hints.WWNVendorExtension != "" || hints.MinSize != nil) {
		return true
	}
	return diskSize(disk) >= MinRootDiskBytes
}

// MatchesHints reports whether a disk meets all hints. Nil hints match any disk.
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
		(hints.MinSize == nil || hints.MinSize.CmpInt64(diskSize(disk)) <= 0) &&
		(hints.MaxSize == nil || hints.MaxSize.CmpInt64(diskSize(disk)) >= 0) &&
		(hints.Rotational == nil || disk.Rotational != nil && *disk.Rotational == *hints.Rotational)
}

// byPath is the directory in which udev names disks by their places.
const byPath = "/dev/disk/by-path/"

// deviceNameHolds compares the kernel's name or udev's name of the place, including the older names
// of SATA and virtio disks. It does not use the recorded path, whose numbers depend on the order
// of discovery behind SAS.
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

// placedApart fails if a hinted place has several disks: udev's older name is the same for master
// and slave of a SATA port.
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

// wwnHolds compares the three hints about a World Wide Name. A name of NAA format 6 (SPC-5 section
// 7.7.6.6.4) has 32 digits. The last 16 are the vendor's extension; udev calls the first 16
// ID_WWN.
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

// toldApart fails if the reference of the disk also names another one.
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

// DiskNames reports whether the reference names the disk. It ignores the size.
func DiskNames(ref infrav1.DiskReference, disk infrav1.HardwareDisk) bool {
	return (ref.SerialNumber == "" || ref.SerialNumber == disk.SerialNumber) &&
		(ref.WWN == "" || ref.WWN == disk.WWN) &&
		(ref.Path == "" || ref.Path == disk.Path)
}

// DiskRefOf returns the reference of a disk that is stable across reboots: serial number and WWN,
// or the path if it has neither, and the size as a check. It mirrors agentapi.Disk.Ref.
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

// DiskRefsOf returns the references of all disks of a server for an order. If serial number and
// WWN name two disks (equal identities of a vendor, or two paths to one disk), the path
// distinguishes them. That is valid for one boot only.
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
