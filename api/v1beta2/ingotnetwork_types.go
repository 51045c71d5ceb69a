// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DHCPMode is how Ingot answers DHCP on a network.
// +kubebuilder:validation:Enum=Reserve
type DHCPMode string

// DHCPModeReserve: Ingot gives leases, to known MAC addresses only.
const DHCPModeReserve DHCPMode = "Reserve"

// IngotNetworkSpec is a provisioning subnet.
// +kubebuilder:validation:XValidation:rule="cidr(self.subnet).containsIP(self.range.start) && cidr(self.subnet).containsIP(self.range.end)",message="spec.range: start and end must lie in spec.subnet"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || cidr(self.subnet).containsIP(self.gateway)",message="spec.gateway: must lie in spec.subnet"
// +kubebuilder:validation:XValidation:rule="self.subnet == oldSelf.subnet",message="spec.subnet: is immutable, recorded addresses depend on it; create another IngotNetwork"
type IngotNetworkSpec struct {
	// mode of DHCP.
	// +optional
	// +kubebuilder:default=Reserve
	Mode DHCPMode `json:"mode,omitempty"`
	// subnet in CIDR notation, IPv4.
	// +required
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).ip().family() == 4 && cidr(self) == cidr(self).masked() && cidr(self).prefixLength() >= 8 && cidr(self).prefixLength() <= 30",message="spec.subnet: must be an IPv4 subnet such as 10.10.0.0/24, with no host bits set and a prefix length of 8 to 30"
	Subnet string `json:"subnet,omitempty"`
	// range of addresses that are recorded for hosts; both ends included.
	// +required
	Range AddressRange `json:"range,omitempty,omitzero"`
	// gateway is the default router given to hosts.
	// +optional
	// +kubebuilder:validation:MinLength=7
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="spec.gateway: must be an IPv4 address"
	Gateway string `json:"gateway,omitempty"`
	// dnsServers given to hosts.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=7
	// +kubebuilder:validation:items:MaxLength=15
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip(self).family() == 4",message="spec.dnsServers: each must be an IPv4 address"
	DNSServers []string `json:"dnsServers,omitempty"`
	// domain name given to hosts.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Domain string `json:"domain,omitempty"`
	// leaseSeconds is the lease time, in seconds.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=120
	// +kubebuilder:validation:Maximum=604800
	LeaseSeconds *int32 `json:"leaseSeconds,omitempty"`
}

// AddressRange is a range of addresses, both ends included.
// +kubebuilder:validation:XValidation:rule="isIP(self.start) && isIP(self.end) && ip(self.start).family() == 4 && ip(self.end).family() == 4",message="spec.range: start and end must be IPv4 addresses"
type AddressRange struct {
	// start of the range.
	// +required
	// +kubebuilder:validation:MinLength=7
	// +kubebuilder:validation:MaxLength=15
	Start string `json:"start,omitempty"`
	// end of the range.
	// +required
	// +kubebuilder:validation:MinLength=7
	// +kubebuilder:validation:MaxLength=15
	End string `json:"end,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ingotnetworks,shortName=inet,scope=Cluster,categories=ingot
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move-hierarchy="
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Subnet",type=string,JSONPath=`.spec.subnet`
// +kubebuilder:printcolumn:name="Gateway",type=string,JSONPath=`.spec.gateway`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// IngotNetwork is a provisioning subnet. It holds no secret.
type IngotNetwork struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec of the network.
	// +required
	Spec IngotNetworkSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// IngotNetworkList is a list of IngotNetworks.
type IngotNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngotNetwork `json:"items"`
}
