// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/seed"
	"github.com/ingot-metal/ingot/agentapi"
)

var twoDisks = []agentapi.Disk{{Serial: "A", WWN: "0xa"}, {Serial: "B"}}

func TestInspect(t *testing.T) {
	s := newServer(t, twoDisks...)
	m := agenttest.NewManager()
	m.Order = agentapi.Order{Kind: agentapi.Inspect, ID: "o1"}
	m.Now = time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	action, err := s.run(m)
	if action != agentapi.PowerOff || err != nil {
		t.Fatalf("%s, %v", action, err)
	}
	want := []agentapi.Report{{OrderID: "o1", Outcome: agentapi.Succeeded}}
	if diff := cmp.Diff(want, m.Reports()); diff != "" {
		t.Error(diff)
	}
	if got := m.Sessions()[0].Hardware; got.Serial != "SN1" || len(got.Disks) != 2 {
		t.Errorf("hardware %+v", got)
	}
	if !s.clock.Equal(m.Now) {
		t.Errorf("clock set to %s", s.clock)
	}
	if !s.untouched(0) || !s.untouched(1) {
		t.Error("inspection wrote to a disk")
	}
}

func TestInstall(t *testing.T) {
	m, images := installOrder(t)
	s := newServer(t, twoDisks...)
	action, err := s.run(m)
	if action != agentapi.BootDisk || err != nil {
		t.Fatalf("%s, %v\n%s", action, err, strings.Join(s.lines, "\n"))
	}
	ref := m.Order.Install.RootDisk
	want := []agentapi.Report{{OrderID: "o1", Outcome: agentapi.Succeeded, RootDisk: &ref, BytesWritten: int64(len(images.Content))}}
	if diff := cmp.Diff(want, m.Reports()); diff != "" {
		t.Error(diff)
	}
	wantCalls := []string{agentapi.PathSession, agentapi.PathOrder, agentapi.PathBootstrap, agentapi.PathReport}
	if diff := cmp.Diff(wantCalls, m.Calls()); diff != "" {
		t.Errorf("bootstrap data must come last (I15): %s", diff)
	}
	got := s.content(0)
	if head := agentapi.MarkerOffset; !bytes.Equal(got[:head], images.Content[:head]) || !bytes.Equal(got[mib:len(images.Content)], images.Content[mib:]) {
		t.Error("the disk does not hold the image")
	}
	if diff := cmp.Diff(&agentapi.Marker{InstanceID: "i1", Attempt: 2, Complete: true}, s.marker(0)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&agentapi.Marker{InstanceID: "i1", Attempt: 2}, s.markerAtSeed); diff != "" {
		t.Errorf("the marker is complete before the seed is written: %s", diff)
	}
	if s.seeded["disk0"] != m.Bootstrap {
		t.Error("the seed is not the bootstrap data")
	}
	if !s.untouched(1) {
		t.Error("wrote to a disk that the order does not name (I12)")
	}
	if steps := m.Progress(); !slices.IsSortedFunc(steps, func(a, b agentapi.Progress) int { return stepOrder(a) - stepOrder(b) }) || len(steps) == 0 {
		t.Errorf("progress %+v", steps)
	}
	s.noSecrets(m, err)
}

func stepOrder(p agentapi.Progress) int {
	return slices.Index([]agentapi.Step{agentapi.StepStarted, agentapi.StepWrite, agentapi.StepVerify, agentapi.StepSeed, agentapi.StepMirror}, p.Step)
}

func TestInstallFailures(t *testing.T) {
	for _, tc := range []struct {
		name   string
		disks  []agentapi.Disk
		change func(*agenttest.Manager, *agenttest.Images, *server)
		want   string
		// written: the disk may have changed.
		written bool
	}{
		{name: "no such disk", want: agentapi.FailureDiskNotFound, change: func(m *agenttest.Manager, _ *agenttest.Images, _ *server) {
			m.Order.Install.RootDisk = agentapi.DiskRef{Serial: "Z"}
		}},
		{name: "empty reference", want: agentapi.FailureDiskNotFound, change: func(m *agenttest.Manager, _ *agenttest.Images, _ *server) {
			m.Order.Install.RootDisk = agentapi.DiskRef{SizeBytes: 8 * mib}
		}},
		{name: "another size: a swapped disk", want: agentapi.FailureDiskNotFound, change: func(m *agenttest.Manager, _ *agenttest.Images, _ *server) {
			m.Order.Install.RootDisk.SizeBytes = 9 * mib
		}},
		{name: "two disks with one serial", want: agent.ReasonDiskAmbiguous, disks: []agentapi.Disk{{Serial: "A"}, {Serial: "A"}}},
		{
			name: "a disk of another instance", want: agent.ReasonDiskOwnedByOther,
			disks: []agentapi.Disk{{Serial: "A", Marker: &agentapi.Marker{InstanceID: "other", Complete: true}}},
		},
		{
			name: "a disk of another instance's incomplete install", want: agent.ReasonDiskOwnedByOther,
			disks: []agentapi.Disk{{Serial: "A", Marker: &agentapi.Marker{InstanceID: "other"}}},
		},
		{
			name: "the system of a released instance on another disk", want: agentapi.FailureOldSystem,
			disks: []agentapi.Disk{{Serial: "A"}, {Serial: "B", Marker: &agentapi.Marker{InstanceID: "other", Complete: true}}},
			change: func(m *agenttest.Manager, _ *agenttest.Images, _ *server) {
				m.Order.Install.ReleasedInstances = []string{"other"}
			},
		},
		{name: "checksum", want: agentapi.FailureChecksumMismatch, written: true, change: func(m *agenttest.Manager, _ *agenttest.Images, _ *server) {
			m.Order.Install.Checksum = "sha256:" + strings.Repeat("00", 32)
		}},
		{name: "invalid checksum", want: agentapi.FailureChecksumMismatch, change: func(m *agenttest.Manager, _ *agenttest.Images, _ *server) {
			m.Order.Install.Checksum = "sha256:"
		}},
		{name: "image not there", want: agentapi.FailureImageUnavailable, change: func(_ *agenttest.Manager, i *agenttest.Images, _ *server) {
			i.Status = 404
		}},
		{name: "relative image URL without a boot server", want: agentapi.FailureImageUnavailable, change: func(m *agenttest.Manager, _ *agenttest.Images, _ *server) {
			m.Order.Install.ImageURL = "/images/x"
		}},
		{name: "image from a file", want: agentapi.FailureImageUnavailable, change: func(m *agenttest.Manager, _ *agenttest.Images, _ *server) {
			m.Order.Install.ImageURL = "file:///etc/passwd"
		}},
		{name: "wrong compression", want: agentapi.FailureImageInvalid, written: true, change: func(m *agenttest.Manager, _ *agenttest.Images, _ *server) {
			m.Order.Install.Compression = "zstd"
		}},
		{name: "disk too small", want: agentapi.FailureDiskTooSmall, disks: []agentapi.Disk{{Serial: "A", SizeBytes: 4 * mib}}},
		{name: "seed", want: agent.ReasonSeedFailed, written: true, change: func(_ *agenttest.Manager, _ *agenttest.Images, s *server) {
			s.seedErr = errors.New("the disk cannot be read")
		}},
		{name: "an image without a system", want: agentapi.FailureImageInvalid, written: true, change: func(_ *agenttest.Manager, _ *agenttest.Images, s *server) {
			s.seedErr = fmt.Errorf("look for the system: %w", seed.ErrNoRoot)
		}},
		{name: "an image that cannot be mounted", want: agentapi.FailureImageInvalid, written: true, change: func(_ *agenttest.Manager, _ *agenttest.Images, s *server) {
			s.seedErr = fmt.Errorf("%w: mount disk0p1 as xfs: %w", seed.ErrImage, syscall.EINVAL)
		}},
		{name: "another sector size", want: agentapi.FailureSectorsDiffer, written: true, change: func(m *agenttest.Manager, i *agenttest.Images, s *server) {
			copy(i.Content[512:], "EFI PART")
			m.Order.Install.Checksum = i.Checksum()
			s.wrap = func(_ agentapi.Disk, dev block.Device) block.Device { return sectored{dev, 4096} }
		}},
		{name: "unknown bootstrap format", want: agentapi.FailureImageInvalid, written: true, change: func(_ *agenttest.Manager, _ *agenttest.Images, s *server) {
			s.seedErr = fmt.Errorf("%w: kickstart", seed.ErrFormat)
		}},
		{name: "the marker", want: agent.ReasonDiskFailed, written: true, change: func(_ *agenttest.Manager, _ *agenttest.Images, s *server) {
			s.wrap = func(_ agentapi.Disk, dev block.Device) block.Device { return failsLastWrite{dev} }
		}},
		{name: "unknown order", want: agent.ReasonOrderNotUnderstood, change: func(m *agenttest.Manager, _ *agenttest.Images, _ *server) {
			m.Order.Kind = "Polish"
		}},
		{name: "install without details", want: agent.ReasonOrderNotUnderstood, change: func(m *agenttest.Manager, _ *agenttest.Images, _ *server) {
			m.Order.Install = nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, images := installOrder(t)
			disks := tc.disks
			if disks == nil {
				disks = twoDisks
			}
			s := newServer(t, disks...)
			if tc.change != nil {
				tc.change(m, images, s)
			}
			before := s.marker(0)
			action, err := s.run(m)
			if action != agentapi.PowerOff || err != nil {
				t.Fatalf("%s, %v", action, err)
			}
			reports := m.Reports()
			if len(reports) != 1 || reports[0].Outcome != agentapi.Failed || reports[0].Reason != tc.want || reports[0].Message == "" {
				t.Fatalf("reports %+v, want one of %s", reports, tc.want)
			}
			if !tc.written && (!s.untouched(0) || !cmp.Equal(before, s.marker(0))) {
				t.Error("the disk was written")
			}
			if now := s.marker(0); tc.written && (now == nil || now.Complete) {
				t.Errorf("marker %+v, want an incomplete one", now)
			}
			if tc.written && !block.IsZero(s.content(0)[:agentapi.MarkerOffset]) {
				t.Error("the disk may boot after a failed install")
			}
			if len(s.disks) > 1 && !s.untouched(1) {
				t.Error("the other disk was written")
			}
			s.noSecrets(m, err)
		})
	}
}

func TestReleasedAndOwnDisksAreOverwritten(t *testing.T) {
	for name, old := range map[string]agentapi.Marker{
		"released":                {InstanceID: "released", Complete: true},
		"own, rejected":           {InstanceID: "i1", Attempt: 1, Complete: true},
		"own, same, not complete": {InstanceID: "i1", Attempt: 2},
	} {
		t.Run(name, func(t *testing.T) {
			m, images := installOrder(t)
			m.Order.Install.RejectedAttempts = []int32{1}
			s := newServer(t, agentapi.Disk{Serial: "A", Marker: &old})
			if action, err := s.run(m); action != agentapi.BootDisk || err != nil {
				t.Fatalf("%s, %v", action, err)
			}
			if got := m.Reports()[0].BytesWritten; got != int64(len(images.Content)) {
				t.Errorf("%d bytes written", got)
			}
		})
	}
}

// A disk that any attempt of this instance completed is reported and not written (I21): a
// report was lost, or the manager was restored from a backup. Only a rejected attempt is
// repeated.
func TestCompleteDiskIsAdopted(t *testing.T) {
	for name, tc := range map[string]struct {
		attempt  int32
		rejected []int32
	}{
		"this attempt":          {attempt: 2},
		"an earlier attempt":    {attempt: 1},
		"a later attempt":       {attempt: 7},
		"another was rejected":  {attempt: 1, rejected: []int32{3}},
		"the ordered, rejected": {attempt: 1, rejected: []int32{2}},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := installOrder(t)
			m.Order.Install.RejectedAttempts = tc.rejected
			s := newServer(t, agentapi.Disk{Serial: "A", Marker: &agentapi.Marker{InstanceID: "i1", Attempt: tc.attempt, Complete: true}})
			if action, err := s.run(m); action != agentapi.BootDisk || err != nil {
				t.Fatalf("%s, %v", action, err)
			}
			if !s.untouched(0) {
				t.Error("a complete install was written again")
			}
			if slices.Contains(m.Calls(), agentapi.PathBootstrap) {
				t.Error("bootstrap data was requested although nothing was installed")
			}
			if got := m.Reports()[0].AdoptedAttempt; got != tc.attempt {
				t.Errorf("adopted attempt %d, want %d", got, tc.attempt)
			}
		})
	}
}

// Every call succeeds at the third attempt with one key and one boot ID.
func TestLostAnswersAreRepeated(t *testing.T) {
	for name, fault := range map[string]*agenttest.Fault{
		"answer lost":      {Drop: true},
		"proxy in trouble": {Status: 502},
		"not ready":        refusal(agentapi.ReasonNotReady),
		"retry after":      {Refuse: &agentapi.Error{Reason: "SomethingNew", RetryAfter: agentapi.Duration(10 * time.Millisecond)}},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := installOrder(t)
			m.Faults = func(path string, n int) *agenttest.Fault {
				if path != agentapi.PathProgress && n < 3 {
					return fault
				}
				return nil
			}
			s := newServer(t, twoDisks...)
			if action, err := s.run(m); action != agentapi.BootDisk || err != nil {
				t.Fatalf("%s, %v", action, err)
			}
			if got := len(m.Calls()); got != 4*3 {
				t.Errorf("%d calls: %q", got, m.Calls())
			}
			if got := len(m.Keys()); got != 1 {
				t.Errorf("%d keys in one boot", got)
			}
			s.noSecrets(m, nil)
		})
	}
}

func TestFinalRefusalsPowerOff(t *testing.T) {
	for _, reason := range []agentapi.Reason{
		agentapi.ReasonTokenInvalid, agentapi.ReasonKeyConflict, agentapi.ReasonOrderGone,
		agentapi.ReasonHardwareMismatch, agentapi.ReasonBadRequest,
	} {
		for _, path := range []string{agentapi.PathSession, agentapi.PathOrder, agentapi.PathBootstrap, agentapi.PathReport} {
			t.Run(string(reason)+path, func(t *testing.T) {
				m, _ := installOrder(t)
				m.Faults = func(p string, _ int) *agenttest.Fault {
					if p == path {
						return refusal(reason)
					}
					return nil
				}
				s := newServer(t, twoDisks...)
				action, err := s.run(m)
				if action != agentapi.PowerOff || !errors.Is(err, agent.ErrRefused) || !hasReason(err, reason) {
					t.Fatalf("%s, %v", action, err)
				}
				early := path == agentapi.PathSession || path == agentapi.PathOrder
				if early && !s.untouched(0) {
					t.Error("the disk was written without an order")
				}
				if path == agentapi.PathBootstrap && (len(s.seeded) != 0 || s.marker(0).Complete) {
					t.Error("a refused install was completed")
				}
				s.noSecrets(m, err)
			})
		}
	}
}

// An agent that was booted again for a committed install boots the disk instead of powering
// off, but only without an order: with one it may have written.
func TestCommittedInstallIsBooted(t *testing.T) {
	for path, want := range map[string]agentapi.Action{
		agentapi.PathSession: agentapi.BootDisk, agentapi.PathOrder: agentapi.BootDisk,
		agentapi.PathBootstrap: agentapi.PowerOff, agentapi.PathReport: agentapi.PowerOff,
	} {
		t.Run(path, func(t *testing.T) {
			m, _ := installOrder(t)
			m.Faults = func(p string, _ int) *agenttest.Fault {
				if p != path {
					return nil
				}
				fault := refusal(agentapi.ReasonOrderGone)
				fault.Refuse.Action = agentapi.BootDisk
				return fault
			}
			s := newServer(t, twoDisks...)
			action, err := s.run(m)
			if action != want || !errors.Is(err, agent.ErrRefused) {
				t.Fatalf("%s, %v; want %s", action, err, want)
			}
			if want == agentapi.BootDisk && !s.untouched(0) {
				t.Error("the disk was written without an order")
			}
		})
	}
}

func TestProgressReplyStopsTheWork(t *testing.T) {
	for name, set := range map[string]func(*agenttest.Manager){
		"by its reply":              func(m *agenttest.Manager) { m.StopAt = agentapi.StepStarted },
		"while it awaits the image": func(m *agenttest.Manager) { m.StopAt = agentapi.StepAwaitImage },
		"by a refusal": func(m *agenttest.Manager) {
			m.Faults = func(p string, _ int) *agenttest.Fault {
				if p == agentapi.PathProgress {
					return refusal(agentapi.ReasonOrderGone)
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, images := installOrder(t)
			images.Busy = 1 << 30 // the image never arrives
			set(m)
			s := newServer(t, twoDisks...)
			cfg := s.config(m, m.Start(t))
			cfg.Sleep = func(ctx context.Context, _ time.Duration) error {
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(time.Millisecond):
					return nil
				}
			}
			action, err := agent.Run(t.Context(), cfg)
			if action != agentapi.PowerOff || !errors.Is(err, agent.ErrRefused) {
				t.Fatalf("%s, %v", action, err)
			}
			if len(m.Reports()) != 0 || !s.untouched(0) {
				t.Error("continued after the order was called off")
			}
		})
	}
}

// A restart of the agent within a boot keeps key and boot ID, and repeats the install.
func TestInterruptedInstallIsRepeatedInTheSameBoot(t *testing.T) {
	m, images := installOrder(t)
	ctx, stop := context.WithCancel(t.Context())
	s := newServer(t, twoDisks...)
	s.onSeed = stop
	cfg := s.config(m, m.Start(t))
	if action, err := agent.Run(ctx, cfg); action != "" || !errors.Is(err, context.Canceled) {
		t.Fatalf("%s, %v", action, err)
	}
	if now := s.marker(0); now == nil || now.Complete {
		t.Errorf("marker %+v after an interruption", now)
	}
	if action, err := agent.Run(t.Context(), cfg); action != agentapi.BootDisk || err != nil {
		t.Fatalf("%s, %v", action, err)
	}
	if now := s.marker(0); now == nil || !now.Complete {
		t.Errorf("marker %+v after the install", now)
	}
	if got := s.content(0); !bytes.Equal(got[mib:len(images.Content)], images.Content[mib:]) {
		t.Error("the disk does not hold the image")
	}
	sessions := m.Sessions()
	if len(m.Keys()) != 1 || len(sessions) != 2 || sessions[0].BootID != sessions[1].BootID {
		t.Errorf("%d keys, sessions %+v", len(m.Keys()), sessions)
	}
}

// Progress does not block the work.
func TestSilentManagerDoesNotStopTheWork(t *testing.T) {
	m, _ := installOrder(t)
	m.Faults = func(p string, _ int) *agenttest.Fault {
		if p == agentapi.PathProgress {
			return &agenttest.Fault{Drop: true}
		}
		return nil
	}
	s := newServer(t, twoDisks...)
	if action, err := s.run(m); action != agentapi.BootDisk || err != nil {
		t.Fatalf("%s, %v", action, err)
	}
}

// Only a successful install boots the disk, whatever the manager answers.
func TestOnlyASuccessfulInstallBootsTheDisk(t *testing.T) {
	s := newServer(t, twoDisks...)
	m := agenttest.NewManager()
	m.Action = agentapi.BootDisk
	m.Order = agentapi.Order{Kind: agentapi.Inspect, ID: "o1"}
	if action, err := s.run(m); action != agentapi.PowerOff || err != nil {
		t.Fatalf("%s, %v", action, err)
	}
}

func TestServerWithAnotherKeyGetsNoCalls(t *testing.T) {
	m, other := agenttest.NewManager(), agenttest.NewManager()
	m.Order = agentapi.Order{Kind: agentapi.Inspect, ID: "o1"}
	s := newServer(t, twoDisks...)
	cfg := s.config(other, m.Start(t)) // pins another manager's key
	tries := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Sleep = func(ctx context.Context, _ time.Duration) error {
		if tries++; tries == 3 {
			cancel()
		}
		return context.Cause(ctx)
	}
	if action, err := agent.Run(ctx, cfg); action != "" || !errors.Is(err, context.Canceled) {
		t.Fatalf("%s, %v", action, err)
	}
	if len(m.Calls()) != 0 {
		t.Error("a request, and with it the token, went to a server with another key")
	}
	s.noSecrets(m, nil)
	// The right key may be the second of the list: the next key (I15).
	pins, err := agent.ParsePins(other.Pin() + "," + m.Pin())
	if err != nil {
		t.Fatal(err)
	}
	cfg = s.config(m, cfg.Servers[0])
	cfg.Pins = pins
	if action, err := agent.Run(t.Context(), cfg); action != agentapi.PowerOff || err != nil {
		t.Errorf("%s, %v", action, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	if action, err := agent.Run(t.Context(), agent.Config{}); action != "" || err == nil {
		t.Errorf("%s, %v", action, err)
	}
}
