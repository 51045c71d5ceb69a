// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/nclient6"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/bmc"
)

const (
	// enterprisePXE is Intel's enterprise number, which firmware uses.
	enterprisePXE = 343
	// onLink is the prefix length of the address: no router advertisement is received.
	onLink = 64
)

// client6 opens a DHCPv6 client at the link-local address.
func (s *Server) client6() (*nclient6.Client, error) {
	conn, err := s.cfg.NIC.ListenUDPIPv6(dhcpv6.DefaultClientPort)
	if err != nil {
		return nil, fmt.Errorf("DHCPv6: %w", err)
	}
	client, err := nclient6.NewWithConn(conn, s.cfg.NIC.MAC(), nclient6.WithTimeout(s.cfg.DHCPTimeout), nclient6.WithRetry(dhcpRetries))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("DHCPv6: %w", err), conn.Close())
	}
	return client, nil
}

// dhcp6 gets an address with SOLICIT, ADVERTISE, REQUEST and REPLY, and configures it.
func (s *Server) dhcp6(ctx context.Context, kind dhcpClient, mode bmc.Mode) (lease, error) {
	if err := s.cfg.NIC.SetIPv6(netip.Prefix{}); err != nil {
		return lease{}, err
	}
	client, err := s.client6()
	if err != nil {
		return lease{}, err
	}
	reply, err := exchange6(ctx, client, dhcp6Options(kind, mode))
	if err = errors.Join(err, client.Close()); err != nil {
		return lease{}, fmt.Errorf("DHCPv6: %w", err)
	}
	l, err := readLease6(reply)
	if err != nil {
		return lease{}, fmt.Errorf("DHCPv6: %w", err)
	}
	if err := s.cfg.NIC.SetIPv6(l.address); err != nil {
		return lease{}, err
	}
	s.event(EventDHCP, "%s, boot file %q", l.address, l.file)
	return l, nil
}

func exchange6(ctx context.Context, client *nclient6.Client, options []dhcpv6.Modifier) (*dhcpv6.Message, error) {
	advertise, err := client.Solicit(ctx, options...)
	if err != nil {
		return nil, err
	}
	return client.Request(ctx, advertise, options...)
}

// dhcp6Options returns the options that identify each kind of client.
func dhcp6Options(kind dhcpClient, mode bmc.Mode) []dhcpv6.Modifier {
	class := func(number uint32, name string) dhcpv6.Modifier {
		return dhcpv6.WithOption(&dhcpv6.OptVendorClass{EnterpriseNumber: number, Data: [][]byte{[]byte(name)}})
	}
	switch kind {
	case agentClient:
		return []dhcpv6.Modifier{class(agentapi.Enterprise, agentapi.VendorClass)}
	case systemClient:
		return nil
	}
	arch, name := firmwareClass(kind, mode)
	options := []dhcpv6.Modifier{class(enterprisePXE, name), dhcpv6.WithArchType(arch), dhcpv6.WithRequestedOptions(dhcpv6.OptionBootfileURL)}
	if kind == ipxeROM {
		options = append(options, dhcpv6.WithUserClass([]byte("iPXE")))
	}
	return options
}

// readLease6 returns the address and the boot file: a URL, which is split for TFTP.
func readLease6(reply *dhcpv6.Message) (lease, error) {
	ia := reply.Options.OneIANA()
	if ia == nil || ia.Options.OneAddress() == nil {
		return lease{}, errors.New("answer without an address")
	}
	address, _ := netip.AddrFromSlice(ia.Options.OneAddress().IPv6Addr)
	l := lease{address: netip.PrefixFrom(address, onLink), file: reply.Options.BootFileURL()}
	if u, err := url.Parse(l.file); err == nil && u.Scheme == "tftp" {
		l.server, l.file = u.Hostname(), strings.TrimPrefix(u.Path, "/")
	}
	return l, nil
}

// findManager6 finds a replica other than avoid with an INFORMATION-REQUEST, like the agent's
// /init.
func (s *Server) findManager6(ctx context.Context, avoid string) (agentapi.BootOptions, error) {
	client, err := s.client6()
	if err != nil {
		return agentapi.BootOptions{}, err
	}
	defer func() { _ = client.Close() }()
	request, err := dhcpv6.NewMessage(append(dhcp6Options(agentClient, bmc.UEFI), dhcpv6.WithRequestedOptions(dhcpv6.OptionVendorOpts))...)
	if err != nil {
		return agentapi.BootOptions{}, fmt.Errorf("DHCPv6: %w", err)
	}
	request.MessageType = dhcpv6.MessageTypeInformationRequest
	bootOptions := func(m *dhcpv6.Message) agentapi.BootOptions {
		options := m.Options.VendorOpt(agentapi.Enterprise)
		text := func(code dhcpv6.OptionCode) string {
			if option := options.GetOne(code); option != nil {
				return string(option.ToBytes())
			}
			return ""
		}
		return agentapi.BootOptions{Server: text(agentapi.OptionServer), Files: text(agentapi.OptionFiles)}
	}
	reply, err := client.SendAndRead(ctx, client.RemoteAddr(), request, func(m *dhcpv6.Message) bool {
		server := bootOptions(m).Server
		return m.MessageType == dhcpv6.MessageTypeReply && server != "" && server != avoid
	})
	if err != nil {
		return agentapi.BootOptions{}, fmt.Errorf("DHCPv6: %w", err)
	}
	return bootOptions(reply), nil
}
