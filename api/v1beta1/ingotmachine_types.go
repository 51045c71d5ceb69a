// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	capierrors "sigs.k8s.io/cluster-api/api/deprecated/errors"
)

// IngotMachineStatus defines the observed state of an IngotMachine.
type IngotMachineStatus struct {
	// observedGeneration is the latest metadata.generation that Ingot has reconciled. If it is
	// lower than metadata.generation, the status does not reflect the latest spec.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// ready is true when the system is installed. It never becomes false again.
	// +optional
	Ready bool `json:"ready"`

	// addresses lists the addresses of the machine.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Addresses []clusterv1beta1.MachineAddress `json:"addresses,omitempty"`

	// failureDomain is the failure domain of the machine's host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// hostRef references the IngotHost that the machine uses.
	// +optional
	HostRef *LocalReference `json:"hostRef,omitempty"`

	// failureReason is the reason of a terminal failure.
	// +optional
	FailureReason *capierrors.MachineStatusError `json:"failureReason,omitempty"`

	// failureMessage is a human-readable description of a terminal failure.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`

	// conditions are the conditions in the format of contract v1beta1.
	// +optional
	Conditions clusterv1beta1.Conditions `json:"conditions,omitempty"`

	// v1beta2 groups the status fields of contract v1beta2.
	// +optional
	V1Beta2 *IngotMachineV1Beta2Status `json:"v1beta2,omitempty"`
}

// IngotMachineV1Beta2Status groups the status fields of contract v1beta2.
type IngotMachineV1Beta2Status struct {
	// conditions represents the observations of the machine's current state. The condition types
	// are Ready, Paused, HostClaimed, Installed, Booted and HostHealthy.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ingotmachines,shortName=im,scope=Namespaced,categories=cluster-api;ingot
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.status.hostRef.name`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Provider ID",type=string,JSONPath=`.spec.providerID`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// IngotMachine is the infrastructure of a Cluster API Machine. It claims one IngotHost and installs
// a system on it.
type IngotMachine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the IngotMachine.
	// +required
	Spec IngotMachineSpec `json:"spec,omitempty,omitzero"`
	// status is the observed state of the IngotMachine. Only Ingot writes it.
	// +optional
	Status IngotMachineStatus `json:"status,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// IngotMachineList is a list of IngotMachines.
type IngotMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngotMachine `json:"items"`
}

// IngotMachineTemplateSpec defines the desired state of an IngotMachineTemplate.
type IngotMachineTemplateSpec struct {
	// template is the template from which Cluster API creates IngotMachines. The spec of the
	// template is immutable.
	// +required
	Template IngotMachineTemplateResource `json:"template,omitempty,omitzero"`
}

// IngotMachineTemplateResource is the metadata and spec of the IngotMachines that Cluster API
// creates.
// +kubebuilder:validation:XValidation:rule="!has(self.spec.failureDomain)",fieldPath=".spec.failureDomain",messageExpression="self.spec.failureDomain + ' must not be set in a template; set the failure domain in the Machine, MachineDeployment or control plane'"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.providerID)",fieldPath=".spec.providerID",messageExpression="self.spec.providerID + ' must not be set in a template, because it identifies one machine; remove it'"
type IngotMachineTemplateResource struct {
	// metadata is the metadata of the IngotMachines, for example labels and annotations.
	// +optional
	ObjectMeta clusterv1beta1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the spec of the IngotMachines.
	// +required
	Spec IngotMachineSpec `json:"spec,omitempty,omitzero"`
}

// IngotMachineTemplateStatus defines the observed state of an IngotMachineTemplate. The cluster
// autoscaler reads it to scale from zero.
type IngotMachineTemplateStatus struct {
	// observedGeneration is the latest metadata.generation that Ingot has reconciled. If it is
	// lower than metadata.generation, the status does not reflect the latest spec.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// capacity is the capacity that every host which the template can select has at least: cpu and
	// memory.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// nodeInfo describes the Nodes that the template's machines become.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`
	// conditions are the conditions in the format of contract v1beta1.
	// +optional
	Conditions clusterv1beta1.Conditions `json:"conditions,omitempty"`
	// v1beta2 groups the status fields of contract v1beta2.
	// +optional
	V1Beta2 *IngotMachineTemplateV1Beta2Status `json:"v1beta2,omitempty"`
}

// IngotMachineTemplateV1Beta2Status groups the status fields of contract v1beta2.
type IngotMachineTemplateV1Beta2Status struct {
	// conditions represents the observations of the template's current state. The condition type is
	// Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeInfo describes the Node that a machine becomes.
// +kubebuilder:validation:MinProperties=1
type NodeInfo struct {
	// architecture is the processor architecture of the Node as a GOARCH value.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64;s390x;ppc64le
	Architecture string `json:"architecture,omitempty"`
	// operatingSystem is the operating system of the Node, for example linux.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ingotmachinetemplates,shortName=imt,scope=Namespaced,categories=cluster-api;ingot
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.template.spec['image.url','imageRef.name','live.kernel.url']`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// IngotMachineTemplate is a template from which Cluster API creates IngotMachines.
type IngotMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the IngotMachineTemplate.
	// +required
	Spec IngotMachineTemplateSpec `json:"spec,omitempty,omitzero"`
	// status is the observed state of the IngotMachineTemplate. Only Ingot writes it.
	// +optional
	Status IngotMachineTemplateStatus `json:"status,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// IngotMachineTemplateList is a list of IngotMachineTemplates.
type IngotMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngotMachineTemplate `json:"items"`
}
