// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/raid"
	"github.com/ingot-metal/ingot/agent/seed"
	"github.com/ingot-metal/ingot/agentapi"
)

// mirrorOrder is installOrder on the disks A and B.
func mirrorOrder(t *testing.T) (*agenttest.Manager, *agenttest.Images) {
	m, images := installOrder(t)
	m.Order.Install.MirrorDisks = []agentapi.DiskRef{{Serial: "B"}}
	return m, images
}

// superblocks of a disk of the server.
func (s *server) superblocks(i int) []raid.Superblock {
	b := s.content(i)
	return raid.Find(bytes.NewReader(b), int64(len(b)))
}

// The seed changes the first disk only, like a mounted file system. In the end both disks
// have the same content and are an array.
func TestMirrorMembersAreEqual(t *testing.T) {
	m, images := mirrorOrder(t)
	s := newServer(t, agentapi.Disk{Serial: "A"}, agentapi.Disk{Serial: "B", SizeBytes: 9 * mib}, agentapi.Disk{Serial: "C"})
	s.onSeed = func() {
		if len(s.superblocks(0))+len(s.superblocks(1)) > 0 || s.marker(1) == nil || s.marker(1).Complete {
			t.Error("the disks are an array, or complete, before they are equal")
		}
		f, err := os.OpenFile(s.path(s.disks[0]), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt([]byte("the seed"), 2*mib)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	action, err := s.run(m)
	if action != agentapi.BootDisk || err != nil {
		t.Fatalf("%s, %v\n%s", action, err, strings.Join(s.lines, "\n"))
	}
	ref := m.Order.Install.RootDisk
	want := []agentapi.Report{{OrderID: "o1", Outcome: agentapi.Succeeded, RootDisk: &ref,
		MirrorDisks: []agentapi.DiskRef{{Serial: "B"}}, BytesWritten: int64(len(images.Content))}}
	if diff := cmp.Diff(want, m.Reports()); diff != "" {
		t.Error(diff)
	}
	copy(images.Content[2*mib:], "the seed")
	for i := range 2 {
		got := s.content(i)
		if head := agentapi.MarkerOffset; !bytes.Equal(got[:head], images.Content[:head]) || !bytes.Equal(got[mib:len(images.Content)], images.Content[mib:]) {
			t.Errorf("disk %d does not hold the image and the seed", i)
		}
		if diff := cmp.Diff(&agentapi.Marker{InstanceID: "i1", Attempt: 2, Complete: true}, s.marker(i)); diff != "" {
			t.Errorf("disk %d: %s", i, diff)
		}
	}
	a, b := s.superblocks(0), s.superblocks(1)
	if len(a) != 1 || len(b) != 1 || a[0].Array != b[0].Array || a[0].Role != 0 || b[0].Role != 1 || a[0].DataBytes != 7*mib || a[0].SyncedBytes != 5*mib {
		t.Errorf("superblocks %+v, %+v", a, b)
	}
	if _, seeded := s.seeded["disk1"]; seeded || !s.untouched(2) {
		t.Error("seeded the second member, or wrote to a disk that the order does not name (I12)")
	}
	s.noSecrets(m, err)
}

// A complete install is not repeated, even after the mirror lost a disk: the other one may
// hold a running system (I21). After a rejected attempt both disks are written.
func TestCompleteMirrorIsAdopted(t *testing.T) {
	m, _ := mirrorOrder(t)
	s := newServer(t, twoDisks...)
	if action, err := s.run(m); action != agentapi.BootDisk || err != nil {
		t.Fatal(action, err)
	}
	before := s.content(0)
	again, _ := mirrorOrder(t)
	if action, err := s.run(again); action != agentapi.BootDisk || err != nil {
		t.Fatal(action, err)
	}
	if !bytes.Equal(before, s.content(0)) || slices.Contains(again.Calls(), agentapi.PathBootstrap) {
		t.Error("repeated a complete install")
	}
	if err := os.WriteFile(s.path(s.disks[1]), make([]byte, 8*mib), 0o600); err != nil {
		t.Fatal(err)
	}
	degraded, _ := mirrorOrder(t)
	if action, err := s.run(degraded); action != agentapi.BootDisk || err != nil {
		t.Fatal(action, err)
	}
	if !bytes.Equal(before, s.content(0)) {
		t.Error("wrote the complete disk of a mirror that lost the other")
	}
	third, _ := mirrorOrder(t)
	third.Order.Install.RejectedAttempts = []int32{third.Order.Attempt}
	if action, err := s.run(third); action != agentapi.BootDisk || err != nil {
		t.Fatal(action, err)
	}
	if len(s.superblocks(1)) != 1 || !s.marker(1).Complete {
		t.Error("did not write the second disk")
	}
}

func TestInstallMirrorFails(t *testing.T) {
	other := &agentapi.Marker{InstanceID: "other", Attempt: 1, Complete: true}
	for _, c := range []struct {
		name    string
		disks   []agentapi.Disk
		change  func(*server, *agenttest.Manager)
		reason  string
		message string
		// written: the disks may have changed.
		written bool
	}{
		{name: "the second member is not there", disks: []agentapi.Disk{{Serial: "A"}}, reason: agentapi.FailureDiskNotFound, message: `"B"`},
		{name: "one disk twice", disks: twoDisks, reason: agent.ReasonDiskAmbiguous, message: "two members",
			change: func(_ *server, m *agenttest.Manager) { m.Order.Install.MirrorDisks[0] = agentapi.DiskRef{WWN: "0xa"} }},
		{name: "the second member is another instance's", reason: agent.ReasonDiskOwnedByOther, message: "disk1",
			disks: []agentapi.Disk{{Serial: "A"}, {Serial: "B", Marker: other}}},
		{name: "the second member is too small", reason: agentapi.FailureDiskTooSmall, message: "the image has",
			disks: []agentapi.Disk{{Serial: "A"}, {Serial: "B", SizeBytes: 5*mib + 4096}}},
		{name: "the second member is no disk for it", reason: agentapi.FailureMirrorRefused, message: "smallest",
			disks: []agentapi.Disk{{Serial: "A"}, {Serial: "B", SizeBytes: mib}}},
		{name: "the second member fails", disks: twoDisks, reason: agent.ReasonDiskFailed, message: "disk1: ", written: true,
			change: func(s *server, _ *agenttest.Manager) { s.failing = "B" }},
		{name: "an image without mdadm", disks: twoDisks, reason: agentapi.FailureImageInvalid, message: "no mdadm", written: true,
			change: func(s *server, _ *agenttest.Manager) { s.assembles = fmt.Errorf("look: %w", seed.ErrNoAssembly) }},
		{name: "an image without a root", disks: twoDisks, reason: agentapi.FailureImageInvalid, message: "no root", written: true,
			change: func(s *server, _ *agenttest.Manager) { s.assembles = fmt.Errorf("%w: 0 partitions", seed.ErrNoRoot) }},
		{name: "an image for Ignition", disks: twoDisks, reason: agentapi.FailureImageInvalid, message: "remove softwareRAID", written: true,
			change: func(s *server, _ *agenttest.Manager) { s.assembles = seed.ErrIgnition }},
		{name: "a disk that cannot be examined", disks: twoDisks, reason: agent.ReasonSeedFailed, message: "input/output", written: true,
			change: func(s *server, _ *agenttest.Manager) { s.assembles = errors.New("mount: input/output error") }},
		{name: "Ignition", disks: twoDisks, reason: agentapi.FailureImageInvalid, message: "remove softwareRAID", written: true,
			change: func(_ *server, m *agenttest.Manager) { m.Bootstrap.Format = agentapi.FormatIgnition }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _ := mirrorOrder(t)
			s := newServer(t, c.disks...)
			if c.change != nil {
				c.change(s, m)
			}
			action, err := s.run(m)
			if action != agentapi.PowerOff || err != nil {
				t.Fatalf("%s, %v", action, err)
			}
			report := m.Reports()[0]
			if report.Outcome != agentapi.Failed || report.Reason != c.reason || !strings.Contains(report.Message, c.message) {
				t.Errorf("%+v", report)
			}
			for i := range c.disks {
				if !c.written && !s.untouched(i) {
					t.Errorf("disk %d was written", i)
				}
				if len(s.superblocks(i)) > 0 || c.written && i == 0 && (s.marker(0) == nil || s.marker(0).Complete) {
					t.Errorf("disk %d looks complete", i)
				}
				if c.written && c.reason != agent.ReasonDiskFailed && !block.IsZero(s.content(i)[:agentapi.MarkerOffset]) {
					t.Errorf("disk %d may boot after a failed install", i)
				}
			}
		})
	}
}

// The installed system must not find superblocks of earlier arrays.
func TestInstallMirrorRemovesOldArrays(t *testing.T) {
	m, _ := mirrorOrder(t)
	s := newServer(t, twoDisks...)
	if action, err := s.run(m); action != agentapi.BootDisk || err != nil {
		t.Fatal(action, err)
	}
	old := s.superblocks(1)[0].Array
	later, _ := mirrorOrder(t)
	later.Order.Attempt, later.Order.Install.RejectedAttempts = 3, []int32{2}
	if action, err := s.run(later); action != agentapi.BootDisk || err != nil {
		t.Fatal(action, err)
	}
	if now := s.superblocks(1); len(now) != 1 || now[0].Array == old {
		t.Errorf("%+v, before %x", now, old)
	}
	wipe := wipeOrder(agentapi.DiskRef{Serial: "A"}, agentapi.DiskRef{Serial: "B"})
	wipe.Order.InstanceID = "i1"
	if action, err := s.run(wipe); action != agentapi.PowerOff || err != nil {
		t.Fatal(action, err)
	}
	if len(s.superblocks(0))+len(s.superblocks(1)) > 0 || wipe.Reports()[0].Outcome != agentapi.Succeeded {
		t.Errorf("superblocks are left; %+v", wipe.Reports())
	}
}

// An install on one disk does not need mdadm.
func TestAssemblyIsCheckedForMirrorsOnly(t *testing.T) {
	m, _ := installOrder(t)
	s := newServer(t, twoDisks...)
	s.assembles = seed.ErrNoAssembly
	if action, err := s.run(m); action != agentapi.BootDisk || err != nil || len(s.superblocks(0)) > 0 {
		t.Error(action, err)
	}
}

// assemblesHere is agent.Config.Assembles.
func (s *server) assemblesHere(_ context.Context, d agentapi.Disk) error {
	s.looked = append(s.looked, d.Name)
	return s.assembles
}
