// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// errComplete ends a call whose answer was complete.
var errComplete = errors.New("the answer is whole")

// trickle is a body that comes one byte at a time.
type trickle struct {
	left  int
	every time.Duration
}

func (d *trickle) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	d.left--
	time.Sleep(d.every)
	p[0] = ' '
	return 1, nil
}

// TestTricklingBodyIsNotSilent checks that a BMC that sends its answer byte by byte is not silent.
func TestTricklingBodyIsNotSilent(t *testing.T) {
	for _, tc := range []struct {
		name  string
		every time.Duration
		want  error
	}{
		{"byte by byte", bmc.DefaultSilence - time.Second, errComplete},
		{"with long pauses", bmc.DefaultSilence + time.Second, context.DeadlineExceeded},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
					if target.Address == "silent" {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					err := (&wire{}).collect(ctx, &http.Response{Header: http.Header{}, Body: io.NopCloser(&trickle{10, tc.every})})
					if err == nil {
						err = errComplete
					}
					return nil, errors.Join(ctx.Err(), err)
				}, bmc.PoolOptions{CallTimeout: time.Hour, SlowCalls: bmc.SlowCallOptions{Limit: 1}})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				nothing := func(context.Context, bmc.Conn) error { return nil }
				go func() {
					defer close(done)
					_ = pool.Do(ctx, bmc.Target{Address: "silent"}, nothing)
				}()
				time.Sleep(bmc.DefaultSilence + time.Second)
				err := pool.Do(t.Context(), bmc.Target{Address: "slow"}, nothing)
				if !errors.Is(err, tc.want) || errors.Is(tc.want, errComplete) && errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want %v", err, tc.want)
				}
				cancel()
				<-done
				if err := pool.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
