// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/vishvananda/netlink"

	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agentapi"
)

func mac(t *testing.T, s string) net.HardwareAddr {
	t.Helper()
	a, err := net.ParseMAC(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestBootNIC(t *testing.T) {
	const up, running = net.FlagUp, net.FlagUp | net.FlagRunning
	nic := func(name, address string, flags net.Flags) netlink.Link {
		return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: mac(t, address), Flags: flags}}
	}
	lo := nic("lo", "00:00:00:00:00:00", running|net.FlagLoopback)
	for _, tc := range []struct {
		name  string
		links []netlink.Link
		mac   net.HardwareAddr
		want  string
	}{
		{"only loopback", []netlink.Link{lo}, nil, ""},
		{"by address", []netlink.Link{lo, nic("eth0", "02:00:00:00:00:01", running), nic("eth1", "02:00:00:00:00:02", running)}, mac(t, "02:00:00:00:00:02"), "eth1"},
		{"right address, no carrier yet", []netlink.Link{nic("eth0", "02:00:00:00:00:01", running), nic("eth1", "02:00:00:00:00:02", up)}, mac(t, "02:00:00:00:00:02"), ""},
		{"those with a carrier", []netlink.Link{lo, nic("eth0", "02:00:00:00:00:01", up), nic("eth1", "02:00:00:00:00:02", running), nic("eth2", "02:00:00:00:00:03", running)}, nil, "eth1 eth2"},
		{"a tunnel is no NIC", []netlink.Link{&netlink.Sittun{LinkAttrs: netlink.LinkAttrs{Name: "sit0", Flags: running}}}, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var names []string
			for _, link := range bootNICs(tc.links, tc.mac) {
				names = append(names, link.Attrs().Name)
			}
			if got := strings.Join(names, " "); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestPrefixLength(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts []dhcpv4.Modifier
		want int
	}{
		{"as told", []dhcpv4.Modifier{dhcpv4.WithNetmask(net.CIDRMask(22, 32))}, 22},
		{"by class when not told", nil, 24},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ack, err := dhcpv4.New(append(tc.opts, dhcpv4.WithYourIP(net.IPv4(192, 0, 2, 7)))...)
			if err != nil {
				t.Fatal(err)
			}
			if got := prefixLength(ack); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}

func TestConsoleLine(t *testing.T) {
	var out bytes.Buffer
	NewConsole(&out).Printf("order: %s", agentapi.Inspect)
	if !regexp.MustCompile(`^ingot \[ +[0-9]+\.[0-9]{3}\] order: Inspect\r\n$`).MatchString(out.String()) {
		t.Errorf("%q", out.String())
	}
}

func TestMarkerOf(t *testing.T) {
	dir := t.TempDir()
	want := agentapi.Marker{InstanceID: "i1", Attempt: 1, Complete: true}
	path := filepath.Join(dir, "marked")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := marker.Write(f, want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, markerOf(path)); diff != "" {
		t.Error(diff)
	}
	if m := markerOf(filepath.Join(dir, "missing")); m != nil {
		t.Errorf("%+v on a disk that is not there", m)
	}
}
