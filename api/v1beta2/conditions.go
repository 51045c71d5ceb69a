// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// Conditions of IngotHost.
const (
	// ReadyCondition sums up: the host does what it should, or why not.
	ReadyCondition = "Ready"
	// StalledCondition of IngotHost: nothing happens until a person acts. It is what kstatus
	// calls so, by which Flux and others stop to wait.
	StalledCondition = "Stalled"
	// PausedCondition says that nobody acts on the object (M44).
	PausedCondition = "Paused"
	// HostBMCReachableCondition: the BMC answers.
	HostBMCReachableCondition = "BMCReachable"
	// HostCredentialsValidCondition: the BMC accepts the credentials.
	HostCredentialsValidCondition = "CredentialsValid"
	// HostUniqueCondition: no other host has the same BMC system, MAC address, or
	// serial number and UUID (I8).
	HostUniqueCondition = "Unique"
	// HostNetworkAllowedCondition: the IngotNetwork lets hosts of this namespace boot on it.
	HostNetworkAllowedCondition = "NetworkAllowed"
	// HostInspectedCondition: the agent has reported the hardware.
	HostInspectedCondition = "Inspected"
	// HostAvailableCondition: the host can be claimed.
	HostAvailableCondition = "Available"
	// HostPreparedCondition: what spec.bios and spec.firmware want is in force.
	HostPreparedCondition = "Prepared"
	// HostProvisionedCondition: the commit point of the claim has passed (I4).
	HostProvisionedCondition = "Provisioned"
	// HostCleanedCondition: the cleaning asked for was confirmed.
	HostCleanedCondition = "Cleaned"
	// HostFencedCondition: the BMC confirmed the power-off of a release (I7).
	HostFencedCondition = "Fenced"
	// HostHealthyCondition: the BMC reports no fault of fans, supplies, drives, memory.
	HostHealthyCondition = "Healthy"
	// HostBootSecureCondition: what the host boots the agent from is verified.
	HostBootSecureCondition = "BootSecure"
	// HostCredentialsRotatedCondition: the last rotation of the BMC's password that
	// somebody asked for is done. It is not there before the first.
	HostCredentialsRotatedCondition = "CredentialsRotated"
)

// Conditions of IngotMachine.
const (
	MachineHostClaimedCondition = "HostClaimed"
	MachineInstalledCondition   = "Installed"
	MachineBootedCondition      = "Booted"
	// MachineHostHealthyCondition: the server is on, and its BMC answers. It is there from
	// the end of the install on (M27).
	MachineHostHealthyCondition = "HostHealthy"
)

// Conditions of IngotCluster.
const (
	ClusterEndpointReadyCondition       = "EndpointReady"
	ClusterFailureDomainsReadyCondition = "FailureDomainsReady"
)

// RemediationRestartedCondition of IngotRemediation: the host was restarted, and by what
// that is known.
const RemediationRestartedCondition = "Restarted"

// ImageReachableCondition of IngotImage: its URL answers.
const ImageReachableCondition = "Reachable"

// Reasons of conditions, and of the events that go with them.
const (
	// Of several conditions.
	ReasonUnknown               = "Unknown"
	ReasonReady                 = "Ready"
	ReasonNotReady              = "NotReady"
	ReasonInProgress            = "InProgress"
	ReasonPaused                = "Paused"
	ReasonNotPaused             = "NotPaused"
	ReasonNotStalled            = "NotStalled"
	ReasonWaiting               = "Waiting"
	ReasonMaintenance           = "Maintenance"
	ReasonDeleting              = "Deleting"
	ReasonNotApplicable         = "NotApplicable"
	ReasonUnmanaged             = "Unmanaged"
	ReasonDuplicate             = "Duplicate"
	ReasonPoweredOnUnexpectedly = "PoweredOnUnexpectedly"
	// ReasonStateUnconfirmed: the server is on, and Ingot's state of it is older than the
	// managers' unbroken watch, as after a restored backup.
	ReasonStateUnconfirmed = "StateUnconfirmed"
	ReasonPoweredOff       = "PoweredOff"
	ReasonQuarantined      = "Quarantined"
	// ReasonAnnotationIgnored: an annotation without effect was taken away.
	ReasonAnnotationIgnored = "AnnotationIgnored"
	// ReasonCommandExecuted: a command that an operator gave by annotation was carried out.
	ReasonCommandExecuted = "CommandExecuted"

	// BMC.
	ReasonBMCResponding  = "BMCResponding"
	ReasonBMCUnreachable = "BMCUnreachable"
	ReasonBMCTimeout     = "BMCTimeout"
	ReasonBMCBusy        = "BMCBusy"
	// ReasonBMCRateLimited: it answers 429.
	ReasonBMCRateLimited = "BMCRateLimited"
	ReasonBMCError       = "BMCError"
	// ReasonPowerActionIgnored: it answers, and does not switch the server as it is ordered.
	ReasonPowerActionIgnored = "PowerActionIgnored"
	ReasonBMCUnsupported     = "BMCUnsupported"
	// ReasonBMCAddressNotAllowed: --bmc-sources does not allow the address of the BMC.
	ReasonBMCAddressNotAllowed = "BMCAddressNotAllowed"
	ReasonCertificateInvalid   = "CertificateInvalid"
	ReasonCertificateChanged   = "CertificateChanged"
	// ReasonCertificatePinned: the certificate of a first use is trusted, and no other.
	ReasonCertificatePinned   = "CertificatePinned"
	ReasonCredentialsAccepted = "CredentialsAccepted"
	ReasonCredentialsRejected = "CredentialsRejected"
	ReasonCredentialsMissing  = "CredentialsMissing"
	// ReasonPasswordChangeRequired: the BMC takes the credentials, and refuses everything
	// until their password was changed, as with a factory's.
	ReasonPasswordChangeRequired = "PasswordChangeRequired"
	ReasonCABundleMissing        = "CABundleMissing"
	// ReasonNamespaceTerminating: the namespace is being deleted, and what Ingot has to create
	// in it is refused.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	ReasonBootMACNotFound      = "BootMACNotFound"
	ReasonCredentialsRotated   = "CredentialsRotated"
	ReasonCredentialsRotating  = "CredentialsRotating"
	ReasonRotationRejected     = "RotationRejected"
	ReasonRotationFailed       = "RotationFailed"
	ReasonRotationStuck        = "RotationStuck"
	// ReasonCredentialsRetained: a Secret outlives its host, since nobody else knows the password.
	ReasonCredentialsRetained = "CredentialsRetained"
	// ReasonBootOverrideNotApplied: the BMC did not take the network boot.
	ReasonBootOverrideNotApplied = "BootOverrideNotApplied"
	ReasonWrongServer            = "WrongServer"

	// Health, as the BMC sums it up.
	ReasonHealthOK       = "HealthOK"
	ReasonHealthWarning  = "HealthWarning"
	ReasonHealthCritical = "HealthCritical"
	ReasonHealthUnknown  = "HealthUnknown"

	// The life of a host.
	ReasonInspected     = "Inspected"
	ReasonInspecting    = "Inspecting"
	ReasonInspectFailed = "InspectFailed"
	ReasonAvailable     = "Available"
	ReasonClaimed       = "Claimed"
	ReasonNotClaimed    = "NotClaimed"
	ReasonProvisioning  = "Provisioning"
	ReasonProvisioned   = "Provisioned"
	ReasonInstallFailed = "InstallFailed"
	ReasonReleasing     = "Releasing"
	ReasonCleaning      = "Cleaning"
	ReasonCleanFailed   = "CleanFailed"
	ReasonCleaned       = "Cleaned"
	ReasonNotCleaned    = "NotCleaned"
	// ReasonStorageWithoutDriver: the server has storage controllers of which Ingot's agent
	// sees no disk.
	ReasonStorageWithoutDriver = "StorageWithoutDriver"
	ReasonFenced               = "Fenced"
	ReasonFencing              = "Fencing"
	ReasonNotFenced            = "NotFenced"
	ReasonMachineNotFound      = "MachineNotFound"
	ReasonNetworkMissing       = "NetworkMissing"
	// ReasonNamespaceNotAllowed: the IngotNetwork does not allow the host's namespace, and
	// ReasonNetworkQuotaExceeded: it has as many hosts there as it may. A host with one of
	// them boots nothing. ReasonOutsideAllowedNamespaces: either holds for a host that was there
	// before; it continues to work.
	ReasonNamespaceNotAllowed      = "NamespaceNotAllowed"
	ReasonNetworkQuotaExceeded     = "NetworkQuotaExceeded"
	ReasonOutsideAllowedNamespaces = "OutsideAllowedNamespaces"
	ReasonAddressesExhausted       = "AddressesExhausted"
	ReasonNoAgentContact           = "NoAgentContact"
	// ReasonNetworkUnresponsive: no agent is heard on the IngotNetwork, and other hosts wait too.
	ReasonNetworkUnresponsive = "NetworkUnresponsive"
	// ReasonBootVerified, and why a boot is not: it comes by PXE, it was named over a
	// connection to the BMC that is not verified, or the image is not demanded to be signed.
	ReasonBootVerified     = "BootVerified"
	ReasonNetworkTrusted   = "NetworkTrusted"
	ReasonBMCNotVerified   = "BMCNotVerified"
	ReasonImageNotVerified = "ImageNotVerified"
	// ReasonBootNotVerified: the cluster demands a verified boot, and this host has none.
	ReasonBootNotVerified = "BootNotVerified"
	// ReasonBootServerUnknown: the manager was not told where BMCs find a boot server.
	ReasonBootServerUnknown = "BootServerUnknown"
	// ReasonEjectingVirtualMedia, ReasonVirtualMediaEjectFailed: the image in the BMC's virtual drive.
	ReasonEjectingVirtualMedia    = "EjectingVirtualMedia"
	ReasonVirtualMediaEjectFailed = "VirtualMediaEjectFailed"
	// ReasonSecureBootOff: Secure Boot is demanded, and the BMC did not switch it on.
	ReasonSecureBootOff = "SecureBootOff"
	// ReasonNetworkBootIncomplete: a network boot was begun, and the agent did not come to run.
	ReasonNetworkBootIncomplete = "NetworkBootIncomplete"
	// ReasonWaitingForAddress: the pool's provider has not given one yet.
	ReasonWaitingForAddress = "WaitingForAddress"
	// ReasonAddressConflict: what the pool gave is somebody else's.
	ReasonAddressConflict = "AddressConflict"
	// ReasonAddressPoolUnusable: the pool cannot be claimed from, or gives what does not
	// fit the network.
	ReasonAddressPoolUnusable = "AddressPoolUnusable"
	// ReasonAddressRestored: the record of an address in use was lost, and was made again.
	ReasonAddressRestored = "AddressRestored"
	// ReasonAddressClaimLost: the IPAddressClaim of a recorded address was deleted, or holds
	// another address.
	ReasonAddressClaimLost = "AddressClaimLost"
	// ReasonWaitingForApproval: Ingot found the machine by itself; a person has to want it.
	ReasonWaitingForApproval = "WaitingForApproval"
	// ReasonEnrolled: an unknown machine was enrolled, or its host approved.
	ReasonEnrolled = "Enrolled"
	// ReasonEnrollmentRejected: an unknown machine could not be enrolled.
	ReasonEnrollmentRejected = "EnrollmentRejected"
	ReasonAgentKeyConflict   = "AgentKeyConflict"
	ReasonAgentStarted       = "AgentStarted"
	// ReasonAgentRequestRejected: whoever asked is not the agent of the host's order.
	ReasonAgentRequestRejected = "AgentRequestRejected"
	ReasonNoRootDisk           = "NoRootDisk"
	ReasonTooManyDisks         = "TooManyDisks"

	// BIOS settings and firmware.
	ReasonPrepared             = "Prepared"
	ReasonPreparing            = "Preparing"
	ReasonUpdatingFirmware     = "UpdatingFirmware"
	ReasonSettingsRejected     = "SettingsRejected"
	ReasonSettingsNotApplied   = "SettingsNotApplied"
	ReasonRebootPending        = "RebootPending"
	ReasonFirmwareRejected     = "FirmwareRejected"
	ReasonFirmwareNotApplied   = "FirmwareNotApplied"
	ReasonFirmwareUpdateFailed = "FirmwareUpdateFailed"

	// Machines.
	ReasonWaitingForClusterInfrastructure = "WaitingForClusterInfrastructure"
	ReasonWaitingForBootstrapData         = "WaitingForBootstrapData"
	ReasonNoMatchingHost                  = "NoMatchingHost"
	// ReasonNetworkDataWithIgnition: the bootstrap data is for Ignition, which reads no
	// networkData.
	ReasonNetworkDataWithIgnition = "NetworkDataWithIgnition"
	// ReasonSoftwareRAIDWithIgnition: the bootstrap data is for Ignition, which makes its own
	// mirror.
	ReasonSoftwareRAIDWithIgnition = "SoftwareRAIDWithIgnition"
	// ReasonBootstrapDataInvalid: no system reads the bootstrap data.
	ReasonBootstrapDataInvalid = "BootstrapDataInvalid"
	// ReasonLiveDataNotVerified: the cluster demands a verified boot, and the live system's data
	// would go in clear.
	ReasonLiveDataNotVerified = "LiveDataNotVerified"
	// ReasonLiveSystemUnresponsive: a live system was started, and never asked for its data.
	ReasonLiveSystemUnresponsive = "LiveSystemUnresponsive"
	// ReasonLiveDataRejected: whoever asked for a live system's data does not get it.
	ReasonLiveDataRejected = "LiveDataRejected"
	ReasonHostClaimed      = "HostClaimed"
	ReasonClaimLost        = "ClaimLost"
	// ReasonProviderIDInvalid: spec.providerID names no host that the machine can have. It is
	// terminal (M28): nobody may change the field, and only deleting the Machine helps.
	ReasonProviderIDInvalid = "ProviderIDInvalid"
	// ReasonHostLost: the machine was provisioned, and its host is taken from it for
	// good. It is terminal (M28): only deleting the Machine helps.
	ReasonHostLost              = "HostLost"
	ReasonFailureDomainConflict = "FailureDomainConflict"
	// ReasonOwnerMismatch: the Machine that is named as the owner refers to another
	// IngotMachine.
	ReasonOwnerMismatch             = "OwnerMismatch"
	ReasonWaitingForMachineDeletion = "WaitingForMachineDeletion"
	// ReasonWaitingForMachineHooks: hooks hold up the deletion of the Machine (I7).
	ReasonWaitingForMachineHooks = "WaitingForMachineHooks"
	ReasonWaitingForFence        = "WaitingForFence"
	ReasonInstalled              = "Installed"
	ReasonBooted                 = "Booted"
	ReasonWaitingForBoot         = "WaitingForBoot"
	// ReasonFirstBootInterrupted: it ended before cloud-init did, and no Node has joined.
	ReasonFirstBootInterrupted = "FirstBootInterrupted"
	// ReasonBootstrapFailed: cloud-init has ended without the sentinel file of the bootstrap
	// provider, and no Node has joined.
	ReasonBootstrapFailed = "BootstrapFailed"
	// ReasonNodeIdentified: Ingot has set the provider ID of a Node that had none.
	ReasonNodeIdentified = "NodeIdentified"
	// ReasonNodeNotIdentified: a Node without a provider ID may be the machine's, and it is
	// not certain, or a Node of the machine's name has another's.
	ReasonNodeNotIdentified = "NodeNotIdentified"
	// ReasonNodeZoneConflict: a Node is in another zone than the rack of its host, which
	// somebody else wrote.
	ReasonNodeZoneConflict = "NodeZoneConflict"
	// ReasonNodeLabelConflict: something else keeps changing a label that Ingot writes.
	ReasonNodeLabelConflict = "NodeLabelConflict"

	// Remediations of machines.
	// ReasonPowerCycling: the BMC switches the host off and on again.
	ReasonPowerCycling = "PowerCycling"
	// ReasonWaitingForNode: the host was restarted; its Node may take a while.
	ReasonWaitingForNode = "WaitingForNode"
	// ReasonNodeHealthy: Cluster API says that the Machine is healthy.
	ReasonNodeHealthy = "NodeHealthy"
	// ReasonOwnerRemediationRequested: the Machine's owner replaces it.
	ReasonOwnerRemediationRequested = "OwnerRemediationRequested"
	// ReasonHealthFailed: power cycles did not help.
	ReasonHealthFailed = "HealthFailed"
	// ReasonPowerCycleFailed: the BMC did not switch the host off and on in time.
	ReasonPowerCycleFailed = "PowerCycleFailed"
	// ReasonBootIDChanged, ReasonPowerStateConfirmed: what proves a restart; and
	// ReasonBootIDUnchanged that it was another server's, or none.
	ReasonBootIDChanged       = "BootIDChanged"
	ReasonPowerStateConfirmed = "PowerStateConfirmed"
	ReasonBootIDUnchanged     = "BootIDUnchanged"
	// ReasonMachineMissing: the remediation belongs to no Machine.
	ReasonMachineMissing = "MachineMissing"

	// Clusters.
	ReasonEndpointSet        = "EndpointSet"
	ReasonWaitingForEndpoint = "WaitingForEndpoint"
	// ReasonEndpointInUse: a host has the endpoint for its address.
	ReasonEndpointInUse           = "EndpointInUse"
	ReasonFailureDomainsPublished = "FailureDomainsPublished"
	ReasonNoFailureDomains        = "NoFailureDomains"
	ReasonTooManyFailureDomains   = "TooManyFailureDomains"
	ReasonSelectorInvalid         = "SelectorInvalid"
	ReasonMachinesRemain          = "MachinesRemain"

	// Reservations of hosts.
	// ReasonReservationSatisfied: the hosts are there for what is outstanding.
	ReasonReservationSatisfied = "ReservationSatisfied"
	// ReasonInsufficientHosts: hosts that were promised are not there any more.
	ReasonInsufficientHosts = "InsufficientHosts"
	// ReasonReservationConsumed: the Cluster has every host that it was promised.
	ReasonReservationConsumed = "ReservationConsumed"
	// ReasonReservationExpired: the promise has ended by time.
	ReasonReservationExpired = "ReservationExpired"
	// ReasonClusterMissing: the Cluster that hosts were promised to does not exist.
	ReasonClusterMissing = "ClusterMissing"

	// Images of the catalogue.
	ReasonImageReachable   = "ImageReachable"
	ReasonImageUnreachable = "ImageUnreachable"
	// ReasonImageSourceNotAllowed: --image-sources does not allow the URL.
	ReasonImageSourceNotAllowed = "ImageSourceNotAllowed"
	// ReasonImageSizeDiffers: what is at the URL has another size.
	ReasonImageSizeDiffers = "ImageSizeDiffers"
	// ReasonImageMissing: no IngotImage has the name that a machine asks for.
	ReasonImageMissing = "ImageMissing"
)
