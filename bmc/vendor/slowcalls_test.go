// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/lab/bmc/fault"
)

// newImpatientPool returns a pool that ends every call after this silence, since its only slot for
// slow calls is taken.
func newImpatientPool(t *testing.T, dial bmc.Dialer, silence time.Duration) *bmc.Pool {
	t.Helper()
	pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
		if target.Address == "silent-1" || target.Address == "silent-2" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return dial(ctx, target)
	}, bmc.PoolOptions{
		CallTimeout: time.Hour, Pause: bmc.PauseOptions{After: -1, LockAfter: -1},
		SlowCalls: bmc.SlowCallOptions{Silence: silence, Limit: 1},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	for _, address := range []string{"silent-1", "silent-2"} {
		go func() { ended <- pool.Do(ctx, bmc.Target{Address: address}, powerState) }()
	}
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) { // the other call has the slot
		t.Fatalf("a BMC that says nothing: %v", err)
	}
	t.Cleanup(func() {
		cancel()
		<-ended
		if err := pool.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return pool
}

func powerState(ctx context.Context, conn bmc.Conn) error {
	_, err := conn.PowerState(ctx)
	return err
}

// TestManyShortAnswersAreNotSilent checks that a call of many requests is not silent, however long
// all of them take.
func TestManyShortAnswersAreNotSilent(t *testing.T) {
	const silence, latency = 500 * time.Millisecond, 300 * time.Millisecond
	for _, tc := range []struct {
		driver string
		// least is the number of requests of the longest call: more than fit into the silence.
		least int
	}{
		{bmctest.DriverASRockRack, 2}, // the login and the check of the board
		{bmctest.DriverAMT, 2},        // Digest asks twice
	} {
		t.Run(tc.driver, func(t *testing.T) {
			r := newPlain(t, tc.driver, nil)
			pool := newImpatientPool(t, r.driver.Dial, silence)
			r.SetFaults(fault.Faults{Latency: latency})
			defer r.SetFaults()
			var before int
			var err error
			for range 10 { // on a very slow machine an answer may be late
				before = r.Requests()
				if err = pool.Do(t.Context(), r.target, powerState); err == nil {
					break
				}
			}
			if err != nil {
				t.Error(err)
			}
			if took := r.Requests() - before; took < tc.least {
				t.Errorf("%d requests, want %d at least for this to be a test", took, tc.least)
			}
		})
	}
}
