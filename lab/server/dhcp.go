// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/bmc"
)

// dhcpClient is who asks.
type dhcpClient int

const (
	// pxeROM is plain PXE firmware, ipxeROM is iPXE (as their packets were measured).
	pxeROM dhcpClient = iota
	ipxeROM
	// agentClient and systemClient are operating systems.
	agentClient
	systemClient
)

// dhcpRetries is how often a request is repeated before the boot is given up.
const dhcpRetries = 3

// lease is what DHCP told.
type lease struct {
	address netip.Prefix
	// server and file are where to boot from; file may be empty.
	server, file string
}

// dhcp gets an address by DISCOVER, OFFER, REQUEST and ACK, and uses it.
func (s *Server) dhcp(ctx context.Context, who dhcpClient, mode bmc.Mode) (lease, error) {
	if s.cfg.IPv6 {
		return s.dhcp6(ctx, who, mode)
	}
	if err := s.cfg.NIC.SetAddress(netip.Prefix{}, netip.Addr{}); err != nil {
		return lease{}, err
	}
	conn, err := s.cfg.NIC.ListenUnconfigured(nclient4.ClientPort)
	if err != nil {
		return lease{}, fmt.Errorf("DHCP: %w", err)
	}
	client, err := nclient4.NewWithConn(conn, s.cfg.NIC.MAC(),
		nclient4.WithTimeout(s.cfg.DHCPTimeout), nclient4.WithRetry(dhcpRetries))
	if err != nil {
		return lease{}, errors.Join(fmt.Errorf("DHCP: %w", err), conn.Close())
	}
	got, err := client.Request(ctx, s.dhcpOptions(who, mode)...)
	err = errors.Join(err, client.Close())
	if err != nil {
		return lease{}, fmt.Errorf("DHCP: %w", err)
	}
	l, gateway, err := readLease(got.ACK)
	if err != nil {
		return lease{}, fmt.Errorf("DHCP: %w", err)
	}
	if err := s.cfg.NIC.SetAddress(l.address, gateway); err != nil {
		return lease{}, err
	}
	s.event(EventDHCP, "%s from %s, boot file %q", l.address, got.ACK.ServerIdentifier(), l.file)
	return l, nil
}

// dhcpOptions are what each client says of itself.
func (s *Server) dhcpOptions(who dhcpClient, mode bmc.Mode) []dhcpv4.Modifier {
	arch, name := firmwareClass(who, mode)
	switch who {
	case agentClient:
		return []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptClassIdentifier(agentapi.VendorClass))}
	case systemClient:
		return []dhcpv4.Modifier{dhcpv4.WithRequestedOptions(dhcpv4.OptionHostName)}
	}
	options := []dhcpv4.Modifier{
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier(name)),
		dhcpv4.WithOption(dhcpv4.OptClientArch(arch)),
		dhcpv4.WithRequestedOptions(dhcpv4.OptionTFTPServerName, dhcpv4.OptionBootfileName),
		dhcpv4.WithGeneric(dhcpv4.OptionClientNetworkInterfaceIdentifier, []byte{1, 3, 0}),
		dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(1472)),
	}
	if id, err := hex.DecodeString(strings.ReplaceAll(s.cfg.UUID, "-", "")); err == nil && len(id) == 16 {
		options = append(options, dhcpv4.WithGeneric(dhcpv4.OptionClientMachineIdentifier, append([]byte{0}, id...)))
	}
	if who == ipxeROM {
		options = append(options,
			dhcpv4.WithGeneric(dhcpv4.OptionUserClassInformation, []byte("iPXE")), // raw, without a length byte
			dhcpv4.WithGeneric(dhcpv4.GenericOptionCode(175), []byte{0x21, 1, 1, 0x13, 1, 1}))
	}
	return options
}

// firmwareClass is what firmware calls itself.
func firmwareClass(who dhcpClient, mode bmc.Mode) (iana.Arch, string) {
	switch {
	case mode == bmc.Legacy:
		return iana.INTEL_X86PC, "PXEClient:Arch:00000:UNDI:002001"
	case who == ipxeROM:
		return iana.EFI_BC, "PXEClient:Arch:00007:UNDI:003010"
	}
	return iana.EFI_BC, "PXEClient:Arch:00007:UNDI:003000" // x64 firmware sends 7, see field notes
}

// findManager asks for a replica as the agent's /init does: by DHCPINFORM, for one that
// is not avoid.
func (s *Server) findManager(ctx context.Context, address netip.Addr, avoid string) (agentapi.BootOptions, error) {
	if s.cfg.IPv6 {
		return s.findManager6(ctx, avoid)
	}
	conn, err := s.cfg.NIC.ListenUDP(nclient4.ClientPort)
	if err != nil {
		return agentapi.BootOptions{}, fmt.Errorf("DHCP: %w", err)
	}
	client, err := nclient4.NewWithConn(conn, s.cfg.NIC.MAC(), nclient4.WithTimeout(s.cfg.DHCPTimeout), nclient4.WithRetry(dhcpRetries))
	if err != nil {
		return agentapi.BootOptions{}, errors.Join(fmt.Errorf("DHCP: %w", err), conn.Close())
	}
	defer func() { _ = client.Close() }()
	var options []dhcpv4.Modifier
	for _, code := range []uint8{agentapi.OptionServer, agentapi.OptionFiles} {
		options = append(options, dhcpv4.WithRequestedOptions(dhcpv4.GenericOptionCode(code)))
	}
	inform, err := dhcpv4.NewInform(s.cfg.NIC.MAC(), address.AsSlice(), append(options, s.dhcpOptions(agentClient, bmc.UEFI)...)...)
	if err != nil {
		return agentapi.BootOptions{}, fmt.Errorf("DHCP: %w", err)
	}
	told := func(m *dhcpv4.DHCPv4) agentapi.BootOptions {
		return agentapi.BootOptions{
			Server: string(m.Options.Get(dhcpv4.GenericOptionCode(agentapi.OptionServer))),
			Files:  string(m.Options.Get(dhcpv4.GenericOptionCode(agentapi.OptionFiles))),
		}
	}
	ack, err := client.SendAndRead(ctx, client.RemoteAddr(), inform, func(m *dhcpv4.DHCPv4) bool {
		server := told(m).Server
		return m.MessageType() == dhcpv4.MessageTypeAck && server != "" && server != avoid
	})
	if err != nil {
		return agentapi.BootOptions{}, fmt.Errorf("DHCP: %w", err)
	}
	return told(ack), nil
}

func readLease(ack *dhcpv4.DHCPv4) (lease, netip.Addr, error) {
	address, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	ones, bits := ack.SubnetMask().Size()
	if !ok || address.IsUnspecified() || bits != 32 {
		return lease{}, netip.Addr{}, errors.New("no address or no netmask in the answer")
	}
	l := lease{address: netip.PrefixFrom(address, ones), server: ack.ServerIPAddr.String(), file: ack.BootFileNameOption()}
	if l.file == "" {
		l.file = ack.BootFileName
	}
	if ack.ServerIPAddr.IsUnspecified() || ack.ServerIPAddr == nil {
		l.server = ack.TFTPServerName()
	}
	if net.ParseIP(l.server) == nil && ack.ServerIdentifier() != nil {
		l.server = ack.ServerIdentifier().String()
	}
	var gateway netip.Addr
	if routers := ack.Router(); len(routers) > 0 {
		gateway, _ = netip.AddrFromSlice(routers[0].To4())
	}
	return l, gateway, nil
}
