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
	// BootModeUEFISecureBoot is UEFI that starts only what is signed by a key that the
	// server knows.
	BootModeUEFISecureBoot BootMode = "UEFISecureBoot"
	BootModeBIOS           BootMode = "BIOS"
)

// BootMethod is the way by which a server gets the agent.
// +kubebuilder:validation:Enum=PXE;HTTP;VirtualMedia
type BootMethod string

// The boot methods.
const (
	// BootMethodPXE is DHCP and TFTP, then a boot loader and HTTP.
	BootMethodPXE BootMethod = "PXE"
	// BootMethodHTTP is UEFI's own HTTP boot of one signed or unsigned image, whose
	// address the BMC tells the firmware (Redfish HttpBootUri).
	BootMethodHTTP BootMethod = "HTTP"
	// BootMethodVirtualMedia is a CD image made for the host, which its BMC puts into a
	// virtual drive.
	BootMethodVirtualMedia BootMethod = "VirtualMedia"
)

// BootTrust is what a network boot is worth.
// +kubebuilder:validation:Enum=Network;Verified
type BootTrust string

// The boot trusts.
const (
	// BootTrustNetwork: whoever can send frames on the provisioning network can have a
	// server run a program of theirs in place of the agent.
	BootTrustNetwork BootTrust = "Network"
	// BootTrustVerified: what the server boots was named over the BMC's verified TLS,
	// or is signed by a key that the server's firmware knows.
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

// PowerIntent is the power state that a person wants.
// +kubebuilder:validation:Enum=On;Off
type PowerIntent string

// The power intents.
const (
	PowerIntentOn  PowerIntent = "On"
	PowerIntentOff PowerIntent = "Off"
)

// IngotHostSpec is what people say of a server, and the ledger: claim, record and
// order, which only Ingot writes.
// +kubebuilder:validation:XValidation:rule="has(self.bmc) || !(has(self.bios) || has(self.firmware))",fieldPath=".bmc",message="bios and firmware need spec.bmc: they are set by the BMC; remove them or give spec.bmc"
// +kubebuilder:validation:XValidation:rule="has(self.bmc) || !has(self.bootMethod) || self.bootMethod == 'PXE'",fieldPath=".bootMethod",messageExpression="self.bootMethod + ' needs spec.bmc: the BMC tells the firmware what to boot; give spec.bmc or remove bootMethod'"
// +kubebuilder:validation:XValidation:rule="!has(self.bootMethod) || self.bootMethod == 'PXE' || !has(self.bootMode) || self.bootMode != 'BIOS'",fieldPath=".bootMethod",messageExpression="self.bootMethod + ' needs UEFI; correct bootMode, or remove bootMethod'"
// +kubebuilder:validation:XValidation:rule="!has(self.bootMode) || self.bootMode != 'UEFISecureBoot' || (has(self.bootMethod) && self.bootMethod != 'PXE') || !has(self.bootLoader) || self.bootLoader == 'Signed'",fieldPath=".bootLoader",messageExpression="self.bootLoader + ' is not signed, and firmware with Secure Boot refuses it; remove bootLoader (or say Signed), or correct bootMode'"
// +kubebuilder:validation:XValidation:rule="!has(self.bootLoader) || self.bootLoader != 'Signed' || !has(self.bootMode) || self.bootMode != 'BIOS'",fieldPath=".bootLoader",message="Signed needs UEFI; correct bootMode, or remove bootLoader"
// +kubebuilder:validation:XValidation:rule="has(self.bmc) || !has(self.power)",fieldPath=".power",messageExpression="self.power + ' needs spec.bmc: a host without a BMC cannot be switched; remove power or give spec.bmc'"
type IngotHostSpec struct {
	// bmc is the server's management controller. A host without one is Unmanaged:
	// it is listed, never switched, booted or claimed.
	// +optional
	BMC *BMC `json:"bmc,omitempty"`

	// bootMACAddress is the MAC address of the NIC that boots from the network,
	// in lower case with colons.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{2}(:[0-9a-f]{2}){5}$')",message="must be a MAC address in lower case with colons, for example 52:54:00:12:34:56"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9a-f][13579bdf]:') && self != '00:00:00:00:00:00'",message="must be the address of one NIC, not a group address and not zero; take it from the BMC or from the NIC's label"
	BootMACAddress string `json:"bootMACAddress,omitempty"`

	// bootMode is the firmware mode in which the server boots. With UEFISecureBoot
	// Ingot has the BMC switch Secure Boot on before each boot of the agent, and boots
	// nothing where it cannot. PXE boots by the keys as delivered; with HTTP and
	// VirtualMedia the key that signed the agent's image must be enrolled.
	// +optional
	// +kubebuilder:default=UEFI
	BootMode BootMode `json:"bootMode,omitempty"`

	// bootMethod is the way by which the server gets the agent. HTTP and VirtualMedia
	// need UEFI and a BMC, and no TFTP. A new value takes effect with the next boot of
	// the agent. Unset: PXE.
	// +optional
	BootMethod BootMethod `json:"bootMethod,omitempty"`

	// bootLoader is the boot loader that the server is given by PXE. Small drives the
	// NIC through the server's firmware, Full by drivers of its own; where the firmware
	// hangs under Small, Full may help. Signed (shim and GRUB, x64 UEFI only) is what
	// firmware with Secure Boot and Microsoft's keys starts. Unset: Signed where
	// bootMode is UEFISecureBoot, else Small.
	// +optional
	BootLoader BootLoader `json:"bootLoader,omitempty"`

	// networkRef names the IngotNetwork (cluster-scoped) on which the server boots.
	// +required
	NetworkRef NetworkReference `json:"networkRef,omitempty,omitzero"`

	// rootDeviceHints choose the disk that images are written to. Hints of the
	// IngotMachine win over these.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`

	// power is what a person wants. Unset: Ingot switches the host as its work
	// needs. Off: the host is switched off and left off, and is not claimed. On: a
	// host that no work needs is switched on.
	// +optional
	Power PowerIntent `json:"power,omitempty"`

	// cleaning is how the host is cleaned when it is released, unless the
	// IngotMachine says otherwise.
	// +optional
	// +kubebuilder:default=Metadata
	Cleaning CleaningMode `json:"cleaning,omitempty"`

	// diskCleaning chooses the cleaning of some disks otherwise, whenever the host is
	// cleaned at all; the first entry whose hints hold counts. It is read when the host
	// is cleaned. All other disks are cleaned as cleaning says.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	DiskCleaning []DiskCleaning `json:"diskCleaning,omitempty"`

	// maintenance takes a free host out of the choice, and lets Ingot do nothing
	// to it; a claimed host stays with its machine, and nothing is started on it: when
	// it is released it is switched off, and cleaned once maintenance is unset.
	// +optional
	Maintenance *bool `json:"maintenance,omitempty"`

	// bios is what a person wants of the firmware setup. A free host is not Available
	// before it is in force.
	// +optional
	BIOS *BIOSConfiguration `json:"bios,omitempty"`

	// firmware lists the versions wanted. They are installed one after the other on
	// free hosts only, and a free host is not Available before they are in force.
	// +optional
	// +listType=map
	// +listMapKey=component
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b.component.lowerAscii() == a.component.lowerAscii()))",message="each component may stand here once, in whatever case: two versions of one would be installed in turn for ever; remove one of them"
	Firmware []FirmwareComponent `json:"firmware,omitempty"`

	// claim is the bond to the IngotMachine that owns this host. Only Ingot writes it.
	// +optional
	Claim *HostClaim `json:"claim,omitempty"`

	// record is what must be remembered of a host that no machine owns. Only
	// Ingot writes it.
	// +optional
	Record *HostRecord `json:"record,omitempty"`

	// order is the work that the agent is booted for. Only Ingot writes it.
	// +optional
	Order *HostOrder `json:"order,omitempty"`

	// commands are the latest commands that operators gave by annotation and that Ingot
	// carried out or refused, one for each annotation: the same or an earlier one has no
	// effect. Only Ingot writes it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Commands []HostCommand `json:"commands,omitempty"`
}

// LocalReference names an object in the same namespace.
type LocalReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of an object: lower case letters, digits, - and . (for example rack-a.12)"
	Name string `json:"name,omitempty"`
}

// NetworkReference names a cluster-scoped IngotNetwork.
type NetworkReference struct {
	// name of the IngotNetwork.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of an object: lower case letters, digits, - and . (for example rack-a.12)"
	Name string `json:"name,omitempty"`
}

// IngotHostPhase sums up a host's life for people; machines read conditions.
// +kubebuilder:validation:Enum=Registering;Inspecting;Preparing;Available;Provisioning;Provisioned;Deprovisioning;Maintenance;Quarantined;Retired;Unmanaged
type IngotHostPhase string

// The phases.
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
	// PhaseRetired is not used: no host is ever in it.
	PhaseRetired   IngotHostPhase = "Retired"
	PhaseUnmanaged IngotHostPhase = "Unmanaged"
)

// HostPhases are all that a host may be in.
var HostPhases = []IngotHostPhase{
	PhaseRegistering, PhaseInspecting, PhasePreparing, PhaseAvailable, PhaseProvisioning, PhaseProvisioned,
	PhaseDeprovisioning, PhaseMaintenance, PhaseQuarantined, PhaseUnmanaged,
}

// PowerState is the power state that the BMC last told. On is everything that has power,
// on its way on or off too.
// +kubebuilder:validation:Enum=On;Off;Unknown
type PowerState string

// The power states.
const (
	PowerStateOn      PowerState = "On"
	PowerStateOff     PowerState = "Off"
	PowerStateUnknown PowerState = "Unknown"
)

// IngotHostStatus is what was observed last. Nothing is lost when it is emptied.
type IngotHostStatus struct {
	// observedGeneration is the metadata.generation that Ingot has acted on. Tools that wait
	// for a change of the spec compare the two.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready, Paused, BMCReachable, CredentialsValid, CredentialsRotated, Unique, Inspected,
	// Available, Prepared, Provisioned, Cleaned, Fenced, Healthy, BootSecure, NetworkAllowed, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase sums up the host's life for people.
	// +optional
	Phase IngotHostPhase `json:"phase,omitempty"`

	// power is what the BMC last told.
	// +optional
	Power PowerState `json:"power,omitempty"`

	// hardware sums up the IngotHardware of the same name.
	// +optional
	Hardware *HardwareSummary `json:"hardware,omitempty"`

	// failureDomain is the failure domain of the host: the one that its claim records, else the
	// value of the label that IngotCluster.spec.failureDomainLabel of its namespace names. Without
	// an IngotCluster it is the rack label.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	FailureDomain string `json:"failureDomain,omitempty"`

	// operation is the work under way, with its progress.
	// +optional
	Operation *HostOperation `json:"operation,omitempty"`

	// lastResetTime is when Ingot last switched the host: resets keep a distance.
	// +optional
	LastResetTime metav1.Time `json:"lastResetTime,omitempty,omitzero"`

	// softPowerOffTime is when the operating system was last asked to shut down:
	// the power is cut when it has not by the deadline.
	// +optional
	SoftPowerOffTime metav1.Time `json:"softPowerOffTime,omitempty,omitzero"`

	// addresses are those that the installed system last reported, else recorded.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Addresses []string `json:"addresses,omitempty"`

	// booted is what the installed system reported after its first boot.
	// +optional
	Booted *BootedStatus `json:"booted,omitempty"`

	// boots are the last network boots of the host, the newest first, as the boot
	// servers saw them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Boots []BootRecord `json:"boots,omitempty"`
}

// HardwareSummary is for print columns.
type HardwareSummary struct {
	// manufacturer and product name the model.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Manufacturer string `json:"manufacturer,omitempty"`
	// product is the model's name.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Product string `json:"product,omitempty"`
	// cores counts physical cores.
	// +optional
	Cores int32 `json:"cores,omitempty"`
	// memory is the installed memory, rounded to whole GiB, for example 64Gi.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
	// disk is the size of all disks together, rounded down to whole GB, for example 960G.
	// +optional
	Disk *resource.Quantity `json:"disk,omitempty"`
}

// HostOperation shows the work under way.
type HostOperation struct {
	// kind is Inspect, Install, Clean, or Update of firmware.
	// +optional
	Kind OrderKind `json:"kind,omitempty"`
	// step is what the agent, or Ingot before and after it, is doing.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Step string `json:"step,omitempty"`
	// percent of the step that is done, 0..100. It stays 0 where the whole is not known, as
	// when a proxy before the boot server does not tell the length of an image: see bytes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Percent *int32 `json:"percent,omitempty"`
	// bytes that the agent has done in this step, brought up to date every 20 seconds or
	// so: of the decoded image written to the disk, of a qcow2 image's tables read before
	// that, compared with a mirror's other disk, erased on all disks together, or fetched of
	// one file of a live system. Absent before the first, and in steps that count none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Bytes int64 `json:"bytes,omitempty"`
	// progress is the step with its percentage or its bytes, for example "Writing 42%". Ingot
	// derives it from step, percent and bytes for the print column.
	// +optional
	// +kubebuilder:validation:MaxLength=96
	Progress string `json:"progress,omitempty"`
	// startTime is when the order was written.
	// +optional
	StartTime metav1.Time `json:"startTime,omitempty,omitzero"`
	// attempt counts from 1.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// lastContactTime is when the agent last spoke.
	// +optional
	LastContactTime metav1.Time `json:"lastContactTime,omitempty,omitzero"`
}

// BootedStatus is the report of an installed system.
type BootedStatus struct {
	// instanceID of the claim under which the system was installed.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	InstanceID string `json:"instanceID,omitempty"`
	// hostname of the system.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Hostname string `json:"hostname,omitempty"`
	// reportTime of the report.
	// +optional
	ReportTime metav1.Time `json:"reportTime,omitempty,omitzero"`
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

	// spec is what people say of the server, and the ledger.
	// +required
	Spec IngotHostSpec `json:"spec,omitempty,omitzero"`
	// status is what was observed last.
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
