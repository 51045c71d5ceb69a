// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/pxe"
)

// proxied makes a host one whose address another server gives.
func proxied(h pxe.Host) pxe.Host {
	h.Mode, h.Subnet, h.Address, h.Gateway = pxe.Proxy, h.Address.Masked(), netip.Prefix{}, netip.Addr{}
	return h
}

// startNeighbour runs a DHCP server that gives everybody one address and knows
// nothing of booting, as an office's does.
func startNeighbour(t *testing.T, seg *segment) {
	t.Helper()
	self := net.IPv4(192, 0, 2, 2)
	st, err := network.NewStack(seg.Switch, network.StackConfig{Name: "neighbour", Address: netip.MustParsePrefix("192.0.2.2/24")})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := st.ListenUDP(67)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for {
			n, _, err := conn.ReadFrom(buf)
			if err != nil {
				return // closed
			}
			req, err := dhcpv4.FromBytes(buf[:n])
			if err != nil {
				continue
			}
			kind := map[dhcpv4.MessageType]dhcpv4.MessageType{
				dhcpv4.MessageTypeDiscover: dhcpv4.MessageTypeOffer, dhcpv4.MessageTypeRequest: dhcpv4.MessageTypeAck}[req.MessageType()]
			if chosen := req.ServerIdentifier(); kind == dhcpv4.MessageTypeNone || (chosen != nil && !chosen.Equal(self)) {
				continue
			}
			r, err := dhcpv4.NewReplyFromRequest(req, dhcpv4.WithMessageType(kind), dhcpv4.WithServerIP(self), dhcpv4.WithYourIP(net.IPv4(192, 0, 2, 99)),
				dhcpv4.WithOption(dhcpv4.OptServerIdentifier(self)), dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithLeaseTime(3600))
			if err == nil {
				_, _ = conn.WriteTo(r.ToBytes(), &net.UDPAddr{IP: net.IPv4bcast, Port: 68})
			}
		}
	}()
	t.Cleanup(func() { _, _ = conn.Close(), st.Close(); <-done })
}
