// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
)

// TestPoolSendsAWrongPasswordOnce shows that the call after Conn.Close opens a session
// without a retry, since repeated refusals lock the account.
func TestPoolSendsAWrongPasswordOnce(t *testing.T) {
	f := &fakeBMC{t: t}
	pool := bmc.NewPool(f.dial, bmc.PoolOptions{Pause: bmc.PauseOptions{After: -1}})
	defer func() { _ = pool.Close(context.Background()) }()
	target := bmc.Target{Address: "redfish://bmc"}
	reopen := func(ctx context.Context, conn bmc.Conn) error {
		if err := conn.Close(ctx); err != nil {
			return err
		}
		_, err := conn.PowerState(ctx)
		return err
	}
	must(t, pool.Do(t.Context(), target, readState))
	must(t, pool.Do(t.Context(), target, reopen))
	if diff := cmp.Diff([]string{"dial 1", "state 1", "close 1", "dial 2", "state 2"}, f.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	logins := 0
	f.dialErr = fmt.Errorf("login: %w", bmc.ErrUnauthorized)
	counted := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
		if logins++; logins == 1 {
			return &fakeConn{bmc: &fakeBMC{t: t}, id: 1, target: target}, nil
		}
		return f.dial(ctx, target)
	}, bmc.PoolOptions{Pause: bmc.PauseOptions{After: -1}})
	defer func() { _ = counted.Close(context.Background()) }()
	must(t, counted.Do(t.Context(), target, readState))
	if err := counted.Do(t.Context(), target, reopen); !errors.Is(err, bmc.ErrUnauthorized) || logins != 2 {
		t.Errorf("error %v after %d logins, want a refusal of the second", err, logins)
	}
}
