// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// NetworkData is the network of the installed system. One of these serves all machines
// of a template: it says by what each host's interfaces are known, and where each
// machine's addresses come from. What it comes to on the host that is chosen is written
// into the host's claim, once.
type NetworkData struct {
	// ethernets are the network interfaces of the host that the system uses; it is told
	// nothing of others.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Ethernets []NetworkEthernet `json:"ethernets,omitempty"`
	// bonds join ethernets.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Bonds []NetworkBond `json:"bonds,omitempty"`
	// vlans are tagged networks on an ethernet or a bond.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	VLANs []NetworkVLAN `json:"vlans,omitempty"`
}

// NetworkEthernet is one network interface of the host.
type NetworkEthernet struct {
	// name that the interface gets in the installed system, and by which bonds and vlans
	// name it. Not that of a kernel, such as eth0: another interface may have it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9.]*[a-z0-9])?$') && !self.matches('^(eth[0-9]+|lo|all|default)$')",message="must be a name of at most 15 lower case letters, digits, - and ., and none that the kernel gives, such as eth0 or lo: for example uplink0"
	Name string `json:"name,omitempty"`
	// nic says which of the host's interfaces it is, by what `kubectl get ihw -o yaml`
	// shows of the host. Where other than one is meant, the host is not chosen.
	// +required
	NIC NICSelector `json:"nic,omitempty,omitzero"`

	LinkConfig `json:",inline"`
}

// BootNICRule says what an interface has to do with network boots.
// +kubebuilder:validation:Enum=Only;Never
type BootNICRule string

// The rules.
const (
	// BootNICOnly: the interface that the host boots from (spec.bootMACAddress).
	BootNICOnly BootNICRule = "Only"
	// BootNICNever: any other.
	BootNICNever BootNICRule = "Never"
)

// NICSelector chooses one interface of a host. All that is set must hold; where several
// are left, position says which.
// +kubebuilder:validation:MinProperties=1
type NICSelector struct {
	// bootNIC chooses the interface that the host boots from (Only), or leaves it out
	// (Never).
	// +optional
	BootNIC BootNICRule `json:"bootNIC,omitempty"`
	// mac is the permanent address. It is that of one server: for a machine, not for a
	// template.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{2}(:[0-9a-f]{2}){5}$')",message="must be a MAC address in lower case with colons, for example 52:54:00:12:34:56"
	MAC string `json:"mac,omitempty"`
	// name by the agent's kernel. Names change with the order in which drivers are
	// loaded: prefer pci.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9._-]+$')",message="must be an interface's name as IngotHardware shows it, for example eth1"
	Name string `json:"name,omitempty"`
	// pci is the bus address. A * at its end stands for anything: 0000:3b:00.* is every
	// port of that card.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-z:._-]+[*]?$')",message="must be a bus address in lower case such as 0000:3b:00.0, or the begin of one and a *, such as 0000:3b:00.*"
	PCI string `json:"pci,omitempty"`
	// driver of the agent's kernel, for example mlx5_core or ice.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_-]+$')",message="must be the name of a driver such as mlx5_core"
	Driver string `json:"driver,omitempty"`
	// minSpeedMbps is the least speed that the link had at the inspection, in Mbit/s.
	// One without a link then has none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1600000
	MinSpeedMbps *int32 `json:"minSpeedMbps,omitempty"`
	// position among those that are left, in the order of their bus addresses: 1 is the
	// first. Unset: there must be one alone.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Position *int32 `json:"position,omitempty"`
}

// BondMode is how a bond uses its interfaces, in the kernel's words.
// +kubebuilder:validation:Enum=balance-rr;active-backup;balance-xor;broadcast;"802.3ad";balance-tlb;balance-alb
type BondMode string

// The modes that other rules depend on.
const (
	BondActiveBackup BondMode = "active-backup"
	BondXOR          BondMode = "balance-xor"
	BondLACP         BondMode = "802.3ad"
	BondTLB          BondMode = "balance-tlb"
	BondALB          BondMode = "balance-alb"
)

// NetworkBond joins ethernets.
// +kubebuilder:validation:XValidation:rule="self.mode == '802.3ad' || !(has(self.lacpRate) || has(self.minLinks) || has(self.aggregation))",fieldPath=".mode",messageExpression="self.mode + ' speaks no LACP: leave out lacpRate, minLinks and aggregation, or use mode 802.3ad'"
// +kubebuilder:validation:XValidation:rule="!has(self.transmitHashPolicy) || self.mode in ['802.3ad', 'balance-xor', 'balance-tlb']",fieldPath=".transmitHashPolicy",messageExpression="self.transmitHashPolicy + ' has no meaning in mode ' + self.mode + ': leave it out, or use mode 802.3ad, balance-xor or balance-tlb'"
// +kubebuilder:validation:XValidation:rule="!has(self.primary) || self.mode in ['active-backup', 'balance-tlb', 'balance-alb']",fieldPath=".primary",messageExpression="self.primary + ' cannot be primary in mode ' + self.mode + ': leave it out, or use mode active-backup, balance-tlb or balance-alb'"
// +kubebuilder:validation:XValidation:rule="!has(self.primary) || self.primary in self.interfaces",fieldPath=".primary",messageExpression="self.primary + ' must be one of the interfaces of the bond'"
type NetworkBond struct {
	// name of the bond in the installed system.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9.]*[a-z0-9])?$') && !self.matches('^(eth[0-9]+|lo|all|default)$')",message="must be a name of at most 15 lower case letters, digits, - and ., and none that the kernel gives, such as eth0 or lo: for example bond0"
	Name string `json:"name,omitempty"`
	// interfaces are the names of its ethernets. The bond has the MAC address of the one
	// that the host boots from, or else of the first.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=15
	Interfaces []string `json:"interfaces,omitempty"`
	// mode of the bond.
	// +required
	Mode BondMode `json:"mode,omitempty"`
	// lacpRate is how often the switch is asked to send: slow, every 30 s, or fast,
	// every second. In mode 802.3ad. Unset: slow.
	// +optional
	// +kubebuilder:validation:Enum=slow;fast
	LACPRate string `json:"lacpRate,omitempty"`
	// minLinks is how many interfaces must be up for the bond to be. In mode 802.3ad.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	MinLinks *int32 `json:"minLinks,omitempty"`
	// aggregation is how one of several switches is chosen. In mode 802.3ad. Unset:
	// stable.
	// +optional
	// +kubebuilder:validation:Enum=stable;bandwidth;count
	Aggregation string `json:"aggregation,omitempty"`
	// transmitHashPolicy spreads what is sent over the interfaces. In modes 802.3ad,
	// balance-xor and balance-tlb. Unset: layer2.
	// +optional
	// +kubebuilder:validation:Enum=layer2;"layer2+3";"layer3+4";"encap2+3";"encap3+4"
	TransmitHashPolicy string `json:"transmitHashPolicy,omitempty"`
	// primary is the interface that is used while it is up. In modes active-backup,
	// balance-tlb and balance-alb.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	Primary string `json:"primary,omitempty"`
	// monitorMilliseconds is how often the links are looked at. Unset: 100.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=10000
	MonitorMilliseconds *int32 `json:"monitorMilliseconds,omitempty"`
	// upDelayMilliseconds is how long a link must be up before it is used; for switches
	// whose ports show a link before they forward.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600000
	UpDelayMilliseconds *int32 `json:"upDelayMilliseconds,omitempty"`
	// downDelayMilliseconds is how long a link must be down before it is given up.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600000
	DownDelayMilliseconds *int32 `json:"downDelayMilliseconds,omitempty"`

	LinkConfig `json:",inline"`
}

// NetworkVLAN is a tagged network (IEEE 802.1Q).
type NetworkVLAN struct {
	// name of the interface in the installed system.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9.]*[a-z0-9])?$') && !self.matches('^(eth[0-9]+|lo|all|default)$')",message="must be a name of at most 15 lower case letters, digits, - and ., and none that the kernel gives, such as eth0 or lo: for example bond0.120"
	Name string `json:"name,omitempty"`
	// link is the name of the ethernet or bond that carries it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	Link string `json:"link,omitempty"`
	// id of the VLAN.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	ID int32 `json:"id,omitempty"`

	LinkConfig `json:",inline"`
}

// DHCPFamilies are the families for which a link asks DHCP.
// +kubebuilder:validation:Enum=IPv4;IPv6;DualStack
type DHCPFamilies string

// The families.
const (
	DHCPFamilyIPv4      DHCPFamilies = "IPv4"
	DHCPFamilyIPv6      DHCPFamilies = "IPv6"
	DHCPFamilyDualStack DHCPFamilies = "DualStack"
)

// RouterAdvertisementRule is what a link does with router advertisements.
// +kubebuilder:validation:Enum=Accept;Ignore
type RouterAdvertisementRule string

// The rules.
const (
	RouterAdvertisementsAccept RouterAdvertisementRule = "Accept"
	RouterAdvertisementsIgnore RouterAdvertisementRule = "Ignore"
)

// LinkConfig is what a link of any kind has.
type LinkConfig struct {
	// mtu of the link in bytes. Unset: that of the network that an address comes from,
	// or else the system's default. Members of a bond have that of the bond.
	// +optional
	// +kubebuilder:validation:Minimum=576
	// +kubebuilder:validation:Maximum=65535
	MTU *int32 `json:"mtu,omitempty"`
	// dhcp says for which families the system asks DHCP here. Unset: for none.
	// +optional
	DHCP DHCPFamilies `json:"dhcp,omitempty"`
	// routerAdvertisements that come here. Unset: as the system does by itself. Ignore
	// where no router sends any: systems may wait for one at each boot.
	// +optional
	RouterAdvertisements RouterAdvertisementRule `json:"routerAdvertisements,omitempty"`
	// addresses of the link, in their order: each is taken where source says.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Addresses []LinkAddress `json:"addresses,omitempty"`
	// routes by routers on this link.
	// +optional
	// +listType=map
	// +listMapKey=to
	// +kubebuilder:validation:MaxItems=32
	Routes []LinkRoute `json:"routes,omitempty"`
	// dnsServers that are asked by this link. Unset: those of the network that an
	// address comes from.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self)",message="must be an IP address such as 10.10.0.1"
	DNSServers []string `json:"dnsServers,omitempty"`
	// searchDomains are the domains in which names are looked up, in this order. Unset:
	// those of the network that an address comes from.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=6
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be a DNS name in lower case, for example dc1.example"
	SearchDomains []string `json:"searchDomains,omitempty"`
}

// AddressSource is where an address comes from.
// +kubebuilder:validation:Enum=Recorded;RecordedIPv6;StaticLease;Pool;Static
type AddressSource string

// The sources.
const (
	// AddressRecorded: the address that is recorded for the host on its IngotNetwork, by
	// which it was installed. It stays the host's, whatever machine has it.
	AddressRecorded AddressSource = "Recorded"
	// AddressRecordedIPv6: its IPv6 address there.
	AddressRecordedIPv6 AddressSource = "RecordedIPv6"
	// AddressStaticLease: the address that the IngotNetwork of networkRef reserves for an
	// interface of the link.
	AddressStaticLease AddressSource = "StaticLease"
	// AddressPool: one of a pool of Cluster API's IPAM contract. It is the machine's, and
	// goes back with it.
	AddressPool AddressSource = "Pool"
	// AddressStatic: as it is written here, for a machine and not for a template.
	AddressStatic AddressSource = "Static"
)

// GatewayUse is what becomes of the gateway that comes with an address.
// +kubebuilder:validation:Enum=DefaultRoute;Ignore
type GatewayUse string

// The uses.
const (
	GatewayDefaultRoute GatewayUse = "DefaultRoute"
	GatewayIgnore       GatewayUse = "Ignore"
)

// LinkAddress is one address of a link.
// +kubebuilder:validation:XValidation:rule="self.source == 'Static' ? has(self.address) : !has(self.address)",fieldPath=".address",messageExpression="has(self.address) ? self.address + ' has no meaning with source ' + self.source + '; remove it, or say source Static' : 'is required with source Static: the address with its prefix length'"
// +kubebuilder:validation:XValidation:rule="(self.source == 'Pool') == has(self.poolRef)",fieldPath=".poolRef",messageExpression="has(self.poolRef) ? 'has no meaning with source ' + self.source + '; remove it, or say source Pool' : 'is required with source Pool: the pool that gives the address'"
// +kubebuilder:validation:XValidation:rule="(self.source == 'StaticLease') == has(self.networkRef)",fieldPath=".networkRef",messageExpression="has(self.networkRef) ? 'has no meaning with source ' + self.source + '; remove it, or say source StaticLease' : 'is required with source StaticLease: the IngotNetwork that has the static lease'"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || !(self.source in ['Static', 'RecordedIPv6'])",fieldPath=".gateway",messageExpression="self.gateway + ' has no meaning with source ' + self.source + ', which brings no gateway; leave it out, and give a route to 0.0.0.0/0 or ::/0 where there is none'"
type LinkAddress struct {
	// source of the address. Recorded and RecordedIPv6 bring what DHCP would on the
	// host's IngotNetwork: prefix length, gateway, DNS servers, search domains, routes
	// and MTU; StaticLease brings that of another IngotNetwork; Pool brings prefix length
	// and gateway.
	// +required
	Source AddressSource `json:"source,omitempty"`
	// address with its prefix length, with source Static.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="must be an address with its prefix length, for example 10.20.0.15/24 or 2001:db8::15/64"
	Address string `json:"address,omitempty"`
	// poolRef names the pool, with source Pool. An IPAddressClaim is made for each
	// machine, before a host is chosen; the pool is in the machine's namespace, or of a
	// kind without namespaces.
	// +optional
	PoolRef *AddressPoolReference `json:"poolRef,omitempty"`
	// networkRef names the IngotNetwork, with source StaticLease: the address is the one
	// of spec.staticLeases for the interface of the link, or for one of its bond.
	// +optional
	NetworkRef *LocalReference `json:"networkRef,omitempty"`
	// gateway that comes with the address: the default route (DefaultRoute), or of no use
	// (Ignore). Unset: DefaultRoute, unless routes of the link has one to 0.0.0.0/0 or ::/0,
	// of the gateway's family. Only one of a family can be.
	// +optional
	Gateway GatewayUse `json:"gateway,omitempty"`
}

// LinkRoute is a route by a router on the link.
type LinkRoute struct {
	// to is the destination in CIDR notation; 0.0.0.0/0 or ::/0 is the default route.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="must be a subnet such as 10.20.0.0/16, with no host bits set; the default route is 0.0.0.0/0 or ::/0"
	To string `json:"to,omitempty"`
	// via is the router's address, in the subnet of an address of this link.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be the IP address of a router such as 10.10.0.1"
	Via string `json:"via,omitempty"`
	// metric of the route: of two the lower one is taken.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Metric *int32 `json:"metric,omitempty"`
}

// StaticLease is an address that a network keeps for one interface.
type StaticLease struct {
	// mac of the interface. Where it is a host's boot NIC on this network, the address is
	// the one recorded for the host.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{2}(:[0-9a-f]{2}){5}$')",message="must be a MAC address in lower case with colons, for example 52:54:00:12:34:56"
	MAC string `json:"mac,omitempty"`
	// ip in spec.subnet, without prefix length.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="isIP(self) && ip(self).family() == 4",message="must be an IPv4 address such as 10.10.0.20, without prefix length"
	IP string `json:"ip,omitempty"`
}

// ClaimedNetwork is what networkData of the machine came to on the host, at the time of
// the claim. Whatever changes later, the system is given this.
type ClaimedNetwork struct {
	// config is the network-config of the seed: version 2 of cloud-init's format.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Config string `json:"config,omitempty"`
	// addresses that it assigns, without prefix length, in the order of networkData.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Addresses []string `json:"addresses,omitempty"`
}
