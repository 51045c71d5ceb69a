// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	nicID = tcpip.NICID(1)
	// outQueue is StackConfig.Queue's default: the send windows of a few TCP
	// connections.
	outQueue = 1024
	// defaultMTU is that of Ethernet, in bytes of IP packet.
	defaultMTU = 1500
)

// StackConfig describes one in-process network interface.
type StackConfig struct {
	// Name names the port, for people. Required.
	Name string
	// MAC is the interface's address; nil makes up a locally administered one.
	MAC net.HardwareAddr
	// Address with its prefix length; the zero value leaves the interface
	// without one, as a server has it before DHCP.
	Address netip.Prefix
	// Gateway is where packets for other networks go; zero means nowhere.
	Gateway netip.Addr
	// MTU of the interface in bytes; 0 means 1500.
	MTU int
	// Queue is how many frames may be ready for the switch before the stack drops;
	// 0 means 1024. A stack that serves many clients at once needs more: what it
	// drops costs TCP a retransmission timeout, which doubles each time.
	Queue int
}

// Stack is a TCP/IP stack on one port of a switch: what a server's kernel and
// network card are together. It is safe for concurrent use.
type Stack struct {
	mac    net.HardwareAddr
	stack  *stack.Stack
	link   *channel.Endpoint
	port   *Port
	cancel context.CancelFunc
	sender sync.WaitGroup
	close  sync.Once

	mu      sync.Mutex
	address netip.Prefix
	// routes and routesIPv6 are those of each family, addressesIPv6 the addresses.
	routes, routesIPv6 []tcpip.Route
	addressesIPv6      []netip.Prefix
	// anyBound counts sockets that may send from 0.0.0.0.
	anyBound int
}

// NewStack plugs a new stack into a switch. Close unplugs it.
func NewStack(sw *Switch, cfg StackConfig) (*Stack, error) {
	mac, err := macOrRandom(cfg.MAC)
	if err != nil {
		return nil, err
	}
	mtu := cfg.MTU
	if mtu == 0 {
		mtu = defaultMTU
	}
	s := &Stack{
		mac:  mac,
		link: channel.New(cmp.Or(cfg.Queue, outQueue), uint32(mtu+header.EthernetMinimumSize), tcpip.LinkAddress(mac)),
		stack: stack.New(stack.Options{
			NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol, arp.NewProtocol},
			TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4, icmp.NewProtocol6},
		}),
	}
	sack := tcpip.TCPSACKEnabled(true)
	if e := s.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &sack); e != nil {
		return nil, fmt.Errorf("enable SACK on %s: %s", cfg.Name, e)
	}
	if e := s.stack.CreateNIC(nicID, ethernet.New(s.link)); e != nil {
		return nil, fmt.Errorf("create interface of %s: %s", cfg.Name, e)
	}
	if s.port, err = sw.Plug(cfg.Name, s.receive); err != nil {
		s.stack.Destroy()
		return nil, fmt.Errorf("plug %s: %w", cfg.Name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.sender.Add(1)
	go s.transmit(ctx)
	if err := s.SetAddress(cfg.Address, cfg.Gateway); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func macOrRandom(mac net.HardwareAddr) (net.HardwareAddr, error) {
	if mac == nil {
		mac = make(net.HardwareAddr, 6)
		_, _ = rand.Read(mac) // never fails (crypto/rand)
		mac[0] = mac[0]&^1 | 2
	}
	if len(mac) != 6 {
		return nil, fmt.Errorf("MAC address %s is not 6 bytes long", mac)
	}
	return append(net.HardwareAddr(nil), mac...), nil
}

// receive passes a frame up, as a network card would: its own address,
// broadcast and multicast.
func (s *Stack) receive(frame []byte) {
	var dst [6]byte
	copy(dst[:], frame)
	if !isGroup(dst) && string(dst[:]) != string(s.mac) {
		return
	}
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(frame)})
	defer pkt.DecRef()
	s.link.InjectInbound(0, pkt) // the Ethernet header tells the protocol
}

func (s *Stack) transmit(ctx context.Context) {
	defer s.sender.Done()
	for {
		pkt := s.link.ReadContext(ctx)
		if pkt == nil {
			return
		}
		view := pkt.ToView()
		s.port.Send(append([]byte(nil), view.AsSlice()...))
		view.Release()
		pkt.DecRef()
	}
}

// MAC is the interface's hardware address.
func (s *Stack) MAC() net.HardwareAddr { return append(net.HardwareAddr(nil), s.mac...) }

// Address is the interface's current address; the zero Prefix when it has none.
func (s *Stack) Address() netip.Prefix {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// SetAddress replaces the address and the default route, as a DHCP client does
// once it has a lease. Zero values take them away.
func (s *Stack) SetAddress(address netip.Prefix, gateway netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.address.IsValid() {
		if e := s.stack.RemoveAddress(nicID, toAddress(s.address.Addr())); e != nil {
			return fmt.Errorf("remove address %s: %s", s.address, e)
		}
	}
	s.address = netip.Prefix{}
	// The limited broadcast must leave even with no address and no gateway.
	routes := []tcpip.Route{{Destination: header.IPv4Broadcast.WithPrefix().Subnet(), NIC: nicID}}
	if address.IsValid() {
		if !address.Addr().Is4() {
			return fmt.Errorf("address %s is not IPv4", address)
		}
		own := tcpip.AddressWithPrefix{Address: toAddress(address.Addr()), PrefixLen: address.Bits()}
		pa := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: own}
		if e := s.stack.AddProtocolAddress(nicID, pa, stack.AddressProperties{PEB: stack.FirstPrimaryEndpoint}); e != nil {
			return fmt.Errorf("add address %s: %s", address, e)
		}
		s.address = address
		routes = append(routes, tcpip.Route{Destination: own.Subnet(), NIC: nicID})
		if gateway.IsValid() {
			routes = append(routes, tcpip.Route{
				Destination: header.IPv4EmptySubnet, Gateway: toAddress(gateway), NIC: nicID})
		}
	}
	s.routes = routes
	s.stack.SetRouteTable(slices.Concat(s.routes, s.routesIPv6))
	return nil
}

// ListenTCP listens on a port of every address the stack has or gets.
func (s *Stack) ListenTCP(port uint16) (net.Listener, error) {
	l, err := gonet.ListenTCP(s.stack, tcpip.FullAddress{NIC: nicID, Port: port}, ipv4.ProtocolNumber)
	if err != nil {
		return nil, fmt.Errorf("listen on TCP port %d of %s: %w", port, s.port.name, err)
	}
	return &listener{TCPListener: l}, nil
}

// ListenUDP opens a UDP socket on a port (0: any free one) that receives
// unicast and broadcast, and may send to 255.255.255.255.
func (s *Stack) ListenUDP(port uint16) (net.PacketConn, error) {
	var wq waiter.Queue
	ep, e := s.stack.NewEndpoint(udp.ProtocolNumber, ipv4.ProtocolNumber, &wq)
	if e != nil {
		return nil, fmt.Errorf("open UDP socket of %s: %s", s.port.name, e)
	}
	ep.SocketOptions().SetBroadcast(true)
	ep.SocketOptions().SetReceiveBufferSize(4<<20, false)
	if e := ep.Bind(tcpip.FullAddress{NIC: nicID, Port: port}); e != nil {
		ep.Close()
		return nil, fmt.Errorf("bind UDP port %d of %s: %s", port, s.port.name, e)
	}
	return &packetConn{UDPConn: gonet.NewUDPConn(&wq, ep)}, nil
}

// ListenUnconfigured opens a UDP socket for a client that has no address yet:
// its packets leave from 0.0.0.0, as DHCP wants (RFC 2131 §4.1). While one is
// open, the stack takes in unicast packets for any address too, since a server
// may answer to the address that it is about to give.
func (s *Stack) ListenUnconfigured(port uint16) (net.PacketConn, error) {
	if err := s.claimAny(); err != nil {
		return nil, err
	}
	c, err := s.ListenUDP(port)
	if err != nil {
		return nil, errors.Join(err, s.releaseAny())
	}
	pc := c.(*packetConn)
	pc.onClose = s.releaseAny
	return pc, nil
}

// claimAny gives the interface the address 0.0.0.0 for the first socket that
// needs it.
func (s *Stack) claimAny() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.anyBound++; s.anyBound > 1 {
		return nil
	}
	pa := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{Address: header.IPv4Any, PrefixLen: 0}}
	if e := s.stack.AddProtocolAddress(nicID, pa, stack.AddressProperties{PEB: stack.CanBePrimaryEndpoint}); e != nil {
		s.anyBound--
		return fmt.Errorf("allow sending without an address: %s", e)
	}
	if e := s.stack.SetPromiscuousMode(nicID, true); e != nil {
		return fmt.Errorf("take in packets for any address: %s", e)
	}
	return nil
}

func (s *Stack) releaseAny() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.anyBound--; s.anyBound > 0 {
		return nil
	}
	if e := s.stack.SetPromiscuousMode(nicID, false); e != nil {
		return fmt.Errorf("take in own packets only: %s", e)
	}
	if e := s.stack.RemoveAddress(nicID, header.IPv4Any); e != nil {
		return fmt.Errorf("forbid sending without an address: %s", e)
	}
	return nil
}

// DialUDP opens a UDP socket on a free port that is connected to a peer.
func (s *Stack) DialUDP(to netip.AddrPort) (net.Conn, error) {
	return s.DialContext(context.Background(), "udp", to.String())
}

// DialContext connects to host:port, both numeric, over "tcp" or "udp". It
// fits http.Transport.DialContext.
func (s *Stack) DialContext(ctx context.Context, netw, addr string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil, fmt.Errorf("dial %s: the lab resolves no names: want an address", addr)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	to := tcpip.FullAddress{NIC: nicID, Addr: toAddress(ip.Unmap()), Port: uint16(port)}
	if ip.Unmap().Is6() {
		return s.dialIPv6(ctx, netw, addr, to)
	}
	switch netw {
	case "tcp", "tcp4":
		c, err := gonet.DialContextTCP(ctx, s.stack, to, ipv4.ProtocolNumber)
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", addr, err)
		}
		return c, nil
	case "udp", "udp4":
		c, err := gonet.DialUDP(s.stack, nil, &to, ipv4.ProtocolNumber)
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", addr, err)
		}
		return c, nil
	}
	return nil, fmt.Errorf("dial %s: unknown network %q", addr, netw)
}

// Close unplugs the stack; connections over it break.
func (s *Stack) Close() error {
	s.close.Do(func() {
		_ = s.port.Close()
		s.cancel()
		s.sender.Wait()
		s.stack.Close()
		s.link.Close()
	})
	return nil
}

func toAddress(a netip.Addr) tcpip.Address { return tcpip.AddrFromSlice(a.Unmap().AsSlice()) }
