// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package addressuse

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Owner is a host that has an address.
type Owner struct {
	// Host by namespace and name.
	Host types.NamespacedName
	// MAC is the boot NIC for which the address is recorded. Empty: the claim assigned it to
	// the installed system, which keeps it until the host is confirmed off.
	MAC string
}

// Owners has the known holders by address. Create it with Owners{}.
type Owners map[netip.Addr][]Owner

// Recorded adds the addresses that are recorded for a host.
func (h Owners) Recorded(hardware *infrav1.IngotHardware) {
	for _, entry := range []*infrav1.RecordedAddress{hardware.Spec.Address, hardware.Spec.IPv6Address} {
		if entry != nil {
			h.add(entry.IP, Owner{Host: types.NamespacedName{Namespace: hardware.Namespace, Name: hardware.Name}, MAC: entry.MAC})
		}
	}
}

// Claimed adds the addresses of the system that a host's claim installed.
func (h Owners) Claimed(host *infrav1.IngotHost) {
	for _, ip := range InLedger(host) {
		h.add(ip, Owner{Host: types.NamespacedName{Namespace: host.Namespace, Name: host.Name}})
	}
}

// InLedger lists the addresses that the installed system of a host may use. They are free once
// the host is confirmed off (I7). The claim itself stays until the disks are cleaned, when pools
// may have assigned the addresses to the next machine. After a forced release the quarantine
// keeps the addresses until the host is confirmed off.
func InLedger(host *infrav1.IngotHost) []string {
	claim, record := host.Spec.Claim, host.Spec.Record
	switch {
	case claim == nil && record != nil && record.Quarantine != nil:
		return record.Quarantine.Addresses
	case claim == nil || claim.Network == nil:
		return nil
	case claim.State == infrav1.ClaimReleasing && !claim.FencedTime.IsZero():
		return nil
	}
	return claim.Network.Addresses
}

func (h Owners) add(ip string, holder Owner) {
	if address, err := netip.ParseAddr(ip); err == nil && !slices.Contains(h[address], holder) {
		h[address] = append(h[address], holder)
	}
}

// OwnersExcept lists the hosts other than self that have an address, without duplicates.
func (h Owners) OwnersExcept(address netip.Addr, self types.NamespacedName) []types.NamespacedName {
	var out []types.NamespacedName
	for _, holder := range h[address] {
		if holder.Host != self && !slices.Contains(out, holder.Host) {
			out = append(out, holder.Host)
		}
	}
	return out
}

// Has reports whether a host has an address.
func (h Owners) Has(address netip.Addr, host types.NamespacedName) bool {
	return slices.ContainsFunc(h[address], func(holder Owner) bool { return holder.Host == host })
}

// Taken returns the addresses that hosts other than self have.
func (h Owners) Taken(self types.NamespacedName) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for address, holders := range h {
		if slices.ContainsFunc(holders, func(holder Owner) bool { return holder.Host != self }) {
			out[address] = true
		}
	}
	return out
}
