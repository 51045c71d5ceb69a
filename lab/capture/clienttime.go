// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"net"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/seqnum"

	"github.com/ingot-metal/ingot/lab/network"
)

// Ports at which a client's packet is a question that a boot server answers.
const (
	dhcpPort = 67
	tftpPort = 69
	binlPort = 4011
)

// ClientTime is how much of the time from a client's first frame to an end was the
// client's own: waits, start-up, and the pace at which it takes what it is sent. The rest
// is the network's and its servers'.
//
// While data that it has not acknowledged is on the way to it the time is the client's,
// also if a server says the same again meanwhile. Otherwise the silence before a frame is
// its sender's, but for a client that has asked and was not answered yet: that silence is
// the servers', however often the client asks again. What comes after the last frame is
// the client's, if nothing is owed to it.
func ClientTime(frames []network.Frame, client net.HardwareAddr, end time.Time) time.Duration {
	var (
		total time.Duration
		last  time.Time // when anybody spoke, since the client did first
		talk  = talk{streams: map[stream]*progress{}}
	)
	for _, f := range frames {
		mine := header.Ethernet(f.Data).SourceAddress() == tcpip.LinkAddress(client)
		if f.At.After(end) || last.IsZero() && !mine || !mine && !addressed(f.Data) {
			continue
		}
		if !last.IsZero() && talk.clients(f.Data, mine) {
			total += f.At.Sub(last)
		}
		talk.hear(f.Data, mine)
		last = f.At
	}
	if !last.IsZero() && (talk.onTheWay() || !talk.owed) {
		total += end.Sub(last)
	}
	return total
}

// talk is what client and servers have said so far.
type talk struct {
	owed    bool   // the client's last question is open
	asked   []byte // the client's last datagram
	told    []byte // the servers' last datagram
	streams map[stream]*progress
}

// stream is a TCP connection, by its ports: the client is one.
type stream struct{ server, client uint16 }

// progress of a stream towards the client, in sequence numbers.
type progress struct{ sent, acknowledged seqnum.Value }

// clients says whether the silence before a frame was the client's.
func (k *talk) clients(frame []byte, mine bool) bool {
	said := datagram(frame)
	switch {
	case k.onTheWay():
		return true
	case mine:
		return !k.owed && !again(said, k.asked)
	default:
		return again(said, k.told)
	}
}

func again(said, before []byte) bool { return len(said) > 0 && bytes.Equal(said, before) }

// onTheWay: a server has sent what the client has not acknowledged.
func (k *talk) onTheWay() bool {
	for _, p := range k.streams {
		if p.acknowledged.LessThan(p.sent) {
			return true
		}
	}
	return false
}

func (k *talk) hear(frame []byte, mine bool) {
	said := datagram(frame)
	if mine {
		k.owed = k.owed || again(said, k.asked) || asks(frame)
		k.asked = said
	} else {
		k.owed, k.told = false, said
	}
	segment, protocol := transport(frame)
	if protocol != header.TCPProtocolNumber {
		return
	}
	tcp := header.TCP(segment)
	if !mine {
		p := k.stream(stream{server: tcp.SourcePort(), client: tcp.DestinationPort()}, seqnum.Value(tcp.SequenceNumber()))
		if sent := seqnum.Value(tcp.SequenceNumber()).Add(seqnum.Size(len(tcp.Payload()))); p.sent.LessThan(sent) {
			p.sent = sent
		}
		return
	}
	id := stream{server: tcp.DestinationPort(), client: tcp.SourcePort()}
	if tcp.Flags().Intersects(header.TCPFlagRst | header.TCPFlagFin | header.TCPFlagSyn) {
		delete(k.streams, id) // it takes no more of it
	} else if p, there := k.streams[id]; there && p.acknowledged.LessThan(seqnum.Value(tcp.AckNumber())) {
		p.acknowledged = seqnum.Value(tcp.AckNumber())
	}
}

// stream is one that is known, or begins at a sequence number.
func (k *talk) stream(id stream, start seqnum.Value) *progress {
	if k.streams[id] == nil {
		k.streams[id] = &progress{sent: start, acknowledged: start}
	}
	return k.streams[id]
}

// addressed: a frame is for somebody, and no announcement to all.
func addressed(frame []byte) bool {
	_, protocol := transport(frame)
	return protocol != 0 || header.Ethernet(frame).Type() == header.ARPProtocolNumber
}

// asks says whether a client's frame is one to which a boot server owes an answer. An
// acknowledgement of TFTP is none: the last one ends the transfer.
func asks(frame []byte) bool {
	segment, protocol := transport(frame)
	switch {
	case protocol == header.UDPProtocolNumber:
		port := header.UDP(segment).DestinationPort()
		return port == dhcpPort || port == tftpPort || port == binlPort
	case protocol == header.TCPProtocolNumber:
		tcp := header.TCP(segment)
		return tcp.Flags().Contains(header.TCPFlagSyn) || len(tcp.Payload()) > 0
	case header.Ethernet(frame).Type() != header.ARPProtocolNumber:
		return false
	}
	arp := header.ARP(frame[header.EthernetMinimumSize:])
	// One that has no address yet probes (RFC 5227), and nobody should answer.
	return arp.IsValid() && arp.Op() == header.ARPRequest && !net.IP(arp.ProtocolAddressSender()).IsUnspecified() &&
		!bytes.Equal(arp.ProtocolAddressSender(), arp.ProtocolAddressTarget())
}

// datagram is what a frame says by UDP; nil for other frames.
func datagram(frame []byte) []byte {
	if segment, protocol := transport(frame); protocol == header.UDPProtocolNumber {
		return header.UDP(segment).Payload()
	}
	return nil
}

// transport is the UDP datagram or TCP segment of a frame of IPv4 or IPv6, and which of
// both it is; 0 for anything else.
func transport(frame []byte) (segment []byte, protocol tcpip.TransportProtocolNumber) {
	packet := frame[header.EthernetMinimumSize:]
	if ip := header.IPv4(packet); header.Ethernet(frame).Type() == header.IPv4ProtocolNumber && ip.IsValid(len(packet)) {
		segment, protocol = ip.Payload(), ip.TransportProtocol()
	} else if ip := header.IPv6(packet); header.Ethernet(frame).Type() == header.IPv6ProtocolNumber && ip.IsValid(len(packet)) {
		segment, protocol = ip.Payload(), ip.TransportProtocol()
	}
	switch {
	case protocol == header.UDPProtocolNumber && len(segment) >= header.UDPMinimumSize:
		return segment, protocol
	case protocol == header.TCPProtocolNumber && len(segment) >= header.TCPMinimumSize && len(segment) >= int(header.TCP(segment).DataOffset()):
		return segment, protocol
	}
	return nil, 0
}
