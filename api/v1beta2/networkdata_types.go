// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// NetworkData is the network configuration of the installed system. One configuration can serve all
// machines of a template: it selects the interfaces of each host and the source of each address.
// Ingot resolves it for the selected host and stores the result in the host's claim.
type NetworkData struct {
	// ethernets lists the network interfaces of the host that the system uses. The system gets no
	// configuration for other interfaces.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Ethernets []NetworkEthernet `json:"ethernets,omitempty"`
	// bonds lists the bonds of ethernets.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Bonds []NetworkBond `json:"bonds,omitempty"`
	// vlans lists the VLAN interfaces on ethernets and bonds.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	VLANs []NetworkVLAN `json:"vlans,omitempty"`
}

// NetworkEthernet configures one network interface of the host.
type NetworkEthernet struct {
	// name is the name of the interface in the installed system. Bonds and vlans refer to the
	// interface by this name. It must not be a kernel name such as eth0, because another interface
	// can have it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9.]*[a-z0-9])?$') && !self.matches('^(eth[0-9]+|lo|all|default)$')",message="must be a name of at most 15 lower case letters, digits, - and ., and must not be a kernel name such as eth0 or lo; for example uplink0"
	Name string `json:"name,omitempty"`
	// nic selects the interface of the host. Hosts on which it does not select exactly one
	// interface cannot be claimed. The command kubectl get ihw -o yaml shows the interfaces of the
	// hosts.
	// +required
	NIC NICSelector `json:"nic,omitempty,omitzero"`

	LinkConfig `json:",inline"`
}

// BootNICRule defines whether a NICSelector selects the boot NIC.
// +kubebuilder:validation:Enum=Only;Never
type BootNICRule string

// The values of bootNIC.
const (
	// BootNICOnly selects the NIC from which the host boots (spec.bootMACAddress).
	BootNICOnly BootNICRule = "Only"
	// BootNICNever excludes the NIC from which the host boots.
	BootNICNever BootNICRule = "Never"
)

// NICSelector selects one network interface of a host. The interface must match all fields that are
// set. If several interfaces match, position selects one of them.
// +kubebuilder:validation:MinProperties=1
type NICSelector struct {
	// bootNIC selects the NIC from which the host boots (Only) or excludes it (Never). If unset,
	// both match.
	// +optional
	BootNIC BootNICRule `json:"bootNIC,omitempty"`
	// mac is the permanent MAC address of the interface. It identifies one server, so use it for a
	// machine and not for a template.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{2}(:[0-9a-f]{2}){5}$')",message="must be a MAC address in lower case with colons, for example 52:54:00:12:34:56"
	MAC string `json:"mac,omitempty"`
	// name is the name of the interface in the agent's kernel. Names depend on the order in which
	// drivers load. Prefer pci.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9._-]+$')",message="must be an interface's name as IngotHardware shows it, for example eth1"
	Name string `json:"name,omitempty"`
	// pci is the PCI address of the interface. A trailing * matches any suffix: 0000:3b:00.*
	// selects all ports of one card.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-z:._-]+[*]?$')",message="must be a PCI address in lower case such as 0000:3b:00.0, or the beginning of an address with a trailing *, such as 0000:3b:00.*"
	PCI string `json:"pci,omitempty"`
	// driver is the name of the agent's kernel driver, for example mlx5_core or ice.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_-]+$')",message="must be the name of a driver such as mlx5_core"
	Driver string `json:"driver,omitempty"`
	// minSpeedMbps is the minimum link speed at the time of the inspection, in Mbit/s. An interface
	// without a link at that time does not match.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1600000
	MinSpeedMbps *int32 `json:"minSpeedMbps,omitempty"`
	// position is the position of the interface among the matching interfaces, ordered by PCI
	// address, starting with 1. If unset, exactly one interface must match.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Position *int32 `json:"position,omitempty"`
}

// BondMode is the mode of a bond, as the Linux kernel names it.
// +kubebuilder:validation:Enum=balance-rr;active-backup;balance-xor;broadcast;"802.3ad";balance-tlb;balance-alb
type BondMode string

// The modes that validation rules refer to.
const (
	BondActiveBackup BondMode = "active-backup"
	BondXOR          BondMode = "balance-xor"
	BondLACP         BondMode = "802.3ad"
	BondTLB          BondMode = "balance-tlb"
	BondALB          BondMode = "balance-alb"
)

// NetworkBond configures a bond of ethernets.
// +kubebuilder:validation:XValidation:rule="self.mode == '802.3ad' || !(has(self.lacpRate) || has(self.minLinks) || has(self.aggregation))",fieldPath=".mode",messageExpression="self.mode + ' does not use LACP; remove lacpRate, minLinks and aggregation, or use mode 802.3ad'"
// +kubebuilder:validation:XValidation:rule="!has(self.transmitHashPolicy) || self.mode in ['802.3ad', 'balance-xor', 'balance-tlb']",fieldPath=".transmitHashPolicy",messageExpression="self.transmitHashPolicy + ' must not be set in mode ' + self.mode + '; remove it, or use mode 802.3ad, balance-xor or balance-tlb'"
// +kubebuilder:validation:XValidation:rule="!has(self.primary) || self.mode in ['active-backup', 'balance-tlb', 'balance-alb']",fieldPath=".primary",messageExpression="self.primary + ' cannot be primary in mode ' + self.mode + '; remove it, or use mode active-backup, balance-tlb or balance-alb'"
// +kubebuilder:validation:XValidation:rule="!has(self.primary) || self.primary in self.interfaces",fieldPath=".primary",messageExpression="self.primary + ' must be one of the interfaces of the bond'"
type NetworkBond struct {
	// name is the name of the bond in the installed system.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9.]*[a-z0-9])?$') && !self.matches('^(eth[0-9]+|lo|all|default)$')",message="must be a name of at most 15 lower case letters, digits, - and ., and must not be a kernel name such as eth0 or lo; for example bond0"
	Name string `json:"name,omitempty"`
	// interfaces lists the names of the ethernets of the bond. The bond has the MAC address of the
	// boot NIC if this is a member, and of the first ethernet otherwise.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=15
	Interfaces []string `json:"interfaces,omitempty"`
	// mode is the mode of the bond.
	// +required
	Mode BondMode `json:"mode,omitempty"`
	// lacpRate is the rate at which the switch sends LACP packets: slow (every 30 seconds) or fast
	// (every second). It requires mode 802.3ad. The default is slow.
	// +optional
	// +kubebuilder:validation:Enum=slow;fast
	LACPRate string `json:"lacpRate,omitempty"`
	// minLinks is the minimum number of active interfaces for the bond to be up. It requires mode
	// 802.3ad.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	MinLinks *int32 `json:"minLinks,omitempty"`
	// aggregation is the policy that selects the active aggregator: stable, bandwidth or count. It
	// requires mode 802.3ad. The default is stable.
	// +optional
	// +kubebuilder:validation:Enum=stable;bandwidth;count
	Aggregation string `json:"aggregation,omitempty"`
	// transmitHashPolicy is the policy that distributes transmitted packets over the interfaces. It
	// requires mode 802.3ad, balance-xor or balance-tlb. The default is layer2.
	// +optional
	// +kubebuilder:validation:Enum=layer2;"layer2+3";"layer3+4";"encap2+3";"encap3+4"
	TransmitHashPolicy string `json:"transmitHashPolicy,omitempty"`
	// primary is the ethernet that the bond uses while its link is up. It requires mode
	// active-backup, balance-tlb or balance-alb.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	Primary string `json:"primary,omitempty"`
	// monitorMilliseconds is the interval of the link monitoring in milliseconds. The default is
	// 100.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=10000
	MonitorMilliseconds *int32 `json:"monitorMilliseconds,omitempty"`
	// upDelayMilliseconds is the time for which a link must be up before the bond uses it, in
	// milliseconds. It helps with switches whose ports have a link before they forward packets. The
	// default is 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600000
	UpDelayMilliseconds *int32 `json:"upDelayMilliseconds,omitempty"`
	// downDelayMilliseconds is the time for which a link must be down before the bond stops using
	// it, in milliseconds. The default is 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600000
	DownDelayMilliseconds *int32 `json:"downDelayMilliseconds,omitempty"`

	LinkConfig `json:",inline"`
}

// NetworkVLAN configures a VLAN interface (IEEE 802.1Q).
type NetworkVLAN struct {
	// name is the name of the interface in the installed system.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9.]*[a-z0-9])?$') && !self.matches('^(eth[0-9]+|lo|all|default)$')",message="must be a name of at most 15 lower case letters, digits, - and ., and must not be a kernel name such as eth0 or lo; for example bond0.120"
	Name string `json:"name,omitempty"`
	// link is the name of the ethernet or bond that carries the VLAN.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	Link string `json:"link,omitempty"`
	// id is the VLAN ID.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	ID int32 `json:"id,omitempty"`

	LinkConfig `json:",inline"`
}

// DHCPFamilies are the address families for which a link uses DHCP.
// +kubebuilder:validation:Enum=IPv4;IPv6;DualStack
type DHCPFamilies string

// The values of dhcp.
const (
	DHCPFamilyIPv4      DHCPFamilies = "IPv4"
	DHCPFamilyIPv6      DHCPFamilies = "IPv6"
	DHCPFamilyDualStack DHCPFamilies = "DualStack"
)

// RouterAdvertisementRule defines whether a link accepts router advertisements.
// +kubebuilder:validation:Enum=Accept;Ignore
type RouterAdvertisementRule string

// The values of bootNIC.
const (
	RouterAdvertisementsAccept RouterAdvertisementRule = "Accept"
	RouterAdvertisementsIgnore RouterAdvertisementRule = "Ignore"
)

// LinkConfig is the configuration that ethernets, bonds and VLANs have in common.
type LinkConfig struct {
	// mtu is the MTU of the link in bytes. The default is the MTU of the IngotNetwork from which an
	// address comes, or else the default of the system. Members of a bond have the MTU of the bond.
	// +optional
	// +kubebuilder:validation:Minimum=576
	// +kubebuilder:validation:Maximum=65535
	MTU *int32 `json:"mtu,omitempty"`
	// dhcp defines for which address families the link uses DHCP: IPv4, IPv6 or DualStack. If
	// unset, the link does not use DHCP.
	// +optional
	DHCP DHCPFamilies `json:"dhcp,omitempty"`
	// routerAdvertisements defines whether the link accepts router advertisements, either Accept or
	// Ignore. Use Ignore if no router sends them, because some systems wait for one at boot. If
	// unset, the default of the system applies.
	// +optional
	RouterAdvertisements RouterAdvertisementRule `json:"routerAdvertisements,omitempty"`
	// addresses lists the addresses of the link, in order. Each address comes from its source.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Addresses []LinkAddress `json:"addresses,omitempty"`
	// routes lists the static routes by routers on this link.
	// +optional
	// +listType=map
	// +listMapKey=to
	// +kubebuilder:validation:MaxItems=32
	Routes []LinkRoute `json:"routes,omitempty"`
	// dnsServers lists the IP addresses of the DNS servers for this link. The default is the DNS
	// servers of the IngotNetwork from which an address comes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self)",message="must be an IP address such as 10.10.0.1"
	DNSServers []string `json:"dnsServers,omitempty"`
	// searchDomains lists the DNS search domains, in order. The default is the search domains of
	// the IngotNetwork from which an address comes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=6
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be a DNS name in lower case, for example dc1.example"
	SearchDomains []string `json:"searchDomains,omitempty"`
}

// AddressSource is the source of an address.
// +kubebuilder:validation:Enum=Recorded;RecordedIPv6;StaticLease;Pool;Static
type AddressSource string

// The sources of an address.
const (
	// AddressRecorded is the IPv4 address that Ingot recorded for the host on its IngotNetwork. The
	// host keeps it across machines.
	AddressRecorded AddressSource = "Recorded"
	// AddressRecordedIPv6 is the IPv6 address that Ingot recorded for the host on its IngotNetwork.
	AddressRecordedIPv6 AddressSource = "RecordedIPv6"
	// AddressStaticLease is the static lease of an interface in the IngotNetwork that networkRef
	// references.
	AddressStaticLease AddressSource = "StaticLease"
	// AddressPool is an address from a pool of a Cluster API IPAM provider. The machine owns it and
	// returns it when the machine is deleted.
	AddressPool AddressSource = "Pool"
	// AddressStatic is the address in the field address. Use it for a machine and not for a
	// template.
	AddressStatic AddressSource = "Static"
)

// GatewayUse defines how a link uses the gateway that comes with an address.
// +kubebuilder:validation:Enum=DefaultRoute;Ignore
type GatewayUse string

// The values of gateway.
const (
	GatewayDefaultRoute GatewayUse = "DefaultRoute"
	GatewayIgnore       GatewayUse = "Ignore"
)

// LinkAddress configures one address of a link.
// +kubebuilder:validation:XValidation:rule="self.source == 'Static' ? has(self.address) : !has(self.address)",fieldPath=".address",messageExpression="has(self.address) ? self.address + ' must not be set with source ' + self.source + '; remove it, or set source to Static' : 'is required with source Static'"
// +kubebuilder:validation:XValidation:rule="(self.source == 'Pool') == has(self.poolRef)",fieldPath=".poolRef",messageExpression="has(self.poolRef) ? 'must not be set with source ' + self.source + '; remove it, or set source to Pool' : 'is required with source Pool'"
// +kubebuilder:validation:XValidation:rule="(self.source == 'StaticLease') == has(self.networkRef)",fieldPath=".networkRef",messageExpression="has(self.networkRef) ? 'must not be set with source ' + self.source + '; remove it, or set source to StaticLease' : 'is required with source StaticLease'"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || !(self.source in ['Static', 'RecordedIPv6'])",fieldPath=".gateway",messageExpression="self.gateway + ' must not be set with source ' + self.source + ', which provides no gateway; remove it, and add a route to 0.0.0.0/0 or ::/0 if needed'"
type LinkAddress struct {
	// source is the source of the address: Recorded, RecordedIPv6, StaticLease, Pool or Static.
	// Recorded, RecordedIPv6 and StaticLease also provide the settings of the IngotNetwork: prefix
	// length, gateway, DNS servers, search domains, routes and MTU. Pool also provides the prefix
	// length and the gateway.
	// +required
	Source AddressSource `json:"source,omitempty"`
	// address is the IP address with prefix length. Only source Static uses it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="must be an address with its prefix length, for example 10.20.0.15/24 or 2001:db8::15/64"
	Address string `json:"address,omitempty"`
	// poolRef references the pool. Only source Pool uses it. Ingot creates an IPAddressClaim for
	// each machine before it selects a host. The pool must be in the machine's namespace, unless
	// its kind is cluster-scoped.
	// +optional
	PoolRef *AddressPoolReference `json:"poolRef,omitempty"`
	// networkRef references the IngotNetwork. Only source StaticLease uses it. The address is the
	// entry of spec.staticLeases for the interface of the link, or for one interface of the bond.
	// +optional
	NetworkRef *LocalReference `json:"networkRef,omitempty"`
	// gateway defines whether the gateway of the address becomes the default route: DefaultRoute or
	// Ignore. Each address family can have only one default route. The default is DefaultRoute,
	// unless routes of the link contains 0.0.0.0/0 or ::/0 for this family.
	// +optional
	Gateway GatewayUse `json:"gateway,omitempty"`
}

// LinkRoute is a static route by a router on the link.
type LinkRoute struct {
	// to is the destination in CIDR notation. The destination of the default route is 0.0.0.0/0 or
	// ::/0.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="must be a subnet such as 10.20.0.0/16, with no host bits set; the default route is 0.0.0.0/0 or ::/0"
	To string `json:"to,omitempty"`
	// via is the IP address of the router. It must be in the subnet of an address of this link.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be the IP address of a router such as 10.10.0.1"
	Via string `json:"via,omitempty"`
	// metric is the metric of the route. Of two routes to one destination, the route with the lower
	// metric applies. If unset, the default of the system applies.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Metric *int32 `json:"metric,omitempty"`
}

// StaticLease is a fixed address of one network interface.
type StaticLease struct {
	// mac is the MAC address of the interface. If it is the boot NIC of a host on this network,
	// Ingot records the address for the host.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{2}(:[0-9a-f]{2}){5}$')",message="must be a MAC address in lower case with colons, for example 52:54:00:12:34:56"
	MAC string `json:"mac,omitempty"`
	// ip is the IPv4 address in spec.subnet, without prefix length.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 10.10.0.20, without prefix length"
	IP string `json:"ip,omitempty"`
}

// ClaimedNetwork is the network configuration that Ingot resolved from the machine's networkData at
// the time of the claim. Later changes do not affect it.
type ClaimedNetwork struct {
	// config is the network configuration in version 2 of cloud-init's format. The installed system
	// reads it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Config string `json:"config,omitempty"`
	// addresses lists the IP addresses that config assigns, without prefix length, in the order of
	// networkData.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Addresses []string `json:"addresses,omitempty"`
}
