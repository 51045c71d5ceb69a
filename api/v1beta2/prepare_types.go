// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BIOSApply says when settings are written to a host.
// +kubebuilder:validation:Enum=BeforeProvisioning;AtNextReboot
type BIOSApply string

// When settings are written.
const (
	// BIOSBeforeProvisioning writes them while no installed system depends on the host: a
	// provisioned host shows what is not in force, and is not touched (I2).
	BIOSBeforeProvisioning BIOSApply = "BeforeProvisioning"
	// BIOSAtNextReboot also writes them to a provisioned host, as pending: they take
	// effect when somebody reboots it. Ingot does not.
	BIOSAtNextReboot BIOSApply = "AtNextReboot"
)

// BIOSConfiguration is what a person wants of the firmware setup.
type BIOSConfiguration struct {
	// settings are the values wanted, by the names that the BMC gives them (Redfish
	// BIOS attributes), for example LogicalProc: Enabled. Numbers and booleans are
	// written as text: "120", "true". Settings that are not named stay as they are.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.size() > 0 && name.size() <= 128)",message="names must be those of the BMC's BIOS attributes, 1 to 128 characters long"
	// +kubebuilder:validation:XValidation:rule="self.all(name, self[name].size() <= 256)",message="values must be at most 256 characters long"
	Settings map[string]string `json:"settings,omitempty"`

	// apply says when they are written. BeforeProvisioning: never to a provisioned host.
	// AtNextReboot: to a provisioned host too, where they wait for its next reboot.
	// +optional
	// +kubebuilder:default=BeforeProvisioning
	Apply BIOSApply `json:"apply,omitempty"`
}

// FirmwareComponent is a version of one piece of firmware that a person wants.
// +kubebuilder:validation:XValidation:rule="!has(self.url) || !self.url.contains('@')",fieldPath=".url",message="must not hold a user name or password (the value is not repeated here): everybody who may read hosts could read them, and BMCs log URLs; serve the image without"
type FirmwareComponent struct {
	// component is the last segment of the BMC's own name of the firmware (Redfish
	// SoftwareInventory), or its name, in any case: for example BIOS. Of Dell's, whose last
	// segment has the version in it, what follows the two underscores will do:
	// NIC.Integrated.1-1-1 of Installed-102303-19.5.12__NIC.Integrated.1-1-1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Component string `json:"component,omitempty"`
	// version is wanted exactly as the BMC will tell it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// url is where the image is, by http or https, without credentials. The BMC fetches
	// it there; where it cannot, Ingot does, and pushes it to the BMC.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.contains('@') || (isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '')",message="must be an http or https URL with a host, for example https://images.example/bios-2.19.1.exe"
	URL string `json:"url,omitempty"`
	// checksum of the file at the URL, "sha256:<hex>": Ingot reads the file once
	// before it lets the BMC fetch it, or pushes it, and refuses another. Unset: Ingot
	// does not push the image, and a BMC that fetches it is the only one to check it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[0-9a-f]{64}$')",message="must be sha256: and 64 hexadecimal digits in lower case, as sha256sum prints them for the file at the URL"
	Checksum string `json:"checksum,omitempty"`
}

// PreparationOutcome is how the preparation of a host ended.
// +kubebuilder:validation:Enum=Applied;Failed
type PreparationOutcome string

// The outcomes.
const (
	// PreparationApplied: the BMC told that everything wanted is in force.
	PreparationApplied PreparationOutcome = "Applied"
	// PreparationFailed: given up; another spec, or a person's inspect, tries again.
	PreparationFailed PreparationOutcome = "Failed"
)

// HostPreparation is what must be remembered of the settings and firmware that a
// host was given, or was to be given.
type HostPreparation struct {
	// settingsHash is the SHA-256 (hex) of the settings and firmware that this speaks of:
	// other wishes start afresh.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{64}$')",message="must be a SHA-256 of 64 hexadecimal digits in lower case"
	SettingsHash string `json:"settingsHash,omitempty"`
	// attempt counts, in a row, the boots made for settings, the updates of one
	// component that failed, or the writes to a provisioned host.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempt int32 `json:"attempt,omitempty"`
	// reversions counts how often what was in force was lost again within a day: a server
	// that forgets its settings is not booted for them for ever.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Reversions int32 `json:"reversions,omitempty"`
	// outcome of the preparation; unset while it goes on.
	// +optional
	Outcome PreparationOutcome `json:"outcome,omitempty"`
	// completionTime is when the outcome was known.
	// +optional
	CompletionTime metav1.Time `json:"completionTime,omitempty,omitzero"`
	// reason of the last failure, CamelCase.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// message of the last failure, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// update is the one under way.
	// +optional
	Update *FirmwareUpdate `json:"update,omitempty"`
}

// UpdateState is what is known of a request to update firmware.
// +kubebuilder:validation:Enum=Requested;Accepted;Rejected;Interrupted
type UpdateState string

// The states.
const (
	// UpdateRequested: the request was, or is about to be, sent; nobody knows whether the
	// BMC has it (I17).
	UpdateRequested UpdateState = "Requested"
	// UpdateAccepted: the BMC has taken it.
	UpdateAccepted UpdateState = "Accepted"
	// UpdateRejected: the BMC has refused it.
	UpdateRejected UpdateState = "Rejected"
	// UpdateInterrupted: Ingot ended while it pushed the image; nobody knows whether the BMC
	// has all of it, and it is not pushed again before that is known (I17).
	UpdateInterrupted UpdateState = "Interrupted"
)

// UpdateDelivery is how an image of firmware comes to a BMC.
// +kubebuilder:validation:Enum=Fetch;Push
type UpdateDelivery string

// The ways.
const (
	// DeliveryFetch: the BMC fetches the image from its URL.
	DeliveryFetch UpdateDelivery = "Fetch"
	// DeliveryPush: Ingot fetches the image and sends it to the BMC.
	DeliveryPush UpdateDelivery = "Push"
)

// FirmwareUpdate is one update under way. It is written before the BMC hears of it,
// so that no other can begin beside it, whoever restarts.
type FirmwareUpdate struct {
	// component as spec.firmware names it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Component string `json:"component,omitempty"`
	// version that is installed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`
	// startTime is when it was asked for; of an image that was pushed, when the push had
	// ended, or was found cut off.
	// +required
	StartTime metav1.Time `json:"startTime,omitempty,omitzero"`
	// delivery is how the image comes to the BMC. Unset: Fetch.
	// +optional
	Delivery UpdateDelivery `json:"delivery,omitempty"`
	// state of the request.
	// +required
	State UpdateState `json:"state,omitempty"`
	// taskID is the BMC's own name of its task; unset where it tells none.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	TaskID string `json:"taskID,omitempty"`
	// bmcResetTime is when the BMC was restarted because its task waited for that.
	// +optional
	BMCResetTime metav1.Time `json:"bmcResetTime,omitempty,omitzero"`
	// message is the BMC's, when it refused.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}
