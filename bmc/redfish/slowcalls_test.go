// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

// TestSilentBMCsDoNotBlockWorkers polls 200 hanging and 50 healthy BMCs with eight workers. A call
// may last an hour, so the test ends only if no worker waits for a silent BMC, except in the two
// slots for slow calls.
func TestSilentBMCsDoNotBlockWorkers(t *testing.T) {
	const workers, hanging, healthy, slow, rounds = 8, 200, 50, 2, 3
	ca, err := labbmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{
		CallTimeout: time.Hour, CloseTimeout: shortWait, Pause: bmc.PauseOptions{After: -1},
		SlowCalls: bmc.SlowCallOptions{Silence: 100 * time.Millisecond, Limit: slow},
	})
	type polled struct {
		target  bmc.Target
		hanging bool
	}
	queue := make(chan polled, rounds*(hanging+healthy))
	var polls []polled
	for i := range hanging + healthy {
		b, err := labbmc.Start(labbmc.Config{Authority: ca, Machine: &labbmc.Bench{}, Username: username, Password: canary, System: system()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		p := polled{target: bmc.Target{Address: b.Address(), Username: username, Password: canary, CABundle: ca.PEM()}, hanging: i%5 != 4}
		if p.hanging {
			b.SetFaults(labbmc.Faults{Hang: true})
		}
		polls = append(polls, p)
	}
	for range rounds {
		for _, p := range polls {
			queue <- p
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var served, cut, again atomic.Int32
	all := make(chan struct{})
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case p := <-queue:
					err := pool.Do(ctx, p.target, readState)
					switch {
					case p.hanging && ctx.Err() == nil:
						// ErrBusy: the first call of one of the two slow BMCs still waits.
						if !errors.Is(err, bmc.ErrTimeout) && !errors.Is(err, bmc.ErrUnreachable) && !errors.Is(err, bmc.ErrBusy) {
							t.Errorf("hanging BMC: %v", err)
						}
						cut.Add(1)
					case !p.hanging && err != nil: // a slow machine: try again
						again.Add(1)
						queue <- p
					case !p.hanging:
						if served.Add(1) == rounds*healthy {
							close(all)
						}
					}
				}
			}
		})
	}
	<-all
	cancel()
	wg.Wait()
	t.Logf("%d calls of healthy BMCs, %d repeated; %d calls of hanging BMCs ended", served.Load(), again.Load(), cut.Load())
	if n := cut.Load(); n < (rounds-1)*(hanging-slow) {
		t.Errorf("%d calls of hanging BMCs ended, want nearly all", n)
	}
	if err := pool.Close(t.Context()); err != nil {
		t.Log(fmt.Errorf("expected for hanging BMCs: %w", err))
	}
}

// reachWhileAnotherHangs reads a BMC with these faults through a pool whose only slot for slow
// calls is taken. It returns the rig, whose session the pool still has.
func reachWhileAnotherHangs(t *testing.T, silence time.Duration, faults labbmc.Faults) (*rig, error) {
	t.Helper()
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{
		CallTimeout: time.Hour, Pause: bmc.PauseOptions{After: -1, LockAfter: -1},
		SlowCalls: bmc.SlowCallOptions{Silence: silence, Limit: 1},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for range 2 { // one of them has the only slot after the other has ended
		hanging := newRig(t, nil)
		hanging.SetFaults(labbmc.Faults{Hang: true})
		go func() { ended <- pool.Do(ctx, hanging.target, readState) }()
	}
	if err := <-ended; !errors.Is(err, bmc.ErrTimeout) {
		t.Errorf("hanging BMC: %v", err)
	}
	slow := newRig(t, nil)
	slow.SetFaults(faults)
	t.Cleanup(func() { // before the BMCs count their sessions
		cancel()
		<-ended
		if err := pool.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	var err error
	for range 20 { // on a very slow machine a read may be cut off
		if err = pool.Do(t.Context(), slow.target, readState); err == nil {
			break
		}
	}
	return slow, err
}

// TestSlowLoginCompletes checks that a slow login opens its session although all slots for slow
// calls are taken; an aborted login would leak the session.
func TestSlowLoginCompletes(t *testing.T) {
	const silence = 200 * time.Millisecond
	slow, err := reachWhileAnotherHangs(t, silence, labbmc.Faults{Latency: 5 * silence, Match: func(method, path string) bool {
		return method == "POST" && strings.HasSuffix(path, "/Sessions")
	}})
	if err != nil {
		t.Errorf("a slow login: %v", err)
	}
	if n := slow.Sessions(); n != 1 {
		t.Errorf("%d sessions are open, want ours alone", n)
	}
}

// TestTricklingAnswerIsNotSilent checks that a BMC that sends its answers byte by byte counts as
// slow, not as silent.
func TestTricklingAnswerIsNotSilent(t *testing.T) {
	const silence = 300 * time.Millisecond
	// The service root has several hundred bytes.
	_, err := reachWhileAnotherHangs(t, silence, labbmc.Faults{Trickle: silence / 100,
		Match: func(_, path string) bool { return strings.TrimSuffix(path, "/") == "/redfish/v1" }})
	if err != nil {
		t.Errorf("an answer that comes bit by bit: %v", err)
	}
}
