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

// dhcpClient is a kind of DHCP client.
type dhcpClient int

const (
	// pxeROM is plain PXE firmware, and ipxeROM is iPXE. Both copy measured packets.
	pxeROM dhcpClient = iota
	ipxeROM
	// agentClient and systemClient are operating systems.
	agentClient
	systemClient
)

// dhcpRetries is the number of repeated requests before the boot fails.
const dhcpRetries = 3

// lease is the answer of DHCP.
type lease struct {
	address netip.Prefix
	// server and file are the boot source; file may be empty.
	server, file string
}

// dhcp gets an address with DISCOVER, OFFER, REQUEST and ACK, and configures it.
func (s *Server) dhcp(ctx context.Context, kind dhcpClient, mode bmc.Mode) (lease, error) {
	if s.cfg.IPv6 {
		return s.dhcp6(ctx, kind, mode)
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
	got, err := client.Request(ctx, s.dhcpOptions(kind, mode)...)
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

// dhcpOptions returns the options that identify each kind of client.
func (s *Server) dhcpOptions(kind dhcpClient, mode bmc.Mode) []dhcpv4.Modifier {
	arch, name := firmwareClass(kind, mode)
	switch kind {
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
	if kind == ipxeROM {
		options = append(options,
			dhcpv4.WithGeneric(dhcpv4.OptionUserClassInformation, []byte("iPXE")), // raw, without a length byte
			dhcpv4.WithGeneric(dhcpv4.GenericOptionCode(175), []byte{0x21, 1, 1, 0x13, 1, 1}))
	}
	return options
}

// firmwareClass returns the architecture and vendor class of firmware.
func firmwareClass(kind dhcpClient, mode bmc.Mode) (iana.Arch, string) {
	switch {
	case mode == bmc.Legacy:
		return iana.INTEL_X86PC, "PXEClient:Arch:00000:UNDI:002001"
	case kind == ipxeROM:
		return iana.EFI_BC, "PXEClient:Arch:00007:UNDI:003010"
	}
	return iana.EFI_BC, "PXEClient:Arch:00007:UNDI:003000" // x64 firmware sends 7, see field notes
}

// findManager finds a replica other than avoid with DHCPINFORM, like the agent's /init.
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
	bootOptions := func(m *dhcpv4.DHCPv4) agentapi.BootOptions {
		return agentapi.BootOptions{
			Server: string(m.Options.Get(dhcpv4.GenericOptionCode(agentapi.OptionServer))),
			Files:  string(m.Options.Get(dhcpv4.GenericOptionCode(agentapi.OptionFiles))),
		}
	}
	ack, err := client.SendAndRead(ctx, client.RemoteAddr(), inform, func(m *dhcpv4.DHCPv4) bool {
		server := bootOptions(m).Server
		return m.MessageType() == dhcpv4.MessageTypeAck && server != "" && server != avoid
	})
	if err != nil {
		return agentapi.BootOptions{}, fmt.Errorf("DHCP: %w", err)
	}
	return bootOptions(ack), nil
}

func readLease(ack *dhcpv4.DHCPv4) (lease, netip.Addr, error) {
	address, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	ones, bits := ack.SubnetMask().Size()
	if !ok || address.IsUnspecified() || bits != 32 {
		return lease{}, netip.Addr{}, errors.New("answer without an address or netmask")
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
