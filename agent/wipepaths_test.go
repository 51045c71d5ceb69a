// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agentapi"
)

// writeObserver calls onWrite for each write.
type writeObserver struct {
	block.Device
	onWrite func()
}

func (n writeObserver) WriteAt(b []byte, off int64) (int, error) {
	n.onWrite()
	return n.Device.WriteAt(b, off)
}

func (n writeObserver) Zero(off, length int64) error {
	n.onWrite()
	return n.Device.Zero(off, length)
}

// Disks that only their paths distinguish are all cleaned, but not in parallel: they may be
// two paths to one disk.
func TestWipeOfPathsIsSequential(t *testing.T) {
	for _, c := range []struct {
		name  string
		modes []string
		// oneDisk: both paths lead to one disk.
		oneDisk bool
	}{
		{"two disks", []string{"Full", "Full", "Full"}, false},
		{"two paths", []string{"Full", "Full", "Full"}, true},
		{"two paths, one of them erased", []string{"Metadata", "Full", "Metadata"}, true},
		{"two paths, the other erased", []string{"Full", "Metadata", "Full"}, true},
		{"two paths, none erased", []string{"Metadata", "Metadata", "Metadata"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := agentapi.Disk{Serial: "A", WWN: "0x5", Path: "p1", Marker: &agentapi.Marker{InstanceID: "i1", Complete: true}}
			other := first
			other.Path = "p2"
			s := newServer(t, first, other, agentapi.Disk{Serial: "R", Path: "p3"})
			if c.oneDisk {
				if err := os.Remove(s.path(s.disks[1])); err != nil {
					t.Fatal(err)
				}
				if err := os.Link(s.path(s.disks[0]), s.path(s.disks[1])); err != nil {
					t.Fatal(err)
				}
			}
			var mu sync.Mutex
			var written []string
			s.wrap = func(d agentapi.Disk, dev block.Device) block.Device {
				return writeObserver{dev, func() {
					mu.Lock()
					defer mu.Unlock()
					written = append(written, d.Path)
				}}
			}
			refs := []agentapi.DiskRef{{Serial: "A", WWN: "0x5", Path: "p1"}, {Serial: "A", WWN: "0x5", Path: "p2"}, {Serial: "R"}}
			m := wipeOrder(refs...)
			m.Order.Clean.Mode, m.Order.Clean.Modes = "Full", c.modes
			if action, err := s.run(m); action != agentapi.PowerOff || err != nil {
				t.Fatalf("%s, %v", action, err)
			}
			report := m.Reports()[0]
			if report.Outcome != agentapi.Succeeded || len(report.Cleaned) != 3 {
				t.Fatalf("%+v", report)
			}
			if diff := cmp.Diff(refs, report.CleanedDisks); diff != "" {
				t.Errorf("wiped (-want +got):\n%s", diff)
			}
			for i := range s.disks {
				if b := s.content(i)[:mib]; !bytes.Equal(b, make([]byte, mib)) || s.marker(i) != nil {
					t.Errorf("disk %d still has content in its first MiB", i)
				}
			}
			written = slices.DeleteFunc(written, func(path string) bool { return path == "p3" })
			if diff := cmp.Diff([]string{"p1", "p2"}, slices.Compact(written)); diff != "" {
				t.Errorf("the paths were not written in sequence (-want +got):\n%s", diff)
			}
		})
	}
}

// References that do not distinguish the disks match both, so none is written.
func TestWipeRefusesAmbiguousDisks(t *testing.T) {
	s := newServer(t, agentapi.Disk{Serial: "A"}, agentapi.Disk{Serial: "A"})
	m := wipeOrder(agentapi.DiskRef{Serial: "A"}, agentapi.DiskRef{Serial: "A"})
	if _, err := s.run(m); err != nil {
		t.Fatal(err)
	}
	if report := m.Reports()[0]; report.Reason != agent.ReasonDiskAmbiguous || !s.untouched(0) || !s.untouched(1) {
		t.Errorf("%+v", report)
	}
}
