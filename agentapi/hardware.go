// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentapi

// Hardware is what the agent found on the server.
type Hardware struct {
	// UUID and Serial come from SMBIOS (System Information, type 1); UUID is
	// lower case with dashes in the byte order of SMBIOS 2.6 and later.
	UUID         string `json:"uuid,omitempty"`
	Serial       string `json:"serial,omitempty"`
	Manufacturer string `json:"manufacturer,omitempty"`
	Product      string `json:"product,omitempty"`
	// Firmware is "UEFI" or "BIOS": how this boot was started.
	Firmware string `json:"firmware,omitempty"`
	// Architecture in Go's terms: "amd64", "arm64".
	Architecture string `json:"architecture,omitempty"`
	CPU          CPU    `json:"cpu"`
	MemoryBytes  int64  `json:"memoryBytes,omitempty"`
	NICs         []NIC  `json:"nics,omitempty"`
	Disks        []Disk `json:"disks,omitempty"`
	// StorageWithoutDriver are the PCI storage controllers that no driver of the agent's
	// kernel has taken, or with host-managed zoned disks: Disks has none of those. Null: it
	// did not look.
	StorageWithoutDriver []PCIDevice `json:"storageWithoutDriver"`
}

// PCIDevice is one function of a device on a PCI bus.
type PCIDevice struct {
	// Address is domain:bus:device.function, ID vendor:device, in lower-case hexadecimal.
	Address string `json:"address"`
	ID      string `json:"id,omitempty"`
}

// CPU sums up the processors.
type CPU struct {
	Model string `json:"model,omitempty"`
	// Cores are physical cores, Threads logical processors, over all sockets.
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
	// SpeedMbps is 0 when unknown; Carrier says whether a link is there.
	SpeedMbps int32    `json:"speedMbps,omitempty"`
	Carrier   bool     `json:"carrier,omitempty"`
	Driver    string   `json:"driver,omitempty"`
	PCI       string   `json:"pci,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
}

// Disk is one whole, writable, non-removable block device.
type Disk struct {
	// Name is the kernel's name during this boot ("/dev/sda"); it identifies nothing.
	Name   string `json:"name"`
	Model  string `json:"model,omitempty"`
	Vendor string `json:"vendor,omitempty"`
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	HCTL   string `json:"hctl,omitempty"`
	// Path is the place on the buses, which tells apart what has no name of its own, ByPath
	// the name that udev gives the disk below /dev/disk/by-path, where that is known.
	Path       string `json:"path,omitempty"`
	ByPath     string `json:"byPath,omitempty"`
	SizeBytes  int64  `json:"sizeBytes"`
	Rotational bool   `json:"rotational,omitempty"`
	// Marker is the Ingot marker found on the disk, if any (I8).
	Marker *Marker `json:"marker,omitempty"`
}

// Ref returns what names this disk over reboots.
func (d Disk) Ref() DiskRef {
	ref := DiskRef{Serial: d.Serial, WWN: d.WWN, SizeBytes: d.SizeBytes}
	if d.Serial == "" && d.WWN == "" {
		ref.Path = d.Path
	}
	return ref
}

// Matches says whether every field that is set in the reference is the disk's.
// A reference that names nothing matches nothing.
func (r DiskRef) Matches(d Disk) bool {
	if r.Serial == "" && r.WWN == "" && r.Path == "" {
		return false
	}
	return (r.Serial == "" || r.Serial == d.Serial) &&
		(r.WWN == "" || r.WWN == d.WWN) &&
		(r.Path == "" || r.Path == d.Path) &&
		(r.SizeBytes == 0 || r.SizeBytes == d.SizeBytes)
}

// MarkerOffset is where the marker lies on the disk, in bytes: the last 4 KiB
// before the first MiB. Partitions start at 1 MiB or later, and boot code in the
// gap before them (GRUB's core image, a BIOS boot partition) does not reach that
// far; a file system grown to the end of the disk does not touch it either.
const (
	MarkerOffset = 1<<20 - MarkerSize
	MarkerSize   = 4096
)

// DamagedMarker begins the name of a damaged marker, which stands for the instance whose
// it was: it goes on with 16 hexadecimal digits of a hash of what is there, so that who
// releases it (ReleasedInstances) has seen it.
const DamagedMarker = "damaged-"

// Marker is written to a disk that Ingot installs, before its first other byte
// and again at the end: it says which instance owns the bytes (I8).
type Marker struct {
	InstanceID string `json:"instanceID"`
	Attempt    int32  `json:"attempt"`
	// Complete is false from the first write of an install until its last.
	Complete bool `json:"complete"`
}
