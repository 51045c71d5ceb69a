// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import (
	"net"
	"net/netip"
	"strings"
	"time"
)

// Stage is a step of a network boot.
type Stage string

// The stages, in boot order.
const (
	// StageOffer: the server sent a DHCPOFFER. Detail is the firmware.
	StageOffer Stage = "Offer"
	// StageAck: the server sent a DHCPACK.
	StageAck Stage = "Ack"
	// StageNak: the server sent a DHCPNAK. Detail names the refused address.
	StageNak Stage = "Nak"
	// StageSilent: the server ignored a request of a known host on purpose. Detail is the reason.
	StageSilent Stage = "Silent"
	// StageConflict: the host declined its address because another machine uses it.
	StageConflict Stage = "AddressConflict"
	// StageWrongNetwork: a known host sent a request from a network that is not its own.
	// Detail names that network.
	StageWrongNetwork Stage = "WrongNetwork"
	// StageOtherServer: another DHCP server answers the host. Detail names the server and
	// its offer.
	StageOtherServer Stage = "OtherDHCPServer"
	// StageLoader: the host fetched a file by TFTP. Detail is the file name.
	StageLoader Stage = "Loader"
	// StageScript: the host fetched its boot script. Detail is the plan.
	StageScript Stage = "Script"
	// StageFile: the host fetched a kernel or initramfs. Detail is the file name.
	StageFile Stage = "File"
	// StageImage: the host fetched an OS image. Detail is the checksum.
	StageImage Stage = "Image"
	// StageFailed: the server could not deliver something. Detail names it and the cause.
	StageFailed Stage = "Failed"
)

// BootEvent is one step of one boot. It carries no secret.
type BootEvent struct {
	// MAC is the boot NIC. It is nil for TFTP and files, whose requests only show Client.
	MAC net.HardwareAddr
	// Client is the host's source address; zero before the host has one.
	Client netip.Addr
	// Host is "namespace/name"; empty if unknown.
	Host   string
	Stage  Stage
	Detail string
	// Firmware is the firmware type according to DHCP; empty for other events. FromAgent
	// is true for Ingot's agent, FromSystem for an operating system.
	Firmware              string
	FromAgent, FromSystem bool
	// Plan is what the host is to boot; set for DHCP only.
	Plan PlanKind
	// Address is the address in the DHCP answer; zero for other events.
	Address netip.Addr
	// Port is where the request came from; set for DHCP only.
	Port Port
	At   time.Time
}

// Port is the host's network port as reported by the network. Its strings are bounded and
// printable, but they come from the network and cannot be trusted.
type Port struct {
	// Interface is the boot server's interface that received the request; empty if the
	// socket does not report it.
	Interface string
	// Relay forwarded the request; zero for a client on the same segment.
	Relay netip.Addr
	// CircuitID and RemoteID are from option 82 (RFC 3046 section 3), usually the switch
	// port and the switch. Unprintable values are hex digits after "0x".
	CircuitID, RemoteID string
}

// String formats the port for logs. It returns "" if nothing is known.
func (p Port) String() string {
	var parts []string
	if p.Interface != "" {
		parts = append(parts, "interface "+p.Interface)
	}
	if p.Relay.IsValid() {
		parts = append(parts, "relay "+p.Relay.String())
	}
	if p.CircuitID != "" {
		parts = append(parts, "circuit "+p.CircuitID)
	}
	if p.RemoteID != "" {
		parts = append(parts, "remote "+p.RemoteID)
	}
	return strings.Join(parts, ", ")
}

// Observer receives every boot event, for boot logs and metrics. The servers call Observe
// from their own goroutines, so it must not block.
type Observer interface {
	Observe(BootEvent)
}

// ObserverFunc makes an Observer from a function.
type ObserverFunc func(BootEvent)

// Observe implements Observer.
func (f ObserverFunc) Observe(e BootEvent) { f(e) }
