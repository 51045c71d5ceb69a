// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"context"
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
