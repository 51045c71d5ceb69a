// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// FailedHost defines what happens to a host that power cycles did not repair.
// +kubebuilder:validation:Enum=Quarantine;Reuse
type FailedHost string

// The values of failedHost.
const (
	// FailedHostQuarantine quarantines the host after its release and cleaning, until an operator
	// clears the quarantine. The replacement of the Machine uses another host.
	FailedHostQuarantine FailedHost = "Quarantine"
	// FailedHostReuse makes the host Available again after its release and cleaning.
	FailedHostReuse FailedHost = "Reuse"
)

// IngotRemediationSpec defines how Ingot remediates an unhealthy Machine before its owner replaces
// it.
// +kubebuilder:validation:XValidation:rule="!has(self.cooldownSeconds) || !has(self.timeoutSeconds) || self.cooldownSeconds >= self.timeoutSeconds",fieldPath=".cooldownSeconds",messageExpression="'%d must not be less than timeoutSeconds (%d), because Ingot would forget consecutive power cycles; raise it, or lower timeoutSeconds'.format([self.cooldownSeconds, self.timeoutSeconds])"
type IngotRemediationSpec struct {
	// retryLimit is the maximum number of power cycles of the host. After the last one, Ingot
	// requests that the owner of the Machine replaces it. With 0, Ingot requests the replacement
	// immediately. The default is 2.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	RetryLimit *int32 `json:"retryLimit,omitempty"`
	// timeoutSeconds is the timeout in seconds, for the BMC to complete one power cycle, and then
	// for the Node to become healthy. The default is 600.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// cooldownSeconds is the time in seconds for which a power cycle counts toward retryLimit. A
	// Machine that becomes unhealthy again within this time continues the count. The default is
	// 3600.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=2592000
	CooldownSeconds int32 `json:"cooldownSeconds,omitempty"`
	// failedHost defines what happens to the host if power cycles did not repair it, either
	// Quarantine or Reuse. The default is Quarantine.
	// +optional
	// +kubebuilder:default=Quarantine
	FailedHost FailedHost `json:"failedHost,omitempty"`
}

// IngotRemediationStatus defines the observed state of an IngotRemediation. Ingot makes no decision
// from it. The persistent state is in the claim of the host.
type IngotRemediationStatus struct {
	// conditions represents the observations of the remediation's current state. The condition
	// types are Ready, Paused and Restarted.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the latest metadata.generation that Ingot has reconciled. If it is
	// lower than metadata.generation, the status does not reflect the latest spec.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// hostRef references the IngotHost of the Machine.
	// +optional
	HostRef *LocalReference `json:"hostRef,omitempty"`
	// cycles is the number of power cycles within the cooldown time.
	// +optional
	Cycles *int32 `json:"cycles,omitempty"`
	// lastCycleTime is the time at which Ingot requested the last power cycle.
	// +optional
	LastCycleTime metav1.Time `json:"lastCycleTime,omitempty,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ingotremediations,shortName=irem,scope=Namespaced,categories=cluster-api;ingot
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.status.hostRef.name`
// +kubebuilder:printcolumn:name="Cycles",type=integer,JSONPath=`.status.cycles`
// +kubebuilder:printcolumn:name="Limit",type=integer,JSONPath=`.spec.retryLimit`
// +kubebuilder:printcolumn:name="Restarted",type=string,JSONPath=`.status.conditions[?(@.type=="Restarted")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`

// IngotRemediation is the remediation of the Machine that has the same name. A MachineHealthCheck
// creates it from an IngotRemediationTemplate when the Machine becomes unhealthy. The
// MachineHealthCheck deletes it when the Machine is healthy again. Ingot power-cycles the host up
// to spec.retryLimit times and then requests that the owner replaces the Machine.
type IngotRemediation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the IngotRemediation.
	// +optional
	// +kubebuilder:default={}
	Spec IngotRemediationSpec `json:"spec,omitempty,omitzero"`
	// status is the observed state of the IngotRemediation. Only Ingot writes it.
	// +optional
	Status IngotRemediationStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (r *IngotRemediation) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the conditions.
func (r *IngotRemediation) SetConditions(conditions []metav1.Condition) {
	r.Status.Conditions = conditions
}

// +kubebuilder:object:root=true

// IngotRemediationList is a list of IngotRemediations.
type IngotRemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngotRemediation `json:"items"`
}

// IngotRemediationTemplateSpec defines the desired state of an IngotRemediationTemplate.
type IngotRemediationTemplateSpec struct {
	// template is the template from which a MachineHealthCheck creates IngotRemediations.
	// +required
	Template IngotRemediationTemplateResource `json:"template,omitempty,omitzero"`
}

// IngotRemediationTemplateResource is the metadata and spec of the IngotRemediations that a
// MachineHealthCheck creates.
type IngotRemediationTemplateResource struct {
	// metadata is the metadata of the IngotRemediations, for example labels and annotations.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the spec of the IngotRemediations.
	// +optional
	// +kubebuilder:default={}
	Spec IngotRemediationSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ingotremediationtemplates,shortName=iremt,scope=Namespaced,categories=cluster-api;ingot
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Limit",type=integer,JSONPath=`.spec.template.spec.retryLimit`
// +kubebuilder:printcolumn:name="Timeout",type=integer,JSONPath=`.spec.template.spec.timeoutSeconds`
// +kubebuilder:printcolumn:name="Failed Host",type=string,JSONPath=`.spec.template.spec.failedHost`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// IngotRemediationTemplate is a template from which a MachineHealthCheck creates IngotRemediations.
// The MachineHealthCheck references it in remediation.templateRef. A change applies to remediations
// that are created later.
type IngotRemediationTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the IngotRemediationTemplate.
	// +required
	Spec IngotRemediationTemplateSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// IngotRemediationTemplateList is a list of IngotRemediationTemplates.
type IngotRemediationTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngotRemediationTemplate `json:"items"`
}
