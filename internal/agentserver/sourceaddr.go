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

// allowedSources are the addresses that the agent of a host may use. The zero value allows none.
type allowedSources struct {
	// recorded are the addresses of the host's boot NIC on its boot network.
	recorded []netip.Addr
	// subnets are the subnets of the boot network.
	subnets []netip.Prefix
	// mac is the host's boot NIC.
	mac string
}

// allows reports whether an agent of the host may use the address. It must be a recorded address
// or, if none is recorded because another DHCP server assigns them, any of the boot network. A
// recorded IPv6 address does not restrict IPv4; a recorded IPv4 address excludes other IPv6 ones.
func (a allowedSources) allows(source netip.Addr) bool {
	if slices.Contains(a.recorded, source) {
		return true
	}
	for _, recorded := range a.recorded {
		if source.Is6() || recorded.Is4() {
			return false
		}
	}
	return slices.ContainsFunc(a.subnets, func(subnet netip.Prefix) bool { return subnet.Contains(source) })
}

// evidence is what ties a caller's address to the host before a key does.
type evidence int

const (
	// noEvidence: no DHCP exchange was seen yet for the address.
	noEvidence evidence = iota
	// otherHost: the address belongs to another machine.
	otherHost
	// sameHost: the address belongs to the host.
	sameHost
)

// evidenceOf reports whose address the caller uses, of those that allows admits. A recorded
// address is the host's. An IPv6 address that no server assigned is derived from the host's MAC
// address. An IPv4 address that another server assigned was seen in the DHCP exchange.
func (a allowedSources) evidenceOf(c caller) evidence {
	switch {
	case slices.Contains(a.recorded, c.source):
		return sameHost
	case c.source.Is6():
		if mac, err := net.ParseMAC(a.mac); err == nil && pxe.IsEUI64Of(c.source, mac) {
			return sameHost
		}
		return otherHost
	case len(c.hardware) == 0:
		return noEvidence
	case c.hardware.String() == a.mac:
		return sameHost
	}
	return otherHost
}

// bootOf returns the network and NIC of the boot by which an agent is checked: those of the spec
// or, once an agent has accepted the order, those that the order was written for. If the spec
// changes later, the agent continues where it is, and its recorded address stays with the order.
func bootOf(host *infrav1.IngotHost) (network, mac string) {
	network, mac = host.Spec.NetworkRef.Name, host.Spec.BootMACAddress
	order := host.Spec.Order
	if order == nil || order.AgentKey == "" {
		return network, mac
	}
	// Orders of earlier versions of Ingot name no boot.
	return cmp.Or(order.NetworkName, network), cmp.Or(order.BootMACAddress, mac)
}

// allowedSources reads the hardware facts from reader, and the network, whose subnets never change,
// from the cache. If the network is gone, only recorded addresses are allowed.
func (s *Server) allowedSources(ctx context.Context, reader client.Reader, host *infrav1.IngotHost) (allowedSources, error) {
	networkName, mac := bootOf(host)
	out := allowedSources{mac: mac}
	hardware := &infrav1.IngotHardware{}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(host), hardware); client.IgnoreNotFound(err) != nil {
		return out, fmt.Errorf("read hardware of host %s: %w", host.Name, err)
	}
	network := &infrav1.IngotNetwork{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: networkName}, network); client.IgnoreNotFound(err) != nil {
		return out, fmt.Errorf("read network of host %s: %w", host.Name, err)
	}
	ipv6 := network.Spec.IPv6
	entries := []*infrav1.RecordedAddress{hardware.Spec.Address}
	if ipv6 == nil || ipv6.Mode != infrav1.DHCPv6ModeStateless {
		entries = append(entries, hardware.Spec.IPv6Address) // of mode Stateless it is outdated: no server assigns it
	}
	for _, recorded := range entries {
		if recorded == nil || recorded.MAC != mac || recorded.NetworkName != networkName {
			continue
		}
		if address, err := netip.ParseAddr(recorded.IP); err == nil {
			out.recorded = append(out.recorded, address)
		}
	}
	subnets := []string{network.Spec.Subnet}
	if ipv6 != nil {
		subnets = append(subnets, ipv6.Subnet)
	}
	for _, text := range subnets {
		if subnet, err := netip.ParsePrefix(text); err == nil {
			out.subnets = append(out.subnets, subnet)
		}
	}
	return out, nil
}
