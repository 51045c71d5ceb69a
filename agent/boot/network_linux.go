// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ingot-metal/ingot/agent/ipv6"
	"github.com/ingot-metal/ingot/agent/wait"
	"github.com/ingot-metal/ingot/agentapi"
)

// NetworkOptions say which NIC to use and how patiently.
type NetworkOptions struct {
	// MAC of the boot NIC; when nil, the first one with a carrier on which DHCP
	// answers.
	MAC net.HardwareAddr
	// Servers are host:port of where the agent is to go, which says whether the NIC
	// needs an IPv4 address or an IPv6 one. Empty: not known yet, and the one that comes
	// first, with word of where to go, is taken.
	Servers []string
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
	// Told is what DHCP said of the order; empty without NetworkOptions.Ask.
	Told agentapi.BootOptions
	// dns are who resolves names.
	dns []net.IP
	way way
}

// way is how a NIC has its address.
type way interface {
	// Inform asks what is to be done, and takes no other address. One who names avoid
	// (host:port) counts only when no other has answered for a while.
	Inform(ctx context.Context, avoid string) (agentapi.BootOptions, error)
	// Keep renews the address until ctx ends, and closes all that was opened.
	Keep(ctx context.Context)
	// Drop gives the address up in place of that.
	Drop() error
}

// Ask repeats the exchange without taking another address, and returns what the first
// server says that knows of an order. One that names avoid (host:port) counts only when
// no other has answered for a while: the boot server may be up again.
func (n *NIC) Ask(ctx context.Context, avoid string) (agentapi.BootOptions, error) {
	return n.way.Inform(ctx, avoid)
}

// Network waits for the NIC, brings all links up (so that the inventory shows
// which have a carrier), and gets an address for the boot NIC by DHCP, or by what
// routers advertise. It is renewed in the background until the context ends.
func Network(ctx context.Context, opts NetworkOptions) (*NIC, error) {
	links, err := waitForNIC(ctx, opts)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, link := range links {
		opts.Log("network: %s %s is up", link.Attrs().Name, link.Attrs().HardwareAddr)
		nic, err := configure(ctx, link, opts)
		if err == nil {
			if err = nameServers(nic.dns); err == nil {
				go nic.way.Keep(ctx)
				return nic, nil
			}
			err = errors.Join(err, nic.way.Drop())
		}
		opts.Log("network: %v", err)
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// configurer makes one NIC the boot NIC, or leaves it as it was.
type configurer func(ctx context.Context, link netlink.Link, opts NetworkOptions) (*NIC, error)

// configure does so by one of the families that the servers are reached by.
func configure(ctx context.Context, link netlink.Link, opts NetworkOptions) (*NIC, error) {
	var ways []configurer
	byIPv4, byIPv6 := families(opts.Servers)
	if byIPv4 {
		ways = append(ways, configureIPv4)
	}
	if byIPv6 {
		ways = append(ways, configureIPv6)
	}
	return first(ctx, link, opts, ways)
}

// families says whether servers are reached by IPv4 or by IPv6. Names were always looked
// up by IPv4.
func families(servers []string) (byIPv4, byIPv6 bool) {
	for _, server := range servers {
		at, err := netip.ParseAddrPort(server)
		if err == nil && at.Addr().Unmap().Is6() {
			byIPv6 = true
		} else {
			byIPv4 = true
		}
	}
	none := len(servers) == 0
	return byIPv4 || none, byIPv6 || none
}

// errPanic says that one way to configure a NIC panicked.
var errPanic = errors.New("panic")

// first tries all ways at once, takes the one that succeeds first and undoes the others.
func first(ctx context.Context, link netlink.Link, opts NetworkOptions, ways []configurer) (*NIC, error) {
	if len(ways) == 1 {
		return ways[0](ctx, link, opts)
	}
	racing, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		nic *NIC
		err error
	}
	results := make(chan result, len(ways))
	for _, way := range ways {
		go func() {
			r := result{err: errPanic} // as /init does, which a panic here would end
			defer func() {
				if p := recover(); p != nil {
					r.err = fmt.Errorf("%w: %T", errPanic, p)
				}
				results <- r
			}()
			r.nic, r.err = way(racing, link, opts)
		}()
	}
	var taken *NIC
	var errs []error
	for range ways {
		switch r := <-results; {
		case r.err != nil:
			errs = append(errs, r.err)
		case taken == nil:
			taken = r.nic
			cancel()
		default:
			if err := r.nic.way.Drop(); err != nil {
				opts.Log("network: %v", err)
			}
		}
	}
	if taken == nil {
		return nil, errors.Join(errs...)
	}
	return taken, nil
}

// configureIPv6 gives the NIC an IPv6 address.
func configureIPv6(ctx context.Context, link netlink.Link, opts NetworkOptions) (*NIC, error) {
	config, err := ipv6.Configure(ctx, link.Attrs().Name, ipv6.Options{Ask: opts.Ask, Log: opts.Log})
	if err != nil {
		return nil, err
	}
	return &NIC{Told: config.Told, dns: config.DNS, way: config}, nil
}

// nameServers writes down who resolves names, if anybody does.
func nameServers(servers []net.IP) error {
	var resolv []byte
	for _, server := range servers {
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

// waitForNIC loads drivers until the NIC is there and has a carrier.
func waitForNIC(ctx context.Context, opts NetworkOptions) ([]netlink.Link, error) {
	if lo, err := netlink.LinkByName("lo"); err == nil {
		_ = netlink.LinkSetUp(lo) // nothing needs it; programs that expect it find it
	}
	var found []netlink.Link
	others := 0
	err := wait.Poll{Every: nicPoll, Limit: nicWait}.Until(ctx, func() (bool, error) {
		opts.Settle()
		links, err := netlink.LinkList()
		if err != nil {
			return false, fmt.Errorf("list the network interfaces: %w", err)
		}
		found, others = bootNICs(links, opts.MAC), len(links)-1
		return len(found) > 0, nil
	})
	if errors.Is(err, wait.ErrLimit) {
		err = fmt.Errorf("no network interface %v with a carrier among %d within %s", opts.MAC, others, nicWait)
	}
	return found, err
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
		right := mac == nil || attrs.HardwareAddr.String() == mac.String()
		if attrs.Flags&net.FlagUp == 0 {
			if !right {
				_ = ipv6.Ignore(attrs.Name) // of no use to an agent on IPv4, and no reason to stop
			}
			_ = netlink.LinkSetUp(link) // shows as a missing carrier
			continue
		}
		if right && attrs.Flags&net.FlagRunning != 0 {
			found = append(found, link)
		}
	}
	return found
}
