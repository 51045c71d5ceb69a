// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// CleaningMode defines how Ingot cleans the disks of a host when a machine releases the host.
// +kubebuilder:validation:Enum=None;Metadata;Full
type CleaningMode string

// The cleaning modes.
const (
	// CleaningNone leaves the disks unchanged. The host is then available only to the cluster that
	// used it last (I12).
	CleaningNone CleaningMode = "None"
	// CleaningMetadata removes partition tables and file system signatures from every disk.
	CleaningMetadata CleaningMode = "Metadata"
	// CleaningFull erases the content of every disk with the best method that the disk supports.
	// Flash disks take minutes, large spinning disks take many hours.
	CleaningFull CleaningMode = "Full"
)

// DiskCleaning sets the cleaning mode of the disks that match its hints.
// +kubebuilder:validation:XValidation:rule="!has(self.hints.deviceName) && !has(self.hints.hctl)",fieldPath=".hints",message="must not have deviceName or hctl, because they can refer to another disk after a reboot; use serialNumber, wwn or other properties of the disk"
type DiskCleaning struct {
	// hints selects the disks. A disk must match every hint that is set, and several disks can
	// match. The hints deviceName and hctl are not allowed, because they can refer to another disk
	// after a reboot.
	// +required
	Hints RootDeviceHints `json:"hints,omitempty,omitzero"`
	// mode is the cleaning mode of these disks, either Metadata or Full. None is not allowed,
	// because the next cluster could read the data that remains.
	// +required
	// +kubebuilder:validation:XValidation:rule="self != 'None'",message="must be Metadata or Full, because the next cluster could read remaining data; to clean no disk at all, set cleaning to None"
	Mode CleaningMode `json:"mode,omitempty"`
}

// RootDeviceHints select one disk. A disk matches if it matches every hint that is set. If several
// disks match, Ingot selects the smallest disk of sufficient size. If these have the same size,
// Ingot selects the first disk by serial number, WWN and path. At least one hint must be set.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.wwnVendorExtension) || !has(self.wwnWithExtension) || self.wwnWithExtension.lowerAscii().endsWith(self.wwnVendorExtension.lowerAscii().substring(2))",fieldPath=".wwnVendorExtension",messageExpression="self.wwnVendorExtension + ' is not the end of wwnWithExtension ' + self.wwnWithExtension + ', so that no disk matches both; correct or remove one of them'"
// +kubebuilder:validation:XValidation:rule="!has(self.wwn) || !has(self.wwnWithExtension) || self.wwnWithExtension.lowerAscii().startsWith(self.wwn.lowerAscii())",fieldPath=".wwn",messageExpression="self.wwn + ' is not the beginning of wwnWithExtension ' + self.wwnWithExtension + ', so that no disk matches both; correct or remove one of them'"
type RootDeviceHints struct {
	// deviceName is either the kernel name of the disk or its path below /dev/disk/by-path.
	// Examples are "/dev/sda" and "/dev/disk/by-path/pci-0000:00:1f.2-ata-1". Kernel names can
	// change between boots. Prefer a by-path name, serialNumber or wwn.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=274
	// +kubebuilder:validation:XValidation:rule="self.matches('^/dev/([A-Za-z0-9._-]+/)?[A-Za-z0-9._-]+$') && !self.matches('^/dev/(disk|mapper|md)/') || self.matches('^/dev/disk/by-path/[A-Za-z0-9._:+-]+$')",message="must be a kernel name such as /dev/sda, or a path such as /dev/disk/by-path/pci-0000:00:1f.2-ata-1; for other paths below /dev/disk use serialNumber or wwn"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^/dev/disk/by-path/.*-part[0-9]+$')",messageExpression="self + ' is a partition; set the name of the whole disk, without -part and its number'"
	DeviceName string `json:"deviceName,omitempty"`
	// hctl is the SCSI address of the disk in the form host:channel:target:lun.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+:[0-9]+:[0-9]+:[0-9]+$')",message="must be host:channel:target:lun in numbers, for example 2:0:0:0"
	HCTL string `json:"hctl,omitempty"`
	// model is a substring of the model name. Case is ignored.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model,omitempty"`
	// vendor is a substring of the vendor name. Case is ignored.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Vendor string `json:"vendor,omitempty"`
	// serialNumber is the complete serial number of the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the World Wide Name of the disk. If the name has a vendor extension (NAA 6, 32
	// digits), the first 16 digits also match. udev reports them as ID_WWN.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	WWN string `json:"wwn,omitempty"`
	// wwnWithExtension is the World Wide Name with its vendor extension. udev reports it as
	// ID_WWN_WITH_EXTENSION.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=34
	// +kubebuilder:validation:XValidation:rule="self.matches('^0x[0-9a-fA-F]{16}([0-9a-fA-F]{16})?$')",message="must be 0x and 16 or 32 hexadecimal digits, as lsblk -o WWN or udev's ID_WWN_WITH_EXTENSION shows them; for other names (eui., nvme.) use wwn"
	WWNWithExtension string `json:"wwnWithExtension,omitempty"`
	// wwnVendorExtension is the vendor extension of the World Wide Name: the last 16 of its 32
	// digits. udev reports it as ID_WWN_VENDOR_EXTENSION.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="self.matches('^0x[0-9a-fA-F]{16}$')",message="must be 0x and 16 hexadecimal digits, as udev's ID_WWN_VENDOR_EXTENSION shows them"
	WWNVendorExtension string `json:"wwnVendorExtension,omitempty"`
	// minSize is the minimum size of the disk as a quantity, for example 480G. The default is 8G.
	// +optional
	MinSize *resource.Quantity `json:"minSize,omitempty"`
	// maxSize is the maximum size of the disk as a quantity, for example 2T. If unset, the size is
	// not limited.
	// +optional
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`
	// rotational selects spinning disks if true and flash disks if false. If unset, both match.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
}
