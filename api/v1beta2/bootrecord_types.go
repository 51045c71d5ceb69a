// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BootOutcome is how a network boot ended.
// +kubebuilder:validation:Enum=Agent;Disk;Incomplete;Succeeded;Failed
type BootOutcome string

// The outcomes.
const (
	// BootRanAgent: the agent runs, and its order is not over.
	BootRanAgent BootOutcome = "Agent"
	// BootWentToDisk: the host was sent to its disk.
	BootWentToDisk BootOutcome = "Disk"
	// BootIncomplete: the agent was to run, and nothing more was heard of the host.
	BootIncomplete BootOutcome = "Incomplete"
	// BootSucceeded and BootFailed: the agent ran, and reported the end of its order.
	BootSucceeded BootOutcome = "Succeeded"
	BootFailed    BootOutcome = "Failed"
)

// MaxBoots is how many boots a host's status holds (its schema's).
const MaxBoots = 5

// BootRecord is one network boot.
type BootRecord struct {
	// startTime is when the boot server first heard of it.
	// +required
	StartTime metav1.MicroTime `json:"startTime,omitempty,omitzero"`
	// outcome of the boot.
	// +required
	Outcome BootOutcome `json:"outcome,omitempty"`
	// firmware that began it, for example "UEFI x64".
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Firmware string `json:"firmware,omitempty"`
	// server is the address of the boot server.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Server string `json:"server,omitempty"`
	// port is where the network says that the host is plugged in.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Port string `json:"port,omitempty"`
	// stages that were reached, in this order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Stages []BootStage `json:"stages,omitempty"`
	// error is the last thing that could not be given to the host.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Error string `json:"error,omitempty"`
}

// BootStage is a stage of a boot.
type BootStage struct {
	// name of the stage: DHCP, Loader, Script, Kernel, Initramfs, Agent, Done.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Name string `json:"name,omitempty"`
	// afterMilliseconds is how long after startedAt it was reached.
	// +required
	// +kubebuilder:validation:Minimum=0
	AfterMilliseconds *int64 `json:"afterMilliseconds,omitempty"`
}
