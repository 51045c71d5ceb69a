// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"fmt"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/pxe"
)

// Overheard looks at a reply of some server to some client. The Answer has an
// event when that server is not Ingot's and answers a host whose network this
// one serves: two DHCP servers on one segment is the most common mistake in the
// field, and which one wins changes from boot to boot. Replicas give the recorded
// address, and so are not told from one another.
func Overheard(id Identity, dir pxe.Directory, q Query) (Answer, error) {
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
	detail := strange(rep, other, host)
	if detail == "" {
		return Answer{}, nil
	}
	return Answer{kind: kind, known: true, other: other, Event: pxe.BootEvent{
		MAC: host.MAC, Host: host.Namespace + "/" + host.Name,
		Stage: pxe.StageOtherServer, Detail: detail, Port: pxe.Port{Interface: q.Link.Name},
	}}, nil
}

// strange says what of a reply cannot be a replica's; empty: nothing.
func strange(rep *dhcpv4.DHCPv4, other netip.Addr, host pxe.Host) string {
	given := addressOf(rep.YourIPAddr)
	switch {
	case given == host.Address.Addr():
		return ""
	case given.IsValid():
		return fmt.Sprintf("%s gives it %s, recorded is %s", other, given, host.Address.Addr())
	case rep.MessageType() == dhcpv4.MessageTypeOffer:
		return fmt.Sprintf("%s is a proxyDHCP server and offers it the boot file %q", other, Label([]byte(rep.BootFileNameOption()+rep.BootFileName)))
	}
	return "" // parameters for somebody who has an address
}
