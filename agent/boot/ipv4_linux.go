// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/vishvananda/netlink"

	"github.com/ingot-metal/ingot/agent/wait"
	"github.com/ingot-metal/ingot/agentapi"
)

// ipv4Lease is an IPv4 address from a DHCP server.
type ipv4Lease struct {
	link   netlink.Link
	client *nclient4.Client
	log    func(string, ...any)
	mu     sync.Mutex     // Keep may replace ack during Inform
	ack    *dhcpv4.DHCPv4 // the first one of the current address
	// apply and remove change the address of the link; sleep and now are the clock.
	apply, remove func(netlink.Link, *dhcpv4.DHCPv4) error
	sleep         func(context.Context, time.Duration) error
	now           func() time.Time
}

func configureIPv4(ctx context.Context, link netlink.Link, opts NetworkOptions) (*NIC, error) {
	name := link.Attrs().Name
	client, err := nclient4.New(name, nclient4.WithTimeout(dhcpTimeout), nclient4.WithRetry(dhcpRetries))
	if err != nil {
		return nil, fmt.Errorf("DHCP on %s: %w", name, err)
	}
	lease, err := client.Request(ctx, clientOptions(opts.NeedBootOptions)...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("DHCP on %s: %w", name, err), client.Close())
	}
	if err := apply(link, lease.ACK); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	opts.Log("network: %s has %s/%d by DHCP from %s", name, lease.ACK.YourIPAddr,
		prefixLength(lease.ACK), lease.ACK.ServerIdentifier())
	has := &ipv4Lease{link: link, client: client, ack: lease.ACK, log: opts.Log, apply: applyWithDNS, remove: removeAddress, sleep: wait.For, now: time.Now}
	nic := &NIC{dns: lease.ACK.DNS(), source: has}
	if opts.NeedBootOptions {
		if nic.BootOptions, err = has.findOptions(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("DHCP on %s: %w", name, err), has.Drop())
		}
	}
	return nic, nil
}

func (n *ipv4Lease) Drop() error {
	return errors.Join(n.client.Close(), n.remove(n.link, n.currentACK()))
}

func (n *ipv4Lease) currentACK() *dhcpv4.DHCPv4 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ack
}

// clientOptions are the agent's vendor class and the options that it requests: routes (RFC
// 3442) and MTU, which it may need to reach the boot server, and the boot options if needed.
func clientOptions(needBootOptions bool) []dhcpv4.Modifier {
	out := []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptClassIdentifier(agentapi.VendorClass)),
		dhcpv4.WithRequestedOptions(dhcpv4.OptionClasslessStaticRoute, dhcpv4.OptionInterfaceMTU)}
	if needBootOptions {
		out = append(out, dhcpv4.WithRequestedOptions(dhcpv4.GenericOptionCode(agentapi.OptionServer),
			dhcpv4.GenericOptionCode(agentapi.OptionPin), dhcpv4.GenericOptionCode(agentapi.OptionToken),
			dhcpv4.GenericOptionCode(agentapi.OptionFiles)))
	}
	return out
}

// findOptions returns the boot options of the lease, or else those of another server (mode
// Proxy).
func (n *ipv4Lease) findOptions(ctx context.Context) (agentapi.BootOptions, error) {
	if options := bootOptions(n.currentACK()); options.Server != "" {
		return options, nil
	}
	return n.Inform(ctx, "")
}

// Inform implements addressSource by DHCPINFORM (RFC 2131 section 4.4.3).
func (n *ipv4Lease) Inform(ctx context.Context, avoid string) (agentapi.BootOptions, error) {
	options := append(clientOptions(true), dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(nclient4.MaxMessageSize)))
	request, err := dhcpv4.NewInform(n.client.InterfaceAddr(), n.currentACK().YourIPAddr, options...)
	if err != nil {
		return agentapi.BootOptions{}, fmt.Errorf("make a DHCPINFORM: %w", err)
	}
	answer, err := n.client.SendAndRead(ctx, n.client.RemoteAddr(), request, func(m *dhcpv4.DHCPv4) bool {
		server := bootOptions(m).Server
		return m.MessageType() == dhcpv4.MessageTypeAck && server != "" && server != avoid
	})
	if err != nil {
		return agentapi.BootOptions{}, fmt.Errorf("no DHCP server returned the boot options (%d to %d): %w",
			agentapi.OptionServer, agentapi.OptionFiles, err)
	}
	return bootOptions(answer), nil
}

func bootOptions(m *dhcpv4.DHCPv4) agentapi.BootOptions {
	text := func(code uint8) string { return string(m.Options.Get(dhcpv4.GenericOptionCode(code))) }
	return agentapi.BootOptions{
		Server: text(agentapi.OptionServer), Pin: text(agentapi.OptionPin), Files: text(agentapi.OptionFiles),
		Token: agentapi.Sensitive(text(agentapi.OptionToken)),
	}
}

func prefixLength(ack *dhcpv4.DHCPv4) int {
	ones, _ := mask(ack).Size()
	return ones
}

func mask(ack *dhcpv4.DHCPv4) net.IPMask {
	if m := ack.SubnetMask(); m != nil {
		return m
	}
	return ack.YourIPAddr.DefaultMask()
}

// removeAddress removes the address, and with it the routes that use it.
func removeAddress(link netlink.Link, ack *dhcpv4.DHCPv4) error {
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: ack.YourIPAddr, Mask: mask(ack)}}
	if err := netlink.AddrDel(link, addr); err != nil {
		return fmt.Errorf("remove address %s: %w", addr, err)
	}
	return nil
}

// applyWithDNS applies a later lease, including its name servers.
func applyWithDNS(link netlink.Link, ack *dhcpv4.DHCPv4) error {
	return errors.Join(apply(link, ack), writeResolvConf(ack.DNS()))
}

// apply sets address, MTU and routes. It ignores an MTU that the NIC refuses.
func apply(link netlink.Link, ack *dhcpv4.DHCPv4) error {
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: ack.YourIPAddr, Mask: mask(ack)}}
	if err := netlink.AddrReplace(link, addr); err != nil {
		return fmt.Errorf("set address %s: %w", addr, err)
	}
	if mtu := mtuIn(ack); mtu != 0 {
		_ = netlink.LinkSetMTU(link, mtu)
	}
	for _, route := range routesIn(ack) {
		route.LinkIndex = link.Attrs().Index
		if err := netlink.RouteReplace(&route); err != nil {
			return fmt.Errorf("set the route to %v by %s: %w", route.Dst, route.Gw, err)
		}
	}
	return nil
}

// minMTU is the smallest accepted MTU, which an IngotNetwork may set. Some servers send
// smaller values by mistake, with which no traffic would pass.
const minMTU = 576

// mtuIn returns the MTU of a lease (option 26) in bytes; 0: none, or not plausible.
func mtuIn(ack *dhcpv4.DHCPv4) int {
	value := ack.Options.Get(dhcpv4.OptionInterfaceMTU)
	if len(value) != 2 {
		return 0
	}
	if mtu := int(binary.BigEndian.Uint16(value)); mtu >= minMTU {
		return mtu
	}
	return 0
}

// routesIn returns the routes of option 121, or else the default route by the first router of
// option 3, which option 121 overrides (RFC 3442). Of several routes to one destination the
// first counts. A router outside the subnet, for example with 32-bit prefixes, is on the link,
// and so are destinations with router 0.0.0.0.
func routesIn(ack *dhcpv4.DHCPv4) (out []netlink.Route) {
	all := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	routes := ack.ClasslessStaticRoute()
	if routers := ack.Router(); len(routes) == 0 && len(routers) > 0 {
		routes = []*dhcpv4.Route{{Dest: all, Router: routers[0]}}
	}
	subnet := net.IPNet{IP: ack.YourIPAddr.Mask(mask(ack)), Mask: mask(ack)}
	seen := map[string]bool{}
	for _, t := range routes {
		to := &net.IPNet{IP: t.Dest.IP.Mask(t.Dest.Mask), Mask: t.Dest.Mask}
		if seen[to.String()] || t.Router.Equal(ack.YourIPAddr) {
			continue
		}
		seen[to.String()] = true
		switch {
		case t.Router.IsUnspecified():
			out = append(out, netlink.Route{Dst: to, Scope: netlink.SCOPE_LINK})
		case subnet.Contains(t.Router):
			out = append(out, netlink.Route{Dst: to, Gw: t.Router})
		default:
			out = append(out, netlink.Route{Dst: to, Gw: t.Router, Flags: int(netlink.FLAG_ONLINK)})
		}
	}
	return out
}
