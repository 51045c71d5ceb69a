// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// closedPool is what a pool is once the manager stops: before its controllers know.
type closedPool struct{ Pool }

func (closedPool) Do(context.Context, bmc.Target, func(context.Context, bmc.Conn) error) error {
	return bmc.ErrPoolClosed
}

func (closedPool) Closed() bool { return true }

// A manager that stops records no events about BMCs that it no longer calls.
func testPoolClosed(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.ready("h")
	y.inspect("h")
	y.clock.Step(time.Minute)
	before, told := y.get("h"), len(y.all())
	y.BMC = closedPool{y.BMC}
	for range 3 {
		y.clock.Step(time.Minute)
		if again := y.step("h"); again.RequeueAfter != 0 {
			t.Errorf("looked at again after %s", again.RequeueAfter)
		}
	}
	if after := y.get("h"); after.ResourceVersion != before.ResourceVersion || len(y.all()) != told {
		t.Errorf("recorded: %+v; %q", after.Status.Conditions, y.all()[told:])
	}
}
