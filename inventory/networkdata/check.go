// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Check validates what the schema cannot, because it depends on more than one field. Each error
// has the field, its value and a remedy.
func Check(path *field.Path, data *infrav1.NetworkData) field.ErrorList {
	if data == nil {
		return nil
	}
	c := &checker{links: linksOf(data), byName: map[string]*link{}, memberOf: map[string]string{}, static: map[netip.Addr]string{},
		leads: map[string]string{}, recorded: map[infrav1.AddressSource]string{}, reservation: map[string]string{}}
	for i, at := range paths(path, data) {
		c.paths = append(c.paths, at)
		c.name(at.Child("name"), &c.links[i])
	}
	c.nics(path.Child(ethernets), data.Ethernets)
	for i := range c.links {
		switch l := &c.links[i]; l.kind {
		case bonds:
			c.bond(c.paths[i], l)
		case vlans:
			c.vlan(c.paths[i], l)
		}
	}
	used := false
	for i := range c.links {
		l := &c.links[i]
		used = used || len(l.config.Addresses) > 0 || l.config.DHCP != "" || l.config.RouterAdvertisements == infrav1.RouterAdvertisementsAccept
		c.config(c.paths[i], l)
	}
	c.mtus()
	c.length(path)
	if !used && len(c.errs) == 0 {
		c.refuse(path.Child("ethernets"), c.links[0].name, "and no other link has an address, DHCP or router advertisements: nothing could reach the system; give a link addresses, for example {source: Recorded}, or dhcp: IPv4")
	}
	return c.errs
}

// paths returns the paths of the links, in the order of linksOf.
func paths(path *field.Path, data *infrav1.NetworkData) []*field.Path {
	var out []*field.Path
	for i := range data.Ethernets {
		out = append(out, path.Child(ethernets).Index(i))
	}
	for i := range data.Bonds {
		out = append(out, path.Child(bonds).Index(i))
	}
	for i := range data.VLANs {
		out = append(out, path.Child(vlans).Index(i))
	}
	return out
}

// checker collects errors.
type checker struct {
	links []link
	// paths of the links.
	paths  []*field.Path
	byName map[string]*link
	// memberOf has the bond of each ethernet in one.
	memberOf map[string]string
	// static addresses and routes (see keyOf) so far, with their links.
	static      map[netip.Addr]string
	leads       map[string]string
	recorded    map[infrav1.AddressSource]string
	reservation map[string]string
	errs        field.ErrorList
}

func (c *checker) refuse(path *field.Path, value any, format string, args ...any) {
	c.errs = append(c.errs, field.Invalid(path, value, fmt.Sprintf(format, args...)))
}

func (c *checker) name(path *field.Path, l *link) {
	if other, taken := c.byName[l.name]; taken && other.kind != l.kind { // the schema checks within a kind
		c.refuse(path, l.name, "is the name of one of %s already; give this one another name", other.kind)
		return
	}
	c.byName[l.name] = l
}

// nics refuses two ethernets with equal selectors, which select the same interface.
func (c *checker) nics(path *field.Path, list []infrav1.NetworkEthernet) {
	for i := range list {
		for j := range list[:i] {
			if equality.Semantic.DeepEqual(list[i].NIC, list[j].NIC) {
				c.refuse(path.Index(i).Child("nic"), list[i].NIC, "is that of %s already, and means one interface of a host: choose another, by position for example, or remove one of both", list[j].Name)
				break
			}
		}
	}
}

func (c *checker) bond(path *field.Path, l *link) {
	for i, name := range l.bond.Interfaces {
		at := path.Child("interfaces").Index(i)
		other, taken := c.memberOf[name]
		switch member := c.byName[name]; {
		case member == nil || member.kind != ethernets:
			c.refuse(at, name, "must be the name of one of ethernets; add it there")
		case taken:
			c.refuse(at, name, "is in %s already; remove it from one of the bonds", other)
		default:
			c.memberOf[name] = l.name
		}
	}
	if least := l.bond.MinLinks; least != nil && int(*least) > len(l.bond.Interfaces) {
		c.refuse(path.Child("minLinks"), *least, "is more than the bond has interfaces, %d: it would never be up; give at most as many, or add interfaces", len(l.bond.Interfaces))
	}
}

func (c *checker) vlan(path *field.Path, l *link) {
	at := path.Child("link")
	switch carrier := c.byName[l.vlan.Link]; {
	case carrier == nil || carrier.kind == vlans:
		c.refuse(at, l.vlan.Link, "must be the name of one of ethernets or bonds")
	case c.memberOf[l.vlan.Link] != "":
		c.refuse(at, l.vlan.Link, "is in %s; give the bond as link", c.memberOf[l.vlan.Link])
	}
	for i := range c.links {
		other := &c.links[i]
		if other == l {
			return
		}
		if other.kind == vlans && other.vlan.Link == l.vlan.Link && other.vlan.ID == l.vlan.ID {
			c.refuse(path.Child("id"), l.vlan.ID, "is the VLAN of %s on %s already; give that one both addresses", other.name, l.vlan.Link)
			return
		}
	}
}

// config checks the fields of all kinds of links.
func (c *checker) config(path *field.Path, l *link) {
	config := l.config
	if bond := c.memberOf[l.name]; bond != "" {
		if len(config.Addresses)+len(config.Routes)+len(config.DNSServers)+len(config.SearchDomains) > 0 ||
			config.DHCP != "" || config.RouterAdvertisements != "" {
			c.refuse(path.Child("name"), l.name, "is in %s, and has addresses, routes, DNS or DHCP of its own, which have no effect there; give them to the bond", bond)
		}
		return
	}
	for i, address := range config.Addresses {
		c.address(path.Child("addresses").Index(i), l, address)
	}
	for i, r := range config.Routes {
		c.route(path.Child("routes").Index(i), l, r)
	}
}

func (c *checker) address(path *field.Path, l *link, address infrav1.LinkAddress) {
	switch address.Source {
	case infrav1.AddressStatic:
		c.staticAddress(path.Child("address"), l, address.Address)
		return
	case infrav1.AddressRecorded, infrav1.AddressRecordedIPv6:
		if other, taken := c.recorded[address.Source]; taken {
			c.refuse(path.Child("source"), address.Source, "is the address of %s already, and a host has one of them recorded; remove it, or use source Pool or Reservation", other)
			return
		}
		c.recorded[address.Source] = l.name
	case infrav1.AddressStaticLease:
		if address.NetworkRef == nil {
			return // the schema refuses it
		}
		below := l.name
		if l.kind == vlans {
			below = l.vlan.Link // a VLAN has the interfaces of its link
		}
		key := below + "/" + address.NetworkRef.Name
		if other := c.reservation[key]; other != "" {
			c.refuse(path.Child("networkRef", "name"), address.NetworkRef.Name, "is asked for an address of %s already, and reserves one for an interface; remove it, or use another network", other)
			return
		}
		c.reservation[key] = l.name
	default: // the addresses of pools are not known yet
		return
	}
}

// lead refuses two routes to one destination with the same metric. Resolve and SurplusGatewaysIn check
// the routes that come with addresses.
func (c *checker) lead(path *field.Path, r infrav1.LinkRoute, who string) {
	to := destination(r.To)
	switch other, taken := c.leads[keyOf(r)]; {
	case !taken:
		c.leads[keyOf(r)] = who
	case r.Metric == nil && (to == leadIPv4 || to == leadIPv6):
		c.refuse(path, to, "is a default route without metric, as is %s: remove one of them, or give one a metric", other)
	default:
		c.refuse(path, to, "is that of %s, too, with the same metric or none at both: remove one of them, or give one another metric", other)
	}
}

func (c *checker) staticAddress(path *field.Path, l *link, text string) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return // the schema refuses it
	}
	address := prefix.Addr()
	whole := prefix.Bits() >= address.BitLen()-1 // RFC 3021: both addresses of a /31 are hosts
	switch other, taken := c.static[address]; {
	case taken:
		c.refuse(path, text, "is an address of %s already", other)
	case address.IsUnspecified() || address.IsLoopback() || address.IsMulticast():
		c.refuse(path, text, "is no address that a host can have; give one of its own, such as 10.20.0.15/24")
	case !whole && address == prefix.Masked().Addr():
		c.refuse(path, text, "is the address of the subnet itself; give one in it, such as %s/%d", address.Next(), prefix.Bits())
	case !whole && address.Is4() && address == broadcast(prefix):
		c.refuse(path, text, "is the broadcast address of its subnet; give one in it, such as %s/%d", address.Prev(), prefix.Bits())
	default:
		c.static[address] = l.name
	}
}

func broadcast(prefix netip.Prefix) netip.Addr {
	b := prefix.Masked().Addr().As4()
	for i := prefix.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}

func (c *checker) route(path *field.Path, l *link, r infrav1.LinkRoute) {
	to, toErr := netip.ParsePrefix(r.To)
	via, viaErr := netip.ParseAddr(r.Via)
	if toErr != nil || viaErr != nil {
		return // the schema refuses it
	}
	c.lead(path.Child("to"), r, "a route of "+l.name)
	config := l.config
	static := func(a infrav1.LinkAddress) bool { return a.Source == infrav1.AddressStatic }
	reaches := func(a infrav1.LinkAddress) bool {
		prefix, err := netip.ParsePrefix(a.Address)
		return err == nil && prefix.Contains(via)
	}
	switch {
	case to.Addr().Is4() != via.Is4():
		c.refuse(path.Child("via"), r.Via, "is of another family than %s; give a router of the same", r.To)
	case onEveryLink(via) || learns(config, via):
	case len(config.Addresses) == 0:
		c.refuse(path.Child("via"), r.Via, "cannot be reached: %s has no address; give it one in the router's subnet", l.name)
	case !slices.ContainsFunc(config.Addresses, func(a infrav1.LinkAddress) bool { return !static(a) || reaches(a) }):
		c.refuse(path.Child("via"), r.Via, "is in no subnet of the addresses of %s; give a router that is, or correct the prefix length of an address", l.name)
	}
}

// mtus refuses links with a larger MTU than the links below them, or too small a one for IPv6.
func (c *checker) mtus() {
	for i := range c.links {
		c.leastMTU(c.paths[i].Child("mtu"), &c.links[i])
	}
	for _, n := range settleMTUs(slices.Clone(c.links)) {
		if n.lower.mayBeTold() {
			continue
		}
		switch at := c.pathOf(n.upper).Child("mtu"); {
		case n.upper.kind == bonds: // its members send its frames
			of := n.upper.name
			if !n.upper.said {
				of += ", which its VLANs ask for"
			}
			c.refuse(c.pathOf(n.lower).Child("mtu"), n.lower.takes(), "does not go with mtu %d of %s: what %s sends would not pass; give both the same", n.upper.takes(), of, n.upper.name)
		case n.lower.said:
			c.refuse(at, n.upper.takes(), "does not go with mtu %d of %s: what %s sends would not pass; give both the same", n.lower.takes(), n.lower.name, n.upper.name)
		default:
			c.refuse(at, n.upper.takes(), "does not pass %s, which without mtu takes %d: give %s mtu %d, too", n.lower.name, n.lower.takes(), n.lower.name, n.upper.takes())
		}
	}
}

func (c *checker) pathOf(l link) *field.Path {
	return c.paths[slices.IndexFunc(c.links, func(other link) bool { return other.kind == l.kind && other.name == l.name })]
}

// leastMTU refuses an MTU that is too small for IPv6. A VLAN without one has that of its link.
func (c *checker) leastMTU(path *field.Path, l *link) {
	if l.config.MTU == nil || *l.config.MTU >= leastIPv6MTU {
		return
	}
	for i := range c.links {
		other := &c.links[i]
		has := other == l || other.kind == vlans && other.vlan.Link == l.name && other.config.MTU == nil
		if has && speaksIPv6(other.config) {
			c.refuse(path, *l.config.MTU, "is less than IPv6 needs, %d: %s would have no IPv6 address; give %d or more, or leave IPv6 out", leastIPv6MTU, other.name, leastIPv6MTU)
			return
		}
	}
}

// speaksIPv6 reports whether a link gets IPv6 addresses. It ignores pools, whose addresses are
// not known yet.
func speaksIPv6(config infrav1.LinkConfig) bool {
	return config.DHCP == infrav1.DHCPFamilyIPv6 || config.DHCP == infrav1.DHCPFamilyDualStack ||
		config.RouterAdvertisements == infrav1.RouterAdvertisementsAccept ||
		slices.ContainsFunc(config.Addresses, func(a infrav1.LinkAddress) bool {
			prefix, err := netip.ParsePrefix(a.Address)
			return a.Source == infrav1.AddressRecordedIPv6 || err == nil && prefix.Addr().Is6()
		})
}
