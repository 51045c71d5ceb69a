// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// DHCPv6Mode is the mode of the DHCPv6 server on a network.
// +kubebuilder:validation:Enum=Stateful;Stateless
type DHCPv6Mode string

// The DHCPv6 modes.
const (
	// DHCPv6ModeStateful means that Ingot assigns addresses, to known MAC addresses only.
	DHCPv6ModeStateful DHCPv6Mode = "Stateful"
	// DHCPv6ModeStateless means that hosts derive their addresses from the advertised subnet
	// (SLAAC). Ingot sends the other options to known hosts.
	DHCPv6ModeStateless DHCPv6Mode = "Stateless"
)

// NetworkIPv6 configures IPv6 on a provisioning network, with or without IPv4.
// +kubebuilder:validation:XValidation:rule="self.subnet == oldSelf.subnet",fieldPath=".subnet",messageExpression="oldSelf.subnet + ' is immutable, because recorded addresses depend on it; create another IngotNetwork for ' + self.subnet"
// +kubebuilder:validation:XValidation:rule="(self.mode == 'Stateful') == has(self.range)",fieldPath=".range",messageExpression="has(self.range) ? 'must not be set in mode ' + self.mode + '; remove it, or set mode to Stateful' : 'is required in mode Stateful'"
// +kubebuilder:validation:XValidation:rule="!has(self.range) || !isCIDR(self.subnet) || !isIP(self.range.start) || !isIP(self.range.end) || (cidr(self.subnet).containsIP(self.range.start) && cidr(self.subnet).containsIP(self.range.end))",fieldPath=".range",messageExpression="'must be in spec.ipv6.subnet ' + self.subnet"
// +kubebuilder:validation:XValidation:rule="self.mode == 'Stateful' || !isCIDR(self.subnet) || cidr(self.subnet).prefixLength() == 64",fieldPath=".subnet",messageExpression="self.subnet + ' must have a prefix length of 64 in mode Stateless, because SLAAC requires it; correct it, or use mode Stateful with a range'"
type NetworkIPv6 struct {
	// mode is the DHCPv6 mode, either Stateful or Stateless. With Stateful, Ingot assigns an
	// address to each host. With Stateless, hosts derive their addresses from the advertised
	// subnet, and Ingot sends only the other options. The default is Stateful.
	// +optional
	// +kubebuilder:default=Stateful
	Mode DHCPv6Mode `json:"mode,omitempty"`
	// subnet is the IPv6 subnet in CIDR notation.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self).ip().family() == 6 && cidr(self) == cidr(self).masked() && cidr(self).prefixLength() >= 48 && cidr(self).prefixLength() <= 120",message="must be an IPv6 subnet such as 2001:db8:0:1::/64, with no host bits set and a prefix length of 48 to 120"
	Subnet string `json:"subnet,omitempty"`
	// range is the range of IPv6 addresses that Ingot assigns to hosts, including both ends. Mode
	// Stateful requires it.
	// +optional
	Range IPv6Range `json:"range,omitempty,omitzero"`
	// dnsServers lists the IPv6 addresses of the DNS servers of the hosts, in addition to
	// spec.dnsServers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip(self).family() == 6",message="must be an IPv6 address such as 2001:db8:0:1::53"
	DNSServers []string `json:"dnsServers,omitempty"`
	// ntpServers lists the IPv6 addresses of the NTP servers of the hosts, in addition to
	// spec.ntpServers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip(self).family() == 6",message="must be an IPv6 address such as 2001:db8:0:1::123"
	NTPServers []string `json:"ntpServers,omitempty"`
	// relays lists the addresses of DHCPv6 relays of this network whose link address is outside of
	// subnet. Ingot ignores requests from other relays whose link address is outside of subnet.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip(self).family() == 6",message="must be an IPv6 address such as 2001:db8:0:1::fe"
	Relays []string `json:"relays,omitempty"`
	// routerAdvertisements configures the router advertisements that the boot servers send. If
	// unset, the boot servers send none, and the routers of the network must send them.
	// +optional
	RouterAdvertisements *RouterAdvertisements `json:"routerAdvertisements,omitempty"`
}

// RouterAdvertisements configures the router advertisements of the boot servers.
type RouterAdvertisements struct {
	// defaultRouterSeconds is the time in seconds for which hosts use the boot server as a default
	// router. Set it only if the boot servers forward packets. The default is 0: hosts do not use
	// the boot server as a router.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9000
	DefaultRouterSeconds *int32 `json:"defaultRouterSeconds,omitempty"`
}

// IPv6Range is a range of IPv6 addresses, including both ends.
type IPv6Range struct {
	// start is the first address of the range.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 6",message="must be an IPv6 address such as 2001:db8:0:1::1000"
	Start string `json:"start,omitempty"`
	// end is the last address of the range.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 6",message="must be an IPv6 address such as 2001:db8:0:1::1000"
	End string `json:"end,omitempty"`
}
