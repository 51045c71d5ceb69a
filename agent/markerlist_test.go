// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"testing"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agentapi"
)

// The markers of all disks are read once, for the session. An order reads the markers of its
// own disks only, so that no other disk can block it.
func TestMarkersAreReadOnce(t *testing.T) {
	for name, order := range map[string]func() *agenttest.Manager{
		"install": func() *agenttest.Manager { m, _ := installOrder(t); return m },
		"wipe":    func() *agenttest.Manager { return wipeOrder(agentapi.DiskRef{Serial: "A"}) },
	} {
		t.Run(name, func(t *testing.T) {
			s, m := newServer(t, twoDisks...), order()
			_, err := s.run(m)
			if reports := m.Reports(); err != nil || len(reports) != 1 || reports[0].Outcome != agentapi.Succeeded {
				t.Fatalf("%v, %+v", err, reports)
			}
			if s.markersRead != 1 || s.lists < 3 {
				t.Errorf("markers read %d times, disks listed %d times", s.markersRead, s.lists)
			}
		})
	}
}

// The marker is read from the open disk: the markers in the list are incomplete (I8).
func TestOwnerIsReadFromTheOpenDisk(t *testing.T) {
	unread := errors.New("input/output error")
	for name, c := range map[string]struct {
		fails bool
		want  string
	}{
		"another instance": {want: agent.ReasonDiskOwnedByOther},
		"still unreadable": {fails: true, want: agent.ReasonDiskFailed},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := installOrder(t)
			s := newServer(t, agentapi.Disk{Serial: "A", Marker: &agentapi.Marker{InstanceID: "other", Complete: true}}, agentapi.Disk{Serial: "B"})
			s.unread = true
			s.wrap = func(_ agentapi.Disk, dev block.Device) block.Device {
				if c.fails {
					return unreadable{dev, unread}
				}
				return dev
			}
			_, err := s.run(m)
			if reports := m.Reports(); err != nil || len(reports) != 1 || reports[0].Reason != c.want || !s.untouched(0) {
				t.Errorf("%v, %+v, want %s", err, reports, c.want)
			}
		})
	}
}

// unreadable fails every read.
type unreadable struct {
	block.Device
	err error
}

func (u unreadable) ReadAt([]byte, int64) (int, error) { return 0, u.err }
