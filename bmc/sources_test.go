// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
)

func TestSourcesAllow(t *testing.T) {
	services := netip.MustParsePrefix("10.96.0.0/12")
	for _, tc := range []struct {
		name    string
		entries string
		allowed string
		refused string
	}{
		{"default", "", "10.20.0.9 192.0.2.1 2001:db8::9 fd00::9 64:ff9b::a14:9",
			"127.0.0.1 127.9.9.9 ::1 ::ffff:127.0.0.1 ::127.0.0.1 169.254.169.254 fe80::1 0.0.0.0 0.1.2.3 :: 255.255.255.255 224.0.0.1 ff02::1 " +
				"10.96.0.1 10.111.255.255 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 2002:7f00:1::1 64:ff9b::a60:1"},
		{"one network", "10.20.0.0/16", "10.20.0.9", "10.21.0.9 192.0.2.1 127.0.0.1 2001:db8::9 64:ff9b::a14:9"},
		{"all", "0.0.0.0/0 ::/0", "10.20.0.9 2001:db8::9", "127.0.0.1 ::1 169.254.169.254 10.96.0.1 fe80::1"},
		{"loopback", "0.0.0.0/0 127.0.0.0/8 ::1", "10.20.0.9 127.0.0.1 ::1 ::ffff:127.0.0.1", "169.254.1.1 10.96.0.1 :: 2001:db8::9"},
		{"a part of the service network", "10.0.0.0/8 10.100.0.0/16", "10.20.0.9 10.100.0.1", "10.96.0.1"},
		{"excluded", "!10.20.0.0/24 !2001:db8::9", "10.20.1.9 2001:db8::8", "10.20.0.9 2001:db8::9"},
		{"NAT64 on purpose", "64:ff9b::7f00:1", "64:ff9b::7f00:1", "127.0.0.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sources, err := bmc.ParseSources(strings.Fields(tc.entries))
			if err != nil {
				t.Fatal(err)
			}
			sources = sources.Excluding(services)
			for want, list := range map[bool]string{true: tc.allowed, false: tc.refused} {
				for _, address := range strings.Fields(list) {
					if got := sources.Allows(netip.MustParseAddr(address)); got != want {
						t.Errorf("%s allowed: %t, want %t", address, got, want)
					}
					if err := sources.Check(address); (err == nil) != want || err != nil && !errors.Is(err, bmc.ErrSourceNotAllowed) {
						t.Errorf("check %s: %v", address, err)
					}
				}
			}
			if err := sources.Check("bmc.example"); err != nil {
				t.Errorf("a name is checked before it is resolved: %v", err)
			}
		})
	}
}

func TestParseSourcesRejectsInvalidEntries(t *testing.T) {
	for _, entry := range []string{"", "bmc.example", "10.0.0.0/33", "10.0.0.1:443", "fe80::1%eth0", "!", "!!10.0.0.1", "::ffff:10.0.0.0/104"} {
		if _, err := bmc.ParseSources([]string{"10.0.0.0/8", entry}); err == nil || !strings.Contains(err.Error(), "write 10.20.0.0/16") {
			t.Errorf("%q: %v, want an error that shows valid entries", entry, err)
		}
	}
}

// TestPoolReportsARefusedAddress shows that the caller gets the refusal of a connection
// instead of the driver's error, and that it does not count as a failure of the BMC.
func TestPoolReportsARefusedAddress(t *testing.T) {
	sources := bmc.Sources{}
	pool := newPool(t, func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
		_, err := target.DialContext(ctx, "tcp", "127.0.0.1:9")
		return nil, errors.Join(bmc.ErrUnreachable, err)
	}, bmc.PoolOptions{Sources: &sources})
	for range 5 {
		err := pool.Do(t.Context(), target("redfish://127.0.0.1:9"), readState)
		if !errors.Is(err, bmc.ErrSourceNotAllowed) || errors.Is(err, bmc.ErrUnreachable) || !strings.Contains(err.Error(), "--bmc-sources") {
			t.Fatalf("got %v", err)
		}
	}
	if c := pool.CallStatus("redfish://127.0.0.1:9"); c.Failures != 0 {
		t.Errorf("%d failures of a BMC that was not called", c.Failures)
	}
}
