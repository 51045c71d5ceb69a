// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Network is the network of one installed system.
type Network struct{ links []link }

// link is one entry of the network configuration.
type link struct {
	kind, name string
	// mac matches an ethernet, or is the MAC address of a bond.
	mac string
	// bond and vlan are set for their kinds.
	bond *infrav1.NetworkBond
	vlan *infrav1.NetworkVLAN
	// config of networkData. MTU, DNS servers and search domains may come from the networks of
	// the addresses.
	config infrav1.LinkConfig
	// said: networkData has the MTU.
	said      bool
	addresses []netip.Prefix
	routes    []route
}

// route is a route and a description of its source.
type route struct {
	infrav1.LinkRoute
	from string
}

// The kinds, in the order of the text.
const (
	ethernets = "ethernets"
	bonds     = "bonds"
	vlans     = "vlans"
)

// linksOf lists the links: ethernets, bonds, then VLANs.
func linksOf(data *infrav1.NetworkData) []link {
	if data == nil {
		return nil
	}
	var links []link
	for i := range data.Ethernets {
		links = append(links, link{kind: ethernets, name: data.Ethernets[i].Name, config: data.Ethernets[i].LinkConfig})
	}
	for i := range data.Bonds {
		links = append(links, link{kind: bonds, name: data.Bonds[i].Name, bond: &data.Bonds[i], config: data.Bonds[i].LinkConfig})
	}
	for i := range data.VLANs {
		links = append(links, link{kind: vlans, name: data.VLANs[i].Name, vlan: &data.VLANs[i], config: data.VLANs[i].LinkConfig})
	}
	for i := range links {
		links[i].said = links[i].config.MTU != nil
	}
	return links
}

// UsesDHCP reports for which address families a link uses DHCP.
func UsesDHCP(data *infrav1.NetworkData) (ipv4, ipv6 bool) {
	for _, l := range linksOf(data) {
		ipv4 = ipv4 || l.config.DHCP == infrav1.DHCPFamilyIPv4 || l.config.DHCP == infrav1.DHCPFamilyDualStack
		ipv6 = ipv6 || l.config.DHCP == infrav1.DHCPFamilyIPv6 || l.config.DHCP == infrav1.DHCPFamilyDualStack
	}
	return ipv4, ipv6
}

// Resolve returns the network of a host. It fails with ErrMisfit if the host does not fit.
func Resolve(data *infrav1.NetworkData, from Sources) (Network, error) {
	chosen, err := choose(data.Ethernets, from.Host)
	if err != nil {
		return Network{}, err
	}
	links := linksOf(data)
	below := interfacesBelow(links, chosen, from.Host.BootMAC)
	for i := range links {
		l := &links[i]
		if macs := below[l.name]; l.kind != vlans && len(macs) > 0 { // a VLAN has that of its link
			l.mac = macs[0]
		}
		err := l.resolve(from, below[l.name])
		if err == nil {
			err = l.free(from, below[l.name])
		}
		if err != nil {
			return Network{}, fmt.Errorf("%w: %s: %w", ErrMisfit, l.name, err)
		}
	}
	if tooNarrow := settleMTUs(links); len(tooNarrow) > 0 {
		return Network{}, fmt.Errorf("%w: %s", ErrMisfit, tooNarrow[0].why())
	}
	network := Network{links: links}
	if err := network.check(); err != nil {
		return Network{}, fmt.Errorf("%w: %w", ErrMisfit, err)
	}
	if n := network.length(); n > 0 {
		return Network{}, fmt.Errorf("%w: %s", ErrMisfit, tooLong(n))
	}
	return network, nil
}

// interfacesBelow returns the MAC addresses of the interfaces of each link. The first is that of
// the link itself. A bond has that of the boot interface, if it is a member.
func interfacesBelow(links []link, chosen map[string]infrav1.HardwareNIC, bootMAC string) map[string][]string {
	below := map[string][]string{}
	for _, l := range links { // ethernets before bonds before VLANs
		switch l.kind {
		case ethernets:
			below[l.name] = []string{chosen[l.name].MAC}
		case bonds:
			for _, name := range l.bond.Interfaces {
				below[l.name] = append(below[l.name], chosen[name].MAC)
			}
			slices.SortStableFunc(below[l.name], func(a, b string) int { return cmp.Compare(notBoot(a, bootMAC), notBoot(b, bootMAC)) })
		default:
			below[l.name] = below[l.vlan.Link]
		}
	}
	return below
}

func notBoot(mac, bootMAC string) int {
	if mac == bootMAC {
		return 0
	}
	return 1
}

// resolve sets the addresses of a link and what comes with them.
func (l *link) resolve(from Sources, macs []string) error {
	asked := l.config
	for _, r := range asked.Routes {
		l.routes = append(l.routes, route{LinkRoute: r, from: own(l.name)})
	}
	l.config.DNSServers, l.config.SearchDomains = slices.Clone(asked.DNSServers), slices.Clone(asked.SearchDomains)
	for i, want := range asked.Addresses {
		given, err := l.take(want, Place{Link: l.name, Index: i}, from, macs)
		if err != nil {
			return fmt.Errorf("addresses[%d]: %w", i, err)
		}
		l.addresses = append(l.addresses, given.Address)
		l.add(given, want, asked)
	}
	return l.checkRoutes()
}

// take returns one address.
func (l *link) take(want infrav1.LinkAddress, place Place, from Sources, macs []string) (Given, error) {
	switch want.Source {
	case infrav1.AddressStatic:
		prefix, err := netip.ParsePrefix(want.Address)
		if err != nil {
			return Given{}, fmt.Errorf("%q is no address with a prefix length", want.Address)
		}
		return Given{Address: prefix, From: own(l.name)}, nil
	case infrav1.AddressRecorded:
		if from.Recorded != nil {
			return *from.Recorded, nil
		}
		return Given{}, fmt.Errorf("no IPv4 address is recorded for the host (none is in mode Proxy): use RecordedIPv6")
	case infrav1.AddressRecordedIPv6:
		if from.RecordedIPv6 != nil {
			return *from.RecordedIPv6, nil
		}
		return Given{}, fmt.Errorf("no IPv6 address is recorded for the host; spec.ipv6 of its IngotNetwork gives one in mode Stateful")
	case infrav1.AddressStaticLease:
		return reserved(want, from, macs)
	case infrav1.AddressPool:
		if given, ok := from.Pools[place]; ok {
			return given, nil
		}
		return Given{}, fmt.Errorf("its pool has given no address yet")
	}
	return Given{}, fmt.Errorf("source %q is not known", want.Source)
}

func reserved(want infrav1.LinkAddress, from Sources, macs []string) (Given, error) {
	if want.NetworkRef == nil {
		return Given{}, fmt.Errorf("no networkRef")
	}
	network, ok := from.Networks[want.NetworkRef.Name]
	if !ok {
		return Given{}, fmt.Errorf("IngotNetwork %s does not exist", want.NetworkRef.Name)
	}
	if from.Closed[want.NetworkRef.Name] && want.NetworkRef.Name != from.Boots {
		return Given{}, fmt.Errorf("IngotNetwork %s does not allow the machine's namespace; add it to spec.allowedNamespaces of the network", want.NetworkRef.Name)
	}
	ip, ok := reservationFor(network, macs)
	if !ok {
		return Given{}, fmt.Errorf("spec.staticLeases of IngotNetwork %s has none of %s", want.NetworkRef.Name, strings.Join(macs, ", "))
	}
	given := onNetwork(want.NetworkRef.Name, network, ip)
	if given == nil {
		return Given{}, fmt.Errorf("IngotNetwork %s reserves %s, which is not in its subnet %s", want.NetworkRef.Name, ip, network.Subnet)
	}
	return *given, nil
}

// add sets what comes with an address, unless the link itself has it.
func (l *link) add(given Given, want infrav1.LinkAddress, asked infrav1.LinkConfig) {
	if l.config.MTU == nil && given.MTU != 0 {
		l.config.MTU = &given.MTU
	}
	if len(asked.DNSServers) == 0 {
		l.config.DNSServers = appendNew(l.config.DNSServers, given.DNSServers)
	}
	if len(asked.SearchDomains) == 0 {
		l.config.SearchDomains = appendNew(l.config.SearchDomains, given.SearchDomains)
	}
	for _, r := range given.Routes {
		if !slices.ContainsFunc(l.routes, func(have route) bool { return destination(have.To) == destination(r.To) }) {
			l.routes = append(l.routes, route{LinkRoute: r, from: given.From})
		}
	}
	if !given.Gateway.IsValid() || !gatewayLeads(want.Gateway, defaultRoute(given.Gateway), asked) {
		return
	}
	l.routes = append(l.routes, route{from: "the gateway of " + given.From,
		LinkRoute: infrav1.LinkRoute{To: defaultRoute(given.Gateway), Via: given.Gateway.String()}})
}

// gatewayLeads reports whether the gateway of an address becomes the default route to. By default
// it does unless the link has a route to that destination. Gateways of other addresses do not
// count.
func gatewayLeads(use infrav1.GatewayUse, to string, asked infrav1.LinkConfig) bool {
	switch use {
	case infrav1.GatewayIgnore:
		return false
	case infrav1.GatewayDefaultRoute:
		return true
	}
	return !slices.ContainsFunc(asked.Routes, func(have infrav1.LinkRoute) bool { return destination(have.To) == to })
}

func appendNew(list, more []string) []string {
	for _, text := range more {
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

func defaultRoute(gateway netip.Addr) string {
	if gateway.Is4() {
		return leadIPv4
	}
	return leadIPv6
}

// destination returns the canonical text of a prefix.
func destination(to string) string {
	prefix, err := netip.ParsePrefix(to)
	if err != nil {
		return to
	}
	return prefix.String()
}

// keyOf returns what must be unique for a route of a system: its destination and metric.
func keyOf(r infrav1.LinkRoute) string {
	if r.Metric == nil {
		return destination(r.To)
	}
	return fmt.Sprint(destination(r.To), " metric ", *r.Metric)
}

// checkRoutes refuses routers that are not on the link, as the kernel does. A link that learns
// addresses may reach any router.
func (l *link) checkRoutes() error {
	for _, r := range l.routes {
		via, err := netip.ParseAddr(r.Via)
		if err == nil && (onEveryLink(via) || learns(l.config, via) || slices.ContainsFunc(l.addresses, func(p netip.Prefix) bool { return p.Contains(via) })) {
			continue
		}
		return fmt.Errorf("router %s (%s) is in no subnet of the link's addresses", r.Via, r.from)
	}
	return nil
}

// onEveryLink reports whether every link reaches a router. An IPv6 link-local router is reached,
// since each link has such a subnet. An IPv4 one needs an address in its subnet.
func onEveryLink(router netip.Addr) bool { return router.Is6() && router.IsLinkLocalUnicast() }

// learns reports whether a link gets addresses of a router's family from the network. Router
// advertisements have no IPv4.
func learns(config infrav1.LinkConfig, router netip.Addr) bool {
	if router.Is4() {
		return config.DHCP == infrav1.DHCPFamilyIPv4 || config.DHCP == infrav1.DHCPFamilyDualStack
	}
	return config.DHCP != "" || config.RouterAdvertisements == infrav1.RouterAdvertisementsAccept
}

// check refuses equal addresses and routes of all links.
func (n Network) check() error {
	has, leads := map[netip.Addr]string{}, map[string]string{}
	for _, l := range n.links {
		for _, address := range l.addresses {
			if other, taken := has[address.Addr()]; taken {
				return fmt.Errorf("%s and %s both have address %s", other, l.name, address.Addr())
			}
			has[address.Addr()] = l.name
		}
		for _, r := range l.routes {
			key := keyOf(r.LinkRoute)
			if other, taken := leads[key]; taken {
				return fmt.Errorf("two routes to %s, by %s and by %s: say gateway: Ignore at one of the addresses, or give one route a metric", destination(r.To), other, r.from)
			}
			leads[key] = r.from
		}
	}
	return nil
}

// own describes networkData of a link as a source.
func own(link string) string { return "networkData of " + link }

// Addresses returns the addresses of the network without prefix length, in order.
func (n Network) Addresses() []string {
	var out []string
	for _, l := range n.links {
		for _, address := range l.addresses {
			out = append(out, address.Addr().String())
		}
	}
	return out
}

// Claimed returns the network for a claim.
func (n Network) Claimed() *infrav1.ClaimedNetwork {
	return &infrav1.ClaimedNetwork{Config: n.Config(), Addresses: n.Addresses()}
}
