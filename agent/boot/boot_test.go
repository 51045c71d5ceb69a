// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"bytes"
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/vishvananda/netlink"

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
		{"a tunnel", []netlink.Link{&netlink.Sittun{LinkAttrs: netlink.LinkAttrs{Name: "sit0", Flags: running}}}, nil, ""},
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
		{"from the lease", []dhcpv4.Modifier{dhcpv4.WithNetmask(net.CIDRMask(22, 32))}, 22},
		{"by class without a mask", nil, 24},
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

func TestFamilies(t *testing.T) {
	for _, tc := range []struct {
		name    string
		servers []string
		want    [2]bool // IPv4, IPv6
	}{
		{"unknown", nil, [2]bool{true, true}},
		{"IPv4", []string{"192.0.2.1:8843", "192.0.2.2:8843"}, [2]bool{true, false}},
		{"IPv6", []string{"[2001:db8::1]:8843"}, [2]bool{false, true}},
		{"both", []string{"[2001:db8::1]:8843", "192.0.2.1:8843"}, [2]bool{true, true}},
		{"IPv4-mapped IPv6", []string{"[::ffff:192.0.2.1]:8843"}, [2]bool{true, false}},
		{"a name", []string{"boot.example:8843"}, [2]bool{true, false}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			byIPv4, byIPv6 := families(tc.servers)
			if diff := cmp.Diff(tc.want, [2]bool{byIPv4, byIPv6}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// fakeSource is an addressSource that records Drop.
type fakeSource struct{ dropped bool }

func (*fakeSource) Inform(context.Context, string) (agentapi.BootOptions, error) {
	return agentapi.BootOptions{}, nil
}
func (*fakeSource) Keep(context.Context) {}
func (k *fakeSource) Drop() error        { k.dropped = true; return nil }

// The first family that succeeds is used, and the other one is undone.
func TestFirstSuccessUndoesTheOthers(t *testing.T) {
	var errNone = errors.New("no answer")
	works := func(n *NIC) configurer {
		return func(context.Context, netlink.Link, NetworkOptions) (*NIC, error) { return n, nil }
	}
	fails := func(context.Context, netlink.Link, NetworkOptions) (*NIC, error) { return nil, errNone }
	panics := func(context.Context, netlink.Link, NetworkOptions) (*NIC, error) { panic("of a driver") }
	// late succeeds although the other family was already selected.
	late := func(n *NIC) configurer {
		return func(ctx context.Context, _ netlink.Link, _ NetworkOptions) (*NIC, error) { <-ctx.Done(); return n, nil }
	}
	undone := func(ctx context.Context, _ netlink.Link, _ NetworkOptions) (*NIC, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, tc := range []struct {
		name    string
		ways    func(a, b *NIC) []configurer
		want    string
		dropped [2]bool
	}{
		{"one family", func(a, _ *NIC) []configurer { return []configurer{works(a)} }, "a", [2]bool{}},
		{"one family fails", func(_, _ *NIC) []configurer { return []configurer{fails} }, "", [2]bool{}},
		{"the other works", func(_, b *NIC) []configurer { return []configurer{fails, works(b)} }, "b", [2]bool{}},
		{"both fail", func(_, _ *NIC) []configurer { return []configurer{fails, fails} }, "", [2]bool{}},
		{"one panics", func(_, b *NIC) []configurer { return []configurer{panics, works(b)} }, "b", [2]bool{}},
		{"the slower one ends", func(a, _ *NIC) []configurer { return []configurer{works(a), undone} }, "a", [2]bool{}},
		{"the slower one works, too", func(a, b *NIC) []configurer { return []configurer{works(a), late(b)} }, "a", [2]bool{false, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := &fakeSource{}, &fakeSource{}
			nicA, nicB := &NIC{source: a}, &NIC{source: b}
			nics := map[*NIC]string{nicA: "a", nicB: "b"}
			got, err := firstSuccess(t.Context(), nil, NetworkOptions{Log: t.Logf}, tc.ways(nicA, nicB))
			if nics[got] != tc.want || (tc.want == "") != errors.Is(err, errNone) {
				t.Errorf("%q, %v, want %q", nics[got], err, tc.want)
			}
			if diff := cmp.Diff(tc.dropped, [2]bool{a.dropped, b.dropped}); diff != "" {
				t.Error(diff)
			}
		})
	}
}
