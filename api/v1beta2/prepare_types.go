// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BIOSApply defines when Ingot writes BIOS settings to a host.
// +kubebuilder:validation:Enum=BeforeProvisioning;AtNextReboot
type BIOSApply string

// The times at which Ingot writes BIOS settings.
const (
	// BIOSBeforeProvisioning writes settings only while no installed system uses the host. A
	// provisioned host reports the differences and keeps its settings (I2).
	BIOSBeforeProvisioning BIOSApply = "BeforeProvisioning"
	// BIOSAtNextReboot also writes settings to a provisioned host as pending settings. They take
	// effect when an operator reboots the host. Ingot does not reboot it.
	BIOSAtNextReboot BIOSApply = "AtNextReboot"
)

// BIOSConfiguration is the desired BIOS configuration of a host.
type BIOSConfiguration struct {
	// settings maps the BMC's BIOS attribute names (Redfish) to the desired values, for example
	// LogicalProc: Enabled. Write numbers and booleans as strings: "120", "true". Ingot does not
	// change other attributes.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() > 0 && name.size() <= 128)",message="names must be those of the BMC's BIOS attributes, 1 to 128 characters long"
	// +kubebuilder:validation:XValidation:rule="self.all(name, self[name].size() <= 256)",message="values must be at most 256 characters long"
	Settings map[string]string `json:"settings,omitempty"`

	// apply defines when Ingot writes the settings. With BeforeProvisioning, Ingot never writes to
	// a provisioned host. With AtNextReboot, Ingot also writes to a provisioned host, and the
	// settings take effect at its next reboot. The default is BeforeProvisioning.
	// +optional
	// +kubebuilder:default=BeforeProvisioning
	Apply BIOSApply `json:"apply,omitempty"`
}

// FirmwareComponent is the desired version of one firmware component.
// +kubebuilder:validation:XValidation:rule="!has(self.url) || !self.url.contains('@')",fieldPath=".url",message="must not contain a user name or password (the value is not repeated here), because users who can read hosts and the logs of BMCs would show them; serve the image without credentials"
type FirmwareComponent struct {
	// component identifies the firmware in the BMC's SoftwareInventory (Redfish), for example BIOS.
	// It is the last segment of the resource's path or its name. Case is ignored. For Dell, use the
	// part after the two underscores: NIC.Integrated.1-1-1 for
	// Installed-102303-19.5.12__NIC.Integrated.1-1-1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Component string `json:"component,omitempty"`
	// version is the desired version, exactly as the BMC reports it after the update.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// url is the http or https URL of the firmware image, without credentials. The BMC downloads
	// the image from this URL. If the BMC cannot do this, Ingot downloads the image and uploads it
	// to the BMC.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.contains('@') || (isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '')",message="must be an http or https URL with a host, for example https://images.example/bios-2.19.1.exe"
	URL string `json:"url,omitempty"`
	// checksum is the checksum of the firmware image, "sha256:<hex>". Ingot verifies it before the
	// update starts and rejects a different file. If unset, Ingot does not upload the image, and
	// only a BMC that downloads the image can verify it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[0-9a-f]{64}$')",message="must be sha256: and 64 hexadecimal digits in lower case, as sha256sum prints them for the file at the URL"
	Checksum string `json:"checksum,omitempty"`
}

// PreparationOutcome is the outcome of a preparation.
// +kubebuilder:validation:Enum=Applied;Failed
type PreparationOutcome string

// The outcomes of a preparation.
const (
	// PreparationApplied means that the BMC reports all desired settings and firmware versions.
	PreparationApplied PreparationOutcome = "Applied"
	// PreparationFailed means that Ingot stopped. A change of the spec or the inspect annotation
	// starts the preparation again.
	PreparationFailed PreparationOutcome = "Failed"
)

// HostPreparation is the persistent state of the BIOS settings and firmware versions of a host.
// Only Ingot writes it.
type HostPreparation struct {
	// settingsHash is the SHA-256 of the desired settings and firmware in hexadecimal. If the spec
	// changes, the hash differs and the preparation starts again.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{64}$')",message="must be a SHA-256 of 64 hexadecimal digits in lower case"
	SettingsHash string `json:"settingsHash,omitempty"`
	// attempt is the number of consecutive attempts. An attempt is a boot for settings, a failed
	// update of one component, or a write to a provisioned host.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`
	// reversions is the number of times that applied settings or firmware reverted within 24 hours.
	// Ingot stops after too many reversions, because each one requires a boot.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Reversions int32 `json:"reversions,omitempty"`
	// outcome is the outcome of the preparation, either Applied or Failed. It is unset while the
	// preparation runs.
	// +optional
	Outcome PreparationOutcome `json:"outcome,omitempty"`
	// completionTime is the time at which the preparation ended.
	// +optional
	CompletionTime metav1.Time `json:"completionTime,omitempty,omitzero"`
	// reason is the reason of the last failure in CamelCase.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// message is a human-readable description of the last failure.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// update is the firmware update that is in progress.
	// +optional
	Update *FirmwareUpdate `json:"update,omitempty"`
}

// UpdateState is the state of a firmware update request.
// +kubebuilder:validation:Enum=Requested;Accepted;Rejected;Interrupted
type UpdateState string

// The states of a firmware update request.
const (
	// UpdateRequested means that Ingot has sent the request or is about to send it. Ingot does not
	// know whether the BMC received it (I17).
	UpdateRequested UpdateState = "Requested"
	// UpdateAccepted means that the BMC accepted the request.
	UpdateAccepted UpdateState = "Accepted"
	// UpdateRejected means that the BMC rejected the request.
	UpdateRejected UpdateState = "Rejected"
	// UpdateInterrupted means that the manager stopped during the upload. Ingot does not upload the
	// image again until it knows whether the BMC received it (I17).
	UpdateInterrupted UpdateState = "Interrupted"
)

// UpdateDelivery is the method by which a BMC receives a firmware image.
// +kubebuilder:validation:Enum=Fetch;Push
type UpdateDelivery string

// The methods by which a BMC receives a firmware image.
const (
	// DeliveryFetch means that the BMC downloads the image from its URL.
	DeliveryFetch UpdateDelivery = "Fetch"
	// DeliveryPush means that Ingot downloads the image and uploads it to the BMC.
	DeliveryPush UpdateDelivery = "Push"
)

// FirmwareUpdate is a firmware update that is in progress. Ingot writes it before it sends the
// request to the BMC, so that no second update can start.
type FirmwareUpdate struct {
	// component is the component as spec.firmware names it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Component string `json:"component,omitempty"`
	// version is the version that the BMC installs.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// startTime is the time of the request. If Ingot uploads the image, it is the time at which the
	// upload ended.
	// +required
	StartTime metav1.Time `json:"startTime,omitempty,omitzero"`
	// delivery is the method by which the BMC receives the image, either Fetch or Push. The default
	// is Fetch.
	// +optional
	Delivery UpdateDelivery `json:"delivery,omitempty"`
	// state is the state of the request: Requested, Accepted, Rejected or Interrupted.
	// +required
	State UpdateState `json:"state,omitempty"`
	// taskID is the ID of the BMC's task. It is unset if the BMC reports no task.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	TaskID string `json:"taskID,omitempty"`
	// bmcResetTime is the time at which Ingot reset the BMC because the task waited for a reset.
	// +optional
	BMCResetTime metav1.Time `json:"bmcResetTime,omitempty,omitzero"`
	// message is the error message of a BMC that rejected the update.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}
