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

// settleMTUs has what carries a link take as much as the link, where nobody says what it
// takes: a link without addresses that carries VLANs, and the members of bonds. It fails
// where one takes less, as admission does of what is written (check.go): MTUs may come
// from networks, which only the host's addresses name.
func settleMTUs(links []link) error {
	byName := map[string]*link{}
	for i := range links {
		byName[links[i].name] = &links[i]
	}
	for _, l := range links {
		if carrier := carrierOf(l, byName); carrier != nil && l.config.MTU != nil && *l.config.MTU > defaultMTU && carrier.silent() {
			carrier.config.MTU = larger(carrier.config.MTU, l.config.MTU)
		}
	}
	passDownMTU(links)
	for _, l := range links {
		if carrier := carrierOf(l, byName); carrier != nil {
			if err := carries(*carrier, l); err != nil {
				return err
			}
		}
	}
	for _, b := range links {
		if b.kind != bonds {
			continue
		}
		for _, name := range b.bond.Interfaces {
			if member := byName[name]; member != nil {
				if err := carries(*member, b); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// carrierOf is the link that a VLAN is on; nil for other links.
func carrierOf(l link, byName map[string]*link) *link {
	if l.kind != vlans {
		return nil
	}
	return byName[l.vlan.Link]
}

// silent says that nothing but VLANs goes over the link, so that nobody on its own segment
// minds how much it sends at once. What a VLAN has raised already may be raised again.
func (l *link) silent() bool {
	return !l.said && len(l.addresses) == 0 && l.config.DHCP == "" && l.config.RouterAdvertisements != infrav1.RouterAdvertisementsAccept
}

func larger(a, b *int32) *int32 {
	if a != nil && *a >= *b {
		return a
	}
	return b
}

// carries fails if upper may send more at once than lower takes. What DHCP or a router
// tells a link is not known here.
func carries(lower, upper link) error {
	takes := defaultMTU
	switch {
	case upper.config.MTU == nil:
		return nil
	case lower.config.MTU != nil:
		takes = *lower.config.MTU
	case lower.config.DHCP != "" || lower.config.RouterAdvertisements == infrav1.RouterAdvertisementsAccept:
		return nil
	}
	if takes >= *upper.config.MTU {
		return nil
	}
	return fmt.Errorf("mtu %d of %s, in networkData or of a network that it has an address of, does not pass %s, which takes %d: say mtu %d of %s in networkData",
		*upper.config.MTU, upper.name, lower.name, takes, *upper.config.MTU, lower.name)
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
