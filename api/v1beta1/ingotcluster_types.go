// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
)

// BootTrust is the level of trust in the network boots of a host.
// +kubebuilder:validation:Enum=Network;Verified
type BootTrust string

// IngotClusterSpec defines the API endpoint of a cluster and the hosts that its machines can use.
type IngotClusterSpec struct {
	// controlPlaneEndpoint is the endpoint of the workload cluster's API server. Ingot does not
	// create a load balancer. If unset, Ingot uses Cluster.spec.controlPlaneEndpoint and waits
	// until it is set. The host and the port are immutable once set.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// hostSelector selects the IngotHosts in the namespace that machines of this cluster can use.
	// If unset, machines can use all hosts in the namespace.
	// +optional
	HostSelector *metav1.LabelSelector `json:"hostSelector,omitempty"`

	// controlPlaneSelector selects the hosts that control plane machines can use, in addition to
	// hostSelector. If unset, control plane machines can use all hosts that hostSelector selects.
	// +optional
	ControlPlaneSelector *metav1.LabelSelector `json:"controlPlaneSelector,omitempty"`

	// failureDomainLabel is the key of the IngotHost label whose values are the failure domains of
	// this cluster, for example racks or rows. The default is
	// topology.infrastructure.cluster.x-k8s.io/rack.
	// +optional
	// +kubebuilder:default="topology.infrastructure.cluster.x-k8s.io/rack"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be the key of a label of IngotHosts, for example topology.infrastructure.cluster.x-k8s.io/rack"
	FailureDomainLabel string `json:"failureDomainLabel,omitempty"`

	// bootTrust is the boot security that installs of this cluster require, either Network or
	// Verified. With Verified, machines use only hosts whose condition BootSecure is True, which
	// requires bootMethod HTTP or VirtualMedia. The default is Network.
	// +optional
	BootTrust BootTrust `json:"bootTrust,omitempty"`

	// nodeLabels lists the IngotHost labels that Ingot copies to the Node and keeps up to date. An
	// entry is a label key, or <domain>/* for all labels of a domain. Ingot always sets
	// topology.kubernetes.io/zone to the failure domain. Ingot never sets the control-plane and
	// master roles.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.all(l, l.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/([*]|[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)|[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$'))",messageExpression="self.filter(l, !l.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/([*]|[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)|[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$'))[0] + ' must be the key of a label, or a domain with /*, for example dc.example/gpu or dc.example/*'"
	// +kubebuilder:validation:XValidation:rule="self.all(l, !l.matches('^([^/]*[.])?(kubernetes|k8s)[.]io/') || l.matches('^node-(role|restriction)[.]kubernetes[.]io/') || l == 'topology.kubernetes.io/region')",messageExpression="self.filter(l, l.matches('^([^/]*[.])?(kubernetes|k8s)[.]io/') && !l.matches('^node-(role|restriction)[.]kubernetes[.]io/') && l != 'topology.kubernetes.io/region')[0] + ' must not be used, because Kubernetes or Ingot sets it; use your own domain, node-restriction.kubernetes.io or node-role.kubernetes.io'"
	// +kubebuilder:validation:XValidation:rule="!('node-role.kubernetes.io/control-plane' in self || 'node-role.kubernetes.io/master' in self)",message="must not contain node-role.kubernetes.io/control-plane or node-role.kubernetes.io/master, by which Cluster API identifies control plane Nodes; use another role"
	NodeLabels []string `json:"nodeLabels,omitempty"`
}

// APIEndpoint is the host and port of an API server.
// +kubebuilder:validation:MinProperties=1
type APIEndpoint struct {
	// host is the DNS name or IP address of the API server.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isIP(self) || self.matches('^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$')",message="must be an IP address or a DNS name, without scheme, brackets, port or path"
	Host string `json:"host,omitempty"`
	// port is the TCP port of the API server.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// IngotClusterStatus defines the observed state of an IngotCluster.
type IngotClusterStatus struct {
	// observedGeneration is the latest metadata.generation that Ingot has reconciled. If it is
	// lower than metadata.generation, the status does not reflect the latest spec.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// ready is true when the cluster's infrastructure is provisioned. It never becomes false again.
	// +optional
	Ready bool `json:"ready"`

	// failureDomains maps the names of the failure domains of the hosts that the cluster can use.
	// The names are the values of the label in spec.failureDomainLabel.
	// +optional
	FailureDomains clusterv1beta1.FailureDomains `json:"failureDomains,omitempty"`

	// failureReason is the reason of a terminal failure.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureReason *string `json:"failureReason,omitempty"`

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
	V1Beta2 *IngotClusterV1Beta2Status `json:"v1beta2,omitempty"`
}

// IngotClusterV1Beta2Status groups the status fields of contract v1beta2.
type IngotClusterV1Beta2Status struct {
	// conditions represents the observations of the cluster's current state. The condition types
	// are Ready, Paused, EndpointReady and FailureDomainsReady.
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

	// spec is the desired state of the IngotCluster.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.controlPlaneEndpoint) || !has(oldSelf.controlPlaneEndpoint.host) || (has(self.controlPlaneEndpoint) && has(self.controlPlaneEndpoint.host) && self.controlPlaneEndpoint.host == oldSelf.controlPlaneEndpoint.host)",fieldPath=".controlPlaneEndpoint",messageExpression="'host ' + oldSelf.controlPlaneEndpoint.host + ' is immutable once set, because certificates and kubeconfigs contain it; restore it, or create another cluster'"
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.controlPlaneEndpoint) || !has(oldSelf.controlPlaneEndpoint.port) || (has(self.controlPlaneEndpoint) && has(self.controlPlaneEndpoint.port) && self.controlPlaneEndpoint.port == oldSelf.controlPlaneEndpoint.port)",fieldPath=".controlPlaneEndpoint",messageExpression="'port %d is immutable once set, because kubeconfigs contain it; restore it, or create another cluster'.format([oldSelf.controlPlaneEndpoint.port])"
	Spec IngotClusterSpec `json:"spec,omitempty,omitzero"`
	// status is the observed state of the IngotCluster. Only Ingot writes it.
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

// IngotClusterTemplateSpec defines the desired state of an IngotClusterTemplate.
type IngotClusterTemplateSpec struct {
	// template is the template from which Cluster API creates IngotClusters.
	// +required
	Template IngotClusterTemplateResource `json:"template,omitempty,omitzero"`
}

// IngotClusterTemplateResource is the metadata and spec of the IngotClusters that Cluster API
// creates.
type IngotClusterTemplateResource struct {
	// metadata is the metadata of the IngotClusters, for example labels and annotations.
	// +optional
	ObjectMeta clusterv1beta1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the spec of the IngotClusters.
	// +optional
	Spec IngotClusterSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ingotclustertemplates,shortName=ict,scope=Namespaced,categories=cluster-api;ingot
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// IngotClusterTemplate is a template from which Cluster API creates IngotClusters.
type IngotClusterTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the IngotClusterTemplate.
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
