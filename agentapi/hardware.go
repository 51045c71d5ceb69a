// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentapi

// Hardware is the hardware that the agent found in the server.
type Hardware struct {
	// UUID and Serial come from SMBIOS (System Information, type 1). UUID is lower case with
	// dashes, in the byte order of SMBIOS 2.6 and later.
	UUID         string `json:"uuid,omitempty"`
	Serial       string `json:"serial,omitempty"`
	Manufacturer string `json:"manufacturer,omitempty"`
	Product      string `json:"product,omitempty"`
	// Firmware is the boot mode of this boot: "UEFI" or "BIOS".
	Firmware string `json:"firmware,omitempty"`
	// Architecture is a GOARCH value: "amd64", "arm64".
	Architecture string `json:"architecture,omitempty"`
	CPU          CPU    `json:"cpu"`
	MemoryBytes  int64  `json:"memoryBytes,omitempty"`
	NICs         []NIC  `json:"nics,omitempty"`
	Disks        []Disk `json:"disks,omitempty"`
	// StorageWithoutDriver are the PCI storage controllers without a driver in the agent's
	// kernel, or with host-managed zoned disks. Disks does not contain their disks. Null: the
	// agent did not look.
	StorageWithoutDriver []PCIDevice `json:"storageWithoutDriver"`
}

// PCIDevice is one function of a device on a PCI bus.
type PCIDevice struct {
	// Address is domain:bus:device.function and ID is vendor:device, in lower-case hexadecimal.
	Address string `json:"address"`
	ID      string `json:"id,omitempty"`
}

type CPU struct {
	Model string `json:"model,omitempty"`
	// Cores (physical) and Threads (logical processors) are totals of all sockets.
	Sockets int32 `json:"sockets,omitempty"`
	Cores   int32 `json:"cores,omitempty"`
	Threads int32 `json:"threads,omitempty"`
}

// NIC is one network interface with a permanent address.
type NIC struct {
	// Name is the kernel's name during this boot.
	Name string `json:"name"`
	// MAC is lower case with colons.
	MAC string `json:"mac"`
	// SpeedMbps is 0 if unknown. Carrier reports whether there is a link.
	SpeedMbps int32    `json:"speedMbps,omitempty"`
	Carrier   bool     `json:"carrier,omitempty"`
	Driver    string   `json:"driver,omitempty"`
	PCI       string   `json:"pci,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
}

// Disk is one whole, writable, non-removable block device.
type Disk struct {
	// Name is the kernel's name during this boot ("/dev/sda"). It does not identify a disk.
	Name   string `json:"name"`
	Model  string `json:"model,omitempty"`
	Vendor string `json:"vendor,omitempty"`
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	HCTL   string `json:"hctl,omitempty"`
	// Path is the bus path, which identifies disks without serial and WWN. ByPath is udev's
	// name of the disk below /dev/disk/by-path, if known.
	Path       string `json:"path,omitempty"`
	ByPath     string `json:"byPath,omitempty"`
	SizeBytes  int64  `json:"sizeBytes"`
	Rotational bool   `json:"rotational,omitempty"`
	// Marker is the Ingot marker found on the disk, if any (I8).
	Marker *Marker `json:"marker,omitempty"`
}

// Ref returns a reference that is stable over reboots.
func (d Disk) Ref() DiskRef {
	ref := DiskRef{Serial: d.Serial, WWN: d.WWN, SizeBytes: d.SizeBytes}
	if d.Serial == "" && d.WWN == "" {
		ref.Path = d.Path
	}
	return ref
}

// Matches reports whether the disk has the value of every field that is set in the
// reference. A reference without serial, WWN and path matches no disk.
func (r DiskRef) Matches(d Disk) bool {
	if r.Serial == "" && r.WWN == "" && r.Path == "" {
		return false
	}
	return (r.Serial == "" || r.Serial == d.Serial) &&
		(r.WWN == "" || r.WWN == d.WWN) &&
		(r.Path == "" || r.Path == d.Path) &&
		(r.SizeBytes == 0 || r.SizeBytes == d.SizeBytes)
}

// MarkerOffset is the position of the marker on the disk, in bytes: the last 4 KiB before
// the first MiB. Partitions start at 1 MiB or later. Boot code before them (GRUB's core
// image, a BIOS boot partition) does not reach that far, and a file system that grows to the
// end of the disk does not touch it.
const (
	MarkerOffset = 1<<20 - MarkerSize
	MarkerSize   = 4096
)

// DamagedMarker is the prefix of the name that stands for the unknown instance of a damaged
// marker. 16 hexadecimal digits of a hash of the damaged content follow, so that an operator
// releases (ReleasedInstances) only the damage that was reported.
const DamagedMarker = "damaged-"

// Marker names the instance that owns a disk's content (I8). It is the first and the last
// write of an install.
type Marker struct {
	InstanceID string `json:"instanceID"`
	Attempt    int32  `json:"attempt"`
	// Complete is false from the first write of an install until its last.
	Complete bool `json:"complete"`
}
