// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/ipmi"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

// TestPollIsOneCommand shows that a poll is one command in an open session and reads no sensor.
func TestPollIsOneCommand(t *testing.T) {
	r := newRig(t, nil)
	if err := r.bench.Power(t.Context(), labbmc.On); err != nil {
		t.Fatal(err)
	}
	pool := bmc.NewPool(ipmi.Dial, bmc.PoolOptions{})
	poll := func() (v bmc.PollState) {
		t.Helper()
		if err := pool.Do(t.Context(), r.target, func(ctx context.Context, c bmc.Conn) (err error) {
			v, err = c.PollState(ctx)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return v
	}
	poll() // opens the session
	before := len(r.Commands())
	for range 5 {
		// The chassis has no fault; only Health reports the critical fan.
		if diff := cmp.Diff(bmc.PollState{Power: bmc.PowerOn, Health: bmc.HealthOK}, poll()); diff != "" {
			t.Errorf("vitals (-want +got):\n%s", diff)
		}
	}
	if n := len(r.Commands()) - before; n != 5 {
		t.Errorf("5 polls made %d commands, want 5: %v", n, r.Commands()[before:])
	}
	if err := pool.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
