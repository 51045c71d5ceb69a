// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// FailedHost is what becomes of a host that power cycles did not help.
// +kubebuilder:validation:Enum=Quarantine;Reuse
type FailedHost string

// What becomes of the host.
const (
	// FailedHostQuarantine takes the host out of service once it is released and
	// cleaned, until a person clears the quarantine: the Machine's replacement goes to
	// another host.
	FailedHostQuarantine FailedHost = "Quarantine"
	// FailedHostReuse gives the host back to work after its cleaning, as after any release.
	FailedHostReuse FailedHost = "Reuse"
)

// IngotRemediationSpec says what to try before a Machine is replaced.
// +kubebuilder:validation:XValidation:rule="!has(self.cooldownSeconds) || !has(self.timeoutSeconds) || self.cooldownSeconds >= self.timeoutSeconds",fieldPath=".cooldownSeconds",messageExpression="'%d must not be less than timeoutSeconds (%d), or cycles in a row would be forgotten; raise it, or lower timeoutSeconds'.format([self.cooldownSeconds, self.timeoutSeconds])"
type IngotRemediationSpec struct {
	// retryLimit is how many times the host is switched off and on again by its BMC
	// before the Machine is handed over to be replaced. 0: it is handed over at once.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	RetryLimit *int32 `json:"retryLimit,omitempty"`
	// timeoutSeconds is how long, in seconds, the BMC may take for one power cycle, and
	// how long the Node may take after it to be healthy again.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// cooldownSeconds is how long, in seconds, power cycles of a host count: a Machine
	// that fails again within that time goes on counting where it was, so that a server
	// which helps itself for an hour is not restarted for ever.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=2592000
	CooldownSeconds int32 `json:"cooldownSeconds,omitempty"`
	// failedHost says what becomes of a host that power cycles did not help.
	// +optional
	// +kubebuilder:default=Quarantine
	FailedHost FailedHost `json:"failedHost,omitempty"`
}

// IngotRemediationStatus is what was observed last. Nothing is decided by it: what
// counts stands in the claim of the host.
type IngotRemediationStatus struct {
	// observedGeneration is the metadata.generation that Ingot has acted on. Tools that wait
	// for a change of the spec compare the two.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Paused, Restarted.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// hostRef names the IngotHost of the Machine.
	// +optional
	HostRef *LocalReference `json:"hostRef,omitempty"`
	// cycles counts the power cycles of the host that count now.
	// +optional
	Cycles *int32 `json:"cycles,omitempty"`
	// lastCycleTime is when the last of them was asked for.
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

// IngotRemediation is the remediation of the Machine of the same name: Cluster API's
// MachineHealthCheck makes it from an IngotRemediationTemplate when the Machine is
// unhealthy, and deletes it when that is healthy again. Ingot switches the Machine's
// host off and on by its BMC, up to spec.retryLimit times, and then hands the Machine
// over to its owner, which replaces it.
type IngotRemediation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what to try.
	// +optional
	// +kubebuilder:default={}
	Spec IngotRemediationSpec `json:"spec,omitempty,omitzero"`
	// status is what was observed last.
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

// IngotRemediationTemplateSpec holds the template.
type IngotRemediationTemplateSpec struct {
	// template of the IngotRemediations.
	// +required
	Template IngotRemediationTemplateResource `json:"template,omitempty,omitzero"`
}

// IngotRemediationTemplateResource is the template of an IngotRemediation.
type IngotRemediationTemplateResource struct {
	// metadata given to the IngotRemediations.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec given to the IngotRemediations.
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

// IngotRemediationTemplate is the template of IngotRemediations: the
// remediation.templateRef of a MachineHealthCheck names it. A change holds for the
// remediations that are made after it.
type IngotRemediationTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the template.
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
