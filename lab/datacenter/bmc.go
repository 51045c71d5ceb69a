// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package datacenter

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/ipmi"
)

// Protocol is the protocol of a BMC. The zero value is Redfish over HTTPS.
type Protocol string

const (
	Redfish Protocol = ""
	// RedfishHTTP is Redfish over plain HTTP.
	RedfishHTTP Protocol = "RedfishHTTP"
	// IPMI is only IPMI v2.0.
	IPMI Protocol = "IPMI"
	// Both is Redfish over HTTPS, and IPMI on the same port over UDP.
	Both Protocol = "Both"
)

// portTries bounds the search for a port that is free for TCP and UDP.
const portTries = 50

// Address returns the BMC address of a host for this server; see HostPort.
func (s *Server) Address() string {
	if s.BMC == nil {
		return s.IPMI.Address()
	}
	return s.BMC.Address()
}

// HostPort returns the address without its scheme, so that the protocol has to be probed.
func (s *Server) HostPort() string {
	_, hostPort, _ := strings.Cut(s.Address(), "://")
	return hostPort
}

// startBMC starts the BMC for the server's machine.
func (s *Server) startBMC(dc *Datacenter, cfg Config, id string) error {
	tcp, udp, err := sockets(cfg.Address, s.Spec.Protocol)
	if err != nil {
		return err
	}
	system := s.system(id)
	if udp != nil {
		s.IPMI, err = ipmi.Start(ipmi.Config{
			Packets: udp, Machine: s.machine, Username: Username, Password: cfg.Password, System: system, MaxSessions: s.Spec.MaxSessions,
		})
		if err != nil {
			return errors.Join(err, closeListener(tcp))
		}
		s.closers = append(s.closers, s.IPMI.Close)
	}
	if s.Spec.Protocol == IPMI {
		return nil
	}
	s.BMC, err = bmc.Start(bmc.Config{
		Listener: tcp, Authority: dc.Authority, Machine: s.machine, Username: Username, Password: cfg.Password, System: system,
		Personality: s.Spec.Personality, Quirks: s.Spec.Quirks, MaxSessions: s.Spec.MaxSessions, Plain: s.Spec.Protocol == RedfishHTTP,
	})
	if err != nil {
		return errors.Join(err, closeListener(tcp))
	}
	s.closers = append(s.closers, s.BMC.Close)
	if s.drive != nil {
		s.drive.connect(s.BMC)
	}
	return nil
}

// system returns the system that the BMC reports; a personality has its own names.
func (s *Server) system(id string) bmc.System {
	system := bmc.System{
		UUID: id, Serial: s.Spec.Name, MACs: []string{s.MAC.String()}, Cores: 1, MemoryBytes: 1 << 30,
		BMCUUID: uuid.NewSHA1(uuid.NameSpaceOID, []byte("bmc "+s.Spec.Name)).String(),
	}
	if s.Spec.Personality.Bare() {
		system.Manufacturer, system.Model, system.BMCFirmware = "Ingot Lab", string(s.Spec.Kind)+" Server", "1.0"
	}
	return system
}

// sockets opens the sockets for a protocol with one port number; others are nil. For Redfish on
// the default address the BMC opens its own socket, and then refuses connections while it
// restarts. Elsewhere it breaks them.
func sockets(address netip.Addr, protocol Protocol) (tcp net.Listener, udp net.PacketConn, err error) {
	anyPort := netip.AddrPortFrom(address, 0).String()
	switch protocol {
	case Redfish, RedfishHTTP:
		if address == netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
			return nil, nil, nil
		}
		tcp, err = net.Listen("tcp", anyPort)
		return tcp, nil, err
	case IPMI:
		udp, err = net.ListenPacket("udp", anyPort)
		return nil, udp, err
	case Both:
		for range portTries {
			if tcp, err = net.Listen("tcp", anyPort); err != nil {
				return nil, nil, err
			}
			if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
				return tcp, udp, nil
			}
			_ = tcp.Close()
		}
		return nil, nil, err
	}
	return nil, nil, fmt.Errorf("unknown protocol %q", protocol)
}

func closeListener(l net.Listener) error {
	if l == nil {
		return nil
	}
	return l.Close()
}
