// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/vishvananda/netlink"

	"github.com/ingot-metal/ingot/agentapi"
)

// NetworkOptions say which NIC to use and how patiently.
type NetworkOptions struct {
	// MAC of the boot NIC; when nil, the first one with a carrier on which DHCP
	// answers.
	MAC net.HardwareAddr
	// Ask: DHCP is to tell what the command line did not, and a NIC without such an
	// answer is not the boot NIC.
	Ask bool
	// Settle loads drivers of devices that appeared since it was called last.
	Settle func()
	// Log prints one line.
	Log func(format string, args ...any)
}

const (
	nicPoll     = 100 * time.Millisecond
	nicWait     = 60 * time.Second
	dhcpTimeout = 3 * time.Second
	dhcpRetries = 4
)

// NIC is the boot NIC with its address.
type NIC struct {
	client *nclient4.Client
	ack    *dhcpv4.DHCPv4 // of the lease's first day
	// Told is what DHCP said of the order; empty without NetworkOptions.Ask.
	Told agentapi.BootOptions
}

// Network waits for the NIC, brings all links up (so that the inventory shows
// which have a carrier), and gets an address for the boot NIC by DHCP. The lease is
// renewed in the background until the context ends.
func Network(ctx context.Context, opts NetworkOptions) (*NIC, error) {
	links, err := waitForNIC(ctx, opts)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, link := range links {
		nic, err := configure(ctx, link, opts)
		if err == nil {
			return nic, nil
		}
		opts.Log("network: %v", err)
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// configure makes one NIC the boot NIC, or leaves it as it was.
func configure(ctx context.Context, link netlink.Link, opts NetworkOptions) (*NIC, error) {
	name := link.Attrs().Name
	opts.Log("network: %s %s is up", name, link.Attrs().HardwareAddr)
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
	nic := &NIC{client: client, ack: lease.ACK}
	if opts.Ask {
		if nic.Told, err = nic.told(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("DHCP on %s: %w", name, err), client.Close(), forget(link, lease.ACK))
		}
	}
	go renew(ctx, client, lease, opts.Log)
	return nic, nil
}

// identity is what the agent says of itself, and what it asks for besides.
func identity(ask bool) []dhcpv4.Modifier {
	out := []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptClassIdentifier(agentapi.VendorClass))}
	if ask {
		out = append(out, dhcpv4.WithRequestedOptions(dhcpv4.GenericOptionCode(agentapi.OptionServer),
			dhcpv4.GenericOptionCode(agentapi.OptionPin), dhcpv4.GenericOptionCode(agentapi.OptionToken),
			dhcpv4.GenericOptionCode(agentapi.OptionFiles)))
	}
	return out
}

// told is what the lease says of the order, or else what somebody beside the server
// that gave it says (mode Proxy).
func (n *NIC) told(ctx context.Context) (agentapi.BootOptions, error) {
	if told := bootOptions(n.ack); told.Server != "" {
		return told, nil
	}
	return n.Ask(ctx, "")
}

// askTimeout is how long an answer of another replica than the one to avoid is
// waited for.
const askTimeout = 5 * time.Second

// Ask repeats the exchange without taking another address (RFC 2131 section 4.4.3),
// and returns what the first server says that knows of an order. One that names
// avoid (host:port) counts only when no other has answered for a while: the boot
// server may be up again.
func (n *NIC) Ask(ctx context.Context, avoid string) (agentapi.BootOptions, error) {
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

func (n *NIC) inform(ctx context.Context, avoid string) (agentapi.BootOptions, error) {
	options := append(identity(true), dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(nclient4.MaxMessageSize)))
	request, err := dhcpv4.NewInform(n.client.InterfaceAddr(), n.ack.YourIPAddr, options...)
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

// waitForNIC loads drivers until the NIC is there and has a carrier.
func waitForNIC(ctx context.Context, opts NetworkOptions) ([]netlink.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, nicWait)
	defer cancel()
	if lo, err := netlink.LinkByName("lo"); err == nil {
		_ = netlink.LinkSetUp(lo) // nothing needs it; programs that expect it find it
	}
	for {
		opts.Settle()
		links, err := netlink.LinkList()
		if err != nil {
			return nil, fmt.Errorf("list the network interfaces: %w", err)
		}
		if found := bootNICs(links, opts.MAC); len(found) > 0 {
			return found, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no network interface %v with a carrier among %d within %s", opts.MAC, len(links)-1, nicWait)
		case <-time.After(nicPoll):
		}
	}
}

// bootNICs brings up what is down and returns those that may be the boot NIC and have
// a carrier.
func bootNICs(links []netlink.Link, mac net.HardwareAddr) []netlink.Link {
	var found []netlink.Link
	for _, link := range links {
		attrs := link.Attrs()
		if attrs.Flags&net.FlagLoopback != 0 || link.Type() != "device" {
			continue
		}
		if attrs.Flags&net.FlagUp == 0 {
			_ = netlink.LinkSetUp(link) // shows as a missing carrier
			continue
		}
		right := mac == nil || attrs.HardwareAddr.String() == mac.String()
		if right && attrs.Flags&net.FlagRunning != 0 {
			found = append(found, link)
		}
	}
	return found
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

// apply sets address, default route and name servers.
func apply(link netlink.Link, ack *dhcpv4.DHCPv4) error {
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: ack.YourIPAddr, Mask: mask(ack)}}
	if err := netlink.AddrReplace(link, addr); err != nil {
		return fmt.Errorf("set address %s: %w", addr, err)
	}
	for _, router := range ack.Router() {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: router}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("set the default route by %s: %w", router, err)
		}
		break
	}
	var resolv []byte
	for _, server := range ack.DNS() {
		resolv = fmt.Appendf(resolv, "nameserver %s\n", server)
	}
	if len(resolv) == 0 {
		return nil
	}
	if err := os.MkdirAll("/etc", 0o755); err != nil {
		return err
	}
	return os.WriteFile("/etc/resolv.conf", resolv, 0o644)
}

// renew asks for the lease again at half of its time (RFC 2131 section 4.4.5). A
// failure is tried again: the address is in use, and losing it helps nobody.
func renew(ctx context.Context, client *nclient4.Client, lease *nclient4.Lease, log func(string, ...any)) {
	defer client.Close()
	for {
		half := max(lease.ACK.IPAddressLeaseTime(time.Hour)/2, 30*time.Second)
		select {
		case <-ctx.Done():
			return
		case <-time.After(half):
		}
		renewed, err := client.Renew(ctx, lease, identity(false)...)
		if err != nil {
			log("network: renew the lease: %v", err)
			continue
		}
		lease = renewed
	}
}
