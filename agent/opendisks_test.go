// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/erase"
	"github.com/ingot-metal/ingot/agentapi"
)

// drive is an ATA drive after an interrupted erase: locked with Ingot's password.
type drive struct {
	block.Device
	erase.None
	*security
}

type security struct {
	mu              sync.Mutex
	locked, enabled bool
	erases          int
}

var errAborted = errors.New("aborted command")

func (d drive) open() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.locked
}

func (d drive) ReadAt(b []byte, off int64) (int, error) {
	if !d.open() {
		return 0, errAborted
	}
	return d.Device.ReadAt(b, off)
}

func (d drive) WriteAt(b []byte, off int64) (int, error) {
	if !d.open() {
		return 0, errAborted
	}
	return d.Device.WriteAt(b, off)
}

func (d drive) Zero(off, n int64) error {
	if !d.open() {
		return errAborted
	}
	return d.Device.Zero(off, n)
}

// ATA implements erase.Commands.
func (d drive) ATA(_ context.Context, c erase.ATACommand) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.Out != nil && !strings.HasPrefix(string(c.Out[2:]), erase.ATAPassword) {
		return errAborted
	}
	switch c.Command {
	case 0xec: // identify: words 82 and 128
		status := uint16(1)
		for bit, set := range []bool{1: d.enabled, 2: d.locked} {
			if set {
				status |= 1 << bit
			}
		}
		binary.LittleEndian.PutUint16(c.In[164:], 2)
		binary.LittleEndian.PutUint16(c.In[256:], status)
	case 0xf1:
		d.enabled = true
	case 0xf2:
		d.locked = false
	case 0xf4:
		d.erases, d.enabled = d.erases+1, false
		return d.Device.Zero(0, d.Size())
	case 0xf6:
		if d.locked {
			return errAborted
		}
		d.enabled = false
	}
	return nil
}

// Every later order unlocks a drive that a Full cleaning left locked. Another attempt does not
// repeat the drive's own erase.
func TestLockedDriveIsUnlocked(t *testing.T) {
	wipe := func(mode string, attempt int32) func(*testing.T) *agenttest.Manager {
		return func(*testing.T) *agenttest.Manager {
			m := wipeOrder(agentapi.DiskRef{Serial: "A"})
			m.Order.Attempt, m.Order.Clean.Mode = attempt, mode
			return m
		}
	}
	for _, c := range []struct {
		name   string
		order  func(*testing.T) *agenttest.Manager
		action agentapi.Action
		method string
		erases int
	}{
		{name: "Full", order: wipe("Full", 1), action: agentapi.PowerOff, method: "ATASecureErase", erases: 1},
		{name: "Full, another attempt", order: wipe("Full", 2), action: agentapi.PowerOff, method: "Overwrite"},
		{name: "Metadata", order: wipe("Metadata", 1), action: agentapi.PowerOff, method: "Metadata"},
		{name: "install", action: agentapi.BootDisk, order: func(t *testing.T) *agenttest.Manager {
			m, _ := installOrder(t)
			return m
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, agentapi.Disk{Serial: "A", Rotational: true})
			state := &security{locked: true, enabled: true}
			s.wrap = func(_ agentapi.Disk, dev block.Device) block.Device { return drive{Device: dev, security: state} }
			m := c.order(t)
			if action, err := s.run(m); action != c.action || err != nil {
				t.Fatalf("%s, %v, %+v", action, err, m.Reports())
			}
			report := m.Reports()[0]
			if report.Outcome != agentapi.Succeeded || state.locked || state.enabled || state.erases != c.erases {
				t.Errorf("%+v, drive %+v", report, []any{state.locked, state.enabled, state.erases})
			}
			if c.method != "" && (len(report.Cleaned) != 1 || report.Cleaned[0].Method != c.method) {
				t.Errorf("%+v, want %s", report.Cleaned, c.method)
			}
		})
	}
}

// stuckNVMe is an NVMe disk after a failed sanitize whose controller accepts only another one
// (Base Specification 2.0, section 8.21).
type stuckNVMe struct {
	block.Device
	erase.None
	state *uint16 // of the sanitize log
}

func (d stuckNVMe) ReadAt(b []byte, off int64) (int, error) {
	if *d.state == 3 {
		return 0, errAborted
	}
	return d.Device.ReadAt(b, off)
}

// NVMe implements erase.Commands.
func (d stuckNVMe) NVMe(_ context.Context, c erase.NVMeCommand) error {
	switch c.Opcode {
	case 0x06: // identify: block erase; one namespace
		switch c.CDW10 {
		case 1:
			c.Data[328] = 2
		case 2, 0x10:
			c.Data[0] = 1
		}
	case 0x02:
		binary.LittleEndian.PutUint16(c.Data[2:], *d.state)
	case 0x84:
		if c.CDW10&7 != 2 || c.CDW10&8 != 0 {
			return errAborted
		}
		*d.state = 1
		return d.Device.Zero(0, d.Size())
	}
	return nil
}

// Namespace implements erase.Commands.
func (stuckNVMe) Namespace() (uint32, error) { return 1, nil }

// A stuck disk cannot be read, so no marker protects it: a Full cleaning sanitizes it again,
// and other orders fail.
func TestOnlyFullCleaningRecoversAStuckDisk(t *testing.T) {
	for mode, ends := range map[string]agentapi.Outcome{"Full": agentapi.Succeeded, "Metadata": agentapi.Failed} {
		t.Run(mode, func(t *testing.T) {
			s := newServer(t, agentapi.Disk{Name: "/dev/nvme0n1", Serial: "A"})
			state := uint16(3)
			s.wrap = func(_ agentapi.Disk, dev block.Device) block.Device { return stuckNVMe{Device: dev, state: &state} }
			m := wipeOrder(agentapi.DiskRef{Serial: "A"})
			m.Order.Clean.Mode = mode
			if action, err := s.run(m); action != agentapi.PowerOff || err != nil {
				t.Fatalf("%s, %v", action, err)
			}
			report := m.Reports()[0]
			if report.Outcome != ends || (state == 1) != (ends == agentapi.Succeeded) || ends == agentapi.Failed && report.Reason != agent.ReasonDiskFailed {
				t.Errorf("%+v, state %d", report, state)
			}
		})
	}
}

// A wipe opens each disk once before the first write and closes it at its end, so that a
// changed name has no effect.
func TestWipeKeepsItsDisksOpen(t *testing.T) {
	s := newServer(t, agentapi.Disk{Serial: "A"}, agentapi.Disk{Serial: "B"}, agentapi.Disk{Serial: "C"})
	var mu sync.Mutex
	var opened, closed []string
	wrote := false
	s.onWrite = func(context.Context) { mu.Lock(); wrote = true; mu.Unlock() }
	s.wrap = func(d agentapi.Disk, dev block.Device) block.Device {
		mu.Lock()
		defer mu.Unlock()
		if wrote {
			t.Errorf("%s was opened after the first write", d.Name)
		}
		opened = append(opened, d.Serial)
		return closing{dev, func() { mu.Lock(); closed = append(closed, d.Serial); mu.Unlock() }}
	}
	m := wipeOrder(agentapi.DiskRef{Serial: "A"}, agentapi.DiskRef{Serial: "B"}, agentapi.DiskRef{Serial: "C"})
	m.Order.Clean.Mode, m.Order.Clean.Modes = "Full", []string{"Metadata", "Full", "Metadata"}
	if action, err := s.run(m); action != agentapi.PowerOff || err != nil {
		t.Fatalf("%s, %v", action, err)
	}
	if m.Reports()[0].Outcome != agentapi.Succeeded || len(closed) != 3 {
		t.Errorf("%+v; closed %v", m.Reports(), closed)
	}
	if diff := cmp.Diff([]string{"A", "B", "C"}, opened); diff != "" {
		t.Error(diff)
	}
}

type closing struct {
	block.Device
	before func()
}

func (c closing) Close() error { c.before(); return c.Device.Close() }

// A disk whose name changed before the open is not wiped.
func TestWipeRefusesARenamedDisk(t *testing.T) {
	s := newServer(t, agentapi.Disk{Serial: "A"}, agentapi.Disk{Serial: "B"})
	s.onList = func(n int, disks []agentapi.Disk) {
		if n > 2 { // after the lists of the session and for the open
			disks[0].Serial, disks[1].Serial = "B", "A"
		}
	}
	m := wipeOrder(agentapi.DiskRef{Serial: "A"})
	m.Order.Clean.Mode = "Full"
	if action, err := s.run(m); action != agentapi.PowerOff || err != nil {
		t.Fatalf("%s, %v", action, err)
	}
	if got := m.Reports(); len(got) != 1 || got[0].Reason != agentapi.FailureDiskNotFound || !s.untouched(0) || !s.untouched(1) {
		t.Errorf("reports %+v", got)
	}
}

// The agent checks each disk again after the wait for the image, since its name may belong to
// another disk by then.
func TestInstallRefusesARenamedDisk(t *testing.T) {
	for name, order := range map[string]func(*testing.T) (*agenttest.Manager, *agenttest.Images){"disk": installOrder, "mirror": mirrorOrder} {
		for _, after := range []string{"the image is opened", "the image is written"} {
			t.Run(name+"/"+after, func(t *testing.T) {
				m, images := order(t)
				s := newServer(t, agentapi.Disk{Serial: "A"}, agentapi.Disk{Serial: "B"}, agentapi.Disk{Serial: "C"})
				var wrote atomic.Bool
				s.onWrite = func(context.Context) { wrote.Store(true) }
				s.onList = func(_ int, disks []agentapi.Disk) {
					if wrote.Load() || after == "the image is opened" && len(images.Ranges()) > 0 {
						disks[0].Serial, disks[2].Serial = "C", "A"
					}
				}
				if action, err := s.run(m); action != agentapi.PowerOff || err != nil {
					t.Fatalf("%s, %v", action, err)
				}
				got := m.Reports()
				if len(got) != 1 || got[0].Reason != agentapi.FailureDiskNotFound || !s.untouched(2) || wrote.Load() != (after == "the image is written") {
					t.Errorf("wrote %t, reports %+v", wrote.Load(), got)
				}
				if len(s.looked) > 0 {
					t.Errorf("looked for mdadm on %v, now the name of another disk", s.looked)
				}
			})
		}
	}
}
