// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DHCPMode is how Ingot answers DHCP on a network.
// +kubebuilder:validation:Enum=Reserve;Discover;Proxy
type DHCPMode string

// The DHCP modes.
const (
	// DHCPModeReserve: Ingot gives leases, to known MAC addresses only.
	DHCPModeReserve DHCPMode = "Reserve"
	// DHCPModeDiscover: as Reserve, and unknown machines that boot from the network
	// boot the agent, once, which reports them for approval.
	DHCPModeDiscover DHCPMode = "Discover"
	// DHCPModeProxy: another DHCP server gives the addresses; Ingot only says what
	// known MAC addresses boot.
	DHCPModeProxy DHCPMode = "Proxy"
)

// IngotNetworkSpec is a provisioning subnet.
// +kubebuilder:validation:XValidation:rule="!has(self.range) || !has(self.subnet) || !isCIDR(self.subnet) || !isIP(self.range.start) || cidr(self.subnet).containsIP(self.range.start)",fieldPath=".range.start",messageExpression="self.range.start + ' must lie in spec.subnet ' + self.subnet"
// +kubebuilder:validation:XValidation:rule="!has(self.range) || !has(self.subnet) || !isCIDR(self.subnet) || !isIP(self.range.end) || cidr(self.subnet).containsIP(self.range.end)",fieldPath=".range.end",messageExpression="self.range.end + ' must lie in spec.subnet ' + self.subnet"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || !has(self.subnet) || !isCIDR(self.subnet) || !isIP(self.gateway) || cidr(self.subnet).containsIP(self.gateway)",fieldPath=".gateway",messageExpression="self.gateway + ' must lie in spec.subnet ' + self.subnet + '; give the router of this subnet, or leave it out'"
// +kubebuilder:validation:XValidation:rule="has(self.subnet) || has(self.ipv6)",fieldPath=".subnet",message="or ipv6, or both, is required: the addresses of the servers that boot on this network",reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="has(self.subnet) || !has(self.ipv6) || self.mode == 'Reserve'",fieldPath=".mode",messageExpression="self.mode + ' is a mode of IPv4, which a network without spec.subnet has not; leave mode out, or give spec.subnet'"
// +kubebuilder:validation:XValidation:rule="has(self.subnet) || !has(self.ipv6) || !(has(self.range) || has(self.addressPoolRef) || has(self.gateway) || has(self.dnsServers) || has(self.ntpServers) || has(self.routes) || has(self.staticLeases) || has(self.relays))",fieldPath=".subnet",message="is required with any of range, addressPoolRef, gateway, dnsServers, ntpServers, routes, staticLeases and relays, which are IPv4's; leave those out, give what there is of them in spec.ipv6, or give spec.subnet"
// +kubebuilder:validation:XValidation:rule="has(self.subnet) == has(oldSelf.subnet) && (!has(self.subnet) || self.subnet == oldSelf.subnet)",fieldPath=".subnet",messageExpression="(has(oldSelf.subnet) ? oldSelf.subnet : 'no subnet') + ' is immutable, because recorded addresses depend on it; create another IngotNetwork for ' + (has(self.subnet) ? self.subnet : 'IPv6 alone')"
// +kubebuilder:validation:XValidation:rule="(self.mode == 'Proxy') == (oldSelf.mode == 'Proxy')",fieldPath=".mode",messageExpression="oldSelf.mode + ' cannot become ' + self.mode + ', because what hosts were given depends on it; create another IngotNetwork with mode ' + self.mode + ' and refer the hosts to it'"
// +kubebuilder:validation:XValidation:rule="self.mode == 'Proxy' || !has(self.subnet) || has(self.range) != has(self.addressPoolRef)",fieldPath=".range",message="or addressPoolRef, one of the two, is required in modes Reserve and Discover: where the addresses that hosts are given come from",reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="(self.mode == 'Discover') == has(self.discover)",fieldPath=".discover",messageExpression="has(self.discover) ? 'has no meaning in mode ' + self.mode + '; remove it, or say mode Discover' : 'is required in mode Discover: give the namespace of the hosts, and a range for machines not yet known'"
// +kubebuilder:validation:XValidation:rule="!has(self.discover) || !has(self.subnet) || !isCIDR(self.subnet) || !isIP(self.discover.range.start) || !isIP(self.discover.range.end) || (cidr(self.subnet).containsIP(self.discover.range.start) && cidr(self.subnet).containsIP(self.discover.range.end))",fieldPath=".discover.range",messageExpression="'must lie in spec.subnet ' + self.subnet"
// +kubebuilder:validation:XValidation:rule="self.mode != 'Proxy' || !(has(self.range) || has(self.addressPoolRef) || has(self.gateway) || has(self.dnsServers) || has(self.ntpServers) || has(self.domain) || has(self.searchDomains) || has(self.mtu) || has(self.routes))",fieldPath=".mode",message="Proxy leaves addresses and all that belongs to them to another DHCP server; leave out range, addressPoolRef, gateway, dnsServers, ntpServers, domain, searchDomains, mtu and routes"
// +kubebuilder:validation:XValidation:rule="!has(self.routes) || !has(self.subnet) || !isCIDR(self.subnet) || self.routes.all(r, !isIP(r.gateway) || cidr(self.subnet).containsIP(r.gateway))",fieldPath=".routes",messageExpression="'every gateway must lie in spec.subnet ' + self.subnet + '; hosts reach no other router'"
type IngotNetworkSpec struct {
	// mode of DHCP. Reserve: Ingot gives each host its address. Discover: as Reserve,
	// and unknown machines that boot from the network are enrolled, for a person to
	// approve. Proxy: another DHCP server gives the addresses, and Ingot says beside
	// it what the hosts boot.
	// +optional
	// +kubebuilder:default=Reserve
	Mode DHCPMode `json:"mode,omitempty"`
	// subnet in CIDR notation, IPv4. Unset: the network has IPv6 alone, which ipv6 then
	// says all of; only domain, searchDomains, mtu and leaseSeconds apply besides.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).ip().family() == 4 && cidr(self) == cidr(self).masked() && cidr(self).prefixLength() >= 8 && cidr(self).prefixLength() <= 30",message="must be an IPv4 subnet such as 10.10.0.0/24, with no host bits set and a prefix length of 8 to 30"
	Subnet string `json:"subnet,omitempty"`
	// range of addresses that are recorded for hosts; both ends included. In modes
	// Reserve and Discover either it or addressPoolRef is required, if there is a subnet.
	// +optional
	Range AddressRange `json:"range,omitempty,omitzero"`
	// addressPoolRef names a pool of Cluster API's IPAM contract, in place of range:
	// the address of each host is then claimed from it, by an IPAddressClaim in the
	// host's namespace. Where the pool's kind is namespaced, each namespace with hosts
	// on this network needs one of this name.
	// +optional
	AddressPoolRef *AddressPoolReference `json:"addressPoolRef,omitempty"`
	// allowedNamespaces are the namespaces whose IngotHosts may boot on this network.
	// Unset, or with neither names nor selector: those that have the label
	// ingot.infrastructure.cluster.x-k8s.io/networks=allowed. The namespace of discover is
	// always one. A host that is in use keeps what it has, and its condition NetworkAllowed
	// says what is missing.
	// +optional
	AllowedNamespaces *NetworkNamespaces `json:"allowedNamespaces,omitempty"`
	// discover is how unknown machines are enrolled, in mode Discover.
	// +optional
	Discover *NetworkDiscovery `json:"discover,omitempty"`
	// ipv6 is IPv6 on this network, besides subnet or alone. Unset: Ingot does not answer
	// DHCPv6.
	// +optional
	IPv6 *NetworkIPv6 `json:"ipv6,omitempty"`
	// gateway is the default router given to hosts.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 10.10.0.1"
	Gateway string `json:"gateway,omitempty"`
	// dnsServers given to hosts.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 10.10.0.1"
	DNSServers []string `json:"dnsServers,omitempty"`
	// ntpServers given to hosts.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 10.10.0.1"
	NTPServers []string `json:"ntpServers,omitempty"`
	// domain name given to hosts.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be a DNS name in lower case, for example dc1.example"
	Domain string `json:"domain,omitempty"`
	// searchDomains are the domains in which hosts look names up, in this order.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=6
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be a DNS name in lower case, for example dc1.example"
	SearchDomains []string `json:"searchDomains,omitempty"`
	// mtu of the network in bytes, given to hosts that ask for it. Unset: hosts use
	// their own default, 1500 as a rule.
	// +optional
	// +kubebuilder:validation:Minimum=576
	// +kubebuilder:validation:Maximum=65535
	MTU *int32 `json:"mtu,omitempty"`
	// routes given to hosts besides the default route by gateway.
	// +optional
	// +listType=map
	// +listMapKey=destination
	// +kubebuilder:validation:MaxItems=16
	Routes []NetworkRoute `json:"routes,omitempty"`
	// staticLeases are addresses that are kept for interfaces of servers, by their MAC
	// address: those of boot NICs are what such hosts are given here, and networkData of
	// machines may take those of others (source StaticLease). They may lie in range or
	// beside it.
	// +optional
	// +listType=map
	// +listMapKey=mac
	// +kubebuilder:validation:MaxItems=1024
	StaticLeases []StaticLease `json:"staticLeases,omitempty"`
	// relays are addresses from which DHCP relays of this network ask, where they are
	// not in subnet. Requests that any other relay passes on are not answered.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 10.10.0.1"
	Relays []string `json:"relays,omitempty"`
	// leaseSeconds is the lease time, in seconds: how long a host keeps its address
	// while every boot server is down. Addresses are recorded, so a long one is free.
	// +optional
	// +kubebuilder:default=86400
	// +kubebuilder:validation:Minimum=120
	// +kubebuilder:validation:Maximum=604800
	LeaseSeconds *int32 `json:"leaseSeconds,omitempty"`
}

// AddressPoolReference names a pool of an IPAM provider.
type AddressPoolReference struct {
	// apiGroup of the pool's kind, for example ipam.cluster.x-k8s.io.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be an API group such as ipam.cluster.x-k8s.io"
	APIGroup string `json:"apiGroup,omitempty"`
	// kind of the pool, for example InClusterIPPool or GlobalInClusterIPPool.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$')",message="must be a kind such as InClusterIPPool"
	Kind string `json:"kind,omitempty"`
	// name of the pool.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of an object: lower case letters, digits, - and . (for example rack-a.12)"
	Name string `json:"name,omitempty"`
}

// NetworkNamespaces are namespaces, and what each may take of a network.
// +kubebuilder:validation:MinProperties=1
type NetworkNamespaces struct {
	// names of namespaces that are allowed.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace"
	Names []string `json:"names,omitempty"`
	// selector of the labels of namespaces that are allowed as well. An empty one ({})
	// selects all.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// maxHosts is how many IngotHosts of one namespace may use this network. Unset: any
	// number.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxHosts *int32 `json:"maxHosts,omitempty"`
	// maxRangePercent is how much of range the IngotHosts of one namespace may take. Each
	// takes one address. Unset: all of it. It has no effect without range.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxRangePercent *int32 `json:"maxRangePercent,omitempty"`
}

// NetworkDiscovery is how unknown machines are enrolled.
type NetworkDiscovery struct {
	// namespace in which their IngotHosts are made.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace"
	Namespace string `json:"namespace,omitempty"`
	// range of addresses that are lent to unknown machines while they report
	// themselves, some minutes each; both ends included. It must not overlap
	// spec.range, or what the pool of addressPoolRef gives. Its size bounds how many
	// report at once; 256 do at most.
	// +required
	Range AddressRange `json:"range,omitempty,omitzero"`
	// maxHosts is how many enrolled hosts of this network may wait for approval. No
	// unknown machine is answered while so many do.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxHosts int32 `json:"maxHosts,omitempty"`
	// perMinute is how many unknown machines are let in in a minute, by each boot
	// server, and enrolled, by all.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	PerMinute int32 `json:"perMinute,omitempty"`
}

// IngotNetworkStatus is the observed state of an IngotNetwork.
type IngotNetworkStatus struct {
	// observedGeneration is the metadata.generation that Ingot has acted on.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready. Ready is False if hosts wait for an address and none is free.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// hosts is the number of IngotHosts, in all namespaces, whose spec.networkRef names the network.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Hosts *int32 `json:"hosts,omitempty"`

	// ipv4 counts the addresses of spec.range. Unset in mode Proxy and without spec.subnet.
	// +optional
	IPv4 *AddressUsage `json:"ipv4,omitempty"`

	// ipv6 counts the addresses of spec.ipv6.range. Unset without that range.
	// +optional
	IPv6 *AddressUsage `json:"ipv6,omitempty"`

	// discovery tells of the last machine enrolled, in mode Discover.
	// +optional
	Discovery *DiscoveryStatus `json:"discovery,omitempty"`
}

// AddressUsage counts the addresses of a range.
type AddressUsage struct {
	// total is the number of addresses in the range, at most 10^15. Unset if the addresses come
	// from spec.addressPoolRef.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Total *int64 `json:"total,omitempty"`
	// used is the number of these addresses that Ingot cannot give to another host: recorded for
	// a host, used by an installed system, leased statically, or kept for a router, a server or a
	// control plane endpoint.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Used *int64 `json:"used,omitempty"`
	// free is total minus used. Unset if the addresses come from spec.addressPoolRef.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Free *int64 `json:"free,omitempty"`
}

// DiscoveryStatus tells of the last machine enrolled. It is written before the
// IngotHost is made, by optimistic lock, so that replicas enrol one after the other
// and never more than spec.discover.maxHosts.
type DiscoveryStatus struct {
	// waitingHosts is how many enrolled hosts waited for approval then, the last included.
	// +optional
	// +kubebuilder:validation:Minimum=0
	WaitingHosts *int32 `json:"waitingHosts,omitempty"`
	// lastHostName is the IngotHost of the last machine enrolled.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	LastHostName string `json:"lastHostName,omitempty"`
	// lastEnrollmentTime is when it was.
	// +optional
	LastEnrollmentTime metav1.MicroTime `json:"lastEnrollmentTime,omitempty,omitzero"`
}

// NetworkRoute is a route that hosts are given.
type NetworkRoute struct {
	// destination in CIDR notation, IPv4.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).ip().family() == 4 && cidr(self) == cidr(self).masked()",message="must be an IPv4 subnet such as 10.20.0.0/16, with no host bits set"
	Destination string `json:"destination,omitempty"`
	// gateway is the router to it, in spec.subnet.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 10.10.0.1"
	Gateway string `json:"gateway,omitempty"`
}

// AddressRange is a range of addresses, both ends included.
type AddressRange struct {
	// start of the range.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 10.10.0.1"
	Start string `json:"start,omitempty"`
	// end of the range.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 10.10.0.1"
	End string `json:"end,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ingotnetworks,shortName=inet,scope=Cluster,categories=ingot
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move-hierarchy="
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Subnet",type=string,JSONPath=`.spec.subnet`
// +kubebuilder:printcolumn:name="IPv6",type=string,JSONPath=`.spec.ipv6.subnet`
// +kubebuilder:printcolumn:name="Hosts",type=integer,JSONPath=`.status.hosts`
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status['ipv4.free','ipv6.free']`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Gateway",type=string,JSONPath=`.spec.gateway`,priority=1
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.addressPoolRef.name`,priority=1
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status['ipv4.used','ipv6.used']`,priority=1
// +kubebuilder:printcolumn:name="Enrolled",type=string,JSONPath=`.status.discovery.lastHostName`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`

// IngotNetwork is a provisioning subnet. It holds no secret.
type IngotNetwork struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec of the network.
	// +required
	Spec IngotNetworkSpec `json:"spec,omitempty,omitzero"`
	// status is what was observed last.
	// +optional
	Status IngotNetworkStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (n *IngotNetwork) GetConditions() []metav1.Condition { return n.Status.Conditions }

// SetConditions replaces the conditions.
func (n *IngotNetwork) SetConditions(conditions []metav1.Condition) { n.Status.Conditions = conditions }

// +kubebuilder:object:root=true

// IngotNetworkList is a list of IngotNetworks.
type IngotNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngotNetwork `json:"items"`
}
