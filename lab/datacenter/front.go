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

// Protocol is what a BMC speaks.
type Protocol string

// The protocols. The zero value is Redfish over HTTPS.
const (
	Redfish Protocol = ""
	// RedfishHTTP is Redfish in clear.
	RedfishHTTP Protocol = "RedfishHTTP"
	// IPMI is IPMI v2.0 alone.
	IPMI Protocol = "IPMI"
	// Both are Redfish over HTTPS, and IPMI on the same port by UDP.
	Both Protocol = "Both"
)

// portTries is how often a port is looked for that is free by TCP and by UDP.
const portTries = 50

// Address is what a host with this BMC is registered by; see HostPort.
func (s *Server) Address() string {
	if s.BMC == nil {
		return s.IPMI.Address()
	}
	return s.BMC.Address()
}

// HostPort is the address without its scheme: whoever gets it has to find out what
// the BMC speaks.
func (s *Server) HostPort() string {
	_, place, _ := strings.Cut(s.Address(), "://")
	return place
}

// front starts the BMC before the server's machine.
func (s *Server) front(dc *DataCentre, cfg Config, id string) error {
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
	if s.drive != nil {
		s.drive.slots(s.BMC)
	}
	return nil
}

// system is what the BMC tells of the server; a personality has its own names.
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

// sockets opens those that a protocol needs, with one port number; the other is nil.
// Redfish alone on the usual address is left to the BMC, which then refuses
// connections while it restarts; elsewhere it breaks them.
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
