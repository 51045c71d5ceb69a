// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IngotHardwareSpec holds the facts of one host and the address recorded for it.
// They stand in spec so that they survive a move. Only Ingot writes it.
type IngotHardwareSpec struct {
	// system identifies the server.
	// +optional
	System HardwareSystem `json:"system,omitempty,omitzero"`
	// architecture in Go's terms.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64
	Architecture string `json:"architecture,omitempty"`
	// bootMode is how the inspected boot was started.
	// +optional
	BootMode BootMode `json:"bootMode,omitempty"`
	// cpu sums up the processors.
	// +optional
	CPU HardwareCPU `json:"cpu,omitempty,omitzero"`
	// memoryBytes is the usable memory.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// nics with a permanent MAC address, keyed by it.
	// +optional
	// +listType=map
	// +listMapKey=mac
	// +kubebuilder:validation:MaxItems=64
	NICs []HardwareNIC `json:"nics,omitempty"`
	// disks that are whole, writable and not removable, keyed by the kernel's name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Disks []HardwareDisk `json:"disks,omitempty"`
	// storageWithoutDriver are the PCI storage controllers that no driver of the agent's
	// kernel has taken, or that have host-managed zoned (SMR) disks: those disks are not
	// among disks, and are not cleaned.
	// +optional
	// +listType=map
	// +listMapKey=address
	// +kubebuilder:validation:MaxItems=32
	StorageWithoutDriver []HardwareController `json:"storageWithoutDriver,omitempty"`
	// address recorded for the boot NIC: it stays with its MAC address until the
	// host is deleted.
	// +optional
	Address *RecordedAddress `json:"address,omitempty"`
	// ipv6Address recorded for the boot NIC besides, on a network that gives some.
	// +optional
	IPv6Address *RecordedAddress `json:"ipv6Address,omitempty"`
	// bmc is the certificate that the host's BMC presented at its first use. It counts
	// while the host's spec.bmc has trustOnFirstUse and this address.
	// +optional
	BMC *PinnedBMC `json:"bmc,omitempty"`
	// booted is what the installed system said of itself. A system says it once, so
	// that it stands here, where neither a lost status nor a move forgets it. It
	// counts while the host's claim has its instanceID.
	// +optional
	Booted *BootedSystem `json:"booted,omitempty"`
}

// HardwareSystem identifies a server.
type HardwareSystem struct {
	// uuid of SMBIOS, lower case.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UUID string `json:"uuid,omitempty"`
	// serialNumber of the system.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// manufacturer of the system.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Manufacturer string `json:"manufacturer,omitempty"`
	// product is the model's name.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Product string `json:"product,omitempty"`
}

// HardwareCPU sums up the processors.
type HardwareCPU struct {
	// model of the first processor.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// sockets, physical cores and logical processors of the whole server.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Sockets int32 `json:"sockets,omitempty"`
	// cores counts physical cores.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Cores int32 `json:"cores,omitempty"`
	// threads counts logical processors.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Threads int32 `json:"threads,omitempty"`
}

// HardwareNIC is one network interface.
type HardwareNIC struct {
	// mac is the permanent address, lower case with colons.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{2}(:[0-9a-f]{2}){5}$')",message="must be a MAC address in lower case with colons, for example 52:54:00:12:34:56"
	MAC string `json:"mac,omitempty"`
	// name by the agent's kernel.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`
	// speedMbps is 0 when unknown.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SpeedMbps int32 `json:"speedMbps,omitempty"`
	// carrier says whether a link was seen.
	// +optional
	Carrier *bool `json:"carrier,omitempty"`
	// driver of the agent's kernel.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Driver string `json:"driver,omitempty"`
	// pci is the bus address.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PCI string `json:"pci,omitempty"`
	// addresses that the agent had on the NIC when it last read the hardware, without prefix
	// length.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:MinLength=1
	Addresses []string `json:"addresses,omitempty"`
}

// HardwareController is one PCI device that controls disks.
type HardwareController struct {
	// address on the bus, as domain:bus:device.function.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address,omitempty"`
	// id is vendor:device, as lspci -nn shows it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id,omitempty"`
}

// HardwareDisk is one disk.
type HardwareDisk struct {
	// name by the agent's kernel, for example "/dev/nvme0n1".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`
	// model's name.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// vendor's name.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Vendor string `json:"vendor,omitempty"`
	// serialNumber of the disk.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the World Wide Name.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	WWN string `json:"wwn,omitempty"`
	// hctl is the SCSI address.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	HCTL string `json:"hctl,omitempty"`
	// path is the bus path.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path,omitempty"`
	// byPath is the name that udev gives the disk below /dev/disk/by-path.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ByPath string `json:"byPath,omitempty"`
	// sizeBytes of the disk.
	// +required
	// +kubebuilder:validation:Minimum=0
	SizeBytes *int64 `json:"sizeBytes,omitempty"`
	// rotational says whether it spins.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
}

// RecordedAddress is an address given to the boot NIC for good.
type RecordedAddress struct {
	// networkName is the IngotNetwork that it was taken from.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NetworkName string `json:"networkName,omitempty"`
	// mac is the boot NIC's address.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{2}(:[0-9a-f]{2}){5}$')",message="must be a MAC address in lower case with colons, for example 52:54:00:12:34:56"
	MAC string `json:"mac,omitempty"`
	// ip without prefix length.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an IP address without prefix length, for example 10.10.0.20"
	IP string `json:"ip,omitempty"`
}

// SentinelState says whether a bootstrap provider has left its sentinel file.
// +kubebuilder:validation:Enum=Present;Missing
type SentinelState string

const (
	// SentinelPresent: the bootstrap has succeeded.
	SentinelPresent SentinelState = "Present"
	// SentinelMissing: the bootstrap has failed, where it was that of a provider that leaves
	// the file; not all do.
	SentinelMissing SentinelState = "Missing"
)

// BootedSystem is the report of an installed system.
type BootedSystem struct {
	// instanceID of the claim under which the system was installed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be a UUID in lower case"
	InstanceID string `json:"instanceID,omitempty"`
	// hostname of the system.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Hostname string `json:"hostname,omitempty"`
	// reportTime of the first report.
	// +required
	ReportTime metav1.Time `json:"reportTime,omitempty,omitzero"`
	// addresses of the system, without prefix length.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:MinLength=1
	Addresses []string `json:"addresses,omitempty"`
	// interrupted tells that the first boot ended before cloud-init did, which leaves out
	// for good what it had begun in it.
	// +optional
	Interrupted *bool `json:"interrupted,omitempty"`
	// sentinel tells whether the file by which bootstrap providers say that they have
	// succeeded (/run/cluster-api/bootstrap-success.complete) was there when cloud-init had
	// ended in the first boot. Empty: not known, as of images without cloud-init.
	// +optional
	Sentinel SentinelState `json:"sentinel,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ingothardwares,shortName=ihw,scope=Namespaced,categories=ingot
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move-hierarchy="
// +kubebuilder:printcolumn:name="Manufacturer",type=string,JSONPath=`.spec.system.manufacturer`
// +kubebuilder:printcolumn:name="Product",type=string,JSONPath=`.spec.system.product`
// +kubebuilder:printcolumn:name="Serial",type=string,JSONPath=`.spec.system.serialNumber`
// +kubebuilder:printcolumn:name="Arch",type=string,JSONPath=`.spec.architecture`
// +kubebuilder:printcolumn:name="Cores",type=integer,JSONPath=`.spec.cpu.cores`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.address.ip`
// +kubebuilder:printcolumn:name="IPv6",type=string,JSONPath=`.spec.ipv6Address.ip`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// IngotHardware holds the facts of the IngotHost of the same name, which owns it.
type IngotHardware struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the facts.
	// +optional
	Spec IngotHardwareSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// IngotHardwareList is a list of IngotHardwares.
type IngotHardwareList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngotHardware `json:"items"`
}
