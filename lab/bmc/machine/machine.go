// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"context"
	"sync"
)

// Action is a power action.
type Action string

// The actions.
const (
	On Action = "On"
	// Off cuts the power.
	Off Action = "Off"
	// Shutdown asks the operating system to shut down, which may take time or fail.
	Shutdown Action = "Shutdown"
	// Reset restarts at once. It has no effect on a machine that is off.
	Reset Action = "Reset"
	// Reboot asks the operating system to restart, which it may ignore.
	Reboot Action = "Reboot"
)

// Machine is the server behind a BMC. It keeps the boot setting, since the firmware uses up an
// override even if the operating system restarts the machine. Methods are safe for concurrent use.
type Machine interface {
	Powered() bool
	// Power starts the action. After On, Off and Reset, Powered returns the new state; Shutdown and
	// Reboot do not wait for the operating system. On while on, and Off while off, do nothing.
	Power(ctx context.Context, action Action) error
	Boot() Boot
	SetBoot(boot Boot)
}

// Target is a boot device with its Redfish name (DSP0268 ComputerSystem, BootSource).
type Target string

// The targets. A bare BMC offers the first three.
const (
	TargetNone  Target = "None"
	TargetPXE   Target = "Pxe"
	TargetDisk  Target = "Hdd"
	TargetCD    Target = "Cd"
	TargetHTTP  Target = "UefiHttp"
	TargetSetup Target = "BiosSetup"
	// TargetLocalCD is the server's own optical drive, if the BMC distinguishes it from the virtual
	// one. No machine here has one: it boots in its own order.
	TargetLocalCD Target = "LocalCd"
)

// Mode is the boot mode with its Redfish name (BootSourceOverrideMode).
type Mode string

// The modes.
const (
	UEFI   Mode = "UEFI"
	Legacy Mode = "Legacy"
)

// Persistence of an override with its Redfish name (BootSourceOverrideEnabled).
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
	// HTTPBootURI is the URL for TargetHTTP; empty: from DHCP. It stays after a single boot.
	HTTPBootURI string
}

// BootSetting keeps the override of a machine. Implementations of Machine embed it. The zero value
// is UEFI without override. It is safe for concurrent use.
type BootSetting struct {
	mu      sync.Mutex
	boot    Boot
	started uint64
}

// Started counts the boots so far. Pending firmware settings are applied when it grows.
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

// ConsumeBoot returns the source (TargetNone: the machine's own order) and mode of a boot. The
// firmware calls it once at the start of each boot: an override for one boot is then removed, but
// its mode stays.
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
	b.Enabled, b.Target, b.Mode = cmp.Or(b.Enabled, Disabled), cmp.Or(b.Target, TargetNone), cmp.Or(b.Mode, UEFI)
	return b
}

// Bench is a Machine that only has a power switch, for tests of BMC clients and at scale.
type Bench struct {
	BootSetting

	mu      sync.Mutex
	powered bool
	boots   []Target
	// IgnoreShutdown makes the operating system ignore Shutdown and Reboot. It is set before the
	// machine is used.
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

// Boots returns the source of each boot so far.
func (b *Bench) Boots() []Target {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Target(nil), b.boots...)
}
