// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClaimState is where a host stands in the life of its claim.
// +kubebuilder:validation:Enum=Provisioning;Provisioned;Releasing
type ClaimState string

// The claim states.
const (
	// ClaimProvisioning: the image is not yet on the disk.
	ClaimProvisioning ClaimState = "Provisioning"
	// ClaimProvisioned: the commit point has passed (I4): never re-imaged, wiped or
	// switched unless released or asked for (I2).
	ClaimProvisioned ClaimState = "Provisioned"
	// ClaimReleasing: written only by the delete path of the machine that the claim
	// names (I6).
	ClaimReleasing ClaimState = "Releasing"
)

// HostClaim is the bond by which one IngotMachine owns one host.
// +kubebuilder:validation:XValidation:rule="has(self.image) != has(self.live)",message="must have either image or live: one of them is what the host is provisioned with"
type HostClaim struct {
	// machineRef names the IngotMachine, in the host's namespace. UIDs change in a
	// move and are not kept.
	// +required
	MachineRef LocalReference `json:"machineRef,omitempty,omitzero"`
	// clusterName is the Cluster of the machine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`
	// instanceID is a random UUID minted with the claim: one life of the host.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be a UUID in lower case"
	InstanceID string `json:"instanceID,omitempty"`
	// attempt counts the installs of this instance, from 1 with the first order.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempt int32 `json:"attempt,omitempty"`
	// adoptedAttempt is the attempt whose finished disk an agent found and left as it was,
	// where that is not the attempt that was ordered.
	// +optional
	// +kubebuilder:validation:Minimum=1
	AdoptedAttempt int32 `json:"adoptedAttempt,omitempty"`
	// rejectedAttempts are installs that an agent reported as finished and that Ingot did
	// not accept. Their disks are written again.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Minimum=1
	RejectedAttempts []int32 `json:"rejectedAttempts,omitempty"`
	// confirmedTime is when Ingot last saw that the server runs the system of this claim: by
	// the report of the agent that installed it, or of its Node.
	// +optional
	ConfirmedTime metav1.Time `json:"confirmedTime,omitempty,omitzero"`
	// state of the claim.
	// +required
	State ClaimState `json:"state,omitempty"`
	// image to install, frozen with the claim. Either this or live is set.
	// +optional
	Image Image `json:"image,omitempty,omitzero"`
	// live system to start, frozen with the claim.
	// +optional
	Live *LiveSystem `json:"live,omitempty"`
	// liveFetch is when and by whom the live system's bootstrap data was fetched.
	// +optional
	LiveFetch *LiveFetch `json:"liveFetch,omitempty"`
	// rootDeviceHints frozen with the claim: the machine's, else the host's.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`
	// softwareRAID frozen with the claim.
	// +optional
	SoftwareRAID *SoftwareRAID `json:"softwareRAID,omitempty"`
	// rootDisk is the disk that was chosen, recorded before it is written.
	// +optional
	RootDisk *DiskReference `json:"rootDisk,omitempty"`
	// mirrorDisks are the other members of the software RAID, recorded with rootDisk.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1
	MirrorDisks []DiskReference `json:"mirrorDisks,omitempty"`
	// failureDomain frozen with the claim.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`
	// bootTrust that the cluster demands of the boots that install, frozen with the
	// claim. Unset: Network.
	// +optional
	BootTrust BootTrust `json:"bootTrust,omitempty"`
	// cleaning to be done at release, frozen with the claim.
	// +required
	Cleaning CleaningMode `json:"cleaning,omitempty"`
	// network of the installed system, frozen with the claim. Unset: the system finds its
	// own.
	// +optional
	Network *ClaimedNetwork `json:"network,omitempty"`
	// hostname of the installed system.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Hostname string `json:"hostname,omitempty"`
	// fencedTime is when the BMC confirmed the power-off of the release. The
	// machine's finalizer goes only after it, or after a person's force.
	// +optional
	FencedTime metav1.Time `json:"fencedTime,omitempty,omitzero"`
	// powerCycle is the last one that an IngotRemediation of the Machine asked for.
	// +optional
	PowerCycle *ClaimPowerCycle `json:"powerCycle,omitempty"`
	// quarantine is what the host is put out of service for when the claim ends: its
	// Machine was handed over to be replaced, since power cycles did not help.
	// +optional
	Quarantine *Quarantine `json:"quarantine,omitempty"`
}

// PowerCycleState is how far a power cycle is.
// +kubebuilder:validation:Enum=Off;On;Done
type PowerCycleState string

// The states of a power cycle.
const (
	// PowerCycleOff: the host is to be switched off, whatever runs on it.
	PowerCycleOff PowerCycleState = "Off"
	// PowerCycleOn: the BMC confirmed that the host is off, or need not any more; it is
	// to be on.
	PowerCycleOn PowerCycleState = "On"
	// PowerCycleDone: the BMC said that the host is on again.
	PowerCycleDone PowerCycleState = "Done"
)

// ClaimPowerCycle is a host switched off and on again because its Machine is unhealthy.
// It stands in the claim, so that neither a lost status nor a move to another
// management cluster repeats it.
type ClaimPowerCycle struct {
	// count of the power cycles that count together, this one included.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Count int32 `json:"count,omitempty"`
	// state of this one.
	// +required
	State PowerCycleState `json:"state,omitempty"`
	// requestTime is when it was asked for.
	// +required
	RequestTime metav1.Time `json:"requestTime,omitempty,omitzero"`
	// completionTime is when the BMC said that the host was on again.
	// +optional
	CompletionTime metav1.Time `json:"completionTime,omitempty,omitzero"`
	// confirmedOff: the BMC said in between that the host was off.
	// +optional
	ConfirmedOff *bool `json:"confirmedOff,omitempty"`
	// wasOn: the BMC said on before the first power cycle of this claim switched the host off.
	// +optional
	WasOn *bool `json:"wasOn,omitempty"`
	// bootID is the Node's boot ID from before: another one after it proves a restart.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	BootID string `json:"bootID,omitempty"`
}

// DiskReference names one disk by what does not change over a reboot.
// +kubebuilder:validation:MinProperties=1
type DiskReference struct {
	// serialNumber of the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the World Wide Name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	WWN string `json:"wwn,omitempty"`
	// path is the bus path, for disks that have neither, or that these do not tell from
	// another one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path,omitempty"`
	// sizeBytes guards against a swapped disk.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SizeBytes *int64 `json:"sizeBytes,omitempty"`
}

// HostRecord is what must be remembered of a host that no machine owns.
type HostRecord struct {
	// inspectedTime is when the agent last reported the hardware.
	// +optional
	InspectedTime metav1.Time `json:"inspectedTime,omitempty,omitzero"`
	// sanitizedTime is when cleaning was last confirmed. It goes with the next install.
	// +optional
	SanitizedTime metav1.Time `json:"sanitizedTime,omitempty,omitzero"`
	// cleanedDisks is what was done to each disk then. It goes with the next install.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	CleanedDisks []CleanedDisk `json:"cleanedDisks,omitempty"`
	// uncleanedStorage are the storage controllers that no driver of the agent's kernel had
	// taken then: whatever disks they have were not cleaned. It goes with the next install.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	UncleanedStorage []HardwareController `json:"uncleanedStorage,omitempty"`
	// lastClusterName is the Cluster last served, when the host was not cleaned
	// after it: no other cluster gets the host before it is.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	LastClusterName string `json:"lastClusterName,omitempty"`
	// lastInstanceID is the instance that last wrote the disks, when they were not
	// wiped after it: its marker on a disk does not forbid an install.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be a UUID in lower case"
	LastInstanceID string `json:"lastInstanceID,omitempty"`
	// earlierInstanceIDs are the instances before that one, the latest last, since the
	// disks were last wiped: their markers may be there still, where a later instance never
	// wrote or wrote another disk, and do not forbid an install either. Beyond 32 the
	// oldest are forgotten; their disks are then approved by a person.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(id, id.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'))",message="must be UUIDs in lower case"
	EarlierInstanceIDs []string `json:"earlierInstanceIDs,omitempty"`
	// cleaningDue is a cleaning that was asked for and never confirmed: it is done
	// before the host is Available again.
	// +optional
	CleaningDue CleaningMode `json:"cleaningDue,omitempty"`
	// refusedImages is what the host was found not to take, the latest last: another host is
	// preferred for it. It goes with the next inspection; beyond 8 the oldest are forgotten.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	RefusedImages []RefusedImage `json:"refusedImages,omitempty"`
	// failures counts installs and inspections that failed in a row.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failures int32 `json:"failures,omitempty"`
	// quarantine takes the host out of service until a person clears it.
	// +optional
	Quarantine *Quarantine `json:"quarantine,omitempty"`
	// virtualMediaTime is when Ingot began to put an image into the BMC's virtual drive;
	// it goes when the drive is known to be empty of Ingot's images again.
	// +optional
	VirtualMediaTime metav1.Time `json:"virtualMediaTime,omitempty,omitzero"`
	// preparation is how far spec.bios and spec.firmware are in force.
	// +optional
	Preparation *HostPreparation `json:"preparation,omitempty"`
}

// RefusedImage is an image, or a live system, that does not go together with what is built
// into the host, though both may be good.
type RefusedImage struct {
	// checksums of the image, or of the live system's kernel and initrd.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.matches('^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$'))",message="must be sha256: and 64, or sha512: and 128 hexadecimal digits in lower case"
	Checksums []string `json:"checksums,omitempty"`
	// disks that it was to be installed on: on others it may go. None: they do not matter.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	Disks []DiskReference `json:"disks,omitempty"`
	// reason by which the agent has refused it: DiskTooSmall, SectorsDiffer, OldSystemOnDisk,
	// MirrorRefused or LiveSystemRefused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
}

// QuarantineReason says why a host is out of service.
// +kubebuilder:validation:Enum=InstallFailed;InspectFailed;CleanFailed;NotFenced;HealthFailed
type QuarantineReason string

// The quarantine reasons.
const (
	QuarantineInstallFailed QuarantineReason = "InstallFailed"
	QuarantineInspectFailed QuarantineReason = "InspectFailed"
	QuarantineCleanFailed   QuarantineReason = "CleanFailed"
	QuarantineNotFenced     QuarantineReason = "NotFenced"
	// QuarantineHealthFailed: its Machine was unhealthy, and power cycles did not help.
	QuarantineHealthFailed QuarantineReason = "HealthFailed"
)

// Quarantine says why and since when a host is out of service.
type Quarantine struct {
	// reason of the quarantine.
	// +required
	Reason QuarantineReason `json:"reason,omitempty"`
	// message for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// startTime when.
	// +required
	StartTime metav1.Time `json:"startTime,omitempty,omitzero"`
	// addresses of the system that may still run on a host released by force, as its claim
	// had them. Nobody else is given them until the BMC confirms that the host is off.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Addresses []string `json:"addresses,omitempty"`
}

// OrderKind is what an agent is booted for; Update, of an operation only, is what
// the BMC does by itself.
// +kubebuilder:validation:Enum=Inspect;Install;Clean;Update
type OrderKind string

// The kinds of order.
const (
	OrderInspect OrderKind = "Inspect"
	OrderInstall OrderKind = "Install"
	OrderClean   OrderKind = "Clean"
	// OperationUpdate is no order: the BMC updates firmware.
	OperationUpdate OrderKind = "Update"
)

// HostOrder is the work that the agent is booted for. It is written while the
// host is confirmed off, before it is switched on; so that after a crash, or with
// all status lost, the order and the power state together say what to do next.
type HostOrder struct {
	// kind of the work.
	// +required
	// +kubebuilder:validation:XValidation:rule="self != 'Update'",message="must be Inspect, Install or Clean: no agent is booted for an update, which the BMC makes"
	Kind OrderKind `json:"kind,omitempty"`
	// id is a random UUID of this order: tokens and reports are bound to it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be a UUID in lower case"
	ID string `json:"id,omitempty"`
	// attempt counts the orders of this kind for the same end, from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`
	// creationTime starts the deadline for the agent's first contact.
	// +required
	CreationTime metav1.Time `json:"creationTime,omitempty,omitzero"`
	// hostUID is the UID of the IngotHost for which the order was written. After a
	// move or a restore it is another's: the agent, if there is one, belongs to
	// another management cluster, the host is switched off and the work starts anew.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	HostUID string `json:"hostUID,omitempty"`
	// networkName is the IngotNetwork on which, and bootMACAddress the NIC by which, the
	// agent is booted for this order: what the spec named when it was written. Where the
	// spec names another before the agent has spoken, the host is switched off and the
	// work starts anew. Empty: not known, and so not compared.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NetworkName string `json:"networkName,omitempty"`
	// bootMACAddress of the NIC; see networkName.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	BootMACAddress string `json:"bootMACAddress,omitempty"`
	// agentKey is the SHA-256 (hex) of the agent's public key: the first to come
	// wins.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{64}$')",message="must be a SHA-256 of 64 hexadecimal digits in lower case"
	AgentKey string `json:"agentKey,omitempty"`
	// liveStartTime is when the agent had brought the live system into memory and first
	// asked for its command line. From then on nobody speaks until the system fetches its
	// bootstrap data: what fails meanwhile is the system's failure, and not the host's.
	// +optional
	LiveStartTime metav1.Time `json:"liveStartTime,omitempty,omitzero"`
	// revoked is set when a second key came with the same token: neither holds
	// any more, and the host is switched off.
	// +optional
	Revoked *bool `json:"revoked,omitempty"`
	// result is the agent's report. The order stays until the host is confirmed
	// off after it, so that a host that is on is never taken for a stranger.
	// +optional
	Result *OrderResult `json:"result,omitempty"`
}

// HostCommand is a command that an operator gave by annotating the host, once Ingot has
// carried it out or refused it.
type HostCommand struct {
	// name of the annotation, without its prefix: reboot, for example.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// requestTime at which the command was given, as its annotation says.
	// +required
	RequestTime metav1.Time `json:"requestTime,omitempty,omitzero"`
	// user who set the annotation. Empty: not known.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	User string `json:"user,omitempty"`
	// instanceIDs that an approve names, or the names of damaged markers: their disks may be
	// overwritten. They are removed after the next successful install or cleaning.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	InstanceIDs []string `json:"instanceIDs,omitempty"`
}

// OrderOutcome is how an order ended.
// +kubebuilder:validation:Enum=Succeeded;Failed
type OrderOutcome string

// The outcomes.
const (
	OrderSucceeded OrderOutcome = "Succeeded"
	OrderFailed    OrderOutcome = "Failed"
)

// OrderResult is the end of an order.
type OrderResult struct {
	// outcome of the order.
	// +required
	Outcome OrderOutcome `json:"outcome,omitempty"`
	// reason of a failure, CamelCase.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// message of a failure, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// completionTime is when the report came.
	// +required
	CompletionTime metav1.Time `json:"completionTime,omitempty,omitzero"`
	// cleanedDisks are those that were cleaned, also where others could not be.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	CleanedDisks []CleanedDisk `json:"cleanedDisks,omitempty"`
}

// CleanedDisk is what was done to one disk, as the agent that did it says.
type CleanedDisk struct {
	// disk that was cleaned.
	// +required
	Disk DiskReference `json:"disk,omitempty,omitzero"`
	// mode of cleaning.
	// +required
	Mode CleaningMode `json:"mode,omitempty"`
	// method by which its content was erased: NVMeSanitizeBlock, NVMeSanitizeCrypto,
	// NVMeFormatCrypto, NVMeFormat, ATAEnhancedSecureErase, ATASecureErase, SecureDiscard,
	// DiscardAndZero, Overwrite; or Metadata, where only tables and signatures were.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Method string `json:"method,omitempty"`
	// erasedBytes are those whose old content is gone: the size of the disk, or what
	// Metadata zeroed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ErasedBytes *int64 `json:"erasedBytes,omitempty"`
	// verifiedBytes were read back, and did not show what was there before.
	// +optional
	// +kubebuilder:validation:Minimum=0
	VerifiedBytes *int64 `json:"verifiedBytes,omitempty"`
	// failedMethods names better methods that the disk has and that failed, and why; in
	// fewer words where a host has more than 64 disks.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	FailedMethods string `json:"failedMethods,omitempty"`
}
