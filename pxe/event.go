// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import (
	"net"
	"net/netip"
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
	Stage  Stage
	Detail string
	At     time.Time
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
