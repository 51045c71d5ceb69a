// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

import (
	"context"
	"net/netip"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/pxe"
)

// addIPv6 adds the host's IPv6 configuration. Without a recorded IPv6 address the host is served by
// IPv4 only, if its network has IPv4.
func (d *Directory) addIPv6(ctx context.Context, host *infrav1.IngotHost, network *infrav1.IngotNetwork, out *pxe.Host) {
	ipv6, subnet, ok := ipv6Of(network)
	if !ok {
		return
	}
	out.DNS = append(out.DNS, addresses(ipv6.DNSServers)...)
	out.NTP = append(out.NTP, addresses(ipv6.NTPServers)...)
	out.IPv6 = pxe.IPv6{Mode: modeOf(ipv6), Subnet: subnet, Relays: addresses(ipv6.Relays)}
	if out.IPv6.Mode == pxe.Stateless {
		return
	}
	hardware := d.objects.hardware(ctx, host)
	if hardware == nil {
		return
	}
	recorded := hardware.Spec.IPv6Address
	if recorded == nil || recorded.MAC != host.Spec.BootMACAddress || recorded.NetworkName != network.Name {
		return
	}
	if address, err := netip.ParseAddr(recorded.IP); err == nil && subnet.Contains(address) {
		out.IPv6.Address = address
	}
}

// ipv6Of returns a network's IPv6 part, or false if it has none or an invalid subnet.
func ipv6Of(network *infrav1.IngotNetwork) (*infrav1.NetworkIPv6, netip.Prefix, bool) {
	if network.Spec.IPv6 == nil {
		return nil, netip.Prefix{}, false
	}
	subnet, err := netip.ParsePrefix(network.Spec.IPv6.Subnet)
	return network.Spec.IPv6, subnet, err == nil
}

func modeOf(ipv6 *infrav1.NetworkIPv6) pxe.IPv6Mode {
	if ipv6.Mode == infrav1.DHCPv6ModeStateless {
		return pxe.Stateless
	}
	return pxe.Stateful
}

// segmentBits is the minimum length of an advertised prefix, which must be one link. Admission
// requires it, but a network may be older.
const segmentBits = 64

// Advertisements implements pxe.Advertised: it returns the networks with router advertisements.
func (d *Directory) Advertisements() []pxe.Advertisement {
	networks := &infrav1.IngotNetworkList{}
	if err := d.Cache.List(context.Background(), networks, client.UnsafeDisableDeepCopy); err != nil {
		d.Log.Error(err, "Could not list the networks to advertise")
		return nil
	}
	var out []pxe.Advertisement
	for i := range networks.Items {
		network := &networks.Items[i]
		ipv6, subnet, ok := ipv6Of(network)
		if !ok || ipv6.RouterAdvertisements == nil || subnet.Bits() < segmentBits {
			continue
		}
		out = append(out, pxe.Advertisement{
			Network: network.Name, Prefix: subnet, Mode: modeOf(ipv6),
			RouterLifetime: time.Duration(ptr.Deref(ipv6.RouterAdvertisements.DefaultRouterSeconds, 0)) * time.Second,
			DNS:            addresses(ipv6.DNSServers), Search: network.Spec.SearchDomains, MTU: int(ptr.Deref(network.Spec.MTU, 0)),
		})
	}
	return out
}
