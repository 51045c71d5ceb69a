// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agentapi"
)

func wipeOrder(refs ...agentapi.DiskRef) *agenttest.Manager {
	m := agenttest.NewManager()
	m.Order = agentapi.Order{
		Kind: agentapi.Clean, ID: "w1", InstanceID: "i1",
		Clean: &agentapi.CleanOrder{Mode: "Metadata", Disks: refs, ReleasedInstances: []string{"released"}},
	}
	return m
}

func TestWipe(t *testing.T) {
	s := newServer(t,
		agentapi.Disk{Serial: "A", Marker: &agentapi.Marker{InstanceID: "i1", Complete: true}},
		agentapi.Disk{Serial: "B", Marker: &agentapi.Marker{InstanceID: "released"}},
		agentapi.Disk{Serial: "C", Marker: &agentapi.Marker{InstanceID: "other"}},
	)
	refs := []agentapi.DiskRef{{Serial: "A", SizeBytes: 8 * mib}, {Serial: "B"}}
	m := wipeOrder(refs...)
	if action, err := s.run(m); action != agentapi.PowerOff || err != nil {
		t.Fatalf("%s, %v", action, err)
	}
	var cleaned []agentapi.CleanedDisk
	for _, ref := range refs {
		// The first 5 MiB, the last one.
		cleaned = append(cleaned, agentapi.CleanedDisk{Disk: ref, Mode: "Metadata", Method: "Metadata", ErasedBytes: 6 * mib, VerifiedBytes: 6 * mib})
	}
	want := []agentapi.Report{{OrderID: "w1", Outcome: agentapi.Succeeded, CleanedDisks: refs, Cleaned: cleaned}}
	if diff := cmp.Diff(want, m.Reports()); diff != "" {
		t.Error(diff)
	}
	for i := range 2 {
		if b := s.content(i)[:mib]; !bytes.Equal(b, make([]byte, mib)) {
			t.Errorf("disk %d still has content in its first MiB", i)
		}
	}
	if !s.untouched(2) || s.marker(2) == nil {
		t.Error("a disk that the order does not name was touched")
	}
}

func TestWipeFailures(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*agentapi.CleanOrder)
		want   string
	}{
		{"disk not there", func(w *agentapi.CleanOrder) { w.Disks[1].Serial = "Z" }, agentapi.FailureDiskNotFound},
		{"disk of another instance", func(w *agentapi.CleanOrder) { w.Disks[1].Serial = "C" }, agent.ReasonDiskOwnedByOther},
		{"another mode for one disk", func(w *agentapi.CleanOrder) { w.Modes = []string{"Full", "None"} }, agent.ReasonOrderNotUnderstood},
		{"modes for other disks", func(w *agentapi.CleanOrder) { w.Modes = []string{"Full"} }, agent.ReasonOrderNotUnderstood},
		{"another mode", func(w *agentapi.CleanOrder) { w.Mode = "Shred" }, agent.ReasonOrderNotUnderstood},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t, agentapi.Disk{Serial: "A"}, agentapi.Disk{Serial: "B"},
				agentapi.Disk{Serial: "C", Marker: &agentapi.Marker{InstanceID: "other"}})
			m := wipeOrder(agentapi.DiskRef{Serial: "A"}, agentapi.DiskRef{Serial: "B"})
			tc.change(m.Order.Clean)
			if action, err := s.run(m); action != agentapi.PowerOff || err != nil {
				t.Fatalf("%s, %v", action, err)
			}
			if got := m.Reports(); len(got) != 1 || got[0].Reason != tc.want || len(got[0].CleanedDisks) != 0 {
				t.Errorf("reports %+v", got)
			}
			for i := range s.disks {
				if !s.untouched(i) {
					t.Errorf("disk %d was written although the order fails", i)
				}
			}
		})
	}
}

// A Full cleaning erases everything, and each disk has its own mode.
func TestWipeFull(t *testing.T) {
	s := newServer(t, agentapi.Disk{Serial: "A", Marker: &agentapi.Marker{InstanceID: "i1", Complete: true}},
		agentapi.Disk{Serial: "B"}, agentapi.Disk{Serial: "C", Rotational: true})
	refs := []agentapi.DiskRef{{Serial: "A"}, {Serial: "B"}, {Serial: "C"}}
	m := wipeOrder(refs...)
	m.Order.Clean.Mode, m.Order.Clean.Modes = "Full", []string{"Full", "Metadata", "Full"}
	if action, err := s.run(m); action != agentapi.PowerOff || err != nil {
		t.Fatalf("%s, %v", action, err)
	}
	reports := m.Reports()
	if len(reports) != 1 || reports[0].Outcome != agentapi.Succeeded || len(reports[0].Cleaned) != 3 {
		t.Fatalf("reports %+v", reports)
	}
	for i, want := range []string{"Overwrite", "Metadata", "Overwrite"} {
		got := reports[0].Cleaned[i]
		if got.Method != want || got.Disk != refs[i] || got.VerifiedBytes < 4*mib-64<<10 || got.FailedBefore != "" {
			t.Errorf("%+v, want %s", got, want)
		}
		if erased := bytes.Equal(s.content(i), make([]byte, 8*mib)); erased != (want == "Overwrite") {
			t.Errorf("disk %d: completely zero: %t", i, erased)
		}
	}
}

// firstWriteFails refuses writes to its first sector, as if power was lost when the erasure
// starts.
type firstWriteFails struct{ block.Device }

func (d firstWriteFails) WriteAt(b []byte, off int64) (int, error) {
	if off == 0 {
		return 0, errors.New("power lost")
	}
	return d.Device.WriteAt(b, off)
}

// The erasure starts at the tables. After an interruption the content of the partitions must be
// gone, since a later cleaning cannot find it without the tables.
func TestInterruptedFullWipeLeavesNoPartitions(t *testing.T) {
	s := newServer(t, agentapi.Disk{Serial: "A"})
	table := make([]byte, 512)
	copy(table[446:], []byte{0, 0, 0, 0, 0x83, 0, 0, 0, 0, 0x10, 0, 0, 0, 0x20, 0, 0}) // 2 MiB to 6 MiB
	table[510], table[511] = 0x55, 0xaa
	disk := s.content(0)
	copy(disk, table)
	copy(disk[2*mib:], "XFSB")
	if err := os.WriteFile(s.path(s.disks[0]), disk, 0o600); err != nil {
		t.Fatal(err)
	}
	s.wrap = func(_ agentapi.Disk, dev block.Device) block.Device { return firstWriteFails{dev} }
	m := wipeOrder(agentapi.DiskRef{Serial: "A"})
	m.Order.Clean.Mode = "Full"
	if _, err := s.run(m); err != nil {
		t.Fatal(err)
	}
	if got := m.Reports(); len(got) != 1 || got[0].Reason != agent.ReasonCleanFailed {
		t.Fatalf("reports %+v", got)
	}
	content := s.content(0)
	if !bytes.Equal(content[:512], table) {
		t.Error("the table was removed by an interrupted erasure")
	}
	if string(content[2*mib:][:4]) == "XFSB" {
		t.Error("the file system of the partition is still there")
	}
}

func TestFailedDiskDoesNotStopOthers(t *testing.T) {
	s := newServer(t, agentapi.Disk{Serial: "A"}, agentapi.Disk{Serial: "B"})
	s.failing = "B"
	m := wipeOrder(agentapi.DiskRef{Serial: "A"}, agentapi.DiskRef{Serial: "B"})
	m.Order.Clean.Mode = "Full"
	if action, err := s.run(m); action != agentapi.PowerOff || err != nil {
		t.Fatalf("%s, %v", action, err)
	}
	reports := m.Reports()
	if len(reports) != 1 || reports[0].Reason != agent.ReasonCleanFailed || len(reports[0].Cleaned) != 1 || reports[0].Cleaned[0].Disk.Serial != "A" {
		t.Fatalf("reports %+v", reports)
	}
	if !bytes.Contains([]byte(reports[0].Message), []byte("Overwrite: ")) {
		t.Errorf("the message does not name the method: %s", reports[0].Message)
	}
}
