// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipv6

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ingot-metal/ingot/agentapi"
)

// errNoAddress reports a server's message without an address.
var errNoAddress = errors.New("the server offers no address")

// client is the DHCPv6 client of an interface.
type client struct {
	mac net.HardwareAddr
	// ask requests the boot options, too.
	ask bool
}

// message makes a message with a DUID from the MAC address (RFC 8415 section 11.4), by which
// the boot server knows the host.
func (c client) message(kind dhcpv6.MessageType, more ...dhcpv6.Option) (*dhcpv6.Message, error) {
	id, err := dhcpv6.GenerateTransactionID()
	if err != nil {
		return nil, fmt.Errorf("make a DHCPv6 message: %w", err)
	}
	wanted := []dhcpv6.OptionCode{dhcpv6.OptionDNSRecursiveNameServer}
	if c.ask {
		wanted = append(wanted, dhcpv6.OptionVendorOpts)
	}
	m := &dhcpv6.Message{MessageType: kind, TransactionID: id}
	for _, option := range append([]dhcpv6.Option{
		dhcpv6.OptClientID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: c.mac}),
		dhcpv6.OptElapsedTime(0),
		&dhcpv6.OptVendorClass{EnterpriseNumber: agentapi.Enterprise, Data: [][]byte{[]byte(agentapi.VendorClass)}},
		dhcpv6.OptRequestedOption(wanted...),
	}, more...) {
		m.AddOption(option)
	}
	return m, nil
}

// association returns the client's identity association (RFC 8415 section 12) with addresses.
func (c client) association(has ...netip.Addr) *dhcpv6.OptIANA {
	ia := &dhcpv6.OptIANA{IaId: [4]byte(c.mac[2:6])}
	for _, a := range has {
		ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: a.AsSlice()})
	}
	return ia
}

// lease is an address from a server.
type lease struct {
	address netip.Addr
	// renew (T1) and rebind (T2) are the times until a renewal at the same server and at any.
	renew, rebind time.Duration
	// server is the one that gave the address.
	server dhcpv6.DUID
}

// minRenew bounds the rate of renewals with short leases.
const minRenew = 30 * time.Second

// leaseIn returns the address in an Advertise or Reply (RFC 8415 section 18.2.10.1) for the
// client's own association.
func (c client) leaseIn(m *dhcpv6.Message) (lease, error) {
	server := m.Options.ServerID()
	if server == nil {
		return lease{}, fmt.Errorf("%w: no server identifier", errNoAddress)
	}
	if status := m.Options.Status(); status != nil && status.StatusCode != iana.StatusSuccess {
		return lease{}, fmt.Errorf("%w: %s", errNoAddress, status.StatusCode)
	}
	for _, ia := range m.Options.IANA() {
		if ia.IaId != c.association().IaId {
			continue
		}
		if status := ia.Options.Status(); status != nil && status.StatusCode != iana.StatusSuccess {
			return lease{}, fmt.Errorf("%w: %s", errNoAddress, status.StatusCode)
		}
		for _, given := range ia.Options.Addresses() {
			address, ok := netip.AddrFromSlice(given.IPv6Addr)
			if !ok || !address.Is6() || address.Is4In6() || !address.IsGlobalUnicast() || given.ValidLifetime <= 0 {
				continue
			}
			renew, rebind := ia.T1, ia.T2
			if renew <= 0 { // left to the client (section 14.2)
				renew = given.PreferredLifetime / 2
			}
			if rebind <= 0 {
				rebind = given.PreferredLifetime / 5 * 4
			}
			return lease{address: address, renew: max(renew, minRenew), rebind: max(rebind, renew), server: server}, nil
		}
	}
	return lease{}, errNoAddress
}

// bootOptions returns the boot options in a message, zero if there are none.
func bootOptions(m *dhcpv6.Message) agentapi.BootOptions {
	options := m.Options.VendorOpt(agentapi.Enterprise)
	text := func(code dhcpv6.OptionCode) string {
		if option, ok := options.GetOne(code).(*dhcpv6.OptionGeneric); ok {
			return string(option.OptionData)
		}
		return ""
	}
	return agentapi.BootOptions{
		Server: text(agentapi.OptionServer), Pin: text(agentapi.OptionPin), Files: text(agentapi.OptionFiles),
		Token: agentapi.Sensitive(text(agentapi.OptionToken)),
	}
}
