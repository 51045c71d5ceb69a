// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import (
	"net"
	"net/netip"
	"strings"
	"time"
)

// Stage is how far a boot has come.
type Stage string

// The stages, in the order in which a boot passes them.
const (
	// StageOffer: a DHCPOFFER went out. Detail names the firmware.
	StageOffer Stage = "Offer"
	// StageAck: a DHCPACK went out.
	StageAck Stage = "Ack"
	// StageNak: a DHCPNAK went out. Detail says which address was refused.
	StageNak Stage = "Nak"
	// StageSilent: a known host asked and was deliberately not answered.
	// Detail says why.
	StageSilent Stage = "Silent"
	// StageConflict: the host declined its address, since somebody else uses
	// it.
	StageConflict Stage = "AddressConflict"
	// StageMisplaced: a known host asked from another network than its own.
	// Detail says from where.
	StageMisplaced Stage = "WrongNetwork"
	// StageOtherServer: another DHCP server answers the host. Detail names it
	// and what it gives.
	StageOtherServer Stage = "OtherDHCPServer"
	// StageLoader: a file was sent by TFTP. Detail is its name.
	StageLoader Stage = "Loader"
	// StageScript: the boot script was fetched. Detail is the plan.
	StageScript Stage = "Script"
	// StageFile: a kernel or initramfs was fetched. Detail is its name.
	StageFile Stage = "File"
	// StageImage: an OS image was fetched. Detail is its checksum.
	StageImage Stage = "Image"
	// StageFailed: something asked for could not be given. Detail says what
	// and why.
	StageFailed Stage = "Failed"
)

// BootEvent is one step of one boot. It carries no secret.
type BootEvent struct {
	// MAC is the host's, where the protocol tells it: DHCP and scripts. Nil for
	// TFTP and files, which know Client only.
	MAC net.HardwareAddr
	// Client is the address that the host speaks from; zero before it has one.
	Client netip.Addr
	// Host is "namespace/name" of the host, where it is known.
	Host   string
	Stage  Stage
	Detail string
	// Firmware is what asked, as DHCP knows it; empty for other events. FromAgent: it
	// is Ingot's agent. FromSystem: it is an operating system.
	Firmware              string
	FromAgent, FromSystem bool
	// Plan is what the host is to boot; known for DHCP.
	Plan PlanKind
	// Address is what DHCP gives the host; zero for other events.
	Address netip.Addr
	// Port is where the host asked from; zero but for DHCP.
	Port Port
	At   time.Time
}

// Port is where the network says that a host is plugged in. Its texts come from
// the network: they are bounded and printable, and no more to be trusted than it.
type Port struct {
	// Interface of the boot server by which the request arrived; empty where
	// the socket does not tell.
	Interface string
	// Relay that passed the request on; zero: none, it came from the segment.
	Relay netip.Addr
	// CircuitID and RemoteID are what the relay or switch says in option 82
	// (RFC 3046 §3): most often the port and the switch. Text where it is
	// printable, else hex digits after "0x".
	CircuitID, RemoteID string
}

// String is the port for logs; empty when nothing is known.
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

// Observer is told of every step, for boot logs and metrics. Observe is called
// from the servers' own goroutines: it must not block.
type Observer interface {
	Observe(BootEvent)
}

// ObserverFunc is a function as an Observer.
type ObserverFunc func(BootEvent)

// Observe implements Observer.
func (f ObserverFunc) Observe(e BootEvent) { f(e) }
