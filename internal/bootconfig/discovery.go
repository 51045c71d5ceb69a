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

// fullAgain is how long an event about a full network is not repeated.
const fullAgain = 10 * time.Minute

// discovery is what the Directory remembers of unknown machines, by network.
type discovery struct {
	mu       sync.Mutex
	leases   map[string]*leases
	toldFull ttlset.Set[string]
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

// tellFull reports whether it is time to report that the network is full.
func (d *discovery) tellFull(network string, now time.Time) bool {
	return d.toldFull.Add(network, now, fullAgain)
}

// Discover implements pxe.Discoverer: on a network of mode Discover an unknown
// machine boots the agent, once, with a token by which it can report itself and do
// nothing else.
func (d *Directory) Discover(s pxe.Stranger) (pxe.Host, bool) {
	ctx := context.Background() // the cache neither blocks nor calls out
	network := d.discovers(ctx, s)
	if network == nil {
		return pxe.Host{}, false
	}
	out, ok := onNetwork(network)
	first, firstErr := netip.ParseAddr(network.Spec.Discover.Range.Start)
	last, lastErr := netip.ParseAddr(network.Spec.Discover.Range.End)
	if !ok || firstErr != nil || lastErr != nil {
		return pxe.Host{}, false
	}
	address, ok := d.strangers.of(network.Name).offer(d.Clock.Now(), s, pool{
		first: first, last: last, perMinute: int(network.Spec.Discover.PerMinute),
		admits: func() bool { return d.admits(ctx, network, s) },
		taken:  func(a netip.Addr) bool { return a == s.Server || d.isTaken(ctx, network, a) },
	})
	if !ok {
		return pxe.Host{}, false
	}
	out.MAC, out.Address, out.LeaseTime = s.MAC, netip.PrefixFrom(address, out.Subnet.Bits()), leaseDuration
	out.Plan = d.agent(token.Claims{Host: network.Name, Purpose: token.Discover, OrderID: s.MAC.String()})
	return out, true
}

// discovers finds the network of mode Discover that the machine asks from. Where the
// boot server cannot tell its interfaces apart, there must be one alone.
func (d *Directory) discovers(ctx context.Context, s pxe.Stranger) *infrav1.IngotNetwork {
	list := &infrav1.IngotNetworkList{}
	if err := d.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		d.Log.Error(err, "Could not list the networks")
		return nil
	}
	var found []*infrav1.IngotNetwork
	for i := range list.Items {
		network := &list.Items[i]
		if network.Spec.Mode == infrav1.DHCPModeDiscover && network.Spec.Discover != nil && comesFrom(network, s) {
			found = append(found, network)
		}
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// comesFrom says whether the machine may be on the network.
func comesFrom(network *infrav1.IngotNetwork, s pxe.Stranger) bool {
	subnet, err := netip.ParsePrefix(network.Spec.Subnet)
	switch {
	case err != nil:
		return false
	case s.Client.IsValid():
		return subnet.Contains(s.Client)
	case s.Link.IsValid():
		// As in package dhcp: the relay must be of the network as well as what it says.
		of := func(a netip.Addr) bool { return subnet.Contains(a) || slices.Contains(network.Spec.Relays, a.String()) }
		return of(s.Link) && (!s.Relay.IsValid() || of(s.Relay))
	}
	return len(s.Here) == 0 || slices.ContainsFunc(s.Here, subnet.Overlaps)
}

// admits says whether a machine with this address is unknown indeed, and there is room
// for one more. A NIC of a host that does not boot by it is a known machine's: its
// system is not to be taken off to be discovered (I2).
func (d *Directory) admits(ctx context.Context, network *infrav1.IngotNetwork, s pxe.Stranger) bool {
	mac := s.MAC.String()
	hosts, facts := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}
	if err := d.Cache.List(ctx, hosts, client.MatchingFields{index.HostByMAC: mac}, client.UnsafeDisableDeepCopy); err != nil || len(hosts.Items) > 0 {
		return false
	}
	if err := d.Cache.List(ctx, facts, client.MatchingFields{index.HardwareByNIC: mac}, client.UnsafeDisableDeepCopy); err != nil || slices.ContainsFunc(facts.Items, d.counts(ctx)) {
		return false
	}
	waiting := &infrav1.IngotHostList{}
	if err := d.Cache.List(ctx, waiting, client.MatchingFields{index.HostByEnrolment: network.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return false
	}
	if len(waiting.Items) < int(network.Spec.Discover.MaxHosts) {
		return true
	}
	if d.strangers.tellFull(network.Name, d.Clock.Now()) {
		d.Log.Info("An unknown machine is not answered, because as many enrolled hosts wait for approval as spec.discover.maxHosts allows; approve or delete some",
			"network", network.Name, "waiting", len(waiting.Items), "mac", mac)
	}
	return false
}

// counts says whether the NICs in a host's facts are a known machine's. What one told of
// itself that waits for approval is not known: a made-up list must not keep others from
// being discovered. Its boot NIC is its own whatever it told.
func (d *Directory) counts(ctx context.Context) func(infrav1.IngotHardware) bool {
	return func(facts infrav1.IngotHardware) bool {
		host := &infrav1.IngotHost{}
		if err := d.Cache.Get(ctx, client.ObjectKeyFromObject(&facts), host, client.UnsafeDisableDeepCopy); err != nil {
			return true // its host is about to be made, or gone
		}
		_, enrolled := host.Labels[infrav1.EnrolledLabel]
		return !enrolled
	}
}

// isTaken says whether an address is recorded for a host, given to the system of one, or
// that of a control plane's endpoint: the range may have been laid over such.
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
