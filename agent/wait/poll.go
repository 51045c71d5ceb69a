// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"context"
	"errors"
	"time"
)

// ErrLimit says that what was waited for did not come.
var ErrLimit = errors.New("it did not come in time")

// Poll is how patiently something is asked for that tells nobody when it comes. Both
// fields are needed.
type Poll struct {
	// Every is the pause after an answer, Limit bounds all of it.
	Every, Limit time.Duration
}

// Until asks until the answer is yes or an error, at least once. After the limit it
// returns ErrLimit; at the context's end its cause. An ask is not cut short by either.
func (p Poll) Until(ctx context.Context, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.Limit, ErrLimit)
	defer cancel()
	for {
		if done, err := ask(); done || err != nil {
			return err
		}
		if err := For(ctx, p.Every); err != nil {
			return err
		}
	}
}
