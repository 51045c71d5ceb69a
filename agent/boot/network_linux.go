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

type NetworkOptions struct {
	// MAC is the address of the boot NIC. Nil: the first NIC with a carrier on which DHCP
	// answers.
	MAC net.HardwareAddr
	// Servers are the manager's servers as host:port. They determine whether the NIC needs an
	// IPv4 or an IPv6 address. Empty: unknown; the first family with boot options wins.
	Servers []string
	// NeedBootOptions: DHCP must supply what the command line does not. A NIC without such an
	// answer is not the boot NIC.
	NeedBootOptions bool
	// Settle loads drivers for devices that appeared since the last call.
	Settle func()
	Log    func(format string, args ...any)
}

const (
	nicPoll     = 100 * time.Millisecond
	nicWait     = 60 * time.Second
	dhcpTimeout = 3 * time.Second
	dhcpRetries = 4
	// askTimeout bounds the wait for an answer of another replica than the one to avoid.
	askTimeout = 5 * time.Second
)

// NIC is the boot NIC with its address.
type NIC struct {
	// BootOptions are the options from DHCP; empty without NetworkOptions.NeedBootOptions.
	BootOptions agentapi.BootOptions
	dns         []net.IP
	source      addressSource
}

// addressSource is the origin of a NIC's address.
type addressSource interface {
	// Inform requests the boot options without another address. Answers that name avoid
	// (host:port) do not count.
	Inform(ctx context.Context, avoid string) (agentapi.BootOptions, error)
	// Keep renews the address until ctx ends, and releases all resources.
	Keep(ctx context.Context)
	// Drop removes the address and releases all resources, in place of Keep.
	Drop() error
}

// RequestBootOptions asks the DHCP servers for the boot options. The first server with an
// order wins. A server that names avoid (host:port) counts only if no other answers for a
// while: the boot server may be up again.
func (n *NIC) RequestBootOptions(ctx context.Context, avoid string) (agentapi.BootOptions, error) {
	if avoid != "" {
		first, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		options, err := n.source.Inform(first, avoid)
		if err == nil || ctx.Err() != nil {
			return options, err
		}
	}
	return n.source.Inform(ctx, "")
}

// Network waits for the NIC, brings all links up (so that the inventory shows their
// carriers), and gets an address for the boot NIC by DHCP or router advertisements. It renews
// the address in the background until the context ends.
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
			if err = writeResolvConf(nic.dns); err == nil {
				go nic.source.Keep(ctx)
				return nic, nil
			}
			err = errors.Join(err, nic.source.Drop())
		}
		opts.Log("network: %v", err)
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// configurer configures a NIC as boot NIC, or leaves it unchanged.
type configurer func(ctx context.Context, link netlink.Link, opts NetworkOptions) (*NIC, error)

// configure tries the address families of the servers.
func configure(ctx context.Context, link netlink.Link, opts NetworkOptions) (*NIC, error) {
	var all []configurer
	byIPv4, byIPv6 := families(opts.Servers)
	if byIPv4 {
		all = append(all, configureIPv4)
	}
	if byIPv6 {
		all = append(all, configureIPv6)
	}
	return firstSuccess(ctx, link, opts, all)
}

// families reports whether servers are reached by IPv4, by IPv6, or both. Host names are
// resolved by IPv4.
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

// errPanic reports that a configurer panicked.
var errPanic = errors.New("panic")

// firstSuccess runs all configurers in parallel, returns the first success and undoes the
// others.
func firstSuccess(ctx context.Context, link netlink.Link, opts NetworkOptions, all []configurer) (*NIC, error) {
	if len(all) == 1 {
		return all[0](ctx, link, opts)
	}
	racing, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		nic *NIC
		err error
	}
	results := make(chan result, len(all))
	for _, configure := range all {
		go func() {
			r := result{err: errPanic} // a panic here would end /init
			defer func() {
				if p := recover(); p != nil {
					r.err = fmt.Errorf("%w: %T", errPanic, p)
				}
				results <- r
			}()
			r.nic, r.err = configure(racing, link, opts)
		}()
	}
	var taken *NIC
	var errs []error
	for range all {
		switch r := <-results; {
		case r.err != nil:
			errs = append(errs, r.err)
		case taken == nil:
			taken = r.nic
			cancel()
		default:
			if err := r.nic.source.Drop(); err != nil {
				opts.Log("network: %v", err)
			}
		}
	}
	if taken == nil {
		return nil, errors.Join(errs...)
	}
	return taken, nil
}

func configureIPv6(ctx context.Context, link netlink.Link, opts NetworkOptions) (*NIC, error) {
	config, err := ipv6.Configure(ctx, link.Attrs().Name, ipv6.Options{NeedBootOptions: opts.NeedBootOptions, Log: opts.Log})
	if err != nil {
		return nil, err
	}
	return &NIC{BootOptions: config.BootOptions, dns: config.DNS, source: config}, nil
}

// writeResolvConf writes /etc/resolv.conf if there are name servers.
func writeResolvConf(servers []net.IP) error {
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
		_ = netlink.LinkSetUp(lo) // optional
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

// bootNICs brings up links that are down, and returns the candidates for the boot NIC that
// have a carrier.
func bootNICs(links []netlink.Link, mac net.HardwareAddr) []netlink.Link {
	var found []netlink.Link
	for _, link := range links {
		attrs := link.Attrs()
		if attrs.Flags&net.FlagLoopback != 0 || link.Type() != "device" {
			continue
		}
		candidate := mac == nil || attrs.HardwareAddr.String() == mac.String()
		if attrs.Flags&net.FlagUp == 0 {
			if !candidate {
				_ = ipv6.IgnoreRouterAdvertisements(attrs.Name) // optional: without effect on an agent with IPv4
			}
			_ = netlink.LinkSetUp(link) // an error shows as a missing carrier
			continue
		}
		if candidate && attrs.Flags&net.FlagRunning != 0 {
			found = append(found, link)
		}
	}
	return found
}
