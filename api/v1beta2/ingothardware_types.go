// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IngotHardwareSpec contains the hardware inventory of one host and the addresses recorded for it.
// The data is in spec so that clusterctl move preserves it. Only Ingot writes it.
type IngotHardwareSpec struct {
	// system identifies the server by its SMBIOS data.
	// +optional
	System HardwareSystem `json:"system,omitempty,omitzero"`
	// architecture is the processor architecture as a GOARCH value, either amd64 or arm64.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64
	Architecture string `json:"architecture,omitempty"`
	// bootMode is the firmware mode in which the agent was booted for the last inspection.
	// +optional
	BootMode BootMode `json:"bootMode,omitempty"`
	// cpu summarizes the processors of the server.
	// +optional
	CPU HardwareCPU `json:"cpu,omitempty,omitzero"`
	// memoryBytes is the memory that the operating system can use, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// nics lists the network interfaces that have a permanent MAC address.
	// +optional
	// +listType=map
	// +listMapKey=mac
	// +kubebuilder:validation:MaxItems=64
	NICs []HardwareNIC `json:"nics,omitempty"`
	// disks lists the whole disks that are writable and not removable.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Disks []HardwareDisk `json:"disks,omitempty"`
	// storageWithoutDriver lists the PCI storage controllers whose disks the agent cannot use.
	// Either the agent's kernel has no driver, or the disks are host-managed zoned (SMR). These
	// disks are not in disks, and Ingot does not clean them.
	// +optional
	// +listType=map
	// +listMapKey=address
	// +kubebuilder:validation:MaxItems=32
	StorageWithoutDriver []HardwareController `json:"storageWithoutDriver,omitempty"`
	// address is the IPv4 address recorded for the boot NIC. It belongs to the NIC's MAC address
	// until the host is deleted.
	// +optional
	Address *RecordedAddress `json:"address,omitempty"`
	// ipv6Address is the IPv6 address recorded for the boot NIC, if the IngotNetwork assigns IPv6
	// addresses.
	// +optional
	IPv6Address *RecordedAddress `json:"ipv6Address,omitempty"`
	// bmc is the certificate that the BMC presented on first use. It applies while spec.bmc of the
	// host sets trustOnFirstUse and has the same address.
	// +optional
	BMC *PinnedBMC `json:"bmc,omitempty"`
	// booted is the first report of the installed system. The system reports only once, so Ingot
	// stores the report here. It applies while the host's claim has the same instanceID.
	// +optional
	Booted *BootedSystem `json:"booted,omitempty"`
}

// HardwareSystem identifies a server.
// +kubebuilder:validation:MinProperties=1
type HardwareSystem struct {
	// uuid is the SMBIOS UUID in lowercase.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UUID string `json:"uuid,omitempty"`
	// serialNumber is the serial number of the server.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// manufacturer is the manufacturer of the server.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Manufacturer string `json:"manufacturer,omitempty"`
	// product is the product name of the server.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Product string `json:"product,omitempty"`
}

// HardwareCPU summarizes the processors of a server.
// +kubebuilder:validation:MinProperties=1
type HardwareCPU struct {
	// model is the model name of the first processor.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// sockets is the number of processors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Sockets int32 `json:"sockets,omitempty"`
	// cores is the number of physical cores of all processors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Cores int32 `json:"cores,omitempty"`
	// threads is the number of logical processors of all processors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Threads int32 `json:"threads,omitempty"`
}

// HardwareNIC describes one network interface.
type HardwareNIC struct {
	// mac is the permanent MAC address in lowercase with colons.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{2}(:[0-9a-f]{2}){5}$')",message="must be a MAC address in lower case with colons, for example 52:54:00:12:34:56"
	MAC string `json:"mac,omitempty"`
	// name is the interface name in the agent's kernel.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`
	// speedMbps is the link speed in Mbit/s. If unset, the speed is unknown.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SpeedMbps int32 `json:"speedMbps,omitempty"`
	// carrier reports whether the interface had a link during the inspection.
	// +optional
	Carrier *bool `json:"carrier,omitempty"`
	// driver is the name of the kernel driver of the agent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Driver string `json:"driver,omitempty"`
	// pci is the PCI address of the interface, for example 0000:3b:00.0.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	PCI string `json:"pci,omitempty"`
	// addresses lists the IP addresses of the interface, without prefix length, at the time of the
	// last inspection.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:MinLength=1
	Addresses []string `json:"addresses,omitempty"`
}

// HardwareController describes one PCI storage controller.
type HardwareController struct {
	// address is the PCI address of the controller in the form domain:bus:device.function.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address,omitempty"`
	// id is the PCI vendor and device ID, for example 8086:2822. The command lspci -nn prints the
	// same form.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id,omitempty"`
}

// HardwareDisk describes one disk.
type HardwareDisk struct {
	// name is the kernel name of the disk during the inspection, for example "/dev/nvme0n1".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`
	// model is the model name of the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// vendor is the vendor name of the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Vendor string `json:"vendor,omitempty"`
	// serialNumber is the serial number of the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the World Wide Name of the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	WWN string `json:"wwn,omitempty"`
	// hctl is the SCSI address of the disk in the form host:channel:target:lun.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	HCTL string `json:"hctl,omitempty"`
	// path is the bus path of the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path,omitempty"`
	// byPath is the name of the disk below /dev/disk/by-path.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ByPath string `json:"byPath,omitempty"`
	// sizeBytes is the size of the disk in bytes.
	// +required
	// +kubebuilder:validation:Minimum=0
	SizeBytes *int64 `json:"sizeBytes,omitempty"`
	// rotational reports whether the disk is a spinning disk.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
}

// RecordedAddress is an IP address that Ingot assigned permanently to the boot NIC of a host.
type RecordedAddress struct {
	// networkName is the name of the IngotNetwork from which the address was taken.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NetworkName string `json:"networkName,omitempty"`
	// mac is the MAC address of the boot NIC.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{2}(:[0-9a-f]{2}){5}$')",message="must be a MAC address in lower case with colons, for example 52:54:00:12:34:56"
	MAC string `json:"mac,omitempty"`
	// ip is the IP address without prefix length.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an IP address without prefix length, for example 10.10.0.20"
	IP string `json:"ip,omitempty"`
}

// SentinelState reports whether the bootstrap provider's sentinel file exists.
// +kubebuilder:validation:Enum=Present;Missing
type SentinelState string

const (
	// SentinelPresent means that the bootstrap succeeded.
	SentinelPresent SentinelState = "Present"
	// SentinelMissing means that the bootstrap failed, if the bootstrap provider writes the file.
	// Not all providers do.
	SentinelMissing SentinelState = "Missing"
)

// BootedSystem is the first report of an installed system.
type BootedSystem struct {
	// instanceID is the instanceID of the claim under which the system was installed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be a UUID in lower case"
	InstanceID string `json:"instanceID,omitempty"`
	// hostname is the hostname of the system.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Hostname string `json:"hostname,omitempty"`
	// reportTime is the time of the first report.
	// +required
	ReportTime metav1.Time `json:"reportTime,omitempty,omitzero"`
	// addresses lists the IP addresses of the system without prefix length.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:MinLength=1
	Addresses []string `json:"addresses,omitempty"`
	// interrupted reports whether the first boot ended before cloud-init finished. cloud-init does
	// not repeat the steps that it had started.
	// +optional
	Interrupted *bool `json:"interrupted,omitempty"`
	// sentinel reports whether the file /run/cluster-api/bootstrap-success.complete existed when
	// cloud-init finished the first boot. Bootstrap providers create this file on success. If
	// unset, the state is unknown, for example if the image has no cloud-init.
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

// IngotHardware contains the hardware inventory of the IngotHost that has the same name and owns
// it.
type IngotHardware struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the hardware inventory. Only Ingot writes it.
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
