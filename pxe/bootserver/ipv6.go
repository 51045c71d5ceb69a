// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootserver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcp"
	"github.com/ingot-metal/ingot/pxe/dhcp6"
	"github.com/ingot-metal/ingot/pxe/httpd"
	"github.com/ingot-metal/ingot/pxe/ra"
	"github.com/ingot-metal/ingot/pxe/script"
	"github.com/ingot-metal/ingot/pxe/tftp"
)

// ConfigIPv6 configures the boot server's IPv6 side. The zero value: there is none.
type ConfigIPv6 struct {
	// Address is the IPv6 address by which booting servers reach this one. It is in
	// every answer, so replicas have different ones.
	Address netip.Addr
	// Advertised are the networks that are advertised as by a router; nil: none.
	Advertised pxe.Advertised
	// DHCPMetrics may be nil.
	DHCPMetrics *dhcp6.Metrics
}

// SocketsIPv6 are what the IPv6 side listens on.
type SocketsIPv6 struct {
	// DHCP is bound to port 547.
	DHCP dhcp6.Conn
	// RA is for router advertisements.
	RA ra.Conn
	// TFTP is bound to port 69, and HTTP to the configured port.
	TFTP net.PacketConn
	HTTP net.Listener
}

// Close closes what is open.
func (s SocketsIPv6) Close() error { return closeOpen(s.DHCP, s.RA, s.TFTP, s.HTTP) }

// DHCPv6Port and DHCPv6Group are where clients ask (RFC 8415 section 7.1 and 7.2).
const DHCPv6Port = 547

// DHCPv6Group is the address of all servers and relays of a link.
func DHCPv6Group() netip.Addr { return netip.MustParseAddr("ff02::1:2") }

// DHCPv6Conn makes a socket of one that is bound to DHCPv6Port and has joined
// DHCPv6Group, on a network that is no kernel's: it tells nothing of its interface.
func DHCPv6Conn(conn net.PacketConn) dhcp6.Conn { return &dhcpv6Conn{conn} }

type dhcpv6Conn struct{ net.PacketConn }

// Receive implements dhcp6.Conn.
func (c *dhcpv6Conn) Receive(buf []byte) (dhcp6.Query, error) {
	n, from, err := c.ReadFrom(buf)
	if err != nil {
		return dhcp6.Query{}, err
	}
	at, ok := from.(*net.UDPAddr)
	if !ok {
		return dhcp6.Query{}, fmt.Errorf("a DHCPv6 request from %v, which is no UDP address", from)
	}
	return dhcp6.Query{Packet: buf[:n], From: at.AddrPort()}, nil
}

// Send implements dhcp6.Conn.
func (c *dhcpv6Conn) Send(a dhcp6.Answer, _ dhcp6.Link) error {
	_, err := c.WriteTo(a.Packet, net.UDPAddrFromAddrPort(a.To))
	return err
}

// check refuses what is no IPv6 address; zero is none wanted.
func (c ConfigIPv6) check() error {
	if a := c.Address; a.IsValid() && (!a.Is6() || a.Is4In6() || a.IsLinkLocalUnicast()) {
		return fmt.Errorf("boot server address %q is not a global IPv6 one", a)
	}
	return nil
}

// run6 serves IPv6 until ctx ends; at once where there is none to serve.
func (s *Server) run6(ctx context.Context, sockets SocketsIPv6, dial func(netip.AddrPort) (net.Conn, error)) error {
	cfg := s.cfg.IPv6
	if !cfg.Address.IsValid() {
		return nil
	}
	baseURL := "http://" + net.JoinHostPort(cfg.Address.String(), strconv.Itoa(int(s.cfg.HTTPPort)))
	autoexec, err := script.AutoExec(baseURL)
	if err != nil {
		return fmt.Errorf("make autoexec.ipxe: %w", err)
	}
	loaders, err := tftp.OpenDir(s.cfg.LoaderDir, map[string][]byte{"autoexec.ipxe": []byte(autoexec)})
	if err != nil {
		return fmt.Errorf("boot server: %w", err)
	}
	defer func() { _ = loaders.Close() }()

	unsigned := s.cfg.Loaders
	unsigned.Signed = "" // GRUB's HTTP takes no IPv6 address with a port
	g, ctx := errgroup.WithContext(ctx)
	dhcpServer := dhcp6.Server{
		Identity:  dhcp6.NewIdentity(cfg.Address, baseURL, unsigned),
		Directory: s.cfg.Directory, Observer: s.cfg.Observer, Metrics: cfg.DHCPMetrics, Log: s.cfg.Log,
	}
	g.Go(func() error { return dhcpServer.Serve(ctx, sockets.DHCP) })
	g.Go(func() error {
		srv := tftp.Server{
			Files: loaders, Absent: []string{dhcp.BootFromDisk}, Dial: dial,
			SinglePort: s.cfg.SinglePortTFTP, Drain: httpd.DefaultShutdownGrace, Observer: s.cfg.Observer, Metrics: s.cfg.TFTPMetrics, Log: s.cfg.Log,
		}
		return srv.Serve(ctx, sockets.TFTP)
	})
	g.Go(func() error {
		h := s.handler(loaders, baseURL, autoexec)
		return httpd.Serve(ctx, sockets.HTTP, h, httpd.Options{MaxConnsPerClient: s.cfg.MaxConnsPerClient, Log: s.cfg.Log})
	})
	if cfg.Advertised != nil && sockets.RA != nil {
		g.Go(func() error { return (&ra.Server{Networks: cfg.Advertised, Log: s.cfg.Log}).Serve(ctx, sockets.RA) })
	}
	return g.Wait()
}
