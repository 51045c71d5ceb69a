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

// Options say what is wanted.
type Options struct {
	// Ask: DHCPv6 is to tell what the boot did not, and a NIC without such an answer is
	// not the boot NIC.
	Ask bool
	// Log prints one line.
	Log func(format string, args ...any)
}

const (
	// firstTimeout is that of a first attempt, which doubles with each of the attempts,
	// give or take a tenth (RFC 8415 section 15, and 7.6: SOL_TIMEOUT).
	firstTimeout = time.Second
	attempts     = 5
	// maxDelay is the most of a random wait before the first message, so that a rack that
	// is switched on does not ask in step (section 18.2.1, SOL_MAX_DELAY).
	maxDelay = time.Second
	// askTimeout is how long an answer of another replica than the one to avoid is
	// waited for.
	askTimeout = 5 * time.Second
	// noteTimeout bounds telling the boot server that the agent is there, where nothing
	// else is asked.
	noteTimeout = 2 * time.Second
	// onLink is what is on the link where no router tells.
	onLink = 64
)

// Config is the IPv6 side of an interface.
type Config struct {
	// Address is what the agent speaks from.
	Address netip.Addr
	// DNS are the servers that DHCPv6 told.
	DNS []net.IP
	// Told is what DHCPv6 said of the order; empty without Options.Ask.
	Told agentapi.BootOptions

	link      netlink.Link
	client    client
	transport *nclient6.Client
	// lease is the zero value where the kernel made the address.
	lease lease
	bits  int
	log   func(string, ...any)
}

// Configure gets an address for an interface that is up. It takes back what it did where
// it fails.
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
	// The scope is part of both ends: link-local addresses mean nothing without. By its
	// number, since package net remembers names for a while.
	scope := strconv.Itoa(link.Attrs().Index)
	conn, err := net.ListenUDP("udp6", &net.UDPAddr{IP: local.AsSlice(), Zone: scope, Port: dhcpv6.DefaultClientPort})
	if err != nil {
		return nil, fmt.Errorf("DHCPv6 on %s: %w", name, err)
	}
	servers := &net.UDPAddr{IP: dhcpv6.AllDHCPRelayAgentsAndServers, Zone: scope, Port: dhcpv6.DefaultServerPort}
	transport, err := nclient6.NewWithConn(conn, mac, nclient6.WithBroadcastAddr(servers),
		nclient6.WithTimeout(longest), nclient6.WithRetry(1)) // send does both
	if err != nil {
		return nil, errors.Join(fmt.Errorf("DHCPv6 on %s: %w", name, err), conn.Close())
	}
	c := &Config{link: link, client: client{mac: mac, ask: opts.Ask}, transport: transport, bits: 128, log: opts.Log}
	if err := c.configure(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("IPv6 on %s: %w", name, err), c.Drop())
	}
	return c, nil
}

// configure does as routers say.
func (c *Config) configure(ctx context.Context) error {
	found, err := awaitRouter(ctx, c.link)
	if err != nil {
		return err
	}
	if !found.heard {
		c.bits = onLink
	}
	if err := wait.For(ctx, rand.N(maxDelay)); err != nil {
		return err
	}
	if found.heard && !found.managed {
		err = c.made(ctx)
	} else {
		err = c.leased(ctx)
	}
	if err != nil || !c.client.ask || c.Told.Server != "" {
		return err
	}
	c.Told, err = c.Inform(ctx, "")
	return err
}

// leased asks a DHCPv6 server for an address (RFC 8415 section 18.2.1).
func (c *Config) leased(ctx context.Context) error {
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
	c.lease, c.Address, c.DNS, c.Told = given, given.address, reply.Options.DNS(), toldIn(reply)
	c.log("network: %s has %s/%d by DHCPv6", c.link.Attrs().Name, c.Address, c.bits)
	return nil
}

// exchange asks until a server answers with an address.
func (c *Config) exchange(ctx context.Context, ask, answer dhcpv6.MessageType, more ...dhcpv6.Option) (*dhcpv6.Message, lease, error) {
	request, err := c.client.message(ask, more...)
	if err != nil {
		return nil, lease{}, err
	}
	why := errNoAddress
	reply, err := c.send(ctx, request, func(m *dhcpv6.Message) bool {
		if m.MessageType != answer {
			return false
		}
		_, why = c.client.leaseIn(m)
		return why == nil
	})
	if err != nil {
		return nil, lease{}, fmt.Errorf("DHCPv6: %s: %w (%w)", ask, err, why)
	}
	given, err := c.client.leaseIn(reply)
	return reply, given, err
}

// longest is more than any attempt takes: the context of each ends it before.
const longest = time.Minute

// send repeats a message until an answer suits (RFC 8415 section 15). By the time since
// the first, relays and servers that wait for others know that nobody else answers
// (section 21.9).
func (c *Config) send(ctx context.Context, m *dhcpv6.Message, suits nclient6.Matcher) (*dhcpv6.Message, error) {
	began, timeout := time.Now(), firstTimeout
	for attempt := range attempts {
		if attempt > 0 {
			m.UpdateOption(dhcpv6.OptElapsedTime(time.Since(began)))
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

// decline tells that an address is another machine's (RFC 8415 section 18.2.8). Nobody
// waits for the answer: the server hears it or is told again.
func (c *Config) decline(given lease) {
	m, err := c.client.message(dhcpv6.MessageTypeDecline, dhcpv6.OptServerID(given.server), c.client.association(given.address))
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), noteTimeout)
	defer cancel()
	_, _ = c.send(ctx, m, nclient6.IsMessageType(dhcpv6.MessageTypeReply))
}

// made takes the address that the kernel made (RFC 4862 section 5.5), and lets the boot
// server know who is there.
func (c *Config) made(ctx context.Context) error {
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
		return ctx.Err() // who has no server to ask has an address still
	}
	c.DNS, c.Told = reply.Options.DNS(), toldIn(reply)
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

// Inform asks for what is to be done, and takes no other address. It returns what the
// first server says that knows of an order. One that names avoid (host:port) counts only
// when no other has answered for a while: the boot server may be up again.
func (c *Config) Inform(ctx context.Context, avoid string) (agentapi.BootOptions, error) {
	if avoid != "" {
		first, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		told, err := c.inform(first, avoid)
		if err == nil || ctx.Err() != nil {
			return told, err
		}
	}
	return c.inform(ctx, "")
}

func (c *Config) inform(ctx context.Context, avoid string) (agentapi.BootOptions, error) {
	reply, err := c.ask(ctx, client{mac: c.client.mac, ask: true}, func(m *dhcpv6.Message) bool {
		told := toldIn(m)
		return told.Server != "" && told.Server != avoid
	})
	if err != nil {
		return agentapi.BootOptions{}, fmt.Errorf("no DHCPv6 server tells where to go (vendor option %d): %w", agentapi.Enterprise, err)
	}
	return toldIn(reply), nil
}

// Keep renews a lease until ctx ends, and closes what Configure opened. A failure is
// tried again: the address is in use, and losing it helps nobody. From a certain time on
// any server may extend it (T2, RFC 8415 section 18.2.5).
func (c *Config) Keep(ctx context.Context) {
	defer func() { _ = c.transport.Close() }()
	given := time.Now()
	for {
		var due <-chan time.Time // never, for an address that the kernel keeps
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
			c.log("network: renew the lease of %s: given %v: %v", c.lease.address, renewed.address, err)
			c.lease.renew = minRenew
			continue
		}
		c.lease, given = renewed, time.Now()
	}
}

// Drop gives the address up, where it is leased, and closes what Configure opened.
func (c *Config) Drop() error {
	err := c.transport.Close()
	if c.lease.address.IsValid() {
		err = errors.Join(err, remove(c.link, c.lease.address, c.bits))
	}
	return err
}
