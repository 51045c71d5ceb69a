// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package wait_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agent/wait"
)

func TestFor(t *testing.T) {
	canceled := errors.New("canceled")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := wait.For(ctx, time.Millisecond); err != nil {
		t.Errorf("time that passed: %v", err)
	}
	cancel(canceled)
	if err := wait.For(ctx, 24*time.Hour); !errors.Is(err, canceled) {
		t.Errorf("called off: %v", err)
	}
}
