// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"net"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/ingot-metal/ingot/lab/network"
)

var (
	firmwareMAC = net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}
	serverMAC   = net.HardwareAddr{0x52, 0x54, 0, 0, 0, 2}
)

// frameFrom is a frame of one of the two.
func frameFrom(from net.HardwareAddr, ethertype tcpip.NetworkProtocolNumber, packet []byte) []byte {
	frame := make([]byte, header.EthernetMinimumSize, header.EthernetMinimumSize+len(packet))
	header.Ethernet(frame).Encode(&header.EthernetFields{SrcAddr: tcpip.LinkAddress(from), Type: ethertype})
	return append(frame, packet...)
}

func ipFrame(from net.HardwareAddr, protocol tcpip.TransportProtocolNumber, segment []byte) []byte {
	packet := make([]byte, header.IPv4MinimumSize, header.IPv4MinimumSize+len(segment))
	header.IPv4(packet).Encode(&header.IPv4Fields{TotalLength: uint16(header.IPv4MinimumSize + len(segment)), TTL: 64, Protocol: uint8(protocol),
		SrcAddr: tcpip.AddrFrom4([4]byte{192, 0, 2, 9}), DstAddr: tcpip.AddrFrom4([4]byte{192, 0, 2, 1})})
	return frameFrom(from, header.IPv4ProtocolNumber, append(packet, segment...))
}

func udpFrame(from net.HardwareAddr, port uint16, text string) []byte {
	segment := make([]byte, header.UDPMinimumSize, header.UDPMinimumSize+len(text))
	header.UDP(segment).Encode(&header.UDPFields{DstPort: port, Length: uint16(header.UDPMinimumSize + len(text))})
	return ipFrame(from, header.UDPProtocolNumber, append(segment, text...))
}

func tcpFrame(from net.HardwareAddr, flags header.TCPFlags, text string) []byte {
	return tcpAt(from, flags, 0, 0, text)
}

// tcpAt is a segment with a place in its stream; the client's is read as what it
// acknowledges.
func tcpAt(from net.HardwareAddr, flags header.TCPFlags, sequence, acknowledged uint32, text string) []byte {
	segment := make([]byte, header.TCPMinimumSize, header.TCPMinimumSize+len(text))
	fields := &header.TCPFields{SrcPort: 80, DstPort: 5000, SeqNum: sequence, AckNum: acknowledged, DataOffset: header.TCPMinimumSize, Flags: flags}
	if bytes.Equal(from, firmwareMAC) {
		fields.SrcPort, fields.DstPort = fields.DstPort, fields.SrcPort
	}
	header.TCP(segment).Encode(fields)
	return ipFrame(from, header.TCPProtocolNumber, append(segment, text...))
}

// arpFrame is a request of the firmware's for the server.
func arpFrame(sender [4]byte) []byte {
	packet := make(header.ARP, header.ARPSize)
	packet.SetIPv4OverEthernet()
	packet.SetOp(header.ARPRequest)
	copy(packet.ProtocolAddressSender(), sender[:])
	copy(packet.ProtocolAddressTarget(), []byte{192, 0, 2, 1})
	return frameFrom(firmwareMAC, header.ARPProtocolNumber, packet)
}

func TestClientTime(t *testing.T) {
	const second = time.Second
	type at struct {
		seconds int
		frame   []byte
	}
	for _, tc := range []struct {
		name   string
		frames []at
		end    int
		want   time.Duration
	}{
		{"nothing was said", nil, 9, 0},
		{"others before the client", []at{{0, udpFrame(serverMAC, 5000, "x")}, {5, udpFrame(firmwareMAC, 9, "x")}}, 7, 2 * second},
		{"a client that collects offers", []at{{0, udpFrame(firmwareMAC, 67, "discover")}, {1, udpFrame(serverMAC, 68, "offer")}, {5, udpFrame(firmwareMAC, 67, "request")}, {6, udpFrame(serverMAC, 68, "ack")}}, 8, 6 * second},
		{"a slow server", []at{{0, udpFrame(firmwareMAC, 67, "discover")}, {3, udpFrame(serverMAC, 68, "offer")}}, 3, 0},
		{"a server that is asked twice", []at{{0, udpFrame(firmwareMAC, 67, "discover, 0 s")}, {4, udpFrame(firmwareMAC, 67, "discover, 4 s")}, {5, udpFrame(serverMAC, 68, "offer")}}, 6, second},
		{"a server that never answers", []at{{0, udpFrame(firmwareMAC, 67, "discover")}}, 60, 0},
		{"start-up after a transfer", []at{{0, udpFrame(firmwareMAC, 69, "read")}, {1, udpFrame(serverMAC, 5000, "data 1")}, {2, udpFrame(firmwareMAC, 5001, "ack 1")}, {9, udpFrame(firmwareMAC, 67, "discover")}, {9, udpFrame(serverMAC, 68, "offer")}}, 9, 8 * second},
		{"a transfer that stands still", []at{{0, udpFrame(firmwareMAC, 5001, "ack 1")}, {3, udpFrame(firmwareMAC, 5001, "ack 1")}, {4, udpFrame(serverMAC, 5000, "data 2")}}, 4, 0},
		{"a slow answer by HTTP", []at{{0, tcpFrame(firmwareMAC, header.TCPFlagSyn, "")}, {1, tcpFrame(serverMAC, header.TCPFlagSyn|header.TCPFlagAck, "")}, {2, tcpFrame(firmwareMAC, header.TCPFlagAck, "GET /")},
			{3, tcpFrame(serverMAC, header.TCPFlagAck, "")}, {7, tcpFrame(serverMAC, header.TCPFlagAck, "200 OK")}}, 9, 3 * second},
		{"one that is deaf while its server says it again", []at{{0, tcpAt(firmwareMAC, header.TCPFlagAck, 0, 100, "GET /")}, {1, tcpAt(serverMAC, header.TCPFlagAck, 100, 5, "200 OK")},
			{2, tcpAt(serverMAC, header.TCPFlagAck, 100, 5, "200 OK")}, {4, tcpAt(serverMAC, header.TCPFlagAck, 100, 5, "200 OK")}, {8, tcpAt(firmwareMAC, header.TCPFlagAck, 5, 106, "")}}, 9, 8 * second},
		{"a server that stands still in the middle", []at{{0, tcpAt(firmwareMAC, header.TCPFlagAck, 0, 100, "GET /")}, {1, tcpAt(serverMAC, header.TCPFlagAck, 100, 5, "200 OK")},
			{2, tcpAt(firmwareMAC, header.TCPFlagAck, 5, 106, "")}, {6, tcpAt(serverMAC, header.TCPFlagAck, 106, 5, "more")}, {7, tcpAt(firmwareMAC, header.TCPFlagAck, 5, 110, "")}}, 7, 2 * second},
		{"numbers that wrap", []at{{0, tcpAt(firmwareMAC, header.TCPFlagAck, 0, 0xfffffffe, "GET /")}, {1, tcpAt(serverMAC, header.TCPFlagAck, 0xfffffffe, 5, "200 OK")},
			{3, tcpAt(firmwareMAC, header.TCPFlagAck, 5, 4, "")}, {5, tcpAt(serverMAC, header.TCPFlagAck, 4, 5, "more")}}, 6, 3 * second},
		{"one that hangs up", []at{{0, tcpAt(firmwareMAC, header.TCPFlagAck, 0, 100, "GET /")}, {1, tcpAt(serverMAC, header.TCPFlagAck, 100, 5, "200 OK")},
			{2, tcpAt(firmwareMAC, header.TCPFlagRst, 5, 0, "")}, {3, udpFrame(firmwareMAC, 67, "discover")}, {7, udpFrame(serverMAC, 68, "offer")}}, 7, 2 * second},
		{"data said again by TFTP", []at{{0, udpFrame(firmwareMAC, 69, "read")}, {1, udpFrame(serverMAC, 5000, "data 1")}, {3, udpFrame(serverMAC, 5000, "data 1")}, {4, udpFrame(firmwareMAC, 5001, "ack 1")}}, 4, 3 * second},
		{"an announcement to all", []at{{0, udpFrame(firmwareMAC, 9, "x")}, {2, frameFrom(serverMAC, header.IPv6ProtocolNumber, nil)}, {5, udpFrame(firmwareMAC, 9, "y")}}, 5, 5 * second},
		{"a slow reader by HTTP", []at{{0, tcpAt(firmwareMAC, header.TCPFlagAck, 0, 100, "GET /")}, {1, tcpAt(serverMAC, header.TCPFlagAck, 100, 5, "200 OK")}, {3, tcpAt(firmwareMAC, header.TCPFlagAck, 5, 103, "")},
			{7, tcpAt(firmwareMAC, header.TCPFlagAck, 5, 106, "")}, {8, tcpAt(serverMAC, header.TCPFlagAck, 106, 5, "more")}}, 8, 6 * second},
		{"who has the server's address", []at{{0, arpFrame([4]byte{192, 0, 2, 9})}, {2, arpFrame([4]byte{192, 0, 2, 9})}}, 5, 0},
		{"a probe that nobody answers", []at{{0, arpFrame([4]byte{})}, {2, arpFrame([4]byte{})}}, 5, 5 * second},
		{"after the end", []at{{0, udpFrame(firmwareMAC, 9, "x")}, {9, udpFrame(firmwareMAC, 9, "y")}}, 4, 4 * second},
		{"frames cut short", []at{{0, frameFrom(firmwareMAC, header.IPv4ProtocolNumber, []byte{0x45})}, {1, frameFrom(firmwareMAC, header.IPv6ProtocolNumber, nil)},
			{2, frameFrom(firmwareMAC, header.ARPProtocolNumber, []byte{0})}, {3, ipFrame(firmwareMAC, header.TCPProtocolNumber, []byte{1})}}, 3, 3 * second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			began := time.Unix(1000, 0)
			var frames []network.Frame
			for _, f := range tc.frames {
				frames = append(frames, network.Frame{At: began.Add(time.Duration(f.seconds) * second), Data: f.frame})
			}
			if got := ClientTime(frames, firmwareMAC, began.Add(time.Duration(tc.end)*second)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}
