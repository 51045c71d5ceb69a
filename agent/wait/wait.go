// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"context"
	"errors"
	"time"
)

// For returns nil after d, or early with the context's cause.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// ErrLimit reports that the condition was not met in time.
var ErrLimit = errors.New("timed out")

// Poll repeats a check of a condition. Both fields are required.
type Poll struct {
	// Every is the pause after a check. Limit bounds the total time.
	Every, Limit time.Duration
}

// Until checks until the condition is met or fails, at least once. It returns ErrLimit after
// the limit, or the context's cause. Neither interrupts a check.
func (p Poll) Until(ctx context.Context, check func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.Limit, ErrLimit)
	defer cancel()
	for {
		if done, err := check(); done || err != nil {
			return err
		}
		if err := For(ctx, p.Every); err != nil {
			return err
		}
	}
}
