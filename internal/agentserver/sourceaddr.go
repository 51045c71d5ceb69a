// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/pxe"
)

// whereabouts are where the agent of a host may speak from. The zero value: nowhere.
type whereabouts struct {
	// recorded are the addresses of the host's boot NIC on the network that it boots on.
	recorded []netip.Addr
	// subnets of that network.
	subnets []netip.Prefix
	// mac is the host's boot NIC.
	mac string
}

// allows says whether an agent of the host may speak from the address: the one that is
// recorded, or, where another DHCP server gives the addresses and none is, any of the
// host's network. That it has an IPv6 address besides says nothing of its IPv4 one;
// without one, a host with a recorded IPv4 address does not speak by IPv6.
func (w whereabouts) allows(source netip.Addr) bool {
	if slices.Contains(w.recorded, source) {
		return true
	}
	for _, recorded := range w.recorded {
		if source.Is6() || recorded.Is4() {
			return false
		}
	}
	return slices.ContainsFunc(w.subnets, func(subnet netip.Prefix) bool { return subnet.Contains(source) })
}

// evidence is what shows that a caller is the host, before a key does.
type evidence int

const (
	// noEvidence: no DHCP exchange has shown whose address it is. One may, later.
	noEvidence evidence = iota
	// otherHost: the address is another machine's.
	otherHost
	// sameHost: it is the host's.
	sameHost
)

// evidenceOf reports whose address the caller speaks from, of those that allows admits: a
// recorded address is the host's; one of IPv6 that no server gave is made of the host's MAC
// address; and one of IPv4 that another server gave was shown by the DHCP exchange.
func (w whereabouts) evidenceOf(c caller) evidence {
	switch {
	case slices.Contains(w.recorded, c.source):
		return sameHost
	case c.source.Is6():
		if mac, err := net.ParseMAC(w.mac); err == nil && pxe.MadeOf(c.source, mac) {
			return sameHost
		}
		return otherHost
	case len(c.hardware) == 0:
		return noEvidence
	case c.hardware.String() == w.mac:
		return sameHost
	}
	return otherHost
}

// bootOf is the boot by which an agent is judged: that which the spec names, or, once an
// agent has taken the order, that which the order was written for. Where the spec names
// another since, the agent works on where it is (inventory, order/running), and what is
// recorded for its boot stays while the order does.
func bootOf(host *infrav1.IngotHost) (network, mac string) {
	network, mac = host.Spec.NetworkRef.Name, host.Spec.BootMACAddress
	order := host.Spec.Order
	if order == nil || order.AgentKey == "" {
		return network, mac
	}
	// Orders of earlier versions of Ingot name no boot.
	return cmp.Or(order.NetworkName, network), cmp.Or(order.BootMACAddress, mac)
}

// whereabouts reads them: the facts from the reader given, and the network, whose
// subnets never change, from the cache. Where the network is gone, what is recorded counts.
func (s *Server) whereabouts(ctx context.Context, reader client.Reader, host *infrav1.IngotHost) (whereabouts, error) {
	var out whereabouts
	networkName, mac := bootOf(host)
	out.mac = mac
	hardware := &infrav1.IngotHardware{}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(host), hardware); client.IgnoreNotFound(err) != nil {
		return out, fmt.Errorf("hardware of host %s: %w", host.Name, err)
	}
	network := &infrav1.IngotNetwork{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: networkName}, network); client.IgnoreNotFound(err) != nil {
		return out, fmt.Errorf("network of host %s: %w", host.Name, err)
	}
	entries := []*infrav1.RecordedAddress{hardware.Spec.Address}
	if ipv6 := network.Spec.IPv6; ipv6 == nil || ipv6.Mode != infrav1.DHCPv6ModeStateless {
		entries = append(entries, hardware.Spec.IPv6Address) // else it is of former days: nobody is given it
	}
	for _, recorded := range entries {
		if recorded == nil || recorded.MAC != mac || recorded.NetworkName != networkName {
			continue
		}
		if address, err := netip.ParseAddr(recorded.IP); err == nil {
			out.recorded = append(out.recorded, address)
		}
	}
	texts := []string{network.Spec.Subnet}
	if network.Spec.IPv6 != nil {
		texts = append(texts, network.Spec.IPv6.Subnet)
	}
	for _, text := range texts {
		if subnet, err := netip.ParsePrefix(text); err == nil {
			out.subnets = append(out.subnets, subnet)
		}
	}
	return out, nil
}
