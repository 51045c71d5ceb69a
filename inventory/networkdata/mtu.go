// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"fmt"
	"slices"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// defaultMTU is the kernel's for Ethernet, in bytes.
const defaultMTU int32 = 1500

// leastIPv6MTU is the least that IPv6 does with (RFC 8200, section 5): on a link that takes
// less the kernel has none of it.
const leastIPv6MTU int32 = 1280

// narrow is a link that takes less at once than another that it carries may send.
type narrow struct{ lower, upper link }

// settleMTUs has what carries a link take as much as the link, where nobody says what it
// takes: a link without addresses that carries VLANs, and the members of bonds. The other
// VLANs of such a link keep what they would have without that: the kernel gives a VLAN
// what its link has, and a segment that takes less drops what is larger. It returns
// where one takes less all the same. MTUs may come from networks, which only the host's
// addresses name: admission asks before that, and tells what is not known then (mtus).
func settleMTUs(links []link) []narrow {
	byName := map[string]*link{}
	for i := range links {
		byName[links[i].name] = &links[i]
	}
	for _, l := range links {
		if l.kind != vlans || l.config.MTU == nil || *l.config.MTU <= defaultMTU {
			continue
		}
		if carrier := byName[l.vlan.Link]; carrier != nil && carrier.silent() {
			carrier.config.MTU = larger(carrier.config.MTU, l.config.MTU)
		}
	}
	for i := range links {
		l := &links[i]
		if l.kind != vlans || l.config.MTU != nil {
			continue
		}
		if carrier := byName[l.vlan.Link]; carrier != nil && carrier.silent() && carrier.config.MTU != nil {
			l.config.MTU = new(defaultMTU)
		}
	}
	passDownMTU(links)
	var out []narrow
	for _, upper := range links {
		for _, name := range upper.carriers() {
			if lower := byName[name]; lower != nil && !carries(*lower, upper) {
				out = append(out, narrow{lower: *lower, upper: upper})
			}
		}
	}
	return out
}

// carriers are the links that a link is on: those of a VLAN and of a bond.
func (l *link) carriers() []string {
	switch l.kind {
	case vlans:
		return []string{l.vlan.Link}
	case bonds:
		return l.bond.Interfaces
	}
	return nil
}

// silent says that nothing but VLANs goes over the link, so that nobody on its own segment
// minds how much it sends at once. What a VLAN has raised already may be raised again.
func (l *link) silent() bool {
	return !l.said && len(l.config.Addresses) == 0 && l.config.DHCP == "" && l.config.RouterAdvertisements != infrav1.RouterAdvertisementsAccept
}

func larger(a, b *int32) *int32 {
	if a != nil && *a >= *b {
		return a
	}
	return b
}

// takes is what a link takes at once.
func (l *link) takes() int32 {
	if l.config.MTU != nil {
		return *l.config.MTU
	}
	return defaultMTU
}

// mayBeTold says that the MTU of a link may be that of a network that an address comes from,
// which is known with the host. Pools tell none.
func (l *link) mayBeTold() bool {
	return !l.said && slices.ContainsFunc(l.config.Addresses, func(a infrav1.LinkAddress) bool {
		return a.Source == infrav1.AddressRecorded || a.Source == infrav1.AddressRecordedIPv6 || a.Source == infrav1.AddressReservation
	})
}

// carries says whether lower takes what upper may send at once. What DHCP or a router tells
// a link is not known here.
func carries(lower, upper link) bool {
	learns := lower.config.DHCP != "" || lower.config.RouterAdvertisements == infrav1.RouterAdvertisementsAccept
	return upper.config.MTU == nil || lower.config.MTU == nil && learns || lower.takes() >= *upper.config.MTU
}

// why a host cannot have both.
func (n narrow) why() string {
	mtu := n.upper.takes()
	return fmt.Sprintf("mtu %d of %s, in networkData or of a network that it has an address of, does not pass %s, which takes %d: say mtu %d of %s in networkData",
		mtu, n.upper.name, n.lower.name, n.lower.takes(), mtu, n.lower.name)
}

// passDownMTU gives members of bonds the MTU of their bond.
func passDownMTU(links []link) {
	for _, b := range links {
		if b.kind != bonds || b.config.MTU == nil {
			continue
		}
		for i := range links {
			if links[i].kind == ethernets && links[i].config.MTU == nil && slices.Contains(b.bond.Interfaces, links[i].name) {
				links[i].config.MTU = b.config.MTU
			}
		}
	}
}
