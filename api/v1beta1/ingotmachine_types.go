// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	capierrors "sigs.k8s.io/cluster-api/api/deprecated/errors"
)

// IngotMachineStatus is what was observed last.
type IngotMachineStatus struct {
	// observedGeneration is the metadata.generation that Ingot has acted on. Tools that wait
	// for a change of the spec compare the two.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// ready is true from the commit point of the install on, for ever.
	// +optional
	Ready bool `json:"ready"`

	// addresses of the machine.
	// +optional
	Addresses []clusterv1beta1.MachineAddress `json:"addresses,omitempty"`

	// failureDomain that the machine was placed in.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// hostRef names the IngotHost.
	// +optional
	HostRef *LocalReference `json:"hostRef,omitempty"`

	// failureReason of a terminal failure.
	// +optional
	FailureReason *capierrors.MachineStatusError `json:"failureReason,omitempty"`

	// failureMessage of a terminal failure.
	// +optional
	FailureMessage *string `json:"failureMessage,omitempty"`

	// conditions in the form of contract v1beta1.
	// +optional
	Conditions clusterv1beta1.Conditions `json:"conditions,omitempty"`

	// v1beta2 groups what contract v1beta2 added.
	// +optional
	V1Beta2 *IngotMachineV1Beta2Status `json:"v1beta2,omitempty"`
}

// IngotMachineV1Beta2Status groups what contract v1beta2 added.
type IngotMachineV1Beta2Status struct {
	// conditions: Ready, Paused, HostClaimed, Installed, Booted, HostHealthy.
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

// IngotMachine is the infrastructure of a Cluster API Machine: one claimed host.
type IngotMachine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec asks for a server.
	// +required
	Spec IngotMachineSpec `json:"spec,omitempty,omitzero"`
	// status is what was observed last.
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

// IngotMachineTemplateSpec holds the template.
type IngotMachineTemplateSpec struct {
	// template of the IngotMachines.
	// +required
	Template IngotMachineTemplateResource `json:"template,omitempty,omitzero"`
}

// IngotMachineTemplateResource is the template of an IngotMachine.
// +kubebuilder:validation:XValidation:rule="!has(self.spec.failureDomain)",fieldPath=".spec.failureDomain",messageExpression="'a template must not hold ' + self.spec.failureDomain + ', the place of one machine; remove it, and set the failure domain in the Machine, MachineDeployment or control plane'"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.providerID)",fieldPath=".spec.providerID",messageExpression="'a template must not hold ' + self.spec.providerID + ', the identity of one machine; remove it'"
type IngotMachineTemplateResource struct {
	// metadata given to the IngotMachines.
	// +optional
	ObjectMeta clusterv1beta1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec given to the IngotMachines.
	// +required
	Spec IngotMachineSpec `json:"spec,omitempty,omitzero"`
}

// IngotMachineTemplateStatus lets the cluster autoscaler scale from zero.
type IngotMachineTemplateStatus struct {
	// observedGeneration is the metadata.generation that Ingot has acted on. Tools that wait
	// for a change of the spec compare the two.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// capacity that every host which the template can select has at least.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// nodeInfo of the hosts that the template can select.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`
	// conditions in the form of contract v1beta1.
	// +optional
	Conditions clusterv1beta1.Conditions `json:"conditions,omitempty"`
	// v1beta2 groups what contract v1beta2 added.
	// +optional
	V1Beta2 *IngotMachineTemplateV1Beta2Status `json:"v1beta2,omitempty"`
}

// IngotMachineTemplateV1Beta2Status groups what contract v1beta2 added.
type IngotMachineTemplateV1Beta2Status struct {
	// conditions: Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeInfo says what kind of Node a machine becomes.
// +kubebuilder:validation:MinProperties=1
type NodeInfo struct {
	// architecture of the Node.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64;s390x;ppc64le
	Architecture string `json:"architecture,omitempty"`
	// operatingSystem of the Node.
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

// IngotMachineTemplate is the template of IngotMachines.
type IngotMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the template.
	// +required
	Spec IngotMachineTemplateSpec `json:"spec,omitempty,omitzero"`
	// status lets the cluster autoscaler scale from zero, and says whether Ingot is paused.
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
