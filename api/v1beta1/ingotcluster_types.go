// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
)

// BootTrust is what a network boot is worth.
// +kubebuilder:validation:Enum=Network;Verified
type BootTrust string

// IngotClusterSpec says where the API server is reached and which part of the
// inventory the cluster may draw on.
type IngotClusterSpec struct {
	// controlPlaneEndpoint is where the workload cluster's API server is reached.
	// Ingot makes no load balancer: it is given by hand or by the template.
	// Unset: Ingot waits until Cluster.spec.controlPlaneEndpoint is set.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// hostSelector is the part of the namespace's inventory that the cluster may
	// draw on. Unset: all of it.
	// +optional
	HostSelector *metav1.LabelSelector `json:"hostSelector,omitempty"`

	// controlPlaneSelector says which of those hosts may be control planes. Unset: all.
	// +optional
	ControlPlaneSelector *metav1.LabelSelector `json:"controlPlaneSelector,omitempty"`

	// failureDomainLabel is the label of IngotHosts whose values are the failure
	// domains: rack, row, room.
	// +optional
	// +kubebuilder:default="topology.infrastructure.cluster.x-k8s.io/rack"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be the key of a label of IngotHosts, for example topology.infrastructure.cluster.x-k8s.io/rack"
	FailureDomainLabel string `json:"failureDomainLabel,omitempty"`

	// bootTrust is what the network boots that install this cluster's machines must be
	// worth. Verified: only hosts are claimed whose condition BootSecure is True, by
	// bootMethod HTTP or VirtualMedia. Unset: Network.
	// +optional
	BootTrust BootTrust `json:"bootTrust,omitempty"`

	// nodeLabels are the labels of IngotHosts that their Nodes are given, and kept in
	// step with: keys, or <domain>/* for all of a domain. The rack is on the Node as
	// topology.kubernetes.io/zone without being named here. The roles control-plane and
	// master are never given, by node-role.kubernetes.io/* neither.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.all(l, l.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/([*]|[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)|[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$'))",messageExpression="self.filter(l, !l.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/([*]|[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)|[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$'))[0] + ' must be the key of a label, or a domain with /*, for example dc.example/gpu or dc.example/*'"
	// +kubebuilder:validation:XValidation:rule="self.all(l, !l.matches('^([^/]*[.])?(kubernetes|k8s)[.]io/') || l.matches('^node-(role|restriction)[.]kubernetes[.]io/') || l == 'topology.kubernetes.io/region')",messageExpression="self.filter(l, l.matches('^([^/]*[.])?(kubernetes|k8s)[.]io/') && !l.matches('^node-(role|restriction)[.]kubernetes[.]io/') && l != 'topology.kubernetes.io/region')[0] + ' must not be chosen: Kubernetes itself, or Ingot, sets it; use a domain of your own, node-restriction.kubernetes.io or node-role.kubernetes.io'"
	// +kubebuilder:validation:XValidation:rule="!('node-role.kubernetes.io/control-plane' in self || 'node-role.kubernetes.io/master' in self)",message="node-role.kubernetes.io/control-plane and node-role.kubernetes.io/master must not be chosen: Cluster API finds control planes by them; use another role"
	NodeLabels []string `json:"nodeLabels,omitempty"`
}

// APIEndpoint is where an API server is reached.
// +kubebuilder:validation:MinProperties=1
type APIEndpoint struct {
	// host is a name or an IP address.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isIP(self) || self.matches('^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$')",message="must be an IP address or a DNS name, without scheme, brackets, port or path"
	Host string `json:"host,omitempty"`
	// port of the API server.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// IngotClusterStatus is what was observed last.
type IngotClusterStatus struct {
	// observedGeneration is the metadata.generation that Ingot has acted on. Tools that wait
	// for a change of the spec compare the two.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// ready is true once the cluster's infrastructure is there, for ever.
	// +optional
	Ready bool `json:"ready"`

	// failureDomains are the racks that the cluster's hosts stand in.
	// +optional
	FailureDomains clusterv1beta1.FailureDomains `json:"failureDomains,omitempty"`

	// failureReason of a terminal failure.
	// +optional
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage of a terminal failure.
	// +optional
	FailureMessage *string `json:"failureMessage,omitempty"`

	// conditions in the form of contract v1beta1.
	// +optional
	Conditions clusterv1beta1.Conditions `json:"conditions,omitempty"`

	// v1beta2 groups what contract v1beta2 added.
	// +optional
	V1Beta2 *IngotClusterV1Beta2Status `json:"v1beta2,omitempty"`
}

// IngotClusterV1Beta2Status groups what contract v1beta2 added.
type IngotClusterV1Beta2Status struct {
	// conditions: Ready, Paused, EndpointReady, FailureDomainsReady.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ingotclusters,shortName=ic,scope=Namespaced,categories=cluster-api;ingot
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.controlPlaneEndpoint.host`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// IngotCluster is the infrastructure of a Cluster API Cluster.
type IngotCluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec of the cluster.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.controlPlaneEndpoint) || !has(oldSelf.controlPlaneEndpoint.host) || (has(self.controlPlaneEndpoint) && has(self.controlPlaneEndpoint.host) && self.controlPlaneEndpoint.host == oldSelf.controlPlaneEndpoint.host)",fieldPath=".controlPlaneEndpoint",messageExpression="'host ' + oldSelf.controlPlaneEndpoint.host + ' is immutable once set: certificates and kubeconfigs name it; set it back, or create another cluster'"
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.controlPlaneEndpoint) || !has(oldSelf.controlPlaneEndpoint.port) || (has(self.controlPlaneEndpoint) && has(self.controlPlaneEndpoint.port) && self.controlPlaneEndpoint.port == oldSelf.controlPlaneEndpoint.port)",fieldPath=".controlPlaneEndpoint",messageExpression="'port %d is immutable once set: kubeconfigs name it; set it back, or create another cluster'.format([oldSelf.controlPlaneEndpoint.port])"
	Spec IngotClusterSpec `json:"spec,omitempty,omitzero"`
	// status is what was observed last.
	// +optional
	Status IngotClusterStatus `json:"status,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// IngotClusterList is a list of IngotClusters.
type IngotClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngotCluster `json:"items"`
}

// IngotClusterTemplateSpec holds the template.
type IngotClusterTemplateSpec struct {
	// template of the IngotClusters.
	// +required
	Template IngotClusterTemplateResource `json:"template,omitempty,omitzero"`
}

// IngotClusterTemplateResource is the template of an IngotCluster.
type IngotClusterTemplateResource struct {
	// metadata given to the IngotClusters.
	// +optional
	ObjectMeta clusterv1beta1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec given to the IngotClusters.
	// +optional
	Spec IngotClusterSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ingotclustertemplates,shortName=ict,scope=Namespaced,categories=cluster-api;ingot
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// IngotClusterTemplate is the template of IngotClusters.
type IngotClusterTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the template.
	// +required
	Spec IngotClusterTemplateSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// IngotClusterTemplateList is a list of IngotClusterTemplates.
type IngotClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngotClusterTemplate `json:"items"`
}
