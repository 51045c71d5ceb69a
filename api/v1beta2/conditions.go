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

// Reasons of conditions and of events. docs/book/reference/reasons.md lists them by category.
const (
	// Reasons of several kinds.

	// ReasonUnknown: Ingot has not evaluated the condition yet, or no rule applies to the object.
	// +ingot:category=Internal
	// +ingot:remedy=Wait a minute. If the message reports a defect of Ingot, file an issue with
	// the object's YAML.
	ReasonUnknown = "Unknown"
	// ReasonReady: The object does what its spec asks for.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonReady = "Ready"
	// ReasonNotReady: Another object that the message names is not ready.
	// +ingot:category=Progress
	// +ingot:remedy=See the conditions of the object that the message names.
	ReasonNotReady = "NotReady"
	// ReasonInProgress: Ingot works on the host or machine, or will do so next.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonInProgress = "InProgress"
	// ReasonPaused: The Cluster is paused, or the object has the annotation
	// cluster.x-k8s.io/paused. Ingot does nothing to it.
	// +ingot:category=Configuration
	// +ingot:remedy=Unpause the Cluster, or remove the annotation.
	ReasonPaused = "Paused"
	// ReasonNotPaused: Ingot reconciles the object.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonNotPaused = "NotPaused"
	// ReasonNotStalled: The host does not wait for an operator.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonNotStalled = "NotStalled"
	// ReasonWaiting: Ingot needs a fact that it has not read yet, such as the power state.
	// +ingot:category=Progress
	// +ingot:remedy=Wait. If the reason stays, check the condition BMCReachable.
	ReasonWaiting = "Waiting"
	// ReasonMaintenance: spec.maintenance keeps the host out of service, or an operator works on
	// the host of a remediation.
	// +ingot:category=Configuration
	// +ingot:remedy=Unset spec.maintenance, or remove what the message names, when the work is
	// done.
	ReasonMaintenance = "Maintenance"
	// ReasonDeleting: The object is being deleted.
	// +ingot:category=Progress
	// +ingot:remedy=None. If the deletion does not end, the message names what it waits for.
	ReasonDeleting = "Deleting"
	// ReasonNotApplicable: The condition does not apply to the object in its current state.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonNotApplicable = "NotApplicable"
	// ReasonUnmanaged: The host has no spec.bmc. Ingot lists the host and does nothing to it.
	// +ingot:category=Configuration
	// +ingot:remedy=Set spec.bmc if Ingot should manage the host.
	ReasonUnmanaged = "Unmanaged"
	// ReasonDuplicate: Another IngotHost is the same server: it has the same BMC, MAC address, or
	// serial number and UUID.
	// +ingot:category=Inventory
	// +ingot:remedy=Correct or delete one of the two hosts. If the other host is in another
	// namespace, ask an administrator who can read all namespaces.
	ReasonDuplicate = "Duplicate"
	// ReasonPoweredOnUnexpectedly: The server was powered on without an action of Ingot, so Ingot
	// does not use it.
	// +ingot:category=Inventory
	// +ingot:remedy=Power the server off, or set the annotation approve to let Ingot shut it down
	// and take it over.
	ReasonPoweredOnUnexpectedly = "PoweredOnUnexpectedly"
	// ReasonStateUnconfirmed: The server is on, and Ingot's state of the host may be outdated, as
	// after a restored backup. Ingot leaves the server alone.
	// +ingot:category=Inventory
	// +ingot:remedy=If the server is not in use, power it off by its BMC. If another owner uses
	// it, pause the host.
	ReasonStateUnconfirmed = "StateUnconfirmed"
	// ReasonPoweredOff: The server is off: spec.power requests it, or the BMC reports it for a
	// machine or during the agent's work.
	// +ingot:category=Configuration
	// +ingot:remedy=Set spec.power to On. If nobody switched the server off, check its power
	// supply and the BMC's log.
	ReasonPoweredOff = "PoweredOff"
	// ReasonQuarantined: Ingot took the host out of service: an install, inspection or cleaning
	// failed repeatedly, power-off was not confirmed, or remediation failed.
	// +ingot:category=Inventory
	// +ingot:remedy=Remove the cause that the message names, then set the annotation
	// clear-quarantine.
	ReasonQuarantined = "Quarantined"
	// ReasonAnnotationIgnored: Ingot removed an annotation that has no effect now, has expired, or
	// has a time outside the allowed range.
	// +ingot:category=Configuration
	// +ingot:remedy=Set the annotation again when the reason in the message no longer applies.
	ReasonAnnotationIgnored = "AnnotationIgnored"
	// ReasonCommandExecuted: Ingot carried out a command that an operator gave by annotation. The
	// message names the user and the time.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonCommandExecuted = "CommandExecuted"

	// Reasons about the BMC.

	// ReasonBMCResponding: The BMC answers.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonBMCResponding = "BMCResponding"
	// ReasonBMCUnreachable: Ingot cannot connect to the BMC.
	// +ingot:category=BMC
	// +ingot:remedy=Check spec.bmc.address, the network between the manager and the BMC, and the
	// BMC itself. Ingot retries with a delay of up to 5 minutes.
	ReasonBMCUnreachable = "BMCUnreachable"
	// ReasonBMCTimeout: The BMC accepts connections but does not answer in time.
	// +ingot:category=BMC
	// +ingot:remedy=Check the load and the log of the BMC, then reset it. Ingot retries with a
	// delay of up to 5 minutes.
	ReasonBMCTimeout = "BMCTimeout"
	// ReasonBMCBusy: The BMC returns 503, has no free session, or has not reported all of its
	// hardware or firmware yet.
	// +ingot:category=BMC
	// +ingot:remedy=Wait, and close sessions of other tools.
	ReasonBMCBusy = "BMCBusy"
	// ReasonBMCRateLimited: The BMC returns 429, because all of its clients together send too many
	// requests. Ingot waits as long as the BMC asks.
	// +ingot:category=BMC
	// +ingot:remedy=Raise the limit in the BMC's settings, or slow down other tools.
	ReasonBMCRateLimited = "BMCRateLimited"
	// ReasonBMCError: The BMC answers with errors, does not report the power state, or rejects
	// access to BIOS settings and firmware.
	// +ingot:category=BMC
	// +ingot:remedy=Read the BMC's answer in the message, check its log and the rights of its
	// user, then reset the BMC.
	ReasonBMCError = "BMCError"
	// ReasonPowerActionIgnored: The BMC answers, but the server does not change its power state
	// after three requests, or the BMC rejected the last request.
	// +ingot:category=BMC
	// +ingot:remedy=Check the server, its power supply and the BMC's log, then reset the BMC.
	ReasonPowerActionIgnored = "PowerActionIgnored"
	// ReasonBMCUnsupported: The BMC has no such system, or lacks a function that Ingot needs, such
	// as power control or a boot override.
	// +ingot:category=BMC
	// +ingot:remedy=Correct spec.bmc.address to a system that the message lists, or update the
	// BMC's firmware.
	ReasonBMCUnsupported = "BMCUnsupported"
	// ReasonBMCAddressNotAllowed: The flag --bmc-sources does not allow the IP address of the BMC.
	// Ingot does not contact the BMC, and a server in use keeps running.
	// +ingot:category=BMC
	// +ingot:remedy=Correct spec.bmc.address, or add its network to INGOT_BMC_SOURCES.
	ReasonBMCAddressNotAllowed = "BMCAddressNotAllowed"
	// ReasonCertificateInvalid: Ingot does not trust the certificate of the BMC: its CA is
	// unknown, its name is wrong, or it has expired.
	// +ingot:category=Security
	// +ingot:remedy=Set spec.bmc.caBundleRef. Or compare the fingerprint in the message with the
	// BMC's own, and set spec.bmc.certificateFingerprint.
	ReasonCertificateInvalid = "CertificateInvalid"
	// ReasonCertificateChanged: The BMC presents another certificate than the pinned one. It was
	// replaced, or another device intercepts the connection.
	// +ingot:category=Security
	// +ingot:remedy=Find out who replaced the certificate. If the change was intended, set
	// spec.bmc.certificateFingerprint to the fingerprint in the message.
	ReasonCertificateChanged = "CertificateChanged"
	// ReasonCertificatePinned: With trustOnFirstUse, Ingot trusts the certificate that the BMC
	// presented first, and no other from now on.
	// +ingot:category=Security
	// +ingot:remedy=Compare the fingerprint in the message with the BMC's own.
	ReasonCertificatePinned = "CertificatePinned"
	// ReasonCredentialsAccepted: The BMC accepts the credentials.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonCredentialsAccepted = "CredentialsAccepted"
	// ReasonCredentialsRejected: The BMC returns 401 or 403 to the credentials.
	// +ingot:category=Security
	// +ingot:remedy=Correct the Secret; Ingot uses a changed Secret at once. If you corrected the
	// password or role on the BMC, set the annotation retry-bmc.
	ReasonCredentialsRejected = "CredentialsRejected"
	// ReasonCredentialsMissing: The Secret with the BMC's credentials does not exist, or lacks a
	// key.
	// +ingot:category=Security
	// +ingot:remedy=Create the Secret with the keys username and password.
	ReasonCredentialsMissing = "CredentialsMissing"
	// ReasonPasswordChangeRequired: The BMC accepts the password but requires a new one first: it
	// is a factory password, or it has expired.
	// +ingot:category=Security
	// +ingot:remedy=Set the annotation rotate-credentials. Or change the password on the BMC and
	// in the Secret.
	ReasonPasswordChangeRequired = "PasswordChangeRequired"
	// ReasonCABundleMissing: The ConfigMap or Secret of spec.bmc.caBundleRef does not exist, or
	// has no key ca.crt.
	// +ingot:category=Security
	// +ingot:remedy=Create it with the key ca.crt.
	ReasonCABundleMissing = "CABundleMissing"
	// ReasonNamespaceTerminating: The namespace is being deleted, so the API server rejects
	// objects that Ingot must create for this host.
	// +ingot:category=Configuration
	// +ingot:remedy=Set the annotation force-release to let the host go. Then check the server,
	// which may still be on.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonBootMACNotFound: The BMC lists NICs, and none of them has the boot MAC address.
	// +ingot:category=Inventory
	// +ingot:remedy=Correct spec.bootMACAddress. For a new card, power the server on until its
	// firmware has started, then set the annotation retry-bmc.
	ReasonBootMACNotFound = "BootMACNotFound"
	// ReasonCredentialsRotated: The BMC has the new password, and the Secret holds it.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonCredentialsRotated = "CredentialsRotated"
	// ReasonCredentialsRotating: Ingot changes the password of the BMC.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonCredentialsRotating = "CredentialsRotating"
	// ReasonRotationRejected: Ingot did not start the password rotation and removed the
	// annotation.
	// +ingot:category=Security
	// +ingot:remedy=Correct what the message names, such as a shared Secret or BMC, then set the
	// annotation rotate-credentials again.
	ReasonRotationRejected = "RotationRejected"
	// ReasonRotationFailed: The BMC rejected the new password. The old password stays valid, and
	// the Secret holds it.
	// +ingot:category=Security
	// +ingot:remedy=Read the BMC's answer in the message. Set the annotation again, or change the
	// password by hand.
	ReasonRotationFailed = "RotationFailed"
	// ReasonRotationStuck: The BMC accepts neither the old nor the new password, or does not
	// answer. The Secret keeps both, and Ingot tries them in turn.
	// +ingot:category=Security
	// +ingot:remedy=Check whether the BMC has locked the account, and unlock it.
	ReasonRotationStuck = "RotationStuck"
	// ReasonCredentialsRetained: The host was deleted and its Secret was kept, because only the
	// Secret holds the password that Ingot gave the BMC.
	// +ingot:category=Security
	// +ingot:remedy=Keep the Secret, or give the BMC another password and delete the Secret.
	ReasonCredentialsRetained = "CredentialsRetained"
	// ReasonBootOverrideNotApplied: The BMC did not accept the boot device for the next start, or
	// keeps it for every start. A host with bootMethod PXE starts anyway.
	// +ingot:category=Boot
	// +ingot:remedy=Put the network first in the server's own boot order, or update the BMC's
	// firmware.
	ReasonBootOverrideNotApplied = "BootOverrideNotApplied"
	// ReasonWrongServer: The BMC manages another server than the inspected one: serial number,
	// UUID or NICs differ.
	// +ingot:category=Inventory
	// +ingot:remedy=Correct spec.bmc.address. If the mainboard was replaced, follow the task for a
	// replaced mainboard.
	ReasonWrongServer = "WrongServer"

	// Reasons about health as the BMC reports it.

	// ReasonHealthOK: The BMC reports no fault.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonHealthOK = "HealthOK"
	// ReasonHealthWarning: The BMC reports a degraded part. The message names it, and Ingot
	// continues to use the host.
	// +ingot:category=BMC
	// +ingot:remedy=Repair the part. Set spec.maintenance to keep new machines off the host.
	ReasonHealthWarning = "HealthWarning"
	// ReasonHealthCritical: The BMC reports a failed part. The message names it, and Ingot
	// continues to use the host.
	// +ingot:category=BMC
	// +ingot:remedy=Repair the part. Set spec.maintenance to keep new machines off the host.
	ReasonHealthCritical = "HealthCritical"
	// ReasonHealthUnknown: The BMC does not report health, or Ingot cannot read it.
	// +ingot:category=BMC
	// +ingot:remedy=Check the condition BMCReachable. If the BMC should report health, update its
	// firmware.
	ReasonHealthUnknown = "HealthUnknown"

	// Reasons about the lifecycle of a host.

	// ReasonInspected: The agent has reported the hardware of the host.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonInspected = "Inspected"
	// ReasonInspecting: Ingot inspects the host.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonInspecting = "Inspecting"
	// ReasonInspectFailed: An inspection failed. Ingot tries again, and quarantines the host after
	// repeated failures.
	// +ingot:category=Inventory
	// +ingot:remedy=The message contains the agent's reason: see its row on this page.
	ReasonInspectFailed = "InspectFailed"
	// ReasonAvailable: A machine can claim the host.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonAvailable = "Available"
	// ReasonClaimed: A machine has claimed the host.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonClaimed = "Claimed"
	// ReasonNotClaimed: No machine claims the host, or the machine has no host.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonNotClaimed = "NotClaimed"
	// ReasonProvisioning: Ingot installs the host for its machine.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonProvisioning = "Provisioning"
	// ReasonProvisioned: The operating system is installed.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonProvisioned = "Provisioned"
	// ReasonInstallFailed: An install failed. Ingot tries again, and quarantines the host after
	// repeated failures that count against the host.
	// +ingot:category=Installation
	// +ingot:remedy=The message contains the agent's reason: see its row on this page.
	ReasonInstallFailed = "InstallFailed"
	// ReasonReleasing: Ingot powers the host off and ends its claim.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonReleasing = "Releasing"
	// ReasonCleaning: The agent cleans the disks of the host.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonCleaning = "Cleaning"
	// ReasonCleanFailed: A cleaning failed. Ingot tries again, and quarantines the host after
	// repeated failures.
	// +ingot:category=Installation
	// +ingot:remedy=The message contains the agent's reason or the disk: see its row on this page.
	ReasonCleanFailed = "CleanFailed"
	// ReasonCleaned: The agent confirmed that the disks are clean.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonCleaned = "Cleaned"
	// ReasonNotCleaned: The disks hold data of a machine or cluster. Ingot cleans the host before
	// another cluster can claim it.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonNotCleaned = "NotCleaned"
	// ReasonStorageWithoutDriver: The agent's kernel has no driver for a storage controller, or
	// the server has host-managed zoned disks. Ingot does not clean or use these disks.
	// +ingot:category=Inventory
	// +ingot:remedy=Switch the controller to AHCI or HBA mode, or add its driver to the agent's
	// image. If no disk is connected to it, ignore the condition.
	ReasonStorageWithoutDriver = "StorageWithoutDriver"
	// ReasonFenced: The BMC confirmed the power-off of the release.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonFenced = "Fenced"
	// ReasonFencing: Ingot powers the host off, and the BMC has not confirmed it yet.
	// +ingot:category=Progress
	// +ingot:remedy=Make the BMC answer. If the BMC is dead and the server is certainly off, set
	// the annotation force-release.
	ReasonFencing = "Fencing"
	// ReasonNotFenced: The host was released by force, and the BMC has not confirmed the
	// power-off.
	// +ingot:category=BMC
	// +ingot:remedy=Make the BMC answer. If the server is gone for good, delete its IngotHost.
	ReasonNotFenced = "NotFenced"
	// ReasonMachineNotFound: The claim of the host names an IngotMachine that does not exist, or
	// that has another host or instance in its provider ID.
	// +ingot:category=Machine
	// +ingot:remedy=Restore the IngotMachine. If it is gone for good, set the annotation release.
	ReasonMachineNotFound = "MachineNotFound"
	// ReasonNetworkMissing: The IngotNetwork of spec.networkRef does not exist.
	// +ingot:category=Network
	// +ingot:remedy=Create it, or correct the name.
	ReasonNetworkMissing = "NetworkMissing"
	// ReasonNamespaceNotAllowed: The IngotNetwork does not allow hosts of this namespace, so the
	// host does not boot.
	// +ingot:category=Network
	// +ingot:remedy=Add the namespace to spec.allowedNamespaces of the IngotNetwork.
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	// ReasonNetworkQuotaExceeded: The IngotNetwork has as many hosts of this namespace as it
	// allows, so the host does not boot.
	// +ingot:category=Network
	// +ingot:remedy=Delete hosts, or raise the limit of the IngotNetwork.
	ReasonNetworkQuotaExceeded = "NetworkQuotaExceeded"
	// ReasonOutsideAllowedNamespaces: The IngotNetwork does not allow the namespace or number of
	// hosts, but this host was registered before. Ingot continues to serve it.
	// +ingot:category=Network
	// +ingot:remedy=Allow the namespace in the IngotNetwork, or move the host to another network.
	ReasonOutsideAllowedNamespaces = "OutsideAllowedNamespaces"
	// ReasonAddressesExhausted: The range of the IngotNetwork or the address pool has no free
	// address.
	// +ingot:category=Network
	// +ingot:remedy=Widen the range or the pool, or delete hosts that are gone.
	ReasonAddressesExhausted = "AddressesExhausted"
	// ReasonNoAgentContact: The agent did not contact Ingot within --agent-deadline (15 minutes)
	// after power-on. The server probably did not boot from the network.
	// +ingot:category=Boot
	// +ingot:remedy=Check the console, bootMACAddress, cabling, VLAN and the logs of ingot-boot.
	// Raise --agent-deadline if the self-test of the server takes longer.
	ReasonNoAgentContact = "NoAgentContact"
	// ReasonNetworkUnresponsive: Ingot hears no agent on the IngotNetwork, and other hosts there
	// wait too. Inspections and installs are retried without counting against the host.
	// +ingot:category=Boot
	// +ingot:remedy=Check ingot-boot and its nodes, then the VLAN, the relay and
	// INGOT_BOOT_INTERFACE.
	ReasonNetworkUnresponsive = "NetworkUnresponsive"
	// ReasonBootVerified: The host boots the agent by a path that is verified from end to end.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonBootVerified = "BootVerified"
	// ReasonNetworkTrusted: The host boots by PXE, so the boot depends on a trusted network. This
	// is no fault.
	// +ingot:category=Security
	// +ingot:remedy=None. If the cluster requires verified boots, change spec.bootMethod.
	ReasonNetworkTrusted = "NetworkTrusted"
	// ReasonBMCNotVerified: Ingot sets the boot over a connection to the BMC that is not verified.
	// This is no fault.
	// +ingot:category=Security
	// +ingot:remedy=None. If the cluster requires verified boots, set spec.bmc.caBundleRef or
	// spec.bmc.certificateFingerprint.
	ReasonBMCNotVerified = "BMCNotVerified"
	// ReasonImageNotVerified: The firmware does not require a signed boot image. This is no fault.
	// +ingot:category=Security
	// +ingot:remedy=None. If the cluster requires verified boots, set spec.bootMode to
	// UEFISecureBoot.
	ReasonImageNotVerified = "ImageNotVerified"
	// ReasonBootNotVerified: The cluster requires a verified boot, and the host no longer has one.
	// +ingot:category=Security
	// +ingot:remedy=Restore bootMethod, bootMode and the BMC certificate of the host, or delete
	// the Machine.
	ReasonBootNotVerified = "BootNotVerified"
	// ReasonBootServerUnknown: The host boots by HTTP or virtual media, and the manager does not
	// know the URL of a boot server.
	// +ingot:category=Boot
	// +ingot:remedy=Set INGOT_BOOT_URL, or set spec.bootMethod to PXE.
	ReasonBootServerUnknown = "BootServerUnknown"
	// ReasonEjectingVirtualMedia: Ingot removes its image from the virtual drive of the BMC.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonEjectingVirtualMedia = "EjectingVirtualMedia"
	// ReasonVirtualMediaEjectFailed: The BMC did not empty its virtual drive, or does not show the
	// image in it. The image no longer boots, but it may delay the boot from disk.
	// +ingot:category=Boot
	// +ingot:remedy=Eject the image by hand, and update the BMC's firmware.
	ReasonVirtualMediaEjectFailed = "VirtualMediaEjectFailed"
	// ReasonSecureBootOff: Secure Boot was off although spec.bootMode is UEFISecureBoot. Ingot
	// told the BMC to enable it.
	// +ingot:category=Security
	// +ingot:remedy=Find out who disabled Secure Boot.
	ReasonSecureBootOff = "SecureBootOff"
	// ReasonNetworkBootIncomplete: A network boot started, but the agent did not. The message
	// names the last stage, and status.boots the recent boots.
	// +ingot:category=Boot
	// +ingot:remedy=After stage DHCP or Loader, check what NoAgentContact lists. After stage
	// Kernel, check the console and the agent's driver for the NIC.
	ReasonNetworkBootIncomplete = "NetworkBootIncomplete"
	// ReasonWaitingForAddress: The IPAddressClaim has no address yet.
	// +ingot:category=Network
	// +ingot:remedy=Check that the pool exists and that its provider runs. A namespaced pool must
	// be in the namespace of the host or machine.
	ReasonWaitingForAddress = "WaitingForAddress"
	// ReasonAddressConflict: The address from the pool belongs to another host, machine, router,
	// server or control plane endpoint.
	// +ingot:category=Network
	// +ingot:remedy=Remove the address from the pool, then delete the IPAddressClaim that the
	// message names. After force-release, have the BMC confirm the power-off first.
	ReasonAddressConflict = "AddressConflict"
	// ReasonAddressPoolUnusable: The pool gave an address outside of the subnet, or Ingot cannot
	// create an IPAddressClaim.
	// +ingot:category=Network
	// +ingot:remedy=Correct the pool or addressPoolRef as the message says.
	ReasonAddressPoolUnusable = "AddressPoolUnusable"
	// ReasonAddressRestored: The record of an address in use was deleted. Ingot recorded an
	// address again, the same one if it was free.
	// +ingot:category=Network
	// +ingot:remedy=Compare the address with that of the installed system.
	ReasonAddressRestored = "AddressRestored"
	// ReasonAddressClaimLost: The IPAddressClaim of an address in use was deleted or has another
	// address, so the pool may assign the address again.
	// +ingot:category=Network
	// +ingot:remedy=Reserve the address in the pool until the host is released, or replace the
	// Machine.
	ReasonAddressClaimLost = "AddressClaimLost"
	// ReasonWaitingForApproval: Ingot discovered this server and does nothing to it until an
	// operator approves it.
	// +ingot:category=Inventory
	// +ingot:remedy=Set spec.bmc and the annotation approve, or delete the host.
	ReasonWaitingForApproval = "WaitingForApproval"
	// ReasonEnrolled: Ingot registered an unknown client as a host, or an operator approved the
	// host.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonEnrolled = "Enrolled"
	// ReasonEnrollmentRejected: Ingot did not register an unknown client: too many hosts wait for
	// approval, or the namespace does not exist.
	// +ingot:category=Inventory
	// +ingot:remedy=Approve or delete the waiting hosts, or correct spec.discover of the
	// IngotNetwork.
	ReasonEnrollmentRejected = "EnrollmentRejected"
	// ReasonAgentKeyConflict: Two agents used the same token: the boot script was copied, or the
	// server booted twice at once. Ingot powers the host off and tries again.
	// +ingot:category=Security
	// +ingot:remedy=If the reason returns, check which devices are on the provisioning network.
	ReasonAgentKeyConflict = "AgentKeyConflict"
	// ReasonAgentStarted: The agent runs on the host.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonAgentStarted = "AgentStarted"
	// ReasonAgentRequestRejected: A request to the agent API did not come from the agent of this
	// host: its token, key or source address is wrong.
	// +ingot:category=Security
	// +ingot:remedy=Ignore a single event. If it repeats, check which devices are on the
	// provisioning network.
	ReasonAgentRequestRejected = "AgentRequestRejected"
	// ReasonNoRootDisk: No disk matches the root device hints, or softwareRAID does not find two
	// disks.
	// +ingot:category=Inventory
	// +ingot:remedy=Correct rootDeviceHints or softwareRAID in the template or the host.
	ReasonNoRootDisk = "NoRootDisk"
	// ReasonTooManyDisks: The server has more disks than an IngotHardware can list, so Ingot
	// cleans none of them.
	// +ingot:category=Inventory
	// +ingot:remedy=Hide disks by storage zoning or in the setup of the HBA.
	ReasonTooManyDisks = "TooManyDisks"

	// Reasons about BIOS settings and firmware.

	// ReasonPrepared: The host has the BIOS settings and firmware versions of its spec.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonPrepared = "Prepared"
	// ReasonPreparing: Ingot applies BIOS settings to the host.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonPreparing = "Preparing"
	// ReasonUpdatingFirmware: The BMC installs firmware.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonUpdatingFirmware = "UpdatingFirmware"
	// ReasonSettingsRejected: The BMC has no such BIOS setting or value, or cannot change the
	// setting. Ingot changed nothing.
	// +ingot:category=Configuration
	// +ingot:remedy=Correct the name or value in spec.bios. The message lists what exists.
	ReasonSettingsRejected = "SettingsRejected"
	// ReasonSettingsNotApplied: BIOS settings differ from spec.bios after three boots of a free
	// host, or on a host in use.
	// +ingot:category=Configuration
	// +ingot:remedy=Correct spec.bios, or set the annotation inspect on a free host. For a host in
	// use, set apply to AtNextReboot or delete the Machine.
	ReasonSettingsNotApplied = "SettingsNotApplied"
	// ReasonRebootPending: BIOS settings of a host in use take effect at its next reboot.
	// +ingot:category=Configuration
	// +ingot:remedy=Reboot the host at a convenient time.
	ReasonRebootPending = "RebootPending"
	// ReasonFirmwareRejected: The BMC has no such firmware component, cannot update it, or has no
	// transfer method that Ingot supports. Ingot changed nothing.
	// +ingot:category=Configuration
	// +ingot:remedy=Correct the component in spec.firmware. The message lists what exists.
	ReasonFirmwareRejected = "FirmwareRejected"
	// ReasonFirmwareNotApplied: A host in use has other firmware versions than spec.firmware.
	// Ingot updates free hosts only.
	// +ingot:category=Configuration
	// +ingot:remedy=Delete the Machine to let Ingot prepare the host.
	ReasonFirmwareNotApplied = "FirmwareNotApplied"
	// ReasonFirmwareUpdateFailed: Three updates did not install the requested version.
	// +ingot:category=BMC
	// +ingot:remedy=Check that the BMC reaches the URL, that the image fits the model, and the
	// spelling of the version. Correct spec.firmware, or set the annotation inspect.
	ReasonFirmwareUpdateFailed = "FirmwareUpdateFailed"

	// Reasons about machines.

	// ReasonWaitingForClusterInfrastructure: The Cluster has no endpoint yet, or its
	// infrastructure is not ready.
	// +ingot:category=Progress
	// +ingot:remedy=See the conditions of the Cluster and the IngotCluster.
	ReasonWaitingForClusterInfrastructure = "WaitingForClusterInfrastructure"
	// ReasonWaitingForBootstrapData: The bootstrap provider has not created the bootstrap data.
	// Workers wait for the first control plane machine.
	// +ingot:category=Progress
	// +ingot:remedy=See the conditions of the Machine's bootstrap object and of the first control
	// plane machine.
	ReasonWaitingForBootstrapData = "WaitingForBootstrapData"
	// ReasonNoMatchingHost: No host is available that fits the machine. The message names the
	// selector and the nearest host.
	// +ingot:category=Machine
	// +ingot:remedy=Free, repair or register a host, or change the template.
	ReasonNoMatchingHost = "NoMatchingHost"
	// ReasonNetworkDataWithIgnition: The template has networkData, which only cloud-init reads,
	// and the bootstrap data is for Ignition.
	// +ingot:category=Configuration
	// +ingot:remedy=Remove networkData and configure the network in Ignition, or use cloud-config.
	// Then delete the Machine.
	ReasonNetworkDataWithIgnition = "NetworkDataWithIgnition"
	// ReasonSoftwareRAIDWithIgnition: The template has softwareRAID, which needs cloud-init, and
	// the bootstrap data is for Ignition.
	// +ingot:category=Configuration
	// +ingot:remedy=Remove softwareRAID and configure the mirror in Ignition, or use cloud-config.
	// Then delete the Machine.
	ReasonSoftwareRAIDWithIgnition = "SoftwareRAIDWithIgnition"
	// ReasonBootstrapDataInvalid: No system can read the bootstrap data: it is invalid Ignition,
	// or it is not UTF-8 text.
	// +ingot:category=Configuration
	// +ingot:remedy=Correct the KubeadmConfig or what creates the Secret, as the message says.
	// Then delete the Machine, unless a host already waits for the data.
	ReasonBootstrapDataInvalid = "BootstrapDataInvalid"
	// ReasonLiveDataNotVerified: The cluster requires a verified boot, and the live system would
	// receive its bootstrap data without TLS.
	// +ingot:category=Security
	// +ingot:remedy=Use a live system that takes its data by HTTPS, or an image. Then delete the
	// Machine.
	ReasonLiveDataNotVerified = "LiveDataNotVerified"
	// ReasonLiveSystemUnresponsive: The agent started the live system, which did not request its
	// bootstrap data within 15 minutes. The failure does not count against the host.
	// +ingot:category=Installation
	// +ingot:remedy=Check the console: the kernel needs a driver for the NIC, an address and the
	// data URL in its command line.
	ReasonLiveSystemUnresponsive = "LiveSystemUnresponsive"
	// ReasonLiveDataRejected: A request for the bootstrap data of a live system was rejected:
	// wrong source address, too late, repeated, or without TLS.
	// +ingot:category=Security
	// +ingot:remedy=Check that the live system uses the boot NIC. If it lost its data after the
	// first request, replace the Machine.
	ReasonLiveDataRejected = "LiveDataRejected"
	// ReasonHostClaimed: The machine has a host.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonHostClaimed = "HostClaimed"
	// ReasonClaimLost: The IngotHost of the machine does not exist, or does not have the claim of
	// this machine after a move or a restore.
	// +ingot:category=Machine
	// +ingot:remedy=Restore the IngotHost with its claim, or delete the Machine.
	ReasonClaimLost = "ClaimLost"
	// ReasonProviderIDInvalid: spec.providerID of the IngotMachine names no host of its namespace.
	// The field is immutable, so the machine cannot recover (M28).
	// +ingot:category=Machine
	// +ingot:remedy=Delete the Machine to replace it.
	ReasonProviderIDInvalid = "ProviderIDInvalid"
	// ReasonHostLost: The claim of a provisioned machine was ended by force. The machine cannot
	// recover (M28).
	// +ingot:category=Machine
	// +ingot:remedy=Delete the Machine to replace it.
	ReasonHostLost = "HostLost"
	// ReasonFailureDomainConflict: Machine and IngotMachine request different failure domains.
	// +ingot:category=Configuration
	// +ingot:remedy=Correct spec.failureDomain of the Machine, or delete the Machine.
	ReasonFailureDomainConflict = "FailureDomainConflict"
	// ReasonOwnerMismatch: The Machine that owns the IngotMachine refers to another IngotMachine:
	// this one was copied or created by hand.
	// +ingot:category=Machine
	// +ingot:remedy=Delete this IngotMachine.
	ReasonOwnerMismatch = "OwnerMismatch"
	// ReasonWaitingForMachineDeletion: The IngotMachine was deleted but its Machine was not, so
	// Cluster API does not drain the Node.
	// +ingot:category=Machine
	// +ingot:remedy=Drain the Node with kubectl drain, then delete the Machine.
	ReasonWaitingForMachineDeletion = "WaitingForMachineDeletion"
	// ReasonWaitingForMachineHooks: Deletion hooks of the Machine are not finished, so the server
	// stays on.
	// +ingot:category=Machine
	// +ingot:remedy=Drain the Node if the IngotMachine was deleted first. Then wait, or check the
	// owner of the hook annotation.
	ReasonWaitingForMachineHooks = "WaitingForMachineHooks"
	// ReasonWaitingForFence: The deletion of the machine waits until the BMC confirms the
	// power-off of its host.
	// +ingot:category=Machine
	// +ingot:remedy=See the condition Fenced of the host.
	ReasonWaitingForFence = "WaitingForFence"
	// ReasonInstalled: The operating system of the machine is installed.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonInstalled = "Installed"
	// ReasonBooted: The installed system has reported its first boot.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonBooted = "Booted"
	// ReasonWaitingForBoot: The installed system has not reported its first boot. A system without
	// curl never reports it.
	// +ingot:category=Boot
	// +ingot:remedy=Check at the console that the disk boots, that cloud-init runs, and that the
	// server reaches ingot-boot on TCP port 8843.
	ReasonWaitingForBoot = "WaitingForBoot"
	// ReasonFirstBootInterrupted: The server lost power or restarted before cloud-init ended its
	// first boot, and no Node has joined.
	// +ingot:category=Installation
	// +ingot:remedy=Let a MachineHealthCheck replace the Machine, or delete the Machine. The host
	// is not at fault.
	ReasonFirstBootInterrupted = "FirstBootInterrupted"
	// ReasonBootstrapFailed: cloud-init ended without the success file of the bootstrap provider,
	// and no Node has joined.
	// +ingot:category=Installation
	// +ingot:remedy=Log in and read /var/log/cloud-init-output.log. Then replace the Machine; the
	// host is not at fault.
	ReasonBootstrapFailed = "BootstrapFailed"
	// ReasonNodeIdentified: Ingot found the Node of the machine by its UUID and set its provider
	// ID.
	// +ingot:category=Progress
	// +ingot:remedy=None. Set the kubelet's provider ID in the template to avoid the search.
	ReasonNodeIdentified = "NodeIdentified"
	// ReasonNodeNotIdentified: Ingot cannot decide whether a Node belongs to the machine, or a
	// Node of its name has another provider ID.
	// +ingot:category=Machine
	// +ingot:remedy=Set the kubelet's provider ID in the template. Delete an outdated Node, then
	// restart the kubelet.
	ReasonNodeNotIdentified = "NodeNotIdentified"
	// ReasonNodeZoneConflict: The Node has a zone label that Ingot did not write and that differs
	// from the host's failure domain. Ingot keeps it.
	// +ingot:category=Machine
	// +ingot:remedy=None. Remove the label from the Node if it should have the host's failure
	// domain.
	ReasonNodeZoneConflict = "NodeZoneConflict"
	// ReasonNodeLabelConflict: Another client changes a Node label that Ingot writes. Ingot writes
	// it again every 5 minutes.
	// +ingot:category=Machine
	// +ingot:remedy=Remove the label from the host or from spec.nodeLabels, or stop the other
	// client.
	ReasonNodeLabelConflict = "NodeLabelConflict"

	// Reasons about remediation.

	// ReasonPowerCycling: Ingot power-cycles the host of an unhealthy Machine.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonPowerCycling = "PowerCycling"
	// ReasonWaitingForNode: The host has restarted, and its Node has time to become healthy. With
	// status Unknown, Ingot cannot read the workload cluster.
	// +ingot:category=Progress
	// +ingot:remedy=Wait. With status Unknown, check the API server of the workload cluster and
	// its kubeconfig Secret.
	ReasonWaitingForNode = "WaitingForNode"
	// ReasonNodeHealthy: Cluster API reports that the Machine is healthy.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonNodeHealthy = "NodeHealthy"
	// ReasonOwnerRemediationRequested: Ingot asked the owner of the Machine to replace it.
	// +ingot:category=Machine
	// +ingot:remedy=None. If the owner does not, see the condition OwnerRemediated of the Machine;
	// without an owner, delete the Machine.
	ReasonOwnerRemediationRequested = "OwnerRemediationRequested"
	// ReasonHealthFailed: The Machine is still unhealthy after all power cycles. Its owner
	// replaces it.
	// +ingot:category=Machine
	// +ingot:remedy=Repair the host, then set the annotation clear-quarantine.
	ReasonHealthFailed = "HealthFailed"
	// ReasonPowerCycleFailed: The BMC did not power-cycle the host in time. The owner of the
	// Machine replaces it.
	// +ingot:category=BMC
	// +ingot:remedy=Read the host's reason in the message. Raise timeoutSeconds of the remediation
	// template if the BMC is only slow.
	ReasonPowerCycleFailed = "PowerCycleFailed"
	// ReasonBootIDChanged: The boot ID of the Node proves the restart.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonBootIDChanged = "BootIDChanged"
	// ReasonPowerStateConfirmed: The power states that the BMC reported prove the restart.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonPowerStateConfirmed = "PowerStateConfirmed"
	// ReasonBootIDUnchanged: The BMC confirmed power-off and power-on, but the Node did not
	// restart.
	// +ingot:category=Inventory
	// +ingot:remedy=Check that spec.bmc.address belongs to this server.
	ReasonBootIDUnchanged = "BootIDUnchanged"
	// ReasonMachineMissing: The remediation has no Machine as its owner, because it was created by
	// hand.
	// +ingot:category=Machine
	// +ingot:remedy=Delete the remediation.
	ReasonMachineMissing = "MachineMissing"

	// Reasons about clusters.

	// ReasonEndpointSet: The cluster has a control plane endpoint.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonEndpointSet = "EndpointSet"
	// ReasonWaitingForEndpoint: spec.controlPlaneEndpoint is not set.
	// +ingot:category=Cluster
	// +ingot:remedy=Set spec.controlPlaneEndpoint of the IngotCluster, or let a control plane
	// provider set it.
	ReasonWaitingForEndpoint = "WaitingForEndpoint"
	// ReasonEndpointInUse: A host has the address of the control plane endpoint.
	// +ingot:category=Cluster
	// +ingot:remedy=Release the host, delete it and register it again to get another address. Keep
	// it if it runs a load balancer or the only control plane.
	ReasonEndpointInUse = "EndpointInUse"
	// ReasonFailureDomainsPublished: The cluster lists the failure domains of its hosts.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonFailureDomainsPublished = "FailureDomainsPublished"
	// ReasonNoFailureDomains: No host has the failure domain label.
	// +ingot:category=Cluster
	// +ingot:remedy=Label the hosts if machines should spread across failure domains.
	ReasonNoFailureDomains = "NoFailureDomains"
	// ReasonTooManyFailureDomains: The hosts have more than 100 values of the failure domain
	// label, so Ingot places machines without failure domains.
	// +ingot:category=Cluster
	// +ingot:remedy=Narrow hostSelector. Change failureDomainLabel only before the cluster is
	// provisioned.
	ReasonTooManyFailureDomains = "TooManyFailureDomains"
	// ReasonSelectorInvalid: A label selector of the cluster, template or reservation is invalid.
	// +ingot:category=Configuration
	// +ingot:remedy=Correct the selector.
	ReasonSelectorInvalid = "SelectorInvalid"
	// ReasonMachinesRemain: The cluster is being deleted and still has machines.
	// +ingot:category=Cluster
	// +ingot:remedy=See the conditions of these machines.
	ReasonMachinesRemain = "MachinesRemain"

	// Reasons about reservations.

	// ReasonReservationSatisfied: The reserved hosts are free and held for the Cluster.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonReservationSatisfied = "ReservationSatisfied"
	// ReasonInsufficientHosts: Reserved hosts are no longer free: they failed, are in maintenance
	// or were deleted.
	// +ingot:category=Cluster
	// +ingot:remedy=Repair or add hosts as the message says.
	ReasonInsufficientHosts = "InsufficientHosts"
	// ReasonReservationConsumed: The Cluster has claimed all reserved hosts.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonReservationConsumed = "ReservationConsumed"
	// ReasonReservationExpired: The Cluster did not claim its hosts before spec.expirationTime, so
	// other Clusters can claim them.
	// +ingot:category=Cluster
	// +ingot:remedy=Find out why its machines wait. Then set a later spec.expirationTime, or
	// delete the reservation.
	ReasonReservationExpired = "ReservationExpired"
	// ReasonClusterMissing: The Cluster of the reservation does not exist.
	// +ingot:category=Cluster
	// +ingot:remedy=Create the Cluster, or delete the reservation.
	ReasonClusterMissing = "ClusterMissing"

	// Reasons about images.

	// ReasonImageReachable: The server of the image answers and has the file.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonImageReachable = "ImageReachable"
	// ReasonImageUnreachable: The server of the image does not answer, or does not have the file.
	// +ingot:category=Installation
	// +ingot:remedy=Read its answer in the message, and test the URL with curl from the manager's
	// network.
	ReasonImageUnreachable = "ImageUnreachable"
	// ReasonImageSourceNotAllowed: The flag --image-sources does not allow the URL.
	// +ingot:category=Configuration
	// +ingot:remedy=Add the source to INGOT_IMAGE_SOURCES.
	ReasonImageSourceNotAllowed = "ImageSourceNotAllowed"
	// ReasonImageSizeDiffers: The file at the URL has another size than spec.sizeBytes, because it
	// was replaced.
	// +ingot:category=Installation
	// +ingot:remedy=Serve the old file, or create another IngotImage for the new one.
	ReasonImageSizeDiffers = "ImageSizeDiffers"
	// ReasonImageMissing: No IngotImage has the name that the machine requests.
	// +ingot:category=Configuration
	// +ingot:remedy=Create the IngotImage; the machine continues without further action.
	ReasonImageMissing = "ImageMissing"
)
