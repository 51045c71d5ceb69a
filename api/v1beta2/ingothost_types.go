// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BootMode is the firmware mode of a server.
// +kubebuilder:validation:Enum=UEFI;UEFISecureBoot;BIOS
type BootMode string

// The boot modes.
const (
	BootModeUEFI BootMode = "UEFI"
	// BootModeUEFISecureBoot is UEFI with Secure Boot: the firmware starts only binaries that are
	// signed by an enrolled key.
	BootModeUEFISecureBoot BootMode = "UEFISecureBoot"
	BootModeBIOS           BootMode = "BIOS"
)

// BootMethod is the method by which a server boots the agent.
// +kubebuilder:validation:Enum=PXE;HTTP;VirtualMedia
type BootMethod string

// The boot methods.
const (
	// BootMethodPXE is DHCP and TFTP, then a boot loader and HTTP.
	BootMethodPXE BootMethod = "PXE"
	// BootMethodHTTP is UEFI HTTP Boot of one image. The BMC passes the image's URL to the firmware
	// (Redfish HttpBootUri).
	BootMethodHTTP BootMethod = "HTTP"
	// BootMethodVirtualMedia is a CD image built for the host, which the BMC inserts into a virtual
	// drive.
	BootMethodVirtualMedia BootMethod = "VirtualMedia"
)

// BootTrust is the level of trust in the network boots of a host.
// +kubebuilder:validation:Enum=Network;Verified
type BootTrust string

// The levels of boot trust.
const (
	// BootTrustNetwork trusts the provisioning network. An attacker who can send frames on this
	// network can boot another program instead of the agent.
	BootTrustNetwork BootTrust = "Network"
	// BootTrustVerified means that the boot does not depend on the provisioning network. Either the
	// BMC receives the boot URL over verified TLS, or the firmware verifies a signature.
	BootTrustVerified BootTrust = "Verified"
)

// BootLoader is a build of the boot loader.
// +kubebuilder:validation:Enum=Small;Full;Signed
type BootLoader string

// The boot loaders.
const (
	BootLoaderSmall BootLoader = "Small"
	BootLoaderFull  BootLoader = "Full"
	// BootLoaderSigned is shim and GRUB, signed by Microsoft and Debian.
	BootLoaderSigned BootLoader = "Signed"
)

// PowerIntent is the desired power state of a host.
// +kubebuilder:validation:Enum=On;Off
type PowerIntent string

// The desired power states.
const (
	PowerIntentOn  PowerIntent = "On"
	PowerIntentOff PowerIntent = "Off"
)

// IngotHostSpec defines the desired state of an IngotHost. The fields claim, record, order and
// commands contain persistent state that only Ingot writes.
// +kubebuilder:validation:XValidation:rule="has(self.bmc) || !(has(self.bios) || has(self.firmware))",fieldPath=".bmc",message="is required with bios or firmware: Ingot applies them by the BMC; set spec.bmc, or remove bios and firmware"
// +kubebuilder:validation:XValidation:rule="has(self.bmc) || !has(self.bootMethod) || self.bootMethod == 'PXE'",fieldPath=".bootMethod",messageExpression="self.bootMethod + ' requires spec.bmc; set spec.bmc, or remove bootMethod'"
// +kubebuilder:validation:XValidation:rule="!has(self.bootMethod) || self.bootMethod == 'PXE' || !has(self.bootMode) || self.bootMode != 'BIOS'",fieldPath=".bootMethod",messageExpression="self.bootMethod + ' requires UEFI; set bootMode to UEFI, or remove bootMethod'"
// +kubebuilder:validation:XValidation:rule="!has(self.bootMode) || self.bootMode != 'UEFISecureBoot' || (has(self.bootMethod) && self.bootMethod != 'PXE') || !has(self.bootLoader) || self.bootLoader == 'Signed'",fieldPath=".bootLoader",messageExpression="self.bootLoader + ' is not signed, and Secure Boot rejects it; set bootLoader to Signed or remove it, or correct bootMode'"
// +kubebuilder:validation:XValidation:rule="!has(self.bootLoader) || self.bootLoader != 'Signed' || !has(self.bootMode) || self.bootMode != 'BIOS'",fieldPath=".bootLoader",message="must not be Signed with bootMode BIOS; set bootMode to UEFI, or remove bootLoader"
// +kubebuilder:validation:XValidation:rule="has(self.bmc) || !has(self.power)",fieldPath=".power",messageExpression="self.power + ' requires spec.bmc, because Ingot cannot switch a host without a BMC; set spec.bmc, or remove power'"
type IngotHostSpec struct {
	// bmc is the baseboard management controller of the server. A host without a BMC is in phase
	// Unmanaged: Ingot lists it, but does not switch, boot or claim it.
	// +optional
	BMC *BMC `json:"bmc,omitempty"`

	// bootMACAddress is the MAC address of the NIC that boots from the network, in lowercase with
	// colons.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{2}(:[0-9a-f]{2}){5}$')",message="must be a MAC address in lower case with colons, for example 52:54:00:12:34:56"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9a-f][13579bdf]:') && self != '00:00:00:00:00:00'",message="must be the MAC address of one NIC, not a multicast address and not zero; the BMC and the label of the NIC show it"
	BootMACAddress string `json:"bootMACAddress,omitempty"`

	// bootMode is the firmware mode in which the server boots: UEFI, UEFISecureBoot or BIOS. With
	// UEFISecureBoot, Ingot enables Secure Boot by the BMC before each boot of the agent. If the
	// BMC cannot enable it, Ingot does not boot the host. PXE works with the factory keys. HTTP and
	// VirtualMedia require that the key which signed the agent's image is enrolled. The default is
	// UEFI.
	// +optional
	// +kubebuilder:default=UEFI
	BootMode BootMode `json:"bootMode,omitempty"`

	// bootMethod is the method by which the server boots the agent: PXE, HTTP or VirtualMedia. HTTP
	// and VirtualMedia require UEFI and a BMC, and do not use TFTP. A change takes effect at the
	// next boot of the agent. The default is PXE.
	// +optional
	BootMethod BootMethod `json:"bootMethod,omitempty"`

	// bootLoader is the boot loader that the server gets by PXE: Small, Full or Signed. Small uses
	// the NIC driver of the firmware. Full has its own NIC drivers, which helps if the firmware
	// hangs with Small. Signed is shim and GRUB for Secure Boot with Microsoft's keys, for x64 UEFI
	// only. The default is Signed if bootMode is UEFISecureBoot, and Small otherwise.
	// +optional
	BootLoader BootLoader `json:"bootLoader,omitempty"`

	// networkRef references the cluster-scoped IngotNetwork on which the server boots.
	// +required
	NetworkRef NetworkReference `json:"networkRef,omitempty,omitzero"`

	// rootDeviceHints select the disk to which Ingot installs. The hints of an IngotMachine
	// override these hints. If unset, Ingot selects the smallest disk of at least 8 GB.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`

	// power is the desired power state, either On or Off. With Off, Ingot powers the host off,
	// keeps it off and does not claim it. With On, Ingot powers the host on if no work needs it
	// off. If unset, Ingot switches the host as its work requires.
	// +optional
	Power PowerIntent `json:"power,omitempty"`

	// cleaning is how Ingot cleans the disks when a machine releases the host: None, Metadata or
	// Full. The IngotMachine can override it. The default is Metadata.
	// +optional
	// +kubebuilder:default=Metadata
	Cleaning CleaningMode `json:"cleaning,omitempty"`

	// diskCleaning overrides the cleaning mode of single disks. The first entry whose hints match a
	// disk applies. Ingot reads the list when it cleans the host. It has no effect if the effective
	// cleaning mode is None.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	DiskCleaning []DiskCleaning `json:"diskCleaning,omitempty"`

	// maintenance takes the host out of service if true. Ingot does not claim the host and starts
	// no work on it. A claimed host stays with its machine. If the machine is deleted, Ingot powers
	// the host off and cleans it after maintenance ends. The default is false.
	// +optional
	Maintenance *bool `json:"maintenance,omitempty"`

	// bios is the desired BIOS configuration. A free host does not become Available before the
	// settings are applied.
	// +optional
	BIOS *BIOSConfiguration `json:"bios,omitempty"`

	// firmware lists the desired firmware versions. Ingot installs them one after another, on free
	// hosts only. A free host does not become Available before all versions are installed.
	// +optional
	// +listType=map
	// +listMapKey=component
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b.component.lowerAscii() == a.component.lowerAscii()))",message="each component may stand here once, in whatever case: two versions of one would be installed in turn forever; remove one of them"
	Firmware []FirmwareComponent `json:"firmware,omitempty"`

	// claim is the binding to the IngotMachine that uses this host. Only Ingot writes it.
	// +optional
	Claim *HostClaim `json:"claim,omitempty"`

	// record is the persistent state that does not depend on a claim. Only Ingot writes it.
	// +optional
	Record *HostRecord `json:"record,omitempty"`

	// order is the work for which Ingot boots the agent. Only Ingot writes it.
	// +optional
	Order *HostOrder `json:"order,omitempty"`

	// commands lists the latest command of each annotation that Ingot carried out or rejected.
	// Ingot ignores a command that is not newer than its entry. Only Ingot writes it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Commands []HostCommand `json:"commands,omitempty"`
}

// LocalReference references an object in the same namespace.
type LocalReference struct {
	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of an object: lower case letters, digits, - and . (for example rack-a.12)"
	Name string `json:"name,omitempty"`
}

// NetworkReference references a cluster-scoped IngotNetwork.
type NetworkReference struct {
	// name is the name of the IngotNetwork.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of an object: lower case letters, digits, - and . (for example rack-a.12)"
	Name string `json:"name,omitempty"`
}

// IngotHostPhase summarizes the lifecycle of a host for users. Controllers must read the conditions
// instead.
// +kubebuilder:validation:Enum=Registering;Inspecting;Preparing;Available;Provisioning;Provisioned;Deprovisioning;Maintenance;Quarantined;Retired;Unmanaged
type IngotHostPhase string

// The phases of a host.
const (
	PhaseRegistering    IngotHostPhase = "Registering"
	PhaseInspecting     IngotHostPhase = "Inspecting"
	PhasePreparing      IngotHostPhase = "Preparing"
	PhaseAvailable      IngotHostPhase = "Available"
	PhaseProvisioning   IngotHostPhase = "Provisioning"
	PhaseProvisioned    IngotHostPhase = "Provisioned"
	PhaseDeprovisioning IngotHostPhase = "Deprovisioning"
	PhaseMaintenance    IngotHostPhase = "Maintenance"
	PhaseQuarantined    IngotHostPhase = "Quarantined"
	// PhaseRetired is reserved. No host is in this phase.
	PhaseRetired   IngotHostPhase = "Retired"
	PhaseUnmanaged IngotHostPhase = "Unmanaged"
)

// HostPhases are all that a host may be in.
var HostPhases = []IngotHostPhase{
	PhaseRegistering, PhaseInspecting, PhasePreparing, PhaseAvailable, PhaseProvisioning, PhaseProvisioned,
	PhaseDeprovisioning, PhaseMaintenance, PhaseQuarantined, PhaseUnmanaged,
}

// PowerState is the power state that the BMC last reported. On includes the transitions from off to
// on and from on to off.
// +kubebuilder:validation:Enum=On;Off;Unknown
type PowerState string

// The power states of a host.
const (
	PowerStateOn      PowerState = "On"
	PowerStateOff     PowerState = "Off"
	PowerStateUnknown PowerState = "Unknown"
)

// IngotHostStatus defines the observed state of an IngotHost. Ingot can rebuild it at any time.
type IngotHostStatus struct {
	// conditions represents the observations of the host's current state. The condition types are
	// Ready, Paused, BMCReachable, CredentialsValid, CredentialsRotated, Unique, Inspected,
	// Available, Prepared, Provisioned, Cleaned, Fenced, Healthy, BootSecure, NetworkAllowed and
	// Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the latest metadata.generation that Ingot has reconciled. If it is
	// lower than metadata.generation, the status does not reflect the latest spec.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase summarizes the lifecycle of the host for users. Tools must use conditions instead.
	// +optional
	Phase IngotHostPhase `json:"phase,omitempty"`

	// power is the power state that the BMC last reported: On, Off or Unknown.
	// +optional
	Power PowerState `json:"power,omitempty"`

	// hardware summarizes the IngotHardware that has the same name.
	// +optional
	Hardware *HardwareSummary `json:"hardware,omitempty"`

	// failureDomain is the failure domain of the host. A claimed host has the failure domain of its
	// claim. Otherwise it is the value of the label in IngotCluster.spec.failureDomainLabel. If the
	// namespace has no IngotCluster, Ingot reads the rack label.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	FailureDomain string `json:"failureDomain,omitempty"`

	// operation is the work in progress. It is unset if the host has no work.
	// +optional
	Operation *HostOperation `json:"operation,omitempty"`

	// lastResetTime is the time at which Ingot last switched or reset the host. Ingot waits a
	// minimum time between two resets.
	// +optional
	LastResetTime metav1.Time `json:"lastResetTime,omitempty,omitzero"`

	// softPowerOffTime is the time at which Ingot last asked the operating system to shut down. If
	// the host is still on after the timeout, Ingot powers it off.
	// +optional
	SoftPowerOffTime metav1.Time `json:"softPowerOffTime,omitempty,omitzero"`

	// addresses lists the IP addresses that the installed system reported. Before its first report,
	// these are the recorded addresses.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Addresses []string `json:"addresses,omitempty"`

	// booted is the report of the installed system after its first boot.
	// +optional
	Booted *BootedStatus `json:"booted,omitempty"`

	// boots lists the latest network boots of the host, the newest first. The boot servers write
	// it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Boots []BootRecord `json:"boots,omitempty"`
}

// HardwareSummary is the part of the hardware inventory that kubectl prints.
type HardwareSummary struct {
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
	// cores is the number of physical cores.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Cores int32 `json:"cores,omitempty"`
	// memory is the installed memory, rounded to whole GiB, for example 64Gi.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
	// disk is the total size of all disks, rounded down to whole GB, for example 960G.
	// +optional
	Disk *resource.Quantity `json:"disk,omitempty"`
}

// HostOperation describes the work in progress on a host.
type HostOperation struct {
	// kind is the kind of work: Inspect, Install, Clean or Update.
	// +optional
	Kind OrderKind `json:"kind,omitempty"`
	// step is the current step of the agent, or of Ingot before and after the agent runs.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Step string `json:"step,omitempty"`
	// percent is the progress of the step in percent. It stays 0 if the total is unknown, for
	// example if a proxy does not report the length of the image. In this case, see bytes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Percent *int32 `json:"percent,omitempty"`
	// bytes is the number of bytes that the agent processed in this step. The agent reports it
	// about every 20 seconds. Depending on the step, it counts bytes of the decoded image, of the
	// qcow2 tables, of the mirror comparison, of erased disks, or of a live system's file. It is
	// unset in other steps.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Bytes int64 `json:"bytes,omitempty"`
	// progress is the step with its percentage or its bytes, for example "Writing 42%". Ingot
	// derives it from step, percent and bytes for the output of kubectl.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=96
	Progress string `json:"progress,omitempty"`
	// startTime is the time at which Ingot wrote the order.
	// +optional
	StartTime metav1.Time `json:"startTime,omitempty,omitzero"`
	// attempt is the number of the attempt at this work, starting with 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`
	// lastContactTime is the time at which the agent last contacted Ingot.
	// +optional
	LastContactTime metav1.Time `json:"lastContactTime,omitempty,omitzero"`
}

// BootedStatus is the first report of an installed system.
type BootedStatus struct {
	// instanceID is the instanceID of the claim under which the system was installed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=36
	InstanceID string `json:"instanceID,omitempty"`
	// hostname is the hostname of the system.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Hostname string `json:"hostname,omitempty"`
	// reportTime is the time of the report.
	// +optional
	ReportTime metav1.Time `json:"reportTime,omitempty,omitzero"`
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
// +kubebuilder:resource:path=ingothosts,shortName=ih,scope=Namespaced,categories=ingot
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move-hierarchy="
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Power",type=string,JSONPath=`.status.power`
// +kubebuilder:printcolumn:name="Rack",type=string,JSONPath=`.status.failureDomain`
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.spec.claim.machineRef.name`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.operation.progress`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Healthy",type=string,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`,priority=1
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=1
// +kubebuilder:printcolumn:name="Cores",type=integer,JSONPath=`.status.hardware.cores`,priority=1
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.hardware.memory`,priority=1
// +kubebuilder:printcolumn:name="Last boot",type=string,JSONPath=`.status.boots[0].outcome`,priority=1
// +kubebuilder:printcolumn:name="BMC",type=string,JSONPath=`.spec.bmc.address`,priority=1
// +kubebuilder:printcolumn:name="Boot",type=string,JSONPath=`.spec.bootMethod`,priority=1
// +kubebuilder:printcolumn:name="Boot secure",type=string,JSONPath=`.status.conditions[?(@.type=="BootSecure")].status`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`

// IngotHost is a physical server in the inventory.
type IngotHost struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the IngotHost. It also contains the persistent state of the
	// host, which only Ingot writes.
	// +required
	Spec IngotHostSpec `json:"spec,omitempty,omitzero"`
	// status is the observed state of the IngotHost. Only Ingot writes it.
	// +optional
	Status IngotHostStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (h *IngotHost) GetConditions() []metav1.Condition { return h.Status.Conditions }

// SetConditions replaces the conditions.
func (h *IngotHost) SetConditions(conditions []metav1.Condition) { h.Status.Conditions = conditions }

// +kubebuilder:object:root=true

// IngotHostList is a list of IngotHosts.
type IngotHostList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngotHost `json:"items"`
}
