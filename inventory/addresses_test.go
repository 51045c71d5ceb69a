// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestAllocateAddress(t *testing.T) {
	network := infrav1.IngotNetworkSpec{Subnet: "10.0.0.0/28", Gateway: "10.0.0.1", DNSServers: []string{"10.0.0.2", "8.8.8.8"},
		NTPServers: []string{"10.0.0.7"}, Relays: []string{"10.0.0.8", "10.255.0.1"},
		Routes: []infrav1.NetworkRoute{{Destination: "10.9.0.0/16", Gateway: "10.0.0.9"}},
		Range:  infrav1.AddressRange{Start: "10.0.0.0", End: "10.0.0.9"}}
	taken := map[netip.Addr]bool{}
	for i := range 4 { // .3 to .6 are what is left of the range
		mac := fmt.Sprintf("52:54:00:00:00:%02x", i)
		got, err := AllocateAddress(network, taken, mac)
		if err != nil {
			t.Fatalf("address %d: %v", i, err)
		}
		again, _ := AllocateAddress(network, taken, mac)
		if last := got.As4()[3]; again != got || taken[got] || last < 3 || last > 6 {
			t.Errorf("%s gets %s, then %s", mac, got, again)
		}
		taken[got] = true
	}
	if _, err := AllocateAddress(network, taken, "m"); !errors.Is(err, ErrAddressesExhausted) {
		t.Errorf("error %v, want %v", err, ErrAddressesExhausted)
	}
	for _, bad := range []infrav1.IngotNetworkSpec{
		{Subnet: "nonsense", Range: network.Range},
		{Subnet: "fd00::/64", Range: infrav1.AddressRange{Start: "fd00::1", End: "fd00::2"}},
		{Subnet: "10.0.0.0/29", Range: infrav1.AddressRange{Start: "10.0.0.5", End: "10.0.0.4"}},
		{Subnet: "10.0.0.0/29", Range: infrav1.AddressRange{Start: "10.0.0.5", End: "10.0.0.9"}},
	} {
		if got, err := AllocateAddress(bad, nil, "m"); !errors.Is(err, ErrNetworkInvalid) {
			t.Errorf("%+v: %s, error %v", bad, got, err)
		}
	}
}

// An address that is reserved for a MAC address, inside or outside the range, is only for that one.
func TestAllocateReservedAddress(t *testing.T) {
	const mac, other = "52:54:00:00:00:01", "52:54:00:00:00:02"
	network := infrav1.IngotNetworkSpec{Subnet: "10.10.0.0/24", Range: infrav1.AddressRange{Start: "10.10.0.10", End: "10.10.0.12"},
		StaticLeases: []infrav1.StaticLease{{MAC: other, IP: "10.10.0.11"}, {MAC: mac, IP: "10.10.0.200"}, {MAC: "52:54:00:00:00:03", IP: "10.99.0.1"}}}
	taken := map[netip.Addr]bool{}
	for range 3 {
		if got, err := AllocateAddress(network, taken, mac); err != nil || got.String() != "10.10.0.200" {
			t.Errorf("%s, %v, want what is reserved", got, err)
		}
		taken[netip.MustParseAddr("10.10.0.10")] = true
	}
	if got, err := AllocateAddress(network, map[netip.Addr]bool{}, other); err != nil || got.String() != "10.10.0.11" {
		t.Errorf("%s, %v, want what is reserved in the range", got, err)
	}
	if got, err := AllocateAddress(network, taken, "52:54:00:00:00:09"); err != nil || got.String() != "10.10.0.12" {
		t.Errorf("%s, %v, want the one that is neither taken nor reserved", got, err)
	}
	if got, err := AllocateAddress(network, taken, "52:54:00:00:00:03"); err != nil || got.String() != "10.10.0.12" {
		t.Errorf("%s, %v: one reserved outside of the subnet is of no use", got, err)
	}
	taken[netip.MustParseAddr("10.10.0.200")] = true
	if got, err := AllocateAddress(network, taken, mac); !errors.Is(err, ErrNetworkInvalid) || !strings.Contains(err.Error(), "10.10.0.200") {
		t.Errorf("%s, %v, want that another has it", got, err)
	}
}
