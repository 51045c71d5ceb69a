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
	"strings"
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
	// outQueue is the default of StackConfig.Queue: the send windows of a few TCP connections.
	outQueue = 1024
	// defaultMTU is the MTU of Ethernet, in bytes of an IP packet.
	defaultMTU = 1500
)

// StackConfig describes one in-process network interface.
type StackConfig struct {
	// Name of the port. Required.
	Name string
	// MAC is the interface's address; nil generates a locally administered one.
	MAC net.HardwareAddr
	// Address with its prefix length. The zero value means no address, as before DHCP.
	Address netip.Prefix
	// Gateway for other networks; zero means none.
	Gateway netip.Addr
	// MTU of the interface in bytes; 0 means 1500.
	MTU int
	// Queue is the number of outgoing frames that wait before the stack drops further ones; 0
	// means 1024. A stack with many clients needs more, because a dropped frame costs TCP a
	// retransmission timeout, which doubles each time.
	Queue int
}

// Stack is a TCP/IP stack on one port of a switch, like a server's kernel with its network card. It
// is safe for concurrent use.
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
	// routes and routesIPv6 are the routes of each family.
	routes, routesIPv6 []tcpip.Route
	addressesIPv6      []netip.Prefix
	// anyBound counts the sockets that may send from 0.0.0.0.
	anyBound int
}

// NewStack connects a new stack to a switch. Close disconnects it.
func NewStack(sw *Switch, cfg StackConfig) (*Stack, error) {
	mac, err := macOrRandom(cfg.MAC)
	if err != nil {
		return nil, err
	}
	s := &Stack{
		mac:  mac,
		link: channel.New(cmp.Or(cfg.Queue, outQueue), uint32(cmp.Or(cfg.MTU, defaultMTU)+header.EthernetMinimumSize), tcpip.LinkAddress(mac)),
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

// receive accepts frames for the interface's address, broadcast and multicast, like a network card.
func (s *Stack) receive(frame []byte) {
	var dst [6]byte
	copy(dst[:], frame)
	if !isGroup(dst) && string(dst[:]) != string(s.mac) {
		return
	}
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(frame)})
	defer pkt.DecRef()
	s.link.InjectInbound(0, pkt) // the Ethernet header contains the protocol
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

// MAC returns the interface's hardware address.
func (s *Stack) MAC() net.HardwareAddr { return append(net.HardwareAddr(nil), s.mac...) }

// Address returns the interface's current address, or the zero Prefix.
func (s *Stack) Address() netip.Prefix {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// SetAddress replaces the address and the default route, like a DHCP client with a new lease. Zero
// values remove them.
func (s *Stack) SetAddress(address netip.Prefix, gateway netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.address.IsValid() {
		if e := s.stack.RemoveAddress(nicID, toAddress(s.address.Addr())); e != nil {
			return fmt.Errorf("remove address %s: %s", s.address, e)
		}
	}
	s.address = netip.Prefix{}
	// The limited broadcast needs a route even without an address and gateway.
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

// ListenTCP listens on a port of all present and future addresses.
func (s *Stack) ListenTCP(port uint16) (net.Listener, error) {
	l, err := gonet.ListenTCP(s.stack, tcpip.FullAddress{NIC: nicID, Port: port}, ipv4.ProtocolNumber)
	if err != nil {
		return nil, fmt.Errorf("listen on TCP port %d of %s: %w", port, s.port.name, err)
	}
	return &listener{TCPListener: l}, nil
}

// ListenUDP opens a UDP socket on a port (0: any free one) that receives unicast and broadcast and
// may send to 255.255.255.255.
func (s *Stack) ListenUDP(port uint16) (net.PacketConn, error) {
	return s.listenUDP(ipv4.ProtocolNumber, port)
}

func (s *Stack) listenUDP(protocol tcpip.NetworkProtocolNumber, port uint16, groups ...netip.Addr) (net.PacketConn, error) {
	var wq waiter.Queue
	ep, e := s.stack.NewEndpoint(udp.ProtocolNumber, protocol, &wq)
	if e != nil {
		return nil, fmt.Errorf("open UDP socket of %s: %s", s.port.name, e)
	}
	is6 := protocol == ipv6.ProtocolNumber
	if is6 {
		ep.SocketOptions().SetV6Only(true)
	} else {
		ep.SocketOptions().SetBroadcast(true)
	}
	ep.SocketOptions().SetReceiveBufferSize(4<<20, false)
	if e := ep.Bind(tcpip.FullAddress{NIC: nicID, Port: port}); e != nil {
		ep.Close()
		return nil, fmt.Errorf("bind UDP port %d of %s: %s", port, s.port.name, e)
	}
	for _, group := range groups {
		if e := ep.SetSockOpt(&tcpip.AddMembershipOption{NIC: nicID, MulticastAddr: toAddress(group)}); e != nil {
			ep.Close()
			return nil, fmt.Errorf("join %s on %s: %s", group, s.port.name, e)
		}
	}
	return &packetConn{UDPConn: gonet.NewUDPConn(&wq, ep), ipv6: is6}, nil
}

// ListenUnconfigured opens a UDP socket for a client without an address. Its packets are sent from
// 0.0.0.0, as DHCP requires (RFC 2131 section 4.1). While it is open, the stack accepts unicast
// packets for any address, because a server may answer to the offered address.
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

// claimAny adds the address 0.0.0.0 for the first socket that needs it.
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
		return fmt.Errorf("accept packets for any address: %s", e)
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
		return fmt.Errorf("accept only own packets: %s", e)
	}
	if e := s.stack.RemoveAddress(nicID, header.IPv4Any); e != nil {
		return fmt.Errorf("forbid sending without an address: %s", e)
	}
	return nil
}

// DialUDP connects a UDP socket on a free port to a peer.
func (s *Stack) DialUDP(to netip.AddrPort) (net.Conn, error) {
	return s.DialContext(context.Background(), "udp", to.String())
}

// DialContext connects to host:port, both numeric, over "tcp" or "udp". It is compatible with
// http.Transport.DialContext.
func (s *Stack) DialContext(ctx context.Context, netw, addr string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil, fmt.Errorf("dial %s: want an IP address, because the lab has no DNS", addr)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	to, protocol := tcpip.FullAddress{NIC: nicID, Addr: toAddress(ip), Port: uint16(port)}, ipv4.ProtocolNumber
	if ip.Unmap().Is6() {
		protocol = ipv6.ProtocolNumber
	}
	var c net.Conn
	switch strings.TrimRight(netw, "46") {
	case "tcp":
		c, err = gonet.DialContextTCP(ctx, s.stack, to, protocol)
	case "udp":
		c, err = gonet.DialUDP(s.stack, nil, &to, protocol)
	default:
		err = fmt.Errorf("unknown network %q", netw)
	}
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	return c, nil
}

// Close disconnects the stack, which breaks its connections.
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
