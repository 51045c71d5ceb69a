// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agentapi"
)

func wipeOrder(refs ...agentapi.DiskRef) *agenttest.Manager {
	m := agenttest.NewManager()
	m.Order = agentapi.Order{
		Kind: agentapi.Wipe, ID: "w1", InstanceID: "i1",
		Wipe: &agentapi.WipeOrder{Mode: "Metadata", Disks: refs, ReleasedInstances: []string{"released"}},
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
	want := []agentapi.Report{{OrderID: "w1", Outcome: agentapi.Succeeded, WipedDisks: refs}}
	if diff := cmp.Diff(want, m.Reports()); diff != "" {
		t.Error(diff)
	}
	for i := range 2 {
		if b := s.content(i)[:mib]; !bytes.Equal(b, make([]byte, mib)) {
			t.Errorf("disk %d still has something in its first MiB", i)
		}
	}
	if !s.untouched(2) || s.marker(2) == nil {
		t.Error("a disk that the order does not name was touched")
	}
}

func TestWipeFailures(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*agentapi.WipeOrder)
		want   string
	}{
		{"disk not there", func(w *agentapi.WipeOrder) { w.Disks[1].Serial = "Z" }, agent.ReasonDiskNotFound},
		{"disk of another instance", func(w *agentapi.WipeOrder) { w.Disks[1].Serial = "C" }, agent.ReasonDiskOwnedByOther},
		{"another mode", func(w *agentapi.WipeOrder) { w.Mode = "Full" }, agent.ReasonOrderNotUnderstood},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t, agentapi.Disk{Serial: "A"}, agentapi.Disk{Serial: "B"},
				agentapi.Disk{Serial: "C", Marker: &agentapi.Marker{InstanceID: "other"}})
			m := wipeOrder(agentapi.DiskRef{Serial: "A"}, agentapi.DiskRef{Serial: "B"})
			tc.change(m.Order.Wipe)
			if action, err := s.run(m); action != agentapi.PowerOff || err != nil {
				t.Fatalf("%s, %v", action, err)
			}
			if got := m.Reports(); len(got) != 1 || got[0].Reason != tc.want || len(got[0].WipedDisks) != 0 {
				t.Errorf("reports %+v", got)
			}
			for i := range s.disks {
				if !s.untouched(i) {
					t.Errorf("disk %d was written although the order cannot be done whole", i)
				}
			}
		})
	}
}
