// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/erase"
	"github.com/ingot-metal/ingot/agent/wait"
	"github.com/ingot-metal/ingot/agentapi"
)

// pausing pauses the host during the n-th write and refuses the order a few times.
type pausing struct {
	server *server
	at     int32

	writes  atomic.Int32
	inWrite atomic.Bool
	// orders are the numbers of writes at each request for the order.
	orders []int32
}

const refusals = 3

func pauseAt(m *agenttest.Manager, s *server, at int32) *pausing {
	p := &pausing{server: s, at: at}
	s.onWrite = func(ctx context.Context) {
		if p.writes.Add(1) == at {
			p.inWrite.Store(true)
			<-ctx.Done()                      // the pause interrupts this write
			time.Sleep(10 * time.Millisecond) // derived contexts end a little later
		}
	}
	m.Faults = func(path string, n int) *agenttest.Fault {
		switch path {
		case agentapi.PathProgress:
			if p.inWrite.Load() && len(p.orders) == 1 {
				return refusal(agentapi.ReasonPaused)
			}
		case agentapi.PathOrder:
			p.orders = append(p.orders, p.writes.Load())
			if n > 1 && n < 2+refusals {
				return refusal(agentapi.ReasonPaused)
			}
		}
		return nil
	}
	return p
}

// stopped checks that nothing was written between the pause and the next order.
func (p *pausing) stopped(t *testing.T) {
	t.Helper()
	if len(p.orders) != 2+refusals {
		t.Fatalf("the order was requested %d times, want %d", len(p.orders), 2+refusals)
	}
	for i, writes := range p.orders[1:] {
		if writes != p.at {
			t.Errorf("%d writes at request %d after the pause, want none after the interrupted write %d", writes, i+1, p.at)
		}
	}
	if p.writes.Load() <= p.at {
		t.Error("nothing was written after the pause")
	}
}

// During a pause the agent writes nothing; with the next order it starts over (I10).
func TestPauseStopsAnInstall(t *testing.T) {
	for at := int32(1); at <= 5; at++ {
		t.Run(fmt.Sprintf("in write %d", at), func(t *testing.T) {
			m, images := installOrder(t)
			s := newServer(t, twoDisks...)
			p := pauseAt(m, s, at)
			if action, err := s.run(m); action != agentapi.BootDisk || err != nil {
				t.Fatalf("%s, %v", action, err)
			}
			p.stopped(t)
			if got := s.content(0); !bytes.Equal(got[mib:len(images.Content)], images.Content[mib:]) {
				t.Error("the disk does not hold the image")
			}
			if now := s.marker(0); now == nil || !now.Complete {
				t.Errorf("marker %+v after the install", now)
			}
			if len(m.Reports()) != 1 || len(m.Sessions()) != 1 {
				t.Errorf("%d reports, %d sessions, want one of each", len(m.Reports()), len(m.Sessions()))
			}
		})
	}
}

func TestPauseStopsAWipe(t *testing.T) {
	refs := []agentapi.DiskRef{{Serial: "A"}, {Serial: "B"}}
	for at := int32(1); at <= 4; at++ {
		t.Run(fmt.Sprintf("in write %d", at), func(t *testing.T) {
			m := wipeOrder(refs...)
			s := newServer(t, agentapi.Disk{Serial: "A"}, agentapi.Disk{Serial: "B"})
			p := pauseAt(m, s, at)
			if action, err := s.run(m); action != agentapi.PowerOff || err != nil {
				t.Fatalf("%s, %v", action, err)
			}
			p.stopped(t)
			for i := range refs {
				if !bytes.Equal(s.content(i)[:mib], make([]byte, mib)) {
					t.Errorf("disk %d is not clean", i)
				}
			}
			if reports := m.Reports(); len(reports) != 1 || len(reports[0].CleanedDisks) != len(refs) {
				t.Errorf("reports %+v, want one of all disks", reports)
			}
		})
	}
}

// slowDrive executes its first erase until finish is closed.
type slowDrive struct {
	drive
	started, busy *atomic.Bool
	finish        chan struct{}
}

// ATA implements erase.Commands.
func (d slowDrive) ATA(ctx context.Context, c erase.ATACommand) error {
	if c.Command == 0xf4 && d.started.CompareAndSwap(false, true) {
		d.busy.Store(true)
		<-d.finish
		d.busy.Store(false)
	}
	return d.drive.ATA(ctx, c)
}

// A drive's own erase cannot be canceled. After a pause the agent does not access the drive
// until the erase ends, and reports progress. Without reports the manager would cut the power
// during the erase.
func TestPauseDuringASecureErase(t *testing.T) {
	s := newServer(t, agentapi.Disk{Serial: "A", Rotational: true})
	state, finish := &security{}, make(chan struct{})
	var started, busy, paused atomic.Bool
	s.wrap = func(_ agentapi.Disk, dev block.Device) block.Device {
		return slowDrive{drive{Device: dev, security: state}, &started, &busy, finish}
	}
	s.onList = func(int, []agentapi.Disk) {
		if busy.Load() {
			t.Error("the disks are read during the drive's erase")
		}
	}
	m := wipeOrder(agentapi.DiskRef{Serial: "A"})
	m.Order.Clean.Mode = "Full"
	m.Faults = func(path string, n int) *agenttest.Fault {
		if path == agentapi.PathProgress && busy.Load() && paused.CompareAndSwap(false, true) || path == agentapi.PathOrder && n == 2 {
			return refusal(agentapi.ReasonPaused)
		}
		return nil
	}
	finishOnce := sync.OnceFunc(func() { close(finish) })
	m.OnProgress = func(p agentapi.Progress) {
		if paused.Load() && p.Seconds > 0 {
			finishOnce()
		}
	}
	cfg := s.config(m, m.Start(t))
	cfg.Sleep = func(ctx context.Context, _ time.Duration) error { return wait.For(ctx, time.Millisecond) }
	if action, err := agent.Run(t.Context(), cfg); action != agentapi.PowerOff || err != nil {
		t.Fatalf("%s, %v", action, err)
	}
	reports := m.Reports()
	if len(reports) != 1 || reports[0].Outcome != agentapi.Succeeded || len(reports[0].Cleaned) != 1 || reports[0].Cleaned[0].Method != erase.ATASecureErase {
		t.Errorf("reports %+v", reports)
	}
	if !paused.Load() || state.erases != 2 {
		t.Errorf("paused %t, %d erases, want one before the pause and one after it", paused.Load(), state.erases)
	}
}

// Before and after its work an agent waits for the end of a pause.
func TestAgentWaitsForTheEndOfAPause(t *testing.T) {
	for _, path := range []string{agentapi.PathSession, agentapi.PathOrder, agentapi.PathBootstrap, agentapi.PathReport} {
		t.Run(path, func(t *testing.T) {
			m, _ := installOrder(t)
			m.Interval = time.Hour // no progress calls
			m.Faults = func(called string, n int) *agenttest.Fault {
				if called == path && n <= refusals {
					return refusal(agentapi.ReasonPaused)
				}
				return nil
			}
			s := newServer(t, twoDisks...)
			if action, err := s.run(m); action != agentapi.BootDisk || err != nil {
				t.Fatalf("%s, %v", action, err)
			}
		})
	}
}

// Unchanged progress is also sent, so that the manager can stop the agent.
func TestUnchangedProgressIsSent(t *testing.T) {
	m, images := installOrder(t)
	images.Busy = 1 << 30 // the image never arrives
	calls := 0
	m.OnProgress = func(agentapi.Progress) { calls++ }
	m.Faults = func(path string, n int) *agenttest.Fault {
		if path == agentapi.PathProgress && n == 5 {
			return refusal(agentapi.ReasonOrderGone)
		}
		return nil
	}
	s := newServer(t, twoDisks...)
	cfg := s.config(m, m.Start(t))
	cfg.Sleep = func(ctx context.Context, _ time.Duration) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if action, err := agent.Run(t.Context(), cfg); action != agentapi.PowerOff || err == nil {
		t.Fatalf("%s, %v", action, err)
	}
	if calls != 4 {
		t.Errorf("%d progress calls before the one that ended it, want 4", calls)
	}
}
