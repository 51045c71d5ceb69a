// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"fmt"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/pxe"
)

// InspectReply inspects a reply of any server to any client. The Answer has an event if the
// server is not Ingot's and answers a host of a network of mode Reserve. Two DHCP servers on
// one segment are a common mistake, and the host gets a random one of them at each boot.
// Ingot's replicas give the recorded address and are ignored.
func InspectReply(id Identity, dir pxe.Directory, q Query) (Answer, error) {
	rep, err := dhcpv4.FromBytes(q.Packet)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	kind := rep.MessageType()
	if rep.OpCode != dhcpv4.OpcodeBootReply || len(rep.ClientHWAddr) != 6 ||
		(kind != dhcpv4.MessageTypeOffer && kind != dhcpv4.MessageTypeAck) {
		return Answer{}, nil
	}
	other := addressOf(rep.Options.Get(dhcpv4.OptionServerIdentifier))
	if !other.IsValid() || other == id.Address {
		return Answer{}, nil
	}
	host, known := dir.Lookup(rep.ClientHWAddr)
	if !known || host.Mode != pxe.Reserve || host.Plan.Kind == pxe.None || !host.Address.IsValid() {
		return Answer{}, nil
	}
	detail := describeRogue(rep, other, host)
	if detail == "" {
		return Answer{}, nil
	}
	return Answer{kind: kind, known: true, other: other, Event: pxe.BootEvent{
		MAC: host.MAC, Host: host.Key(),
		Stage: pxe.StageOtherServer, Detail: detail, Port: pxe.Port{Interface: q.Link.Name},
	}}, nil
}

// describeRogue describes what in a reply cannot come from an Ingot replica, or returns "".
func describeRogue(rep *dhcpv4.DHCPv4, other netip.Addr, host pxe.Host) string {
	given := addressOf(rep.YourIPAddr)
	switch {
	case given == host.Address.Addr():
		return ""
	case given.IsValid():
		return fmt.Sprintf("DHCP server %s gives %s, but %s is recorded", other, given, host.Address.Addr())
	case rep.MessageType() == dhcpv4.MessageTypeOffer:
		return fmt.Sprintf("proxyDHCP server %s offers the boot file %q", other, Label([]byte(rep.BootFileNameOption()+rep.BootFileName)))
	}
	return "" // parameters for a client that has an address
}
