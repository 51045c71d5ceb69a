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
	"github.com/ingot-metal/ingot/pxe/ra"
	"github.com/ingot-metal/ingot/pxe/script"
	"github.com/ingot-metal/ingot/pxe/tftp"
)

// ConfigIPv6 configures the IPv6 side of the boot server. The zero value disables it.
type ConfigIPv6 struct {
	// Address is the boot server's IPv6 address for hosts. Every answer contains it, so
	// each replica needs its own.
	Address netip.Addr
	// Advertised are the networks to send router advertisements for; nil means none.
	Advertised  pxe.Advertised
	DHCPMetrics *dhcp6.Metrics
}

type SocketsIPv6 struct {
	DHCP dhcp6.Conn
	RA   ra.Conn
	// TFTP is bound to port 69, and HTTP to Config.HTTPPort.
	TFTP net.PacketConn
	HTTP net.Listener
}

func (s SocketsIPv6) Close() error { return closeOpen(s.DHCP, s.RA, s.TFTP, s.HTTP) }

// DHCPv6Port is the port of DHCPv6 servers and relays (RFC 8415 section 7.2).
const DHCPv6Port = 547

// DHCPv6Group is the address of all servers and relays on a link (RFC 8415 section 7.1).
func DHCPv6Group() netip.Addr { return netip.MustParseAddr("ff02::1:2") }

// DHCPv6Conn wraps a socket that is bound to DHCPv6Port and has joined DHCPv6Group. It is
// for network stacks in user space, and reports no interface.
func DHCPv6Conn(conn net.PacketConn) dhcp6.Conn { return &dhcpv6Conn{conn} }

type dhcpv6Conn struct{ net.PacketConn }

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

func (c *dhcpv6Conn) Send(a dhcp6.Answer, _ dhcp6.Link) error {
	_, err := c.WriteTo(a.Packet, net.UDPAddrFromAddrPort(a.To))
	return err
}

// check returns an error if Address is set and is no global IPv6 address.
func (c ConfigIPv6) check() error {
	if a := c.Address; a.IsValid() && (!a.Is6() || a.Is4In6() || a.IsLinkLocalUnicast()) {
		return fmt.Errorf("boot server address %q is not a global IPv6 one", a)
	}
	return nil
}

// run6 serves IPv6 until ctx ends. It returns at once if IPv6 is disabled.
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
	unsigned.Signed = "" // GRUB's HTTP supports no IPv6 address with a port
	g, ctx := errgroup.WithContext(ctx)
	dhcpServer := dhcp6.Server{
		Identity:  dhcp6.NewIdentity(cfg.Address, baseURL, unsigned),
		Directory: s.cfg.Directory, Observer: s.cfg.Observer, Metrics: cfg.DHCPMetrics, Log: s.cfg.Log,
	}
	g.Go(func() error { return dhcpServer.Serve(ctx, sockets.DHCP) })
	files := tftp.Server{Files: loaders, Absent: []string{dhcp.BootFromDisk}, Dial: dial}
	s.serveFiles(ctx, g, files, sockets.TFTP, s.handler(loaders, baseURL, autoexec), sockets.HTTP)
	if cfg.Advertised != nil && sockets.RA != nil {
		g.Go(func() error { return (&ra.Server{Networks: cfg.Advertised, Log: s.cfg.Log}).Serve(ctx, sockets.RA) })
	}
	return g.Wait()
}
