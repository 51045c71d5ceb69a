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
		"another interface": {text: strings.ReplaceAll(oneNIC, "00:01", "00:02") + "    dhcp4: true\n", refused: "has no interface"},
		"another version":   {text: strings.Replace(oneNIC, "version: 2", "version: 1", 1) + "    dhcp4: true\n", refused: "version 1"},
		"another name":      {text: strings.Replace(oneNIC, "set-name: uplink0", "set-name: other", 1) + "    dhcp4: true\n", refused: "set-name"},
		"invalid YAML":      {text: "\t", refused: "yaml"},
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

// recordingNIC records its address. DHCP fails on it.
type recordingNIC struct {
	unplugged
	mu      *sync.Mutex
	address *netip.Prefix
}

func (d recordingNIC) SetAddress(address netip.Prefix, _ netip.Addr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	*d.address = address
	return nil
}

// TestBootWithoutIngot shows that a server with its own network configuration boots from its disk
// and gets its address while Ingot is down, and that a server without one waits for DHCP.
func TestBootWithoutIngot(t *testing.T) {
	for name, tc := range map[string]struct {
		config string
		want   netip.Prefix
	}{
		"static":  {oneNIC + "    addresses:\n      - \"10.20.3.7/22\"\n", netip.MustParsePrefix("10.20.3.7/22")},
		"no seed": {"", netip.Prefix{}},
	} {
		t.Run(name, func(t *testing.T) {
			nic := recordingNIC{mu: &sync.Mutex{}, address: &netip.Prefix{}}
			s := newServer(t, func(c *Config) { c.NIC = nic })
			writeImage(t, s, "")
			must(t, s.disks[0].writeSeed(t.Context(), diskSeed{MetaData: "instance-id: a-1", NetworkConfig: tc.config, BootedInstance: "a-1"}))
			must(t, s.Power(t.Context(), bmc.On))
			if tc.config == "" {
				waitFor(t, s, "failed DHCP requests", func() bool { return s.count(EventFailed) > 1 })
			} else {
				waitFor(t, s, "its address", func() bool {
					return strings.Contains(textOf(s), "has 10.20.3.7/22 from network-config")
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

// textOf returns the details of all events.
func textOf(s *Server) string {
	var b strings.Builder
	for _, e := range s.Events() {
		b.WriteString(e.Detail + "\n")
	}
	return b.String()
}
