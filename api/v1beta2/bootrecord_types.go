// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BootOutcome is the outcome of a network boot.
// +kubebuilder:validation:Enum=Agent;Disk;Incomplete;Succeeded;Failed
type BootOutcome string

// The outcomes of a network boot.
const (
	// BootRanAgent means that the agent runs and has not finished its work.
	BootRanAgent BootOutcome = "Agent"
	// BootWentToDisk means that the boot server sent the host to its disk.
	BootWentToDisk BootOutcome = "Disk"
	// BootIncomplete means that the host did not start the agent, although it was meant to.
	BootIncomplete BootOutcome = "Incomplete"
	// BootSucceeded means that the agent ran and reported success.
	BootSucceeded BootOutcome = "Succeeded"
	// BootFailed means that the agent ran and reported a failure.
	BootFailed BootOutcome = "Failed"
)

// MaxBoots is the maximum number of entries in status.boots of a host. It equals MaxItems of the
// schema.
const MaxBoots = 5

// BootRecord describes one network boot of a host.
type BootRecord struct {
	// startTime is the time of the first request of this boot that the boot server received.
	// +required
	StartTime metav1.MicroTime `json:"startTime,omitempty,omitzero"`
	// outcome is the outcome of the boot. Agent means that the agent still works. Disk means that
	// the host was sent to its disk. Incomplete means that the agent did not start. Succeeded and
	// Failed are the result that the agent reported.
	// +required
	Outcome BootOutcome `json:"outcome,omitempty"`
	// firmware is the firmware that started the boot, for example "UEFI x64".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Firmware string `json:"firmware,omitempty"`
	// server is the IP address of the boot server that answered.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Server string `json:"server,omitempty"`
	// port is the switch port of the host, as the DHCP relay reported it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Port string `json:"port,omitempty"`
	// stages lists the stages that the boot reached, in order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Stages []BootStage `json:"stages,omitempty"`
	// error is the last error that the boot server had while it served this boot.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Error string `json:"error,omitempty"`
}

// BootStage is one stage of a network boot.
type BootStage struct {
	// name is the name of the stage: DHCP, Loader, Script, Kernel, Initramfs, Agent or Done.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Name string `json:"name,omitempty"`
	// afterMilliseconds is the time from startTime of the boot to this stage, in milliseconds.
	// +required
	// +kubebuilder:validation:Minimum=0
	AfterMilliseconds *int64 `json:"afterMilliseconds,omitempty"`
}
