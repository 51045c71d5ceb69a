// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/ingot-metal/ingot/lab/bmc"
)

const oneNIC = "version: 2\nethernets:\n  uplink0:\n    match:\n      macaddress: \"52:54:00:00:00:01\"\n    set-name: uplink0\n"

func TestReadNetworkConfig(t *testing.T) {
	bonded := oneNIC + "bonds:\n  bond0:\n    interfaces:\n      - uplink0\n    macaddress: \"52:54:00:00:00:01\"\n"
	for name, tc := range map[string]struct {
		text             string
		address, gateway string
		dhcp             bool
		refused          string
	}{
		"static":            {text: oneNIC + "    addresses:\n      - \"2001:db8::7/64\"\n      - \"10.20.3.7/22\"\n    routes:\n      - to: \"0.0.0.0/0\"\n        via: \"10.20.0.1\"\n", address: "10.20.3.7/22", gateway: "10.20.0.1"},
		"static on a bond":  {text: bonded + "    addresses:\n      - \"10.20.3.7/22\"\n", address: "10.20.3.7/22"},
		"DHCP":              {text: oneNIC + "    dhcp4: true\n", dhcp: true},
		"nothing":           {text: oneNIC, refused: "neither an IPv4 address nor DHCP"},
		"another interface": {text: strings.ReplaceAll(oneNIC, "00:01", "00:02") + "    dhcp4: true\n", refused: "says nothing of the interface"},
		"another version":   {text: strings.Replace(oneNIC, "version: 2", "version: 1", 1) + "    dhcp4: true\n", refused: "version 1"},
		"another name":      {text: strings.Replace(oneNIC, "set-name: uplink0", "set-name: other", 1) + "    dhcp4: true\n", refused: "set-name"},
		"no YAML":           {text: "\t", refused: "yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			address, gateway, dhcp, err := readNetworkConfig(tc.text, "52:54:00:00:00:01")
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("%v, want %q", err, tc.refused)
				}
				return
			}
			shown := func(valid bool, text string) string {
				if !valid {
					return ""
				}
				return text
			}
			if err != nil || dhcp != tc.dhcp || shown(address.IsValid(), address.String()) != tc.address || shown(gateway.IsValid(), gateway.String()) != tc.gateway {
				t.Errorf("%s by %s, DHCP %t, %v", address, gateway, dhcp, err)
			}
		})
	}
}

// dark is a network with nobody on it: whoever listens for DHCP has failed.
type dark struct {
	unplugged
	mu      *sync.Mutex
	address *netip.Prefix
}

func (d dark) SetAddress(address netip.Prefix, _ netip.Addr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	*d.address = address
	return nil
}

// Black start: with every process of Ingot down, a server with a network of its own boots
// from its disk and has its address; one without waits for DHCP.
func TestBlackStart(t *testing.T) {
	for name, tc := range map[string]struct {
		config string
		want   netip.Prefix
	}{
		"with a network of its own": {oneNIC + "    addresses:\n      - \"10.20.3.7/22\"\n", netip.MustParsePrefix("10.20.3.7/22")},
		"without":                   {"", netip.Prefix{}},
	} {
		t.Run(name, func(t *testing.T) {
			nic := dark{mu: &sync.Mutex{}, address: &netip.Prefix{}}
			s := newServer(t, func(c *Config) { c.NIC = nic })
			labelled(t, s, "")
			must(t, s.disks[0].writeSeed(t.Context(), diskSeed{MetaData: "instance-id: a-1", NetworkConfig: tc.config, BootedInstance: "a-1"}))
			must(t, s.Power(t.Context(), bmc.On))
			if tc.config == "" {
				waitFor(t, s, "that DHCP is waited for", func() bool { return s.count(EventFailed) > 1 })
			} else {
				waitFor(t, s, "its address", func() bool {
					return strings.Contains(textOf(s), "has 10.20.3.7/22 by network-config")
				})
			}
			nic.mu.Lock()
			defer nic.mu.Unlock()
			if *nic.address != tc.want {
				t.Errorf("address %s, want %s", *nic.address, tc.want)
			}
		})
	}
}

// textOf is all that the server said.
func textOf(s *Server) string {
	var b strings.Builder
	for _, e := range s.Events() {
		b.WriteString(e.Detail + "\n")
	}
	return b.String()
}
