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

// leastIPv6MTU is the minimum for IPv6 in bytes (RFC 8200, section 5). With less, the kernel
// disables IPv6 on the link.
const leastIPv6MTU int32 = 1280

// narrow is a link with a smaller MTU than a link above it.
type narrow struct{ lower, upper link }

// settleMTUs raises the MTUs of links without one to those of the links above them: of links
// without addresses that carry VLANs, and of members of bonds. Other VLANs of such a link then
// get the default, because the kernel would give them the raised MTU, and their segments may
// drop larger frames. It returns the links that are still too narrow. MTUs may come from
// networks, which are only known with the host; admission calls it before that (see mtus).
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

// carriers returns the links below a VLAN or a bond.
func (l *link) carriers() []string {
	switch l.kind {
	case vlans:
		return []string{l.vlan.Link}
	case bonds:
		return l.bond.Interfaces
	}
	return nil
}

// silent reports whether only VLANs use the link, so that its MTU may be raised. An MTU that a
// VLAN raised may be raised again.
func (l *link) silent() bool {
	return !l.said && len(l.config.Addresses) == 0 && l.config.DHCP == "" && l.config.RouterAdvertisements != infrav1.RouterAdvertisementsAccept
}

func larger(a, b *int32) *int32 {
	if a != nil && *a >= *b {
		return a
	}
	return b
}

// takes returns the MTU of a link.
func (l *link) takes() int32 {
	if l.config.MTU != nil {
		return *l.config.MTU
	}
	return defaultMTU
}

// mayBeTold reports whether the MTU of a link may come from the network of an address, which is
// only known with the host. Pools have no MTU.
func (l *link) mayBeTold() bool {
	return !l.said && slices.ContainsFunc(l.config.Addresses, func(a infrav1.LinkAddress) bool {
		return a.Source == infrav1.AddressRecorded || a.Source == infrav1.AddressRecordedIPv6 || a.Source == infrav1.AddressStaticLease
	})
}

// carries reports whether the MTU of lower is sufficient for upper. An MTU from DHCP or router
// advertisements is unknown and counts as sufficient.
func carries(lower, upper link) bool {
	learns := lower.config.DHCP != "" || lower.config.RouterAdvertisements == infrav1.RouterAdvertisementsAccept
	return upper.config.MTU == nil || lower.config.MTU == nil && learns || lower.takes() >= *upper.config.MTU
}

// why describes the conflict.
func (n narrow) why() string {
	mtu := n.upper.takes()
	return fmt.Sprintf("mtu %d of %s, in networkData or of a network that it has an address of, does not pass %s, which takes %d: say mtu %d of %s in networkData",
		mtu, n.upper.name, n.lower.name, n.lower.takes(), mtu, n.lower.name)
}

// passDownMTU gives members of bonds without an MTU that of the bond.
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
