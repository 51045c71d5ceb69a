// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// CleaningMode is how a host is cleaned when it is released.
// +kubebuilder:validation:Enum=None;Metadata;Full
type CleaningMode string

// The cleaning modes.
const (
	// CleaningNone leaves the disks as they are. The host then serves only the
	// cluster it served before (I12).
	CleaningNone CleaningMode = "None"
	// CleaningMetadata removes partition tables and signatures of every disk.
	CleaningMetadata CleaningMode = "Metadata"
	// CleaningFull erases the content of every disk, by the best means that it has:
	// minutes for flash, many hours for large spinning disks.
	CleaningFull CleaningMode = "Full"
)

// DiskCleaning chooses the cleaning of the disks that its hints describe.
// +kubebuilder:validation:XValidation:rule="!has(self.hints.deviceName) && !has(self.hints.hctl)",fieldPath=".hints",message="must not have deviceName or hctl: at the next boot they may be another disk's, which would then be cleaned otherwise than meant; use serialNumber, wwn, or what describes the disk"
type DiskCleaning struct {
	// hints that a disk must fulfil, all of them. Unlike root device hints they may hold
	// for several disks, and deviceName and hctl are not possible: at the boot at which a
	// host is cleaned another disk may have that name or address, or be at that place.
	// +required
	Hints RootDeviceHints `json:"hints,omitempty,omitzero"`
	// mode of cleaning: Metadata or Full. None is not possible for single disks: what
	// would be left on them would be the next cluster's.
	// +required
	// +kubebuilder:validation:XValidation:rule="self != 'None'",message="must be Metadata or Full: what is left on a disk would be the next cluster's; to leave all disks, set cleaning to None"
	Mode CleaningMode `json:"mode,omitempty"`
}

// RootDeviceHints choose one disk. A disk is chosen when every hint that is set
// holds; where several do, the smallest one that is big enough, then the first by
// serial number, WWN and path. At least one hint is set.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.wwnVendorExtension) || !has(self.wwnWithExtension) || self.wwnWithExtension.lowerAscii().endsWith(self.wwnVendorExtension.lowerAscii().substring(2))",fieldPath=".wwnVendorExtension",messageExpression="self.wwnVendorExtension + ' is not the end of wwnWithExtension ' + self.wwnWithExtension + ', so no disk has both; correct or remove one'"
// +kubebuilder:validation:XValidation:rule="!has(self.wwn) || !has(self.wwnWithExtension) || self.wwnWithExtension.lowerAscii().startsWith(self.wwn.lowerAscii())",fieldPath=".wwn",messageExpression="self.wwn + ' is not the beginning of wwnWithExtension ' + self.wwnWithExtension + ', so no disk has both; correct or remove one'"
type RootDeviceHints struct {
	// deviceName is the kernel's name, for example "/dev/sda", or the disk's place, as
	// udev names it below /dev/disk/by-path, for example
	// "/dev/disk/by-path/pci-0000:00:1f.2-ata-1". The kernel's names change between boots:
	// prefer a place, a serial number or a WWN.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=274
	// +kubebuilder:validation:XValidation:rule="self.matches('^/dev/([A-Za-z0-9._-]+/)?[A-Za-z0-9._-]+$') && !self.matches('^/dev/(disk|mapper|md)/') || self.matches('^/dev/disk/by-path/[A-Za-z0-9._:+-]+$')",message="must be a kernel name such as /dev/sda, or a place such as /dev/disk/by-path/pci-0000:00:1f.2-ata-1; for other paths below /dev/disk use serialNumber or wwn"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^/dev/disk/by-path/.*-part[0-9]+$')",messageExpression="self + ' is a partition: it must be the name of the whole disk, without -part and its number'"
	DeviceName string `json:"deviceName,omitempty"`
	// hctl is the SCSI address host:channel:target:lun.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+:[0-9]+:[0-9]+:[0-9]+$')",message="must be host:channel:target:lun in numbers, for example 2:0:0:0"
	HCTL string `json:"hctl,omitempty"`
	// model is a part of the model's name, in any case.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model,omitempty"`
	// vendor is a part of the vendor's name, in any case.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Vendor string `json:"vendor,omitempty"`
	// serialNumber is the whole serial number.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the World Wide Name: the whole one, or, of one with a vendor's extension
	// (NAA 6, 32 digits), its first 16 digits, as udev's ID_WWN has it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	WWN string `json:"wwn,omitempty"`
	// wwnWithExtension is the World Wide Name with the vendor's extension, as udev's
	// ID_WWN_WITH_EXTENSION has it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=34
	// +kubebuilder:validation:XValidation:rule="self.matches('^0x[0-9a-fA-F]{16}([0-9a-fA-F]{16})?$')",message="must be 0x and 16 or 32 hexadecimal digits, as lsblk -o WWN or udev's ID_WWN_WITH_EXTENSION shows them; for other names (eui., nvme.) use wwn"
	WWNWithExtension string `json:"wwnWithExtension,omitempty"`
	// wwnVendorExtension is the vendor's extension alone, as udev's
	// ID_WWN_VENDOR_EXTENSION has it: the last 16 digits of a name with 32.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="self.matches('^0x[0-9a-fA-F]{16}$')",message="must be 0x and 16 hexadecimal digits, as udev's ID_WWN_VENDOR_EXTENSION shows them"
	WWNVendorExtension string `json:"wwnVendorExtension,omitempty"`
	// minSize is the smallest size that a disk may have, as a quantity, for example 480G.
	// Unset: the disk has at least 8G.
	// +optional
	MinSize *resource.Quantity `json:"minSize,omitempty"`
	// maxSize is the largest size that a disk may have, as a quantity. Unset: no limit.
	// +optional
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`
	// rotational asks for a spinning disk (true) or a flash disk (false).
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
}
