// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/addressuse"
)

// ErrAddressInUse means that another host, network or Cluster uses an address.
var ErrAddressInUse = errors.New("the address is in use")

// free fails with ErrAddressInUse if the link may not have one of its addresses. Addresses that are
// recorded for the host are its own. Addresses of pools and reservations were checked when they
// were assigned, except for their present users. Only a control plane may have the endpoint of
// its own Cluster, on any network.
func (l *link) free(from Sources, macs []string) error {
	for i, want := range l.config.Addresses {
		address := l.addresses[i].Addr()
		if from.isOwnEndpoint(address) && (!from.ControlPlane || want.Source == infrav1.AddressPool) {
			return fmt.Errorf("addresses[%d]: %w: %s is the control plane's endpoint of the machine's own Cluster, which may be written, reserved or recorded for a control plane alone", i, ErrAddressInUse, address)
		}
		if from.isRecorded(address) || !addressuse.OnAny(from.Networks, address) {
			continue
		}
		if want.Source == infrav1.AddressStatic {
			if name, use := KeptBy(from.Networks, address, macs...); use != addressuse.None {
				return fmt.Errorf("addresses[%d]: %w: %s is %s of IngotNetwork %s", i, ErrAddressInUse, address, use, name)
			}
		}
		if slices.ContainsFunc(from.Endpoints[address], func(cluster types.NamespacedName) bool { return cluster != from.IngotCluster }) {
			return fmt.Errorf("addresses[%d]: %w: %s is the control plane's endpoint of another Cluster", i, ErrAddressInUse, address)
		}
		if others := from.Holders.OwnersExcept(address, from.Host.Key); len(others) > 0 {
			return fmt.Errorf("addresses[%d]: %w: %s is that of another host, by record or by the claim of the system installed there", i, ErrAddressInUse, address)
		}
	}
	return nil
}

func (s Sources) isOwnEndpoint(address netip.Addr) bool {
	return slices.Contains(s.Endpoints[address], s.IngotCluster)
}

func (s Sources) isRecorded(address netip.Addr) bool {
	return s.Recorded != nil && s.Recorded.Address.Addr() == address || s.RecordedIPv6 != nil && s.RecordedIPv6.Address.Addr() == address
}

// KeptBy returns the network that keeps an address, and its use, if a machine may not have the
// address as a static one. A machine may be a DNS or NTP server, and may have what is reserved
// for its interfaces.
func KeptBy(networks map[string]infrav1.IngotNetworkSpec, address netip.Addr, macs ...string) (string, addressuse.Use) {
	for _, name := range slices.Sorted(maps.Keys(networks)) {
		if use := addressuse.Of(networks[name], address, macs...); use != addressuse.None && use != addressuse.Server {
			return name, use
		}
	}
	return "", addressuse.None
}

// Candidates returns the addresses that networkData may assign to any host, without recorded
// ones. The caller must know their users before a host is selected.
func Candidates(data *infrav1.NetworkData, around Surroundings) []netip.Addr {
	found := map[netip.Addr]bool{}
	add := func(address netip.Addr) {
		if addressuse.OnAny(around.Networks, address) {
			found[address] = true
		}
	}
	for _, l := range linksOf(data) {
		for _, want := range l.config.Addresses {
			switch {
			case want.Source == infrav1.AddressStatic:
				if prefix, err := netip.ParsePrefix(want.Address); err == nil {
					add(prefix.Addr())
				}
			case want.Source == infrav1.AddressStaticLease && want.NetworkRef != nil:
				for _, kept := range around.Networks[want.NetworkRef.Name].StaticLeases {
					if address, err := netip.ParseAddr(kept.IP); err == nil {
						add(address)
					}
				}
			}
		}
	}
	for _, given := range around.Pools {
		add(given.Address.Addr())
	}
	return slices.SortedFunc(maps.Keys(found), netip.Addr.Compare)
}

// Exclusive returns the addresses of the network that only one system may have: those of
// IngotNetworks.
func (n Network) Exclusive(networks map[string]infrav1.IngotNetworkSpec) []netip.Addr {
	var out []netip.Addr
	for _, l := range n.links {
		for _, address := range l.addresses {
			if addressuse.OnAny(networks, address.Addr()) {
				out = append(out, address.Addr())
			}
		}
	}
	return out
}

// Assigned maps the addresses of a claim (ClaimedNetwork.Addresses) to their places in
// networkData, which is immutable. Nil: they are not of this networkData.
func Assigned(data *infrav1.NetworkData, addresses []string) map[Place]netip.Addr {
	out := map[Place]netip.Addr{}
	for _, l := range linksOf(data) {
		for i := range l.config.Addresses {
			if len(out) == len(addresses) {
				return nil
			}
			address, err := netip.ParseAddr(addresses[len(out)])
			if err != nil {
				return nil
			}
			out[Place{Link: l.name, Index: i}] = address
		}
	}
	if len(out) != len(addresses) {
		return nil
	}
	return out
}

// IsGivenBy reports whether the address is one of a claim (ClaimedNetwork.Addresses) and came
// from the pool.
func IsGivenBy(pool infrav1.AddressPoolReference, data *infrav1.NetworkData, addresses []string, address netip.Addr) bool {
	assigned := Assigned(data, addresses)
	return slices.ContainsFunc(PoolPlaces(data), func(place PoolPlace) bool {
		has, known := assigned[place.Place]
		return known && has == address && place.Pool == pool
	})
}

// StaticAddress is a static address of networkData.
type StaticAddress struct {
	Path    *field.Path
	Address netip.Prefix
}

// StaticAddressesIn lists the addresses with source Static. path leads to the data.
func StaticAddressesIn(path *field.Path, data *infrav1.NetworkData) []StaticAddress {
	if data == nil {
		return nil
	}
	var out []StaticAddress
	at := paths(path, data)
	for i, l := range linksOf(data) {
		for j, want := range l.config.Addresses {
			prefix, err := netip.ParsePrefix(want.Address)
			if want.Source == infrav1.AddressStatic && err == nil {
				out = append(out, StaticAddress{Path: at[i].Child("addresses").Index(j).Child("address"), Address: prefix})
			}
		}
	}
	return out
}
