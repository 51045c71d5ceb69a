// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// SoftwareRAIDLevel says how the disks of a software RAID hold the image.
// +kubebuilder:validation:Enum=RAID1
type SoftwareRAIDLevel string

// SoftwareRAIDLevel1 has the image on each of two disks, from either of which the server
// boots.
const SoftwareRAIDLevel1 SoftwareRAIDLevel = "RAID1"

// SoftwareRAID has the image installed on several disks at once. It is a Linux MD array of
// whole disks (metadata 1.0), which the image's system assembles: mdadm must be in the
// image, also in its initramfs. The array is about 2 MiB smaller than the smallest disk.
type SoftwareRAID struct {
	// level is RAID1: a mirror of two disks.
	// +required
	Level SoftwareRAIDLevel `json:"level,omitempty"`

	// members are root device hints of the one and of the other disk, where the two are not
	// alike. Unset: the two smallest disks of one size that rootDeviceHints choose; where no
	// two have the same size, the two smallest.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="size(self) != 2 || !has(self[0].serialNumber) || !has(self[1].serialNumber) || self[0].serialNumber != self[1].serialNumber",messageExpression="'serialNumber ' + self[0].serialNumber + ' must not be that of both members: one disk is no mirror; name another disk in one of them'"
	// +kubebuilder:validation:XValidation:rule="size(self) != 2 || !has(self[0].deviceName) || !has(self[1].deviceName) || self[0].deviceName != self[1].deviceName",messageExpression="'deviceName ' + self[0].deviceName + ' must not be that of both members: one disk is no mirror; name another disk in one of them'"
	// +kubebuilder:validation:XValidation:rule="size(self) != 2 || !has(self[0].hctl) || !has(self[1].hctl) || self[0].hctl != self[1].hctl",messageExpression="'hctl ' + self[0].hctl + ' must not be that of both members: one disk is no mirror; name another disk in one of them'"
	Members []RootDeviceHints `json:"members,omitempty"`
}
