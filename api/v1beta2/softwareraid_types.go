// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// SoftwareRAIDLevel is the level of a software RAID.
// +kubebuilder:validation:Enum=RAID1
type SoftwareRAIDLevel string

// SoftwareRAIDLevel1 mirrors the image on two disks. The server can boot from either disk.
const SoftwareRAIDLevel1 SoftwareRAIDLevel = "RAID1"

// SoftwareRAID installs the image on a Linux MD array of whole disks (metadata 1.0). The image and
// its initramfs must contain mdadm. The array is about 2 MiB smaller than the smallest disk.
type SoftwareRAID struct {
	// level is the RAID level. The only level is RAID1, a mirror of two disks.
	// +required
	Level SoftwareRAIDLevel `json:"level,omitempty"`

	// members are the root device hints of the two disks. Set them if one set of hints cannot
	// select both disks. If unset, Ingot selects the two smallest disks of equal size that match
	// rootDeviceHints. If no two disks have the same size, Ingot selects the two smallest disks.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="size(self) != 2 || !has(self[0].serialNumber) || !has(self[1].serialNumber) || self[0].serialNumber != self[1].serialNumber",messageExpression="'serialNumber ' + self[0].serialNumber + ' must not be the same in both members; select another disk in one of them'"
	// +kubebuilder:validation:XValidation:rule="size(self) != 2 || !has(self[0].deviceName) || !has(self[1].deviceName) || self[0].deviceName != self[1].deviceName",messageExpression="'deviceName ' + self[0].deviceName + ' must not be the same in both members; select another disk in one of them'"
	// +kubebuilder:validation:XValidation:rule="size(self) != 2 || !has(self[0].hctl) || !has(self[1].hctl) || self[0].hctl != self[1].hctl",messageExpression="'hctl ' + self[0].hctl + ' must not be the same in both members; select another disk in one of them'"
	Members []RootDeviceHints `json:"members,omitempty"`
}
