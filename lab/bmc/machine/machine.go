// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"sync"
)

// Action is what a BMC asks of the machine behind it.
type Action string

// The actions.
const (
	On Action = "On"
	// Off cuts the power at once.
	Off Action = "Off"
	// Shutdown asks the operating system to switch off; it may take its time, or ignore it.
	Shutdown Action = "Shutdown"
	// Reset restarts at once; it does nothing to a machine that is off.
	Reset Action = "Reset"
	// Reboot asks the operating system to restart; it may ignore it.
	Reboot Action = "Reboot"
)

// Machine is a server as its BMC sees it. It keeps the boot setting, because it
// is the machine's firmware that uses up an override, also when the operating
// system restarts by itself. All methods are safe for concurrent use.
type Machine interface {
	Powered() bool
	// Power begins the action and does not wait for an operating system: after
	// On, Off and Reset Powered tells the new state; Shutdown and Reboot are
	// requests. On of a machine that is on, and Off of one that is off, do nothing.
	Power(ctx context.Context, action Action) error
	Boot() Boot
	SetBoot(boot Boot)
}

// Target is a device to boot from, in Redfish's words (DSP0268 ComputerSystem,
// BootSource).
type Target string

// The targets. A bare BMC offers the first three.
const (
	TargetNone  Target = "None"
	TargetPXE   Target = "Pxe"
	TargetDisk  Target = "Hdd"
	TargetCD    Target = "Cd"
	TargetHTTP  Target = "UefiHttp"
	TargetSetup Target = "BiosSetup"
	// TargetLocalCD is the server's own optical drive, where a BMC tells it from the
	// virtual one. No machine here has one: its boot goes on to its own order.
	TargetLocalCD Target = "LocalCd"
)

// Mode of the firmware, in Redfish's words (BootSourceOverrideMode).
type Mode string

// The modes.
const (
	UEFI   Mode = "UEFI"
	Legacy Mode = "Legacy"
)

// Persistence of an override, in Redfish's words (BootSourceOverrideEnabled).
type Persistence string

// The persistences.
const (
	Disabled   Persistence = "Disabled"
	Once       Persistence = "Once"
	Continuous Persistence = "Continuous"
)

// Boot is the boot override of a machine.
type Boot struct {
	Enabled Persistence
	Target  Target
	Mode    Mode
	// HTTPBootURI is what TargetHTTP boots; empty: what DHCP says. It outlives an
	// override for once.
	HTTPBootURI string
}

// BootSetting keeps a machine's override; Machine implementations embed it. The
// zero value is no override, UEFI. It is safe for concurrent use.
type BootSetting struct {
	mu      sync.Mutex
	boot    Boot
	started uint64
}

// Started counts the boots so far. What is pending in the firmware's settings is
// applied when it grows.
func (s *BootSetting) Started() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}

// Boot returns the setting.
func (s *BootSetting) Boot() Boot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.boot.filled()
}

// SetBoot replaces the setting.
func (s *BootSetting) SetBoot(boot Boot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boot = boot.filled()
}

// ConsumeBoot returns what this boot starts from (TargetNone: the machine's own
// order) and in which mode. The firmware calls it once at the start of each
// boot: an override for once is gone then, its mode stays.
func (s *BootSetting) ConsumeBoot() (Target, Mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	b := s.boot.filled()
	switch b.Enabled {
	case Once:
		s.boot = Boot{Enabled: Disabled, Target: TargetNone, Mode: b.Mode, HTTPBootURI: b.HTTPBootURI}
		return b.Target, b.Mode
	case Continuous:
		return b.Target, b.Mode
	}
	return TargetNone, b.Mode
}

func (b Boot) filled() Boot {
	if b.Enabled == "" {
		b.Enabled = Disabled
	}
	if b.Target == "" {
		b.Target = TargetNone
	}
	if b.Mode == "" {
		b.Mode = UEFI
	}
	return b
}

// Bench is a Machine that is nothing but a power switch, for tests of BMC clients
// and for scale.
type Bench struct {
	BootSetting

	mu      sync.Mutex
	powered bool
	boots   []Target
	// IgnoreShutdown makes the operating system deaf to Shutdown and Reboot. It
	// is set before the machine is used.
	IgnoreShutdown bool
}

// Powered implements Machine.
func (b *Bench) Powered() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.powered
}

// Power implements Machine.
func (b *Bench) Power(_ context.Context, action Action) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	soft := action == Shutdown || action == Reboot
	if soft && b.IgnoreShutdown {
		return nil
	}
	switch action {
	case On:
		if !b.powered {
			b.powered = true
			b.post()
		}
	case Off, Shutdown:
		b.powered = false
	case Reset, Reboot:
		if b.powered {
			b.post()
		}
	}
	return nil
}

func (b *Bench) post() {
	target, _ := b.ConsumeBoot()
	b.boots = append(b.boots, target)
}

// Boots lists what each boot so far started from.
func (b *Bench) Boots() []Target {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Target(nil), b.boots...)
}
