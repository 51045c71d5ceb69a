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

func ipv6Network(start, end string) infrav1.NetworkIPv6 {
	return infrav1.NetworkIPv6{Mode: infrav1.DHCPv6ModeStateful, Subnet: "2001:db8::/64", Range: infrav1.IPv6Range{Start: start, End: end}}
}

func TestAllocateIPv6(t *testing.T) {
	const mac = "52:54:00:12:34:56"
	for _, tc := range []struct {
		name       string
		start, end string
		taken      []string
		reserve    []string
		want       string // "": any of the range
		err        error
	}{
		{name: "one of one", start: "2001:db8::5", end: "2001:db8::5", want: "2001:db8::5"},
		{name: "of a whole subnet", start: "2001:db8::", end: "2001:db8::ffff:ffff:ffff:ffff"},
		{name: "over the carry", start: "2001:db8::ffff:ffff:ffff:fffe", end: "2001:db8::ffff:ffff:ffff:ffff", taken: []string{"2001:db8::ffff:ffff:ffff:fffe"}, want: "2001:db8::ffff:ffff:ffff:ffff"},
		{name: "the one that is left", start: "2001:db8::1", end: "2001:db8::3", taken: []string{"2001:db8::1"}, reserve: []string{"2001:db8::3"}, want: "2001:db8::2"},
		{name: "never the routers'", start: "2001:db8::", end: "2001:db8::1", want: "2001:db8::1"},
		{name: "full", start: "2001:db8::1", end: "2001:db8::2", taken: []string{"2001:db8::1", "2001:db8::2"}, err: ErrAddressesExhausted},
		{name: "backwards", start: "2001:db8::2", end: "2001:db8::1", err: ErrNetworkInvalid},
		{name: "elsewhere", start: "2001:db8:1::1", end: "2001:db8:1::2", err: ErrNetworkInvalid},
		{name: "of the other kind", start: "192.0.2.1", end: "192.0.2.2", err: ErrNetworkInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			network := ipv6Network(tc.start, tc.end)
			network.DNSServers = tc.reserve
			taken := map[netip.Addr]bool{}
			for _, a := range tc.taken {
				taken[netip.MustParseAddr(a)] = true
			}
			got, err := AllocateIPv6(network, taken, mac)
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if tc.err != nil {
				if errors.Is(err, ErrAddressesExhausted) && !strings.Contains(err.Error(), tc.start) {
					t.Errorf("the range is not named: %v", err)
				}
				return
			}
			if tc.want != "" && got.String() != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			if !netip.MustParsePrefix(network.Subnet).Contains(got) {
				t.Errorf("%s is not of the subnet", got)
			}
			if again, _ := AllocateIPv6(network, taken, mac); again != got {
				t.Errorf("%s, then %s: a host that comes back gets its address", got, again)
			}
		})
	}
}

// The whole range is used, and no address twice.
func TestAllocateIPv6FillsTheRange(t *testing.T) {
	network, taken := ipv6Network("2001:db8::1:0", "2001:db8::1:ff"), map[netip.Addr]bool{}
	for i := range 256 {
		address, err := AllocateIPv6(network, taken, fmt.Sprintf("52:54:00:00:00:%02x", i))
		if err != nil || taken[address] {
			t.Fatalf("host %d: %s, %v", i, address, err)
		}
		taken[address] = true
	}
	if _, err := AllocateIPv6(network, taken, "52:54:00:00:01:00"); !errors.Is(err, ErrAddressesExhausted) {
		t.Errorf("error %v", err)
	}
}
