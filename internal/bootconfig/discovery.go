// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/internal/ttlset"
	"github.com/ingot-metal/ingot/pxe"
)

// reportFullAgain is the minimum time between two log lines about a full network.
const reportFullAgain = 10 * time.Minute

// discovery is the Directory's state of unknown machines, by network.
type discovery struct {
	mu           sync.Mutex
	leases       map[string]*leases
	reportedFull ttlset.Set[string]
}

func (d *discovery) of(network string) *leases {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leases == nil {
		d.leases = map[string]*leases{}
	}
	if d.leases[network] == nil {
		d.leases[network] = newLeases()
	}
	return d.leases[network]
}

// Discover implements pxe.DiscoveryHandler. On a network of mode Discover an unknown machine boots the
// agent once, with a token that allows a report of its hardware only.
func (d *Directory) Discover(s pxe.UnknownClient) (pxe.Host, bool) {
	ctx := context.Background() // the cache neither blocks nor calls out
	network := d.discoveryNetwork(ctx, s)
	if network == nil {
		return pxe.Host{}, false
	}
	out, ok := parseNetwork(network)
	first, firstErr := netip.ParseAddr(network.Spec.Discover.Range.Start)
	last, lastErr := netip.ParseAddr(network.Spec.Discover.Range.End)
	if !ok || firstErr != nil || lastErr != nil {
		return pxe.Host{}, false
	}
	address, ok := d.discovery.of(network.Name).offer(d.Clock.Now(), s, pool{
		first: first, last: last, perMinute: int(network.Spec.Discover.PerMinute),
		admits:  func() bool { return d.admits(ctx, network, s) },
		isTaken: func(a netip.Addr) bool { return a == s.Server || d.isTaken(ctx, network, a) },
	})
	if !ok {
		return pxe.Host{}, false
	}
	out.MAC, out.Address, out.LeaseTime = s.MAC, netip.PrefixFrom(address, out.Subnet.Bits()), leaseDuration
	out.Plan = d.bootAgent(token.Claims{Host: network.Name, Purpose: token.Discover, OrderID: s.MAC.String()})
	return out, true
}

// discoveryNetwork returns the network of mode Discover from which the machine asks. If the boot
// server cannot distinguish its interfaces, there must be only one such network.
func (d *Directory) discoveryNetwork(ctx context.Context, s pxe.UnknownClient) *infrav1.IngotNetwork {
	list := &infrav1.IngotNetworkList{}
	if err := d.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		d.Log.Error(err, "Could not list the networks")
		return nil
	}
	var found []*infrav1.IngotNetwork
	for i := range list.Items {
		network := &list.Items[i]
		if network.Spec.Mode == infrav1.DHCPModeDiscover && network.Spec.Discover != nil && mayBeOn(network, s) {
			found = append(found, network)
		}
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// mayBeOn reports whether the machine may be on the network.
func mayBeOn(network *infrav1.IngotNetwork, s pxe.UnknownClient) bool {
	subnet, err := netip.ParsePrefix(network.Spec.Subnet)
	switch {
	case err != nil:
		return false
	case s.Client.IsValid():
		return subnet.Contains(s.Client)
	case s.Link.IsValid():
		// As in package dhcp: both the relay and the address that it names must be of the network.
		isOf := func(a netip.Addr) bool { return subnet.Contains(a) || slices.Contains(network.Spec.Relays, a.String()) }
		return isOf(s.Link) && (!s.Relay.IsValid() || isOf(s.Relay))
	}
	return len(s.LocalSubnets) == 0 || slices.ContainsFunc(s.LocalSubnets, subnet.Overlaps)
}

// admits reports whether no host has the machine and the network accepts one more. A NIC by which a
// host does not boot also belongs to a known machine, which must not be interrupted (I2).
func (d *Directory) admits(ctx context.Context, network *infrav1.IngotNetwork, s pxe.UnknownClient) bool {
	mac := s.MAC.String()
	hosts, facts := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}
	if err := d.Cache.List(ctx, hosts, client.MatchingFields{index.HostByMAC: mac}, client.UnsafeDisableDeepCopy); err != nil || len(hosts.Items) > 0 {
		return false
	}
	if err := d.Cache.List(ctx, facts, client.MatchingFields{index.HardwareByNIC: mac}, client.UnsafeDisableDeepCopy); err != nil || slices.ContainsFunc(facts.Items, d.isTrusted(ctx)) {
		return false
	}
	waiting := &infrav1.IngotHostList{}
	if err := d.Cache.List(ctx, waiting, client.MatchingFields{index.HostByEnrollment: network.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return false
	}
	if len(waiting.Items) < int(network.Spec.Discover.MaxHosts) {
		return true
	}
	if d.discovery.reportedFull.Add(network.Name, d.Clock.Now(), reportFullAgain) {
		d.Log.Info("Ignored an unknown machine: spec.discover.maxHosts hosts wait for approval. Approve or delete some",
			"network", network.Name, "waiting", len(waiting.Items), "mac", mac)
	}
	return false
}

// isTrusted returns a function that reports whether the NICs of hardware facts belong to a known
// machine. Those of an enrolled host may be made up, and must not hide other machines. Its boot NIC
// is found by HostByMAC.
func (d *Directory) isTrusted(ctx context.Context) func(infrav1.IngotHardware) bool {
	return func(facts infrav1.IngotHardware) bool {
		host := &infrav1.IngotHost{}
		if err := d.Cache.Get(ctx, client.ObjectKeyFromObject(&facts), host, client.UnsafeDisableDeepCopy); err != nil {
			return true // its host is not created yet, or is gone
		}
		_, enrolled := host.Labels[infrav1.EnrolledLabel]
		return !enrolled
	}
}

// isTaken reports whether an address is recorded for a host, assigned to a host's system, or a
// control plane endpoint: the configured range may overlap with these.
func (d *Directory) isTaken(ctx context.Context, network *infrav1.IngotNetwork, address netip.Addr) bool {
	facts, hosts := &infrav1.IngotHardwareList{}, &infrav1.IngotHostList{}
	err := d.Cache.List(ctx, facts, client.MatchingFields{index.HardwareByIP: network.Name + "/" + address.String()}, client.UnsafeDisableDeepCopy)
	if err != nil || len(facts.Items) > 0 {
		return true
	}
	err = d.Cache.List(ctx, hosts, client.MatchingFields{index.HostByClaimAddress: address.String()}, client.UnsafeDisableDeepCopy)
	if err != nil || len(hosts.Items) > 0 {
		return true
	}
	endpoints, err := index.EndpointAt(ctx, d.Cache, address)
	return err != nil || len(endpoints) > 0
}
