// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DHCPMode is the mode of the DHCP server on a network.
// +kubebuilder:validation:Enum=Reserve;Discover;Proxy
type DHCPMode string

// The DHCP modes.
const (
	// DHCPModeReserve means that Ingot assigns addresses, to known MAC addresses only.
	DHCPModeReserve DHCPMode = "Reserve"
	// DHCPModeDiscover adds enrollment to Reserve: an unknown client boots the agent once, and the
	// agent reports it for approval.
	DHCPModeDiscover DHCPMode = "Discover"
	// DHCPModeProxy means that another DHCP server assigns addresses. Ingot only provides boot
	// information to known MAC addresses.
	DHCPModeProxy DHCPMode = "Proxy"
)

// IngotNetworkSpec defines the desired state of an IngotNetwork.
// +kubebuilder:validation:XValidation:rule="!has(self.range) || !has(self.subnet) || !isCIDR(self.subnet) || !isIP(self.range.start) || cidr(self.subnet).containsIP(self.range.start)",fieldPath=".range.start",messageExpression="self.range.start + ' must be in spec.subnet ' + self.subnet"
// +kubebuilder:validation:XValidation:rule="!has(self.range) || !has(self.subnet) || !isCIDR(self.subnet) || !isIP(self.range.end) || cidr(self.subnet).containsIP(self.range.end)",fieldPath=".range.end",messageExpression="self.range.end + ' must be in spec.subnet ' + self.subnet"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || !has(self.subnet) || !isCIDR(self.subnet) || !isIP(self.gateway) || cidr(self.subnet).containsIP(self.gateway)",fieldPath=".gateway",messageExpression="self.gateway + ' must be in spec.subnet ' + self.subnet + '; use the router of this subnet, or remove it'"
// +kubebuilder:validation:XValidation:rule="has(self.subnet) || has(self.ipv6)",fieldPath=".subnet",message="is required unless ipv6 is set",reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="has(self.subnet) || !has(self.ipv6) || self.mode == 'Reserve'",fieldPath=".mode",messageExpression="self.mode + ' is a mode of IPv4 and requires spec.subnet; remove mode, or set spec.subnet'"
// +kubebuilder:validation:XValidation:rule="has(self.subnet) || !has(self.ipv6) || !(has(self.range) || has(self.addressPoolRef) || has(self.gateway) || has(self.dnsServers) || has(self.ntpServers) || has(self.routes) || has(self.staticLeases) || has(self.relays))",fieldPath=".subnet",message="is required with range, addressPoolRef, gateway, dnsServers, ntpServers, routes, staticLeases or relays, which apply to IPv4 only; set spec.subnet, or remove these fields and use spec.ipv6"
// +kubebuilder:validation:XValidation:rule="has(self.subnet) == has(oldSelf.subnet) && (!has(self.subnet) || self.subnet == oldSelf.subnet)",fieldPath=".subnet",messageExpression="(has(oldSelf.subnet) ? oldSelf.subnet : 'no subnet') + ' is immutable, because recorded addresses depend on it; create another IngotNetwork for ' + (has(self.subnet) ? self.subnet : 'IPv6 alone')"
// +kubebuilder:validation:XValidation:rule="(self.mode == 'Proxy') == (oldSelf.mode == 'Proxy')",fieldPath=".mode",messageExpression="oldSelf.mode + ' cannot become ' + self.mode + ', because the settings of hosts depend on it; create another IngotNetwork with mode ' + self.mode + ' and reference it in the hosts'"
// +kubebuilder:validation:XValidation:rule="self.mode == 'Proxy' || !has(self.subnet) || has(self.range) != has(self.addressPoolRef)",fieldPath=".range",message="is required in modes Reserve and Discover unless addressPoolRef is set",reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="(self.mode == 'Discover') == has(self.discover)",fieldPath=".discover",messageExpression="has(self.discover) ? 'must not be set in mode ' + self.mode + '; remove it, or set mode to Discover' : 'is required in mode Discover'"
// +kubebuilder:validation:XValidation:rule="!has(self.discover) || !has(self.subnet) || !isCIDR(self.subnet) || !isIP(self.discover.range.start) || !isIP(self.discover.range.end) || (cidr(self.subnet).containsIP(self.discover.range.start) && cidr(self.subnet).containsIP(self.discover.range.end))",fieldPath=".discover.range",messageExpression="'must be in spec.subnet ' + self.subnet"
// +kubebuilder:validation:XValidation:rule="self.mode != 'Proxy' || !(has(self.range) || has(self.addressPoolRef) || has(self.gateway) || has(self.dnsServers) || has(self.ntpServers) || has(self.domain) || has(self.searchDomains) || has(self.mtu) || has(self.routes))",fieldPath=".mode",message="must not be Proxy together with range, addressPoolRef, gateway, dnsServers, ntpServers, domain, searchDomains, mtu or routes: another DHCP server provides these settings; remove them"
// +kubebuilder:validation:XValidation:rule="!has(self.routes) || !has(self.subnet) || !isCIDR(self.subnet) || self.routes.all(r, !isIP(r.gateway) || cidr(self.subnet).containsIP(r.gateway))",fieldPath=".routes",messageExpression="'every gateway must be in spec.subnet ' + self.subnet + ', because hosts cannot reach other routers'"
type IngotNetworkSpec struct {
	// mode is the DHCP mode: Reserve, Discover or Proxy. With Reserve, Ingot assigns an address to
	// each host. Discover also enrolls unknown clients as hosts that wait for approval. With Proxy,
	// another DHCP server assigns addresses and Ingot provides only the boot information. The
	// default is Reserve.
	// +optional
	// +kubebuilder:default=Reserve
	Mode DHCPMode `json:"mode,omitempty"`
	// subnet is the IPv4 subnet in CIDR notation. If unset, the network has only IPv6, and ipv6 is
	// required. Of the other fields, only domain, searchDomains, mtu and leaseSeconds then apply.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).ip().family() == 4 && cidr(self) == cidr(self).masked() && cidr(self).prefixLength() >= 8 && cidr(self).prefixLength() <= 30",message="must be an IPv4 subnet such as 10.10.0.0/24, with no host bits set and a prefix length of 8 to 30"
	Subnet string `json:"subnet,omitempty"`
	// range is the range of IPv4 addresses that Ingot assigns to hosts, including both ends. If
	// subnet is set, modes Reserve and Discover require either range or addressPoolRef.
	// +optional
	Range AddressRange `json:"range,omitempty,omitzero"`
	// addressPoolRef references a pool of a Cluster API IPAM provider that replaces range. Ingot
	// creates an IPAddressClaim in the host's namespace for each host. If the pool's kind is
	// namespaced, each namespace with hosts on this network needs a pool with this name.
	// +optional
	AddressPoolRef *AddressPoolReference `json:"addressPoolRef,omitempty"`
	// allowedNamespaces selects the namespaces whose IngotHosts can boot on this network. If unset,
	// or without names and selector, the namespace needs the label
	// ingot.infrastructure.cluster.x-k8s.io/networks=allowed. The namespace of discover is always
	// allowed. After a change, a host in use keeps its address and reports the missing permission
	// in its condition NetworkAllowed.
	// +optional
	AllowedNamespaces *NetworkNamespaces `json:"allowedNamespaces,omitempty"`
	// discover configures the enrollment of unknown clients. It is required in mode Discover.
	// +optional
	Discover *NetworkDiscovery `json:"discover,omitempty"`
	// ipv6 configures IPv6 on this network. If unset, Ingot does not answer DHCPv6.
	// +optional
	IPv6 *NetworkIPv6 `json:"ipv6,omitempty"`
	// gateway is the IPv4 address of the default router of the hosts.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 10.10.0.1"
	Gateway string `json:"gateway,omitempty"`
	// dnsServers lists the IPv4 addresses of the DNS servers of the hosts.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 10.10.0.1"
	DNSServers []string `json:"dnsServers,omitempty"`
	// ntpServers lists the IPv4 addresses of the NTP servers of the hosts.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 10.10.0.1"
	NTPServers []string `json:"ntpServers,omitempty"`
	// domain is the DNS domain name of the hosts.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be a DNS name in lower case, for example dc1.example"
	Domain string `json:"domain,omitempty"`
	// searchDomains lists the DNS search domains of the hosts, in order.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=6
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be a DNS name in lower case, for example dc1.example"
	SearchDomains []string `json:"searchDomains,omitempty"`
	// mtu is the MTU of the network in bytes. Ingot sends it to hosts that request it. If unset,
	// hosts use their own default, usually 1500.
	// +optional
	// +kubebuilder:validation:Minimum=576
	// +kubebuilder:validation:Maximum=65535
	MTU *int32 `json:"mtu,omitempty"`
	// routes lists the static routes of the hosts, in addition to the default route by gateway.
	// +optional
	// +listType=map
	// +listMapKey=destination
	// +kubebuilder:validation:MaxItems=16
	Routes []NetworkRoute `json:"routes,omitempty"`
	// staticLeases lists fixed addresses by MAC address. A host whose boot NIC is listed gets this
	// address. The networkData of machines can use the address of another NIC with source
	// StaticLease. The addresses can be inside or outside of range.
	// +optional
	// +listType=map
	// +listMapKey=mac
	// +kubebuilder:validation:MaxItems=1024
	StaticLeases []StaticLease `json:"staticLeases,omitempty"`
	// relays lists the addresses of DHCP relays of this network that are outside of subnet. Ingot
	// ignores requests from other relays outside of subnet.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 10.10.0.1"
	Relays []string `json:"relays,omitempty"`
	// leaseSeconds is the DHCP lease time in seconds. A host keeps its address for this time if all
	// boot servers are down. A long lease time does not use up addresses, because Ingot assigns
	// them permanently. The default is 86400.
	// +optional
	// +kubebuilder:default=86400
	// +kubebuilder:validation:Minimum=120
	// +kubebuilder:validation:Maximum=604800
	LeaseSeconds *int32 `json:"leaseSeconds,omitempty"`
}

// AddressPoolReference references a pool of a Cluster API IPAM provider.
type AddressPoolReference struct {
	// apiGroup is the API group of the pool, for example ipam.cluster.x-k8s.io.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be an API group such as ipam.cluster.x-k8s.io"
	APIGroup string `json:"apiGroup,omitempty"`
	// kind is the kind of the pool, for example InClusterIPPool or GlobalInClusterIPPool.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$')",message="must be a kind such as InClusterIPPool"
	Kind string `json:"kind,omitempty"`
	// name is the name of the pool.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of an object: lower case letters, digits, - and . (for example rack-a.12)"
	Name string `json:"name,omitempty"`
}

// NetworkNamespaces selects namespaces and limits how much of a network each of them can use.
// +kubebuilder:validation:MinProperties=1
type NetworkNamespaces struct {
	// names lists the names of allowed namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace"
	Names []string `json:"names,omitempty"`
	// selector selects additional allowed namespaces by their labels. An empty selector ({})
	// selects all namespaces.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// maxHosts is the maximum number of IngotHosts of one namespace on this network. If unset, the
	// number is not limited.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxHosts *int32 `json:"maxHosts,omitempty"`
	// maxRangePercent is the maximum share of range that the IngotHosts of one namespace can use,
	// in percent. Each host uses one address. If unset, a namespace can use the whole range.
	// Without range, it has no effect.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxRangePercent *int32 `json:"maxRangePercent,omitempty"`
}

// NetworkDiscovery configures the enrollment of unknown clients.
type NetworkDiscovery struct {
	// namespace is the namespace in which Ingot creates the IngotHosts of unknown clients.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace"
	Namespace string `json:"namespace,omitempty"`
	// range is the range of addresses that unknown clients use for a few minutes while they report
	// their hardware, including both ends. It must not overlap spec.range or the pool of
	// addressPoolRef. Its size limits how many clients can report at the same time. The maximum is
	// 256 clients.
	// +required
	Range AddressRange `json:"range,omitempty,omitzero"`
	// maxHosts is the maximum number of enrolled hosts of this network that wait for approval. If
	// it is reached, Ingot does not answer unknown clients. The default is 100.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxHosts int32 `json:"maxHosts,omitempty"`
	// perMinute is the maximum number of unknown clients per minute that each boot server answers.
	// It is also the maximum number of hosts per minute that all boot servers together enroll. The
	// default is 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	PerMinute int32 `json:"perMinute,omitempty"`
}

// IngotNetworkStatus defines the observed state of an IngotNetwork.
type IngotNetworkStatus struct {
	// conditions represents the observations of the network's current state. The condition type is
	// Ready. It is False if hosts wait for an address and no address is free.
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

	// hosts is the number of IngotHosts in all namespaces whose spec.networkRef references the
	// network.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Hosts *int32 `json:"hosts,omitempty"`

	// ipv4 counts the addresses of spec.range. It is unset in mode Proxy and without spec.subnet.
	// +optional
	IPv4 *AddressUsage `json:"ipv4,omitempty"`

	// ipv6 counts the addresses of spec.ipv6.range. It is unset without this range.
	// +optional
	IPv6 *AddressUsage `json:"ipv6,omitempty"`

	// discovery is the state of the enrollment in mode Discover.
	// +optional
	Discovery *DiscoveryStatus `json:"discovery,omitempty"`
}

// AddressUsage counts the addresses of a range.
type AddressUsage struct {
	// total is the number of addresses in the range, at most 10^15. It is unset if the addresses
	// come from spec.addressPoolRef.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Total *int64 `json:"total,omitempty"`
	// used is the number of these addresses that Ingot cannot assign to another host. Hosts,
	// installed systems, static leases, routers, servers and control plane endpoints use addresses.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Used *int64 `json:"used,omitempty"`
	// free is total minus used. It is unset if the addresses come from spec.addressPoolRef.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Free *int64 `json:"free,omitempty"`
}

// DiscoveryStatus is the state of the enrollment of unknown clients. Ingot writes it before it
// creates the IngotHost. The replicas therefore enroll one client after another, and never more
// than spec.discover.maxHosts.
type DiscoveryStatus struct {
	// waitingHosts is the number of enrolled hosts that waited for approval at the last enrollment,
	// including the last host.
	// +optional
	// +kubebuilder:validation:Minimum=0
	WaitingHosts *int32 `json:"waitingHosts,omitempty"`
	// lastHostName is the name of the IngotHost that Ingot enrolled last.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	LastHostName string `json:"lastHostName,omitempty"`
	// lastEnrollmentTime is the time of the last enrollment.
	// +optional
	LastEnrollmentTime metav1.MicroTime `json:"lastEnrollmentTime,omitempty,omitzero"`
}

// NetworkRoute is a static route.
type NetworkRoute struct {
	// destination is the destination of the route, an IPv4 network in CIDR notation.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).ip().family() == 4 && cidr(self) == cidr(self).masked()",message="must be an IPv4 subnet such as 10.20.0.0/16, with no host bits set"
	Destination string `json:"destination,omitempty"`
	// gateway is the IPv4 address of the router. It must be in spec.subnet.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 10.10.0.1"
	Gateway string `json:"gateway,omitempty"`
}

// AddressRange is a range of IPv4 addresses, including both ends.
type AddressRange struct {
	// start is the first address of the range.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 10.10.0.1"
	Start string `json:"start,omitempty"`
	// end is the last address of the range.
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

// IngotNetwork is a provisioning network. It is cluster-scoped and must not contain secrets.
type IngotNetwork struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the IngotNetwork.
	// +required
	Spec IngotNetworkSpec `json:"spec,omitempty,omitzero"`
	// status is the observed state of the IngotNetwork. Only Ingot writes it.
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
