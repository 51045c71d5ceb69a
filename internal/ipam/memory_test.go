// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// Machines that are bound at once do not see each other's claims in the cache.
func TestReserveForSystems(t *testing.T) {
	a, b := netip.MustParseAddr("10.10.0.1"), netip.MustParseAddr("10.10.0.2")
	var memory Memory
	now := time.Unix(1000, 0)
	for i, step := range []struct {
		machine types.UID
		want    []netip.Addr
		after   time.Duration
		ok      bool
	}{
		{"m1", []netip.Addr{a}, 0, true},
		{"m1", []netip.Addr{a}, time.Second, true}, // on another host
		{"m2", []netip.Addr{b, a}, 0, false},
		{"m3", []netip.Addr{b}, 0, true}, // m2 has got none of them
		{"m2", nil, 0, true},
		{"m2", []netip.Addr{b, a}, reserveMemory, true},
	} {
		now = now.Add(step.after)
		if taken, ok := memory.Reserve(SystemAddresses{Machine: step.machine, Addresses: step.want}, now); ok != step.ok || !ok && taken != a {
			t.Errorf("step %d: %s, %t", i, taken, ok)
		}
	}
	memory.Unreserve("m2")
	if _, ok := memory.Reserve(SystemAddresses{Machine: "m3", Addresses: []netip.Addr{a, b}}, now); !ok {
		t.Error("what a machine gave back is kept from the next")
	}
}

// A network's range or pool and networkData may give one address at the same moment: it is
// the boot NIC's or the system's, and both only of one host.
func TestHostsAndSystems(t *testing.T) {
	const mine, other = "52:54:00:00:00:01", "52:54:00:00:00:02"
	network := &infrav1.IngotNetwork{Spec: infrav1.IngotNetworkSpec{
		Subnet: "192.0.2.0/24", Range: infrav1.AddressRange{Start: "192.0.2.10", End: "192.0.2.10"},
		IPv6: &infrav1.NetworkIPv6{Mode: infrav1.DHCPv6ModeStateful, Subnet: "2001:db8::/64", Range: infrav1.IPv6Range{Start: "2001:db8::10", End: "2001:db8::10"}}}}
	network.Name = "net"
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		address string
		give    func(m *Memory, mac string, now time.Time) bool
	}{
		"range": {"192.0.2.10", func(m *Memory, mac string, now time.Time) bool {
			_, err := m.takeIPv4(network, mac, map[netip.Addr]bool{}, now)
			return !errors.Is(err, inventory.ErrAddressesExhausted)
		}},
		"IPv6 range": {"2001:db8::10", func(m *Memory, mac string, now time.Time) bool {
			_, err := m.takeIPv6(network, mac, map[netip.Addr]bool{}, now)
			return !errors.Is(err, inventory.ErrAddressesExhausted)
		}},
		"pool": {"192.0.2.77", func(m *Memory, mac string, now time.Time) bool {
			return m.reserveIPv4(network.Name, mac, netip.MustParseAddr("192.0.2.77"), now)
		}},
	} {
		for order, run := range map[string]func(m *Memory) [3]bool{
			"the system first": func(m *Memory) (got [3]bool) {
				reserved := SystemAddresses{Machine: "m", BootMAC: mine, Addresses: []netip.Addr{netip.MustParseAddr(tc.address)}}
				if _, ok := m.Reserve(reserved, now); !ok {
					t.Error("a free address is not had")
				}
				return [3]bool{tc.give(m, other, now), tc.give(m, mine, now), tc.give(m, other, now.Add(pendingTime+reserveMemory))}
			},
			"the boot NIC first": func(m *Memory) (got [3]bool) {
				if !tc.give(m, mine, now) {
					t.Error("a free address is not given")
				}
				for i, step := range []struct {
					mac   string
					after time.Duration
				}{{other, 0}, {mine, 0}, {other, pendingTime}} {
					_, got[i] = m.Reserve(SystemAddresses{Machine: "m", BootMAC: step.mac, Addresses: []netip.Addr{netip.MustParseAddr(tc.address)}}, now.Add(step.after))
				}
				return got
			},
		} {
			t.Run(name+"/"+order, func(t *testing.T) {
				if got := run(&Memory{}); got != [3]bool{false, true, true} {
					t.Errorf("another host's %t, the same host's %t, another's later %t", got[0], got[1], got[2])
				}
			})
		}
	}
}
