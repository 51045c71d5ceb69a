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

// leased is an IPv4 address from a DHCP server.
type leased struct {
	link   netlink.Link
	client *nclient4.Client
	log    func(string, ...any)
	mu     sync.Mutex     // Keep may take another address while Inform asks
	ack    *dhcpv4.DHCPv4 // of the lease's first day
	// put and remove change the address of the link, and sleep and now are the clock.
	put, remove func(netlink.Link, *dhcpv4.DHCPv4) error
	sleep       func(context.Context, time.Duration) error
	now         func() time.Time
}

// configureIPv4 gives the NIC an IPv4 address by DHCP.
func configureIPv4(ctx context.Context, link netlink.Link, opts NetworkOptions) (*NIC, error) {
	name := link.Attrs().Name
	client, err := nclient4.New(name, nclient4.WithTimeout(dhcpTimeout), nclient4.WithRetry(dhcpRetries))
	if err != nil {
		return nil, fmt.Errorf("DHCP on %s: %w", name, err)
	}
	lease, err := client.Request(ctx, identity(opts.Ask)...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("DHCP on %s: %w", name, err), client.Close())
	}
	if err := apply(link, lease.ACK); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	opts.Log("network: %s has %s/%d by DHCP from %s", name, lease.ACK.YourIPAddr,
		prefixLength(lease.ACK), lease.ACK.ServerIdentifier())
	has := &leased{link: link, client: client, ack: lease.ACK, log: opts.Log, put: applyAnew, remove: forget, sleep: wait.For, now: time.Now}
	nic := &NIC{dns: lease.ACK.DNS(), way: has}
	if opts.Ask {
		if nic.Told, err = has.told(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("DHCP on %s: %w", name, err), has.Drop())
		}
	}
	return nic, nil
}

// Drop implements way.
func (n *leased) Drop() error { return errors.Join(n.client.Close(), n.remove(n.link, n.first())) }

// first returns the ACK of the lease's first day.
func (n *leased) first() *dhcpv4.DHCPv4 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ack
}

// identity is what the agent says of itself, and what it asks for besides: routes (RFC
// 3442) and the MTU, without which it may not reach the boot server, and where it asks, the
// order.
func identity(ask bool) []dhcpv4.Modifier {
	out := []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptClassIdentifier(agentapi.VendorClass)),
		dhcpv4.WithRequestedOptions(dhcpv4.OptionClasslessStaticRoute, dhcpv4.OptionInterfaceMTU)}
	if ask {
		out = append(out, dhcpv4.WithRequestedOptions(dhcpv4.GenericOptionCode(agentapi.OptionServer),
			dhcpv4.GenericOptionCode(agentapi.OptionPin), dhcpv4.GenericOptionCode(agentapi.OptionToken),
			dhcpv4.GenericOptionCode(agentapi.OptionFiles)))
	}
	return out
}

// told is what the lease says of the order, or else what somebody beside the server
// that gave it says (mode Proxy).
func (n *leased) told(ctx context.Context) (agentapi.BootOptions, error) {
	if told := bootOptions(n.first()); told.Server != "" {
		return told, nil
	}
	return n.Inform(ctx, "")
}

// askTimeout is how long an answer of another replica than the one to avoid is
// waited for.
const askTimeout = 5 * time.Second

// Inform implements way, by RFC 2131 section 4.4.3.
func (n *leased) Inform(ctx context.Context, avoid string) (agentapi.BootOptions, error) {
	if avoid != "" {
		first, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		told, err := n.inform(first, avoid)
		if err == nil || ctx.Err() != nil {
			return told, err
		}
	}
	return n.inform(ctx, "")
}

func (n *leased) inform(ctx context.Context, avoid string) (agentapi.BootOptions, error) {
	options := append(identity(true), dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(nclient4.MaxMessageSize)))
	request, err := dhcpv4.NewInform(n.client.InterfaceAddr(), n.first().YourIPAddr, options...)
	if err != nil {
		return agentapi.BootOptions{}, fmt.Errorf("make a DHCPINFORM: %w", err)
	}
	answer, err := n.client.SendAndRead(ctx, n.client.RemoteAddr(), request, func(m *dhcpv4.DHCPv4) bool {
		told := bootOptions(m)
		return m.MessageType() == dhcpv4.MessageTypeAck && told.Server != "" && told.Server != avoid
	})
	if err != nil {
		return agentapi.BootOptions{}, fmt.Errorf("no server tells where to go (options %d to %d): %w",
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

// forget takes the address off again, and with it the routes by it.
func forget(link netlink.Link, ack *dhcpv4.DHCPv4) error {
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: ack.YourIPAddr, Mask: mask(ack)}}
	if err := netlink.AddrDel(link, addr); err != nil {
		return fmt.Errorf("take address %s off: %w", addr, err)
	}
	return nil
}

// applyAnew is apply for another lease than the first, with who resolves names.
func applyAnew(link netlink.Link, ack *dhcpv4.DHCPv4) error {
	return errors.Join(apply(link, ack), nameServers(ack.DNS()))
}

// apply sets address, MTU and routes. A NIC that refuses the MTU keeps its own.
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

// minMTU is the least that is applied, which an IngotNetwork may give. Some servers say less
// by mistake, and nothing would go through.
const minMTU = 576

// mtuIn returns the MTU of a lease (option 26) in bytes; 0: it says none that makes sense.
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

// routesIn returns the routes of a lease, of two to one destination the first: those of
// option 121, and without that one the default route by the first router (RFC 3442: option 3
// is ignored next to option 121). A router outside the subnet, as where servers have addresses
// of 32 bits, is on the link; so is what lies behind the router 0.0.0.0.
func routesIn(ack *dhcpv4.DHCPv4) (out []netlink.Route) {
	all := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	told := ack.ClasslessStaticRoute()
	if routers := ack.Router(); len(told) == 0 && len(routers) > 0 {
		told = []*dhcpv4.Route{{Dest: all, Router: routers[0]}}
	}
	subnet := net.IPNet{IP: ack.YourIPAddr.Mask(mask(ack)), Mask: mask(ack)}
	seen := map[string]bool{}
	for _, t := range told {
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
