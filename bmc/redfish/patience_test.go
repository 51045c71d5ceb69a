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

// TestHealthyBMCsAreServed: 200 BMCs of an emulator hang, and eight workers poll them
// and 50 that are well in turn. The time of a call is an hour: that the test comes to
// its end shows that no worker waits for a silent BMC, but for the two that may be slow.
func TestHealthyBMCsAreServed(t *testing.T) {
	const workers, ill, well, slow, rounds = 8, 200, 50, 2, 3
	ca, err := labbmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{
		CallTimeout: time.Hour, CloseTimeout: soon, Rest: bmc.RestOptions{After: -1},
		Patience: bmc.PatienceOptions{Silence: 100 * time.Millisecond, Slow: slow},
	})
	type patient struct {
		target bmc.Target
		ill    bool
	}
	queue := make(chan patient, rounds*(ill+well))
	var patients []patient
	for i := range ill + well {
		b, err := labbmc.Start(labbmc.Config{Authority: ca, Machine: &labbmc.Bench{}, Username: username, Password: canary, System: system()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		p := patient{target: bmc.Target{Address: b.Address(), Username: username, Password: canary, CABundle: ca.PEM()}, ill: i%5 != 4}
		if p.ill {
			b.SetFaults(labbmc.Faults{Hang: true})
		}
		patients = append(patients, p)
	}
	for range rounds {
		for _, p := range patients {
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
					case p.ill && ctx.Err() == nil:
						// Busy: it is one of the two whose first call still waits.
						if !errors.Is(err, bmc.ErrTimeout) && !errors.Is(err, bmc.ErrUnreachable) && !errors.Is(err, bmc.ErrBusy) {
							t.Errorf("a BMC that hangs: %v", err)
						}
						cut.Add(1)
					case !p.ill && err != nil: // a slow machine: it comes again
						again.Add(1)
						queue <- p
					case !p.ill:
						if served.Add(1) == rounds*well {
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
	t.Logf("%d calls of BMCs that are well, %d of them tried again; %d of BMCs that hang have ended", served.Load(), again.Load(), cut.Load())
	if n := cut.Load(); n < (rounds-1)*(ill-slow) {
		t.Errorf("%d calls of BMCs that hang came to an end, want nearly all", n)
	}
	if err := pool.Close(t.Context()); err != nil {
		t.Log(fmt.Errorf("as it must be of BMCs that hang: %w", err))
	}
}

// reachBesideOneThatHangs has a pool whose only place for slow calls is taken read a
// BMC with these faults, and returns that one, whose session the pool still has.
func reachBesideOneThatHangs(t *testing.T, silence time.Duration, faults labbmc.Faults) (*rig, error) {
	t.Helper()
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{
		CallTimeout: time.Hour, Rest: bmc.RestOptions{After: -1, LockAfter: -1},
		Patience: bmc.PatienceOptions{Silence: silence, Slow: 1},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for range 2 { // one of them has the only place once the other has ended
		ill := newRig(t, nil)
		ill.SetFaults(labbmc.Faults{Hang: true})
		go func() { ended <- pool.Do(ctx, ill.target, readState) }()
	}
	if err := <-ended; !errors.Is(err, bmc.ErrTimeout) {
		t.Errorf("a BMC that hangs: %v", err)
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
	for range 20 { // a machine so slow that a read is cut is no failure
		if err = pool.Do(t.Context(), slow.target, readState); err == nil {
			break
		}
	}
	return slow, err
}

// TestLoginsAreNotCut: a BMC that takes long to log in opens the session, also when the
// places for slow calls are taken; a login that was given up would leave it open.
func TestLoginsAreNotCut(t *testing.T) {
	const silence = 200 * time.Millisecond
	slow, err := reachBesideOneThatHangs(t, silence, labbmc.Faults{Latency: 5 * silence, Match: func(method, path string) bool {
		return method == "POST" && strings.HasSuffix(path, "/Sessions")
	}})
	if err != nil {
		t.Errorf("a slow login: %v", err)
	}
	if n := slow.Sessions(); n != 1 {
		t.Errorf("%d sessions are open, want ours alone", n)
	}
}

// TestSlowAnswersAreNotCut: a BMC that sends its answers bit by bit is slow, and not silent.
func TestSlowAnswersAreNotCut(t *testing.T) {
	const silence = 300 * time.Millisecond
	// The service root has several hundred bytes.
	_, err := reachBesideOneThatHangs(t, silence, labbmc.Faults{Trickle: silence / 100,
		Match: func(_, path string) bool { return strings.TrimSuffix(path, "/") == "/redfish/v1" }})
	if err != nil {
		t.Errorf("an answer that comes bit by bit: %v", err)
	}
}
