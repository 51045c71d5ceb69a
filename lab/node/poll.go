// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

const (
	// readyTimeout bounds each wait; two busy cores start pods slowly.
	readyTimeout = 3 * time.Minute
	// pollInterval is the pause between two looks at something awaited.
	pollInterval = 100 * time.Millisecond
)

// poll probes until it succeeds. It fails when ctx ends, after readyTimeout, or
// as soon as broken, which may be nil, says so; and names what was awaited.
func poll(ctx context.Context, what string, broken func() error, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		if broken != nil {
			if cause := broken(); cause != nil {
				return fmt.Errorf("wait for %s: %w", what, cause)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last: %w", what, ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// findProgram finds a program of the operating system.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: run \"hack/packages.sh e2e-clusterctl\"", err)
	}
	return path, nil
}
