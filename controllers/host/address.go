// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/hardware"
	"github.com/ingot-metal/ingot/inventory"
)

// hasAddress says whether an address is recorded for the host's boot NIC on its
// present network.
func hasAddress(host *infrav1.IngotHost, facts *infrav1.IngotHardware) bool {
	return facts != nil && facts.Spec.Address != nil &&
		facts.Spec.Address.MAC == host.Spec.BootMACAddress &&
		facts.Spec.Address.NetworkName == host.Spec.NetworkRef.Name
}

// needsIPv4 says whether an IPv4 address is still to be recorded.
func needsIPv4(host *infrav1.IngotHost, facts *infrav1.IngotHardware, network *infrav1.IngotNetwork) bool {
	return network.Spec.Mode != infrav1.DHCPModeProxy && !hasAddress(host, facts)
}

// recordAddress takes a free address of the network's range or pool and records it in the
// IngotHardware, before any power-on (design §5). problem says why there is none.
func (r *Reconciler) recordAddress(ctx context.Context, host *infrav1.IngotHost, seen *observation) (problem string, _ error) {
	if !needsIPv4(host, seen.hardware, seen.network) && !seen.addressLost {
		return r.recordIPv6(ctx, host, seen)
	}
	address, err := r.chooseAddress(ctx, host, seen)
	if err != nil || !address.IsValid() {
		return seen.AddressProblem, err
	}
	entry := &infrav1.RecordedAddress{NetworkName: seen.network.Name, MAC: host.Spec.BootMACAddress, IP: address.String()}
	if seen.hardware == nil {
		facts, newErr := hardware.New(host, r.Client.Scheme())
		if newErr != nil {
			return "", newErr
		}
		facts.Spec.Address = entry
		err = r.Client.Create(ctx, facts)
	} else {
		facts := seen.hardware.DeepCopy()
		facts.Spec.Address = entry
		err = r.Client.Patch(ctx, facts, client.MergeFromWithOptions(seen.hardware, client.MergeFromWithOptimisticLock{}))
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return "", errStale
	}
	if err != nil {
		return "", fmt.Errorf("recording an address for %s: %w", client.ObjectKeyFromObject(host), err)
	}
	return "", nil
}

// givenMemory is how long an address is kept that was given and is not recorded:
// longer than a cache lags behind, and short enough that an address whose record
// failed, or whose host was deleted, is soon free again.
const givenMemory = time.Minute

// allocator gives out addresses. It remembers for a while what it gave, since the
// cache may not show it yet; the zero value is ready.
type allocator struct {
	mu    sync.Mutex
	given map[string]map[netip.Addr]gift // by network
}

type gift struct {
	mac   string
	until time.Time
}

// take returns the address that the MAC was given a moment ago, or a free one.
func (a *allocator) take(network *infrav1.IngotNetwork, mac string, recorded []infrav1.IngotHardware, now time.Time) (netip.Addr, error) {
	taken := map[netip.Addr]bool{}
	for i := range recorded {
		if entry := recorded[i].Spec.Address; entry != nil {
			if address, err := netip.ParseAddr(entry.IP); err == nil {
				taken[address] = true
			}
		}
	}
	return a.give(network.Name, mac, taken, now, func(taken map[netip.Addr]bool) (netip.Addr, error) {
		return inventory.AllocateAddress(network.Spec, taken, mac)
	})
}

// give returns the address that the MAC was given a moment ago, or one that choose
// finds, which is told what else was given. It adds to taken.
func (a *allocator) give(
	network, mac string, taken map[netip.Addr]bool, now time.Time, choose func(map[netip.Addr]bool) (netip.Addr, error),
) (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.given == nil {
		a.given = map[string]map[netip.Addr]gift{}
	}
	if a.given[network] == nil {
		a.given[network] = map[netip.Addr]gift{}
	}
	given := a.given[network]
	for address, to := range given {
		switch {
		case to.mac == mac && now.Before(to.until):
			return address, nil
		case now.Before(to.until):
			taken[address] = true
		default:
			delete(given, address)
		}
	}
	address, err := choose(taken)
	if err != nil {
		return netip.Addr{}, err
	}
	given[address] = gift{mac: mac, until: now.Add(givenMemory)}
	return address, nil
}

// reserve keeps an address for a MAC that somebody else chose; false: another was given
// it a moment ago.
func (a *allocator) reserve(network, mac string, address netip.Addr, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if to, there := a.given[network][address]; there && to.mac != mac && now.Before(to.until) {
		return false
	}
	if a.given == nil {
		a.given = map[string]map[netip.Addr]gift{}
	}
	if a.given[network] == nil {
		a.given[network] = map[netip.Addr]gift{}
	}
	maps.DeleteFunc(a.given[network], func(_ netip.Addr, to gift) bool { return !now.Before(to.until) })
	a.given[network][address] = gift{mac: mac, until: now.Add(givenMemory)}
	return true
}
