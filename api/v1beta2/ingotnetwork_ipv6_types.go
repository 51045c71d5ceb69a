// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// DHCPv6Mode is how Ingot answers DHCPv6 on a network.
// +kubebuilder:validation:Enum=Stateful;Stateless
type DHCPv6Mode string

// The modes of DHCPv6.
const (
	// DHCPv6ModeStateful: Ingot gives addresses, to known MAC addresses only.
	DHCPv6ModeStateful DHCPv6Mode = "Stateful"
	// DHCPv6ModeStateless: hosts make their addresses from the subnet that routers
	// advertise; Ingot tells known ones the rest.
	DHCPv6ModeStateless DHCPv6Mode = "Stateless"
)

// NetworkIPv6 is IPv6 on a provisioning network, beside IPv4 or alone.
// +kubebuilder:validation:XValidation:rule="self.subnet == oldSelf.subnet",fieldPath=".subnet",messageExpression="oldSelf.subnet + ' is immutable, because recorded addresses depend on it; create another IngotNetwork for ' + self.subnet"
// +kubebuilder:validation:XValidation:rule="(self.mode == 'Stateful') == has(self.range)",fieldPath=".range",messageExpression="has(self.range) ? 'has no meaning in mode ' + self.mode + ', in which hosts make their addresses; remove it, or say mode Stateful' : 'is required in mode Stateful: the addresses that hosts are given'"
// +kubebuilder:validation:XValidation:rule="!has(self.range) || !isCIDR(self.subnet) || !isIP(self.range.start) || !isIP(self.range.end) || (cidr(self.subnet).containsIP(self.range.start) && cidr(self.subnet).containsIP(self.range.end))",fieldPath=".range",messageExpression="'must lie in spec.ipv6.subnet ' + self.subnet"
// +kubebuilder:validation:XValidation:rule="self.mode == 'Stateful' || !isCIDR(self.subnet) || cidr(self.subnet).prefixLength() == 64",fieldPath=".subnet",messageExpression="self.subnet + ' must have a prefix length of 64 in mode Stateless: hosts make addresses in no other; or use mode Stateful with a range'"
type NetworkIPv6 struct {
	// mode of DHCPv6. Stateful: Ingot gives each host its address. Stateless: hosts
	// make them, and Ingot tells them the rest.
	// +optional
	// +kubebuilder:default=Stateful
	Mode DHCPv6Mode `json:"mode,omitempty"`
	// subnet in CIDR notation, IPv6.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).ip().family() == 6 && cidr(self) == cidr(self).masked() && cidr(self).prefixLength() >= 48 && cidr(self).prefixLength() <= 120",message="must be an IPv6 subnet such as 2001:db8:0:1::/64, with no host bits set and a prefix length of 48 to 120"
	Subnet string `json:"subnet,omitempty"`
	// range of addresses that are recorded for hosts; both ends included. Required in
	// mode Stateful.
	// +optional
	Range IPv6Range `json:"range,omitempty,omitzero"`
	// dnsServers given to hosts, besides spec.dnsServers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip(self).family() == 6",message="must be an IPv6 address such as 2001:db8:0:1::53"
	DNSServers []string `json:"dnsServers,omitempty"`
	// ntpServers given to hosts, besides spec.ntpServers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip(self).family() == 6",message="must be an IPv6 address such as 2001:db8:0:1::123"
	NTPServers []string `json:"ntpServers,omitempty"`
	// relays are addresses from which DHCPv6 relays of this network ask, where the link
	// address they give is not in subnet. Requests that any other relay passes on are
	// not answered.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip(self).family() == 6",message="must be an IPv6 address such as 2001:db8:0:1::fe"
	Relays []string `json:"relays,omitempty"`
	// routerAdvertisements are sent by the boot servers where it is set. Unset: the
	// network's routers send them.
	// +optional
	RouterAdvertisements *RouterAdvertisements `json:"routerAdvertisements,omitempty"`
}

// RouterAdvertisements are what boot servers send in place of a router.
type RouterAdvertisements struct {
	// defaultRouterSeconds is how long, in seconds, hosts take the boot server that
	// sent it for a default router. 0: they do not. Anything else is for boot servers
	// that forward packets.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9000
	DefaultRouterSeconds *int32 `json:"defaultRouterSeconds,omitempty"`
}

// IPv6Range is a range of IPv6 addresses, both ends included.
type IPv6Range struct {
	// start of the range.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 6",message="must be an IPv6 address such as 2001:db8:0:1::1000"
	Start string `json:"start,omitempty"`
	// end of the range.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 6",message="must be an IPv6 address such as 2001:db8:0:1::1000"
	End string `json:"end,omitempty"`
}
