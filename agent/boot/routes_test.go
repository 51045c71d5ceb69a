// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// given returns a lease of 192.0.2.7 with a prefix length, routers (option 3) and options.
func given(bits int, routers []net.IP, options ...dhcpv4.Option) *dhcpv4.DHCPv4 {
	ack := &dhcpv4.DHCPv4{YourIPAddr: address, Options: dhcpv4.Options{}}
	ack.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(bits, 32)))
	if len(routers) > 0 {
		ack.UpdateOption(dhcpv4.OptRouter(routers...))
	}
	for _, option := range options {
		ack.UpdateOption(option)
	}
	return ack
}

// The kernel accepts the routes (RFC 3442), routers outside the subnet, and MTU of leases, tested
// in a network namespace.
func TestKernelAcceptsLeases(t *testing.T) {
	near, far := net.IPv4(192, 0, 2, 254), net.IPv4(198, 51, 100, 1)
	route := func(to string, by net.IP) *dhcpv4.Route {
		_, dest, err := net.ParseCIDR(to)
		if err != nil {
			t.Fatal(err)
		}
		return &dhcpv4.Route{Dest: dest, Router: by}
	}
	routes := func(list ...*dhcpv4.Route) dhcpv4.Option { return dhcpv4.OptClasslessStaticRoute(list...) }
	mtu := func(value ...byte) dhcpv4.Option { return dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU, value) }
	for name, tc := range map[string]struct {
		ack *dhcpv4.DHCPv4
		// want are the routes except that of the subnet, and an MTU other than 1500.
		want []string
	}{
		"no router":                        {given(24, nil), nil},
		"a router":                         {given(24, []net.IP{near, far}), []string{"default via 192.0.2.254"}},
		"a router outside the subnet":      {given(32, []net.IP{far}), []string{"default via 198.51.100.1 onlink"}},
		"a router outside a larger subnet": {given(24, []net.IP{far}), []string{"default via 198.51.100.1 onlink"}},
		"routes, and no router":            {given(24, nil, routes(route("10.0.0.0/8", near))), []string{"10.0.0.0/8 via 192.0.2.254"}},
		"routes replace the router":        {given(24, []net.IP{near}, routes(route("10.0.0.0/8", near))), []string{"10.0.0.0/8 via 192.0.2.254"}},
		"routes with a default route":      {given(24, []net.IP{far}, routes(route("0.0.0.0/0", near), route("10.0.0.0/8", near))), []string{"10.0.0.0/8 via 192.0.2.254", "default via 192.0.2.254"}},
		"two routes to one destination":    {given(24, nil, routes(route("10.0.0.0/8", near), route("10.0.0.0/8", net.IPv4(192, 0, 2, 253)))), []string{"10.0.0.0/8 via 192.0.2.254"}},
		"on the link":                      {given(32, nil, routes(route("198.51.100.1/32", net.IPv4zero), route("0.0.0.0/0", far))), []string{"198.51.100.1/32 link", "default via 198.51.100.1 onlink"}},
		"its own address as router":        {given(24, nil, routes(route("10.0.0.0/8", address))), nil},
		"host bits in the destination":     {given(24, nil, dhcpv4.OptGeneric(dhcpv4.OptionClasslessStaticRoute, []byte{9, 10, 255, 192, 0, 2, 254})), []string{"10.128.0.0/9 via 192.0.2.254"}},
		"truncated routes":                 {given(24, []net.IP{near}, dhcpv4.OptGeneric(dhcpv4.OptionClasslessStaticRoute, []byte{8, 10, 192})), []string{"default via 192.0.2.254"}},
		"an MTU":                           {given(24, nil, mtu(0x05, 0x78)), []string{"MTU 1400"}},
		"a large MTU":                      {given(24, nil, mtu(0x23, 0x28)), []string{"MTU 9000"}},
		"an implausible MTU":               {given(24, nil, mtu(0, 68)), nil},
		"an MTU of three bytes":            {given(24, nil, mtu(0x23, 0x28, 0)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan []string, 1)
			failed := make(chan error, 1)
			go func() {
				runtime.LockOSThread() // never unlocked: the thread ends with its namespace
				list, err := applied(tc.ack)
				got <- list
				failed <- err
			}()
			list := <-got
			if err := <-failed; err != nil {
				t.Fatal(err)
			}
			slices.Sort(tc.want)
			if diff := cmp.Diff(tc.want, list); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// applied applies a lease to a link in a new network namespace of this thread.
func applied(ack *dhcpv4.DHCPv4) ([]string, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "nic0"}, PeerName: "peer0"}
	if err := netlink.LinkAdd(veth); err != nil {
		return nil, fmt.Errorf("make a link: %w", err)
	}
	link, err := netlink.LinkByName("nic0")
	if err != nil {
		return nil, err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return nil, err
	}
	if err := apply(link, ack); err != nil {
		return nil, err
	}
	return state()
}

// state lists the routes of nic0 except that of the subnet, and an MTU other than 1500.
func state() (out []string, _ error) {
	link, err := netlink.LinkByName("nic0")
	if err != nil {
		return nil, err
	}
	routes, err := netlink.RouteList(link, netlink.FAMILY_V4)
	if err != nil {
		return nil, err
	}
	for _, r := range routes {
		if r.Src != nil { // the kernel's own
			continue
		}
		to := "default"
		if r.Dst != nil && r.Dst.String() != "0.0.0.0/0" {
			to = r.Dst.String()
		}
		var words []string
		if r.Gw != nil {
			words = append(words, "via "+r.Gw.String())
		}
		if r.Scope == netlink.SCOPE_LINK {
			words = append(words, "link")
		}
		if r.Flags&int(netlink.FLAG_ONLINK) != 0 {
			words = append(words, "onlink")
		}
		out = append(out, to+" "+strings.Join(words, " "))
	}
	if mtu := link.Attrs().MTU; mtu != 1500 {
		out = append(out, fmt.Sprintf("MTU %d", mtu))
	}
	slices.Sort(out)
	return out, nil
}

// The agent always requests the options that it applies.
func TestAgentRequestsRoutesAndMTU(t *testing.T) {
	for _, ask := range []bool{false, true} {
		m, err := dhcpv4.NewDiscovery(hardware, clientOptions(ask)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range []dhcpv4.OptionCode{dhcpv4.OptionClasslessStaticRoute, dhcpv4.OptionInterfaceMTU, dhcpv4.OptionRouter} {
			if !m.IsOptionRequested(code) {
				t.Errorf("boot options %t: %s is not requested", ask, code)
			}
		}
	}
}
