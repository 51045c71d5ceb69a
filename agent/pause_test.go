// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agentapi"
)

// pausing lets a manager pause the host during the n-th write of an agent, and
// refuse the order a few times before it gives it again.
type pausing struct {
	server *server
	at     int32

	writes  atomic.Int32
	inWrite atomic.Bool
	// orders are the writes counted at each call for the order.
	orders []int32
}

const refusals = 3

func pauseAt(m *agenttest.Manager, s *server, at int32) *pausing {
	p := &pausing{server: s, at: at}
	s.onWrite = func(ctx context.Context) {
		if p.writes.Add(1) == at {
			p.inWrite.Store(true)
			<-ctx.Done()                      // a write that the pause finds under way
			time.Sleep(10 * time.Millisecond) // contexts made from this one are told after it
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

// stopped sees that nothing was written from the pause until there was an order.
func (p *pausing) stopped(t *testing.T) {
	t.Helper()
	if len(p.orders) != 2+refusals {
		t.Fatalf("the order was asked for %d times, want %d", len(p.orders), 2+refusals)
	}
	for i, writes := range p.orders[1:] {
		if writes != p.at {
			t.Errorf("%d writes at question %d after the pause, want none after number %d, which was under way", writes, i+1, p.at)
		}
	}
	if p.writes.Load() <= p.at {
		t.Error("nothing was written after the pause")
	}
}

// I10: an agent that hears that the host is paused stops between two writes, idles,
// and starts over once there is an order again.
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
			if reports := m.Reports(); len(reports) != 1 || len(reports[0].WipedDisks) != len(refs) {
				t.Errorf("reports %+v, want one of all disks", reports)
			}
		})
	}
}

// A pause that finds the agent before its session or after its work makes it wait,
// not power off.
func TestPauseIsWaitedFor(t *testing.T) {
	for _, path := range []string{agentapi.PathSession, agentapi.PathOrder, agentapi.PathBootstrap, agentapi.PathReport} {
		t.Run(path, func(t *testing.T) {
			m, _ := installOrder(t)
			m.Interval = time.Hour // no progress in between: only the call at hand is refused
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

// The manager can call an agent off that has nothing to tell.
func TestProgressIsSentWithoutNews(t *testing.T) {
	m, images := installOrder(t)
	images.Busy = 1 << 30 // the image never comes
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
