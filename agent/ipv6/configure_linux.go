// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipv6

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/nclient6"
	"github.com/vishvananda/netlink"

	"github.com/ingot-metal/ingot/agent/wait"
	"github.com/ingot-metal/ingot/agentapi"
)

// Options configure Configure.
type Options struct {
	// NeedBootOptions: DHCPv6 must supply boot options. A NIC without such an answer is not the boot NIC.
	NeedBootOptions bool
	Log             func(format string, args ...any)
}

const (
	// firstTimeout is the timeout of the first attempt. It doubles with each attempt, with 10 %
	// jitter (RFC 8415 section 15, and 7.6: SOL_TIMEOUT).
	firstTimeout = time.Second
	attempts     = 5
	// maxDelay bounds the random delay of the first message, so that a rack that is powered on
	// does not ask at once (section 18.2.1, SOL_MAX_DELAY).
	maxDelay = time.Second
	// noteTimeout bounds the exchange that only informs the boot server about the agent.
	noteTimeout = 2 * time.Second
	// onLink is the prefix length if no router announces one, the same as firmware uses.
	onLink = 64
)

// Config is the IPv6 configuration of an interface.
type Config struct {
	// Address is the agent's source address.
	Address netip.Addr
	// DNS are the name servers from DHCPv6.
	DNS []net.IP
	// BootOptions are the boot options from DHCPv6; empty without Options.Ask.
	BootOptions agentapi.BootOptions

	link      netlink.Link
	client    client
	transport *nclient6.Client
	// lease is the zero value for an address from router advertisements.
	lease lease
	bits  int
	log   func(string, ...any)
}

// Configure gets an address for an interface that is up. On error it removes it again.
func Configure(ctx context.Context, name string, opts Options) (*Config, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("IPv6 on %s: %w", name, err)
	}
	mac := link.Attrs().HardwareAddr
	if len(mac) != 6 {
		return nil, fmt.Errorf("IPv6 on %s: %q is not an Ethernet address", name, mac)
	}
	local, err := awaitAddress(ctx, link, isLocal)
	if err != nil {
		return nil, fmt.Errorf("IPv6 on %s: wait for a link-local address: %w", name, err)
	}
	// Both ends need the zone of the link-local address. It is a number, since package net
	// caches interface names.
	scope := strconv.Itoa(link.Attrs().Index)
	conn, err := net.ListenUDP("udp6", &net.UDPAddr{IP: local.AsSlice(), Zone: scope, Port: dhcpv6.DefaultClientPort})
	if err != nil {
		return nil, fmt.Errorf("DHCPv6 on %s: %w", name, err)
	}
	servers := &net.UDPAddr{IP: dhcpv6.AllDHCPRelayAgentsAndServers, Zone: scope, Port: dhcpv6.DefaultServerPort}
	transport, err := nclient6.NewWithConn(conn, mac, nclient6.WithBroadcastAddr(servers),
		nclient6.WithTimeout(longest), nclient6.WithRetry(1)) // send does timeouts and retries
	if err != nil {
		return nil, errors.Join(fmt.Errorf("DHCPv6 on %s: %w", name, err), conn.Close())
	}
	c := &Config{link: link, client: client{mac: mac, ask: opts.NeedBootOptions}, transport: transport, bits: 128, log: opts.Log}
	if err := c.configure(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("IPv6 on %s: %w", name, err), c.Drop())
	}
	return c, nil
}

// configure gets an address in the way that routers announce.
func (c *Config) configure(ctx context.Context) error {
	found, err := awaitRouter(ctx, c.link)
	if err != nil {
		return err
	}
	if !found.present {
		c.bits = onLink
	}
	if err := wait.For(ctx, rand.N(maxDelay)); err != nil {
		return err
	}
	if found.present && !found.managed {
		err = c.useAdvertised(ctx)
	} else {
		err = c.requestLease(ctx)
	}
	if err != nil || !c.client.ask || c.BootOptions.Server != "" {
		return err
	}
	c.BootOptions, err = c.Inform(ctx, "")
	return err
}

// requestLease gets an address from a DHCPv6 server (RFC 8415 section 18.2.1).
func (c *Config) requestLease(ctx context.Context) error {
	_, offered, err := c.exchange(ctx, dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeAdvertise, c.client.association())
	if err != nil {
		return err
	}
	reply, given, err := c.exchange(ctx, dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeReply,
		dhcpv6.OptServerID(offered.server), c.client.association(offered.address))
	if err != nil {
		return err
	}
	if err := use(ctx, c.link, given.address, c.bits); err != nil {
		if errors.Is(err, errDuplicate) {
			c.decline(given)
		}
		return err
	}
	c.lease, c.Address, c.DNS, c.BootOptions = given, given.address, reply.Options.DNS(), bootOptions(reply)
	c.log("network: %s has %s/%d by DHCPv6", c.link.Attrs().Name, c.Address, c.bits)
	return nil
}

// exchange sends a message until a server answers with an address.
func (c *Config) exchange(ctx context.Context, ask, answer dhcpv6.MessageType, more ...dhcpv6.Option) (*dhcpv6.Message, lease, error) {
	request, err := c.client.message(ask, more...)
	if err != nil {
		return nil, lease{}, err
	}
	cause := errNoAddress
	reply, err := c.send(ctx, request, func(m *dhcpv6.Message) bool {
		if m.MessageType != answer {
			return false
		}
		_, cause = c.client.leaseIn(m)
		return cause == nil
	})
	if err != nil {
		return nil, lease{}, fmt.Errorf("DHCPv6: %s: %w (%w)", ask, err, cause)
	}
	given, err := c.client.leaseIn(reply)
	return reply, given, err
}

// longest exceeds the timeout of every attempt, which ends by its context.
const longest = time.Minute

// send repeats a message until an answer suits (RFC 8415 section 15). The elapsed time in it
// shows relays and standby servers that no other server answers (section 21.9).
func (c *Config) send(ctx context.Context, m *dhcpv6.Message, suits nclient6.Matcher) (*dhcpv6.Message, error) {
	start, timeout := time.Now(), firstTimeout
	for attempt := range attempts {
		if attempt > 0 {
			m.UpdateOption(dhcpv6.OptElapsedTime(time.Since(start)))
		}
		once, cancel := context.WithTimeout(ctx, timeout*9/10+rand.N(timeout/5))
		reply, err := c.transport.SendAndRead(once, c.transport.RemoteAddr(), m, suits)
		cancel()
		if ctx.Err() != nil {
			return reply, context.Cause(ctx)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			return reply, err
		}
		timeout *= 2
	}
	return nil, nclient6.ErrNoResponse
}

// decline reports that another machine uses the address (RFC 8415 section 18.2.8). Errors are
// ignored: the server notices a second conflict.
func (c *Config) decline(given lease) {
	m, err := c.client.message(dhcpv6.MessageTypeDecline, dhcpv6.OptServerID(given.server), c.client.association(given.address))
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), noteTimeout)
	defer cancel()
	_, _ = c.send(ctx, m, nclient6.IsMessageType(dhcpv6.MessageTypeReply))
}

// useAdvertised uses the address that the kernel made from a router advertisement (RFC 4862
// section 5.5), and announces the agent to the boot server.
func (c *Config) useAdvertised(ctx context.Context) error {
	address, err := awaitAddress(ctx, c.link, isGlobal)
	if err != nil {
		return fmt.Errorf("wait for an address of the advertised prefix: %w", err)
	}
	c.Address = address
	c.log("network: %s has %s by router advertisement", c.link.Attrs().Name, address)
	noting, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	reply, err := c.ask(noting, c.client, func(*dhcpv6.Message) bool { return true })
	if err != nil {
		return ctx.Err() // DHCPv6 is optional here
	}
	c.DNS, c.BootOptions = reply.Options.DNS(), bootOptions(reply)
	return nil
}

// ask sends an Information-request (RFC 8415 section 18.2.6).
func (c *Config) ask(ctx context.Context, as client, suits func(*dhcpv6.Message) bool) (*dhcpv6.Message, error) {
	request, err := as.message(dhcpv6.MessageTypeInformationRequest)
	if err != nil {
		return nil, err
	}
	return c.send(ctx, request, func(m *dhcpv6.Message) bool {
		return m.MessageType == dhcpv6.MessageTypeReply && suits(m)
	})
}

// Inform requests boot options without another address. The first server with an order wins.
// Answers that name avoid (host:port) do not count.
func (c *Config) Inform(ctx context.Context, avoid string) (agentapi.BootOptions, error) {
	reply, err := c.ask(ctx, client{mac: c.client.mac, ask: true}, func(m *dhcpv6.Message) bool {
		server := bootOptions(m).Server
		return server != "" && server != avoid
	})
	if err != nil {
		return agentapi.BootOptions{}, fmt.Errorf("no DHCPv6 server returned the boot options (enterprise %d): %w", agentapi.Enterprise, err)
	}
	return bootOptions(reply), nil
}

// Keep renews a lease until ctx ends, and closes what Configure opened. It retries after
// failures, since the address is in use. From T2 on any server may extend the lease (RFC 8415
// section 18.2.5).
func (c *Config) Keep(ctx context.Context) {
	defer func() { _ = c.transport.Close() }()
	given := time.Now()
	for {
		var due <-chan time.Time // nil: the kernel maintains the address
		if c.lease.address.IsValid() {
			due = time.After(c.lease.renew)
		}
		select {
		case <-ctx.Done():
			return
		case <-due:
		}
		kind, options := dhcpv6.MessageTypeRebind, []dhcpv6.Option{c.client.association(c.lease.address)}
		if time.Since(given) < c.lease.rebind {
			kind, options = dhcpv6.MessageTypeRenew, append(options, dhcpv6.OptServerID(c.lease.server))
		}
		_, renewed, err := c.exchange(ctx, kind, dhcpv6.MessageTypeReply, options...)
		if err != nil || renewed.address != c.lease.address {
			c.log("network: renew the lease of %s: got %v: %v", c.lease.address, renewed.address, err)
			c.lease.renew = minRenew
			continue
		}
		c.lease, given = renewed, time.Now()
	}
}

// Drop removes a leased address and closes what Configure opened.
func (c *Config) Drop() error {
	err := c.transport.Close()
	if c.lease.address.IsValid() {
		err = errors.Join(err, remove(c.link, c.lease.address, c.bits))
	}
	return err
}
