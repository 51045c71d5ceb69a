// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClaimState is the state of a claim.
// +kubebuilder:validation:Enum=Provisioning;Provisioned;Releasing
type ClaimState string

// The states of a claim.
const (
	// ClaimProvisioning means that the image is not yet installed.
	ClaimProvisioning ClaimState = "Provisioning"
	// ClaimProvisioned means that the install has passed the commit point (I4). Ingot does not
	// install, clean or switch the host unless the claim is released or an operator requests it
	// (I2).
	ClaimProvisioned ClaimState = "Provisioned"
	// ClaimReleasing means that the machine is being deleted. Only the deletion of the machine that
	// the claim names sets this state (I6).
	ClaimReleasing ClaimState = "Releasing"
)

// HostClaim binds one host to one IngotMachine. Ingot copies the machine's settings into the claim,
// so that later changes do not affect the installed host.
// +kubebuilder:validation:XValidation:rule="has(self.image) != has(self.live)",message="must have either image or live"
type HostClaim struct {
	// machineRef references the IngotMachine in the host's namespace. It has no UID, because
	// clusterctl move changes UIDs.
	// +required
	MachineRef LocalReference `json:"machineRef,omitempty,omitzero"`
	// clusterName is the name of the machine's Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`
	// instanceID is a random UUID that Ingot creates with the claim. It identifies one installation
	// of the host.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be a UUID in lower case"
	InstanceID string `json:"instanceID,omitempty"`
	// attempt is the number of the current install attempt. It starts with 1 at the first order.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`
	// adoptedAttempt is the earlier attempt whose finished installation Ingot accepted. It is unset
	// if Ingot accepted the current attempt.
	// +optional
	// +kubebuilder:validation:Minimum=1
	AdoptedAttempt int32 `json:"adoptedAttempt,omitempty"`
	// rejectedAttempts lists the attempts that an agent reported as finished, but that Ingot
	// rejected. Ingot writes the disks again.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Minimum=1
	RejectedAttempts []int32 `json:"rejectedAttempts,omitempty"`
	// confirmedTime is the time at which Ingot last saw that the server runs the system of this
	// claim. Ingot learns this from the agent that installed the system, or from its Node.
	// +optional
	ConfirmedTime metav1.Time `json:"confirmedTime,omitempty,omitzero"`
	// state is the state of the claim: Provisioning, Provisioned or Releasing.
	// +required
	State ClaimState `json:"state,omitempty"`
	// image is the image that Ingot installs. Either image or live is set.
	// +optional
	Image Image `json:"image,omitempty,omitzero"`
	// live is the live system that Ingot boots instead of an image.
	// +optional
	Live *LiveSystem `json:"live,omitempty"`
	// liveFetch records when and from where the live system fetched its bootstrap data.
	// +optional
	LiveFetch *LiveFetch `json:"liveFetch,omitempty"`
	// rootDeviceHints select the disk to which Ingot installs. They are the hints of the machine
	// or, if it has none, of the host.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`
	// softwareRAID is the software RAID configuration of the machine.
	// +optional
	SoftwareRAID *SoftwareRAID `json:"softwareRAID,omitempty"`
	// rootDisk is the selected disk. Ingot records it before it writes to the disk.
	// +optional
	RootDisk *DiskReference `json:"rootDisk,omitempty"`
	// mirrorDisks lists the other members of the software RAID. Ingot records them together with
	// rootDisk.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1
	MirrorDisks []DiskReference `json:"mirrorDisks,omitempty"`
	// failureDomain is the failure domain of the host at the time of the claim.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`
	// bootTrust is the boot security that the cluster requires. The default is Network.
	// +optional
	BootTrust BootTrust `json:"bootTrust,omitempty"`
	// cleaning is how Ingot cleans the disks when it releases the host.
	// +required
	Cleaning CleaningMode `json:"cleaning,omitempty"`
	// network is the network configuration of the installed system. If unset, the system configures
	// its network itself, usually with DHCP.
	// +optional
	Network *ClaimedNetwork `json:"network,omitempty"`
	// hostname is the hostname of the installed system.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Hostname string `json:"hostname,omitempty"`
	// fencedTime is the time at which the BMC confirmed that the host is off during the release.
	// Ingot removes the machine's finalizer only after this time or after a forced release.
	// +optional
	FencedTime metav1.Time `json:"fencedTime,omitempty,omitzero"`
	// powerCycle is the latest power cycle that an IngotRemediation requested.
	// +optional
	PowerCycle *ClaimPowerCycle `json:"powerCycle,omitempty"`
	// quarantine is the quarantine that starts when the claim ends. Ingot sets it if power cycles
	// did not repair an unhealthy Machine.
	// +optional
	Quarantine *Quarantine `json:"quarantine,omitempty"`
}

// PowerCycleState is the state of a power cycle.
// +kubebuilder:validation:Enum=Off;On;Done
type PowerCycleState string

// The states of a power cycle.
const (
	// PowerCycleOff means that the host must be powered off.
	PowerCycleOff PowerCycleState = "Off"
	// PowerCycleOn means that the host must be powered on. The BMC confirmed that it is off, or
	// powering it off is no longer needed.
	PowerCycleOn PowerCycleState = "On"
	// PowerCycleDone means that the BMC reported the host as on again.
	PowerCycleDone PowerCycleState = "Done"
)

// ClaimPowerCycle is a power cycle of a host whose Machine is unhealthy. It is part of the claim,
// so that a lost status or clusterctl move does not repeat the power cycle.
type ClaimPowerCycle struct {
	// count is the number of power cycles within the cooldown period, including this one.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Count int32 `json:"count,omitempty"`
	// state is the state of the power cycle: Off, On or Done.
	// +required
	State PowerCycleState `json:"state,omitempty"`
	// requestTime is the time at which the IngotRemediation requested the power cycle.
	// +required
	RequestTime metav1.Time `json:"requestTime,omitempty,omitzero"`
	// completionTime is the time at which the BMC reported the host as on again.
	// +optional
	CompletionTime metav1.Time `json:"completionTime,omitempty,omitzero"`
	// confirmedOff reports whether the BMC confirmed that the host was off during the power cycle.
	// +optional
	ConfirmedOff *bool `json:"confirmedOff,omitempty"`
	// wasOn reports whether the host was on before the first power cycle of this claim.
	// +optional
	WasOn *bool `json:"wasOn,omitempty"`
	// bootID is the boot ID of the Node before the power cycle. A different boot ID afterward
	// proves the restart.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	BootID string `json:"bootID,omitempty"`
}

// DiskReference identifies one disk by properties that do not change when the server reboots.
// +kubebuilder:validation:MinProperties=1
type DiskReference struct {
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
	// path is the bus path of the disk. It is set only if serialNumber and wwn do not identify the
	// disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path,omitempty"`
	// sizeBytes is the size of the disk in bytes. It protects against a replaced disk.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SizeBytes *int64 `json:"sizeBytes,omitempty"`
}

// HostRecord is the persistent state of a host that does not depend on a claim.
type HostRecord struct {
	// inspectedTime is the time at which the agent last reported the hardware.
	// +optional
	InspectedTime metav1.Time `json:"inspectedTime,omitempty,omitzero"`
	// sanitizedTime is the time at which the agent last reported a successful cleaning. Ingot
	// removes it at the next install.
	// +optional
	SanitizedTime metav1.Time `json:"sanitizedTime,omitempty,omitzero"`
	// cleanedDisks lists the result of the last cleaning for each disk. Ingot removes it at the
	// next install.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	CleanedDisks []CleanedDisk `json:"cleanedDisks,omitempty"`
	// uncleanedStorage lists the storage controllers whose disks the last cleaning could not clean,
	// because the agent has no driver. Ingot removes it at the next install.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	UncleanedStorage []HardwareController `json:"uncleanedStorage,omitempty"`
	// lastClusterName is the Cluster that used the host last. It is set if the host was not cleaned
	// afterward. Ingot then offers the host to no other Cluster until the host is cleaned.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	LastClusterName string `json:"lastClusterName,omitempty"`
	// lastInstanceID is the instance that last wrote to the disks. It is set if the disks were not
	// cleaned afterward. The marker of this instance on a disk does not block an install.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be a UUID in lower case"
	LastInstanceID string `json:"lastInstanceID,omitempty"`
	// earlierInstanceIDs lists the instances before lastInstanceID since the disks were last
	// cleaned, the latest last. Their markers do not block an install either. Ingot keeps 32
	// entries. An operator must approve disks with an older marker.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(id, id.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'))",message="must be UUIDs in lower case"
	EarlierInstanceIDs []string `json:"earlierInstanceIDs,omitempty"`
	// cleaningDue is the mode of a cleaning that was requested but did not succeed. Ingot cleans
	// the host before the host becomes Available again.
	// +optional
	CleaningDue CleaningMode `json:"cleaningDue,omitempty"`
	// refusedImages lists the images that the host's hardware cannot run, the latest last. Ingot
	// prefers other hosts for these images. Ingot keeps 8 entries and removes all entries at the
	// next inspection.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	RefusedImages []RefusedImage `json:"refusedImages,omitempty"`
	// failures is the number of consecutive failed installs and inspections.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Failures int32 `json:"failures,omitempty"`
	// quarantine takes the host out of service until an operator clears it.
	// +optional
	Quarantine *Quarantine `json:"quarantine,omitempty"`
	// virtualMediaTime is the time at which Ingot started to insert an image into the BMC's virtual
	// drive. Ingot removes it when the drive contains no image of Ingot.
	// +optional
	VirtualMediaTime metav1.Time `json:"virtualMediaTime,omitempty,omitzero"`
	// preparation is the progress of spec.bios and spec.firmware.
	// +optional
	Preparation *HostPreparation `json:"preparation,omitempty"`
}

// RefusedImage is an image or a live system that is incompatible with the hardware of the host.
type RefusedImage struct {
	// checksums lists the checksum of the image, or the checksums of the live system's kernel and
	// initrd.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.matches('^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$'))",message="must be sha256: and 64, or sha512: and 128 hexadecimal digits in lower case"
	Checksums []string `json:"checksums,omitempty"`
	// disks lists the disks for which the refusal applies. If empty, it applies to every disk.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	Disks []DiskReference `json:"disks,omitempty"`
	// reason is the reason that the agent reported: DiskTooSmall, SectorsDiffer, OldSystemOnDisk,
	// MirrorRefused or LiveSystemRefused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
}

// QuarantineReason is the reason of a quarantine.
// +kubebuilder:validation:Enum=InstallFailed;InspectFailed;CleanFailed;NotFenced;HealthFailed
type QuarantineReason string

// The reasons of a quarantine.
const (
	QuarantineInstallFailed QuarantineReason = "InstallFailed"
	QuarantineInspectFailed QuarantineReason = "InspectFailed"
	QuarantineCleanFailed   QuarantineReason = "CleanFailed"
	QuarantineNotFenced     QuarantineReason = "NotFenced"
	// QuarantineHealthFailed means that power cycles did not repair an unhealthy Machine.
	QuarantineHealthFailed QuarantineReason = "HealthFailed"
)

// Quarantine takes a host out of service.
type Quarantine struct {
	// reason is the reason of the quarantine: InstallFailed, InspectFailed, CleanFailed, NotFenced
	// or HealthFailed.
	// +required
	Reason QuarantineReason `json:"reason,omitempty"`
	// message is a human-readable description of the cause.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// startTime is the time at which the quarantine started.
	// +required
	StartTime metav1.Time `json:"startTime,omitempty,omitzero"`
	// addresses lists the IP addresses of a system that may still run after a forced release. Ingot
	// does not assign these addresses until the BMC confirms that the host is off.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Addresses []string `json:"addresses,omitempty"`
}

// OrderKind is the kind of work of a host. Update occurs only in status.operation, because the BMC
// updates firmware without the agent.
// +kubebuilder:validation:Enum=Inspect;Install;Clean;Update
type OrderKind string

// The kinds of work.
const (
	OrderInspect OrderKind = "Inspect"
	OrderInstall OrderKind = "Install"
	OrderClean   OrderKind = "Clean"
	// OperationUpdate is a firmware update by the BMC. It is never the kind of an order.
	OperationUpdate OrderKind = "Update"
)

// HostOrder is the work for which Ingot boots the agent. Ingot writes the order while the host is
// off. After a crash or a loss of status, the order and the power state define the next step.
type HostOrder struct {
	// kind is the kind of work: Inspect, Install or Clean.
	// +required
	// +kubebuilder:validation:XValidation:rule="self != 'Update'",message="must be Inspect, Install or Clean: the BMC runs updates without the agent"
	Kind OrderKind `json:"kind,omitempty"`
	// id is a random UUID. The agent's token and reports are valid for this order only.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be a UUID in lower case"
	ID string `json:"id,omitempty"`
	// attempt is the number of the attempt at this work, starting with 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`
	// creationTime is the time at which Ingot wrote the order. The timeout for the first contact of
	// the agent starts here.
	// +required
	CreationTime metav1.Time `json:"creationTime,omitempty,omitzero"`
	// hostUID is the UID of the IngotHost for which Ingot wrote the order. If the UID differs after
	// clusterctl move or a restore, Ingot powers the host off and starts the work again.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	HostUID string `json:"hostUID,omitempty"`
	// networkName is the name of the IngotNetwork on which the agent boots. If spec.networkRef
	// changes before the first contact of the agent, Ingot powers the host off and starts the work
	// again. If unset, Ingot does not compare it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NetworkName string `json:"networkName,omitempty"`
	// bootMACAddress is the MAC address of the NIC from which the agent boots. A change of
	// spec.bootMACAddress has the same effect as a change of the network.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	BootMACAddress string `json:"bootMACAddress,omitempty"`
	// agentKey is the SHA-256 of the agent's public key in hexadecimal. Ingot accepts only the
	// first key that presents the order's token.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{64}$')",message="must be a SHA-256 of 64 hexadecimal digits in lower case"
	AgentKey string `json:"agentKey,omitempty"`
	// liveStartTime is the time at which the agent loaded the live system and requested its command
	// line. The live system causes all failures after this time.
	// +optional
	LiveStartTime metav1.Time `json:"liveStartTime,omitempty,omitzero"`
	// revoked is true if a second key presented the order's token. Ingot then accepts neither key
	// and powers the host off.
	// +optional
	Revoked *bool `json:"revoked,omitempty"`
	// result is the result that the agent reported. Ingot keeps the order until the BMC confirms
	// that the host is off.
	// +optional
	Result *OrderResult `json:"result,omitempty"`
}

// HostCommand is the latest command that an operator gave with one annotation, after Ingot carried
// it out or rejected it.
type HostCommand struct {
	// name is the name of the annotation without its prefix, for example reboot.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// requestTime is the time of the command, as the annotation states it.
	// +required
	RequestTime metav1.Time `json:"requestTime,omitempty,omitzero"`
	// user is the user who set the annotation. If unset, the user is unknown.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	User string `json:"user,omitempty"`
	// instanceIDs lists the instances, or the damaged markers, that an approve command names. Ingot
	// can overwrite their disks. Ingot removes the list after the next successful install or
	// cleaning.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	InstanceIDs []string `json:"instanceIDs,omitempty"`
}

// OrderOutcome is the outcome of an order.
// +kubebuilder:validation:Enum=Succeeded;Failed
type OrderOutcome string

// The outcomes of an order.
const (
	OrderSucceeded OrderOutcome = "Succeeded"
	OrderFailed    OrderOutcome = "Failed"
)

// OrderResult is the result of an order.
type OrderResult struct {
	// outcome is the outcome of the order, either Succeeded or Failed.
	// +required
	Outcome OrderOutcome `json:"outcome,omitempty"`
	// reason is the reason of a failure in CamelCase.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// message is a human-readable description of a failure.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// completionTime is the time at which Ingot received the result.
	// +required
	CompletionTime metav1.Time `json:"completionTime,omitempty,omitzero"`
	// cleanedDisks lists the disks that were cleaned, even if other disks failed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	CleanedDisks []CleanedDisk `json:"cleanedDisks,omitempty"`
}

// CleanedDisk is the result of cleaning one disk, as the agent reported it.
type CleanedDisk struct {
	// disk identifies the disk.
	// +required
	Disk DiskReference `json:"disk,omitempty,omitzero"`
	// mode is the mode of the cleaning, either Metadata or Full.
	// +required
	Mode CleaningMode `json:"mode,omitempty"`
	// method is the method by which the agent erased the disk: NVMeSanitizeBlock,
	// NVMeSanitizeCrypto, NVMeFormatCrypto, NVMeFormat, ATAEnhancedSecureErase, ATASecureErase,
	// SecureDiscard, DiscardAndZero, Overwrite or Metadata.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Method string `json:"method,omitempty"`
	// erasedBytes is the number of bytes that were erased. It is the size of the disk, or the size
	// of the erased metadata if method is Metadata.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ErasedBytes *int64 `json:"erasedBytes,omitempty"`
	// verifiedBytes is the number of bytes that the agent read back and found erased.
	// +optional
	// +kubebuilder:validation:Minimum=0
	VerifiedBytes *int64 `json:"verifiedBytes,omitempty"`
	// failedMethods lists the better methods that the disk supports but that failed, with their
	// errors. The text is shorter if the host has more than 64 disks.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	FailedMethods string `json:"failedMethods,omitempty"`
}
