// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBootIPv6(t *testing.T) {
	list := func(texts ...string) []netip.Addr {
		var out []netip.Addr
		for _, text := range texts {
			out = append(out, netip.MustParseAddr(text))
		}
		return out
	}
	for name, tc := range map[string]struct {
		given      string
		interfaces [][]netip.Addr
		failure    error
		want, bad  string
	}{
		"off":   {},
		"given": {given: "2001:db8::5", want: "2001:db8::5"},
		"of the interface that has the IPv4 address": {given: "auto", want: "2001:db8::2",
			interfaces: [][]netip.Addr{list("127.0.0.1", "::1"), list("203.0.113.1", "2001:db8:9::1"), list("192.0.2.1", "fe80::1", "2001:db8::2")}},
		"it has none":               {given: "auto", interfaces: [][]netip.Addr{list("192.0.2.1", "fe80::1"), list("2001:db8::2")}, bad: "the interface with 192.0.2.1 has no permanent global IPv6 address"},
		"nobody knows":              {given: "auto", failure: errors.New("no"), bad: "auto: no"},
		"what Validate let through": {given: "x", bad: "--boot-ipv6-address"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &Options{BootAddress: "192.0.2.1", BootIPv6: tc.given}
			got, err := o.bootIPv6(func() ([][]netip.Addr, error) { return tc.interfaces, tc.failure })
			if tc.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tc.bad) {
					t.Errorf("error %v, want %q", err, tc.bad)
				}
				return
			}
			if err != nil || (tc.want != "") != got.IsValid() || tc.want != "" && got.String() != tc.want {
				t.Errorf("%s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

// Only permanent addresses are selected.
func TestPermanentAddresses(t *testing.T) {
	const states = "20010db8000000000000000000000002 02 40 00 80     eno1\n" +
		"20010db800000000a1b2c3d4e5f60718 02 40 00 01     eno1\n" + // temporary
		"20010db8000000000000000000000003 02 40 00 a0     eno1\n" + // deprecated
		"20010db8000000000000000000000004 02 40 00 c8     eno1\n" + // duplicate
		"20010db8000000000000000000000005 02 80 00 80     eno1\n" +
		"no address 02 40 00 01 eno1\nx\n"
	var own []netip.Prefix
	for _, text := range []string{"192.0.2.1/24", "2001:db8::5/128", "2001:db8::a1b2:c3d4:e5f6:718/64", "2001:db8::3/64", "2001:db8::4/64", "2001:db8::2/64"} {
		own = append(own, netip.MustParsePrefix(text))
	}
	var got []string
	for _, a := range permanent(own, transient(states)) {
		got = append(got, a.String())
	}
	if diff := cmp.Diff([]string{"192.0.2.1", "2001:db8::2", "2001:db8::5"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := interfaceAddresses(); err != nil {
		t.Error(err)
	}
}

// The IPv6 address that agents use matches the additional listen address.
func TestAgentAddressesIPv6(t *testing.T) {
	for name, tc := range map[string]struct {
		change          func(*Options)
		off             bool
		address, listen string
	}{
		"one process: it listens on all":  {change: func(*Options) {}, address: "[2001:db8::5]:8843"},
		"off":                             {change: asBoot, off: true},
		"boot: on its own address":        {change: asBoot, address: "[2001:db8::5]:8843", listen: "[2001:db8::5]:8843"},
		"boot, another port":              {change: func(o *Options) { asBoot(o); o.AgentListen = ":99" }, address: "[2001:db8::5]:99", listen: "[2001:db8::5]:99"},
		"boot, bound to all of IPv4":      {change: func(o *Options) { asBoot(o); o.AgentListen = "0.0.0.0:8843" }},
		"boot, bound to all":              {change: func(o *Options) { asBoot(o); o.AgentListen = "[::]:8843" }, address: "[2001:db8::5]:8843"},
		"boot, bound to it":               {change: func(o *Options) { asBoot(o); o.AgentListen = "[2001:db8::5]:8843" }, address: "[2001:db8::5]:8843"},
		"boot, bound to another":          {change: func(o *Options) { asBoot(o); o.AgentListen = "[2001:db8::6]:8843" }},
		"boot, behind a shared IPv4 name": {change: func(o *Options) { asBoot(o); o.AgentAddress = "192.0.2.9:8843" }, listen: "[2001:db8::5]:8843"},
		"boot, behind a shared IPv6 name": {change: func(o *Options) { asBoot(o); o.AgentAddress = "[2001:db8::9]:1" }, address: "[2001:db8::9]:1", listen: "[2001:db8::5]:8843"},
	} {
		t.Run(name, func(t *testing.T) {
			o, at := valid(), netip.MustParseAddr("2001:db8::5")
			tc.change(o)
			if tc.off {
				at = netip.Addr{}
			}
			if got := o.agentAddressIPv6(at); got != tc.address {
				t.Errorf("agents go to %q, want %q", got, tc.address)
			}
			if got := o.agentListenIPv6(at); got != tc.listen {
				t.Errorf("listens on %q, want %q", got, tc.listen)
			}
		})
	}
}
