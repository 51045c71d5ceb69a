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
)

// VendorClass is the agent's DHCP option 60: the boot server knows by it that the
// firmware's part is over.
const VendorClass = "IngotAgent"

// NetworkOptions say which NIC to use and how patiently.
type NetworkOptions struct {
	// MAC of the boot NIC; the first one with a carrier when nil.
	MAC net.HardwareAddr
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

// Network waits for the NIC, brings all links up (so that the inventory shows
// which have a carrier), and gets an address for the boot NIC by DHCP. The lease is
// renewed in the background until the context ends.
func Network(ctx context.Context, opts NetworkOptions) error {
	link, err := waitForNIC(ctx, opts)
	if err != nil {
		return err
	}
	name := link.Attrs().Name
	opts.Log("network: %s %s is up", name, link.Attrs().HardwareAddr)
	client, err := nclient4.New(name, nclient4.WithTimeout(dhcpTimeout), nclient4.WithRetry(dhcpRetries))
	if err != nil {
		return fmt.Errorf("DHCP on %s: %w", name, err)
	}
	lease, err := client.Request(ctx, dhcpv4.WithOption(dhcpv4.OptClassIdentifier(VendorClass)))
	if err != nil {
		return errors.Join(fmt.Errorf("DHCP on %s: %w", name, err), client.Close())
	}
	if err := apply(link, lease.ACK); err != nil {
		return errors.Join(err, client.Close())
	}
	opts.Log("network: %s has %s/%d by DHCP from %s", name, lease.ACK.YourIPAddr,
		prefixLength(lease.ACK), lease.ACK.ServerIdentifier())
	go renew(ctx, client, lease, opts.Log)
	return nil
}

// waitForNIC loads drivers until the NIC is there and has a carrier.
func waitForNIC(ctx context.Context, opts NetworkOptions) (netlink.Link, error) {
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
		if link := bootNIC(links, opts.MAC); link != nil {
			return link, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no network interface %v with a carrier among %d within %s", opts.MAC, len(links)-1, nicWait)
		case <-time.After(nicPoll):
		}
	}
}

// bootNIC brings up what is down and returns the NIC once it has a carrier.
func bootNIC(links []netlink.Link, mac net.HardwareAddr) netlink.Link {
	var found netlink.Link
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
		if found == nil && right && attrs.Flags&net.FlagRunning != 0 {
			found = link
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
		renewed, err := client.Renew(ctx, lease, dhcpv4.WithOption(dhcpv4.OptClassIdentifier(VendorClass)))
		if err != nil {
			log("network: renew the lease: %v", err)
			continue
		}
		lease = renewed
	}
}
