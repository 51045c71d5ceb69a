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
	// readyTimeout bounds each wait; pods start slowly on two busy cores.
	readyTimeout = 3 * time.Minute
	pollInterval = 100 * time.Millisecond
)

// poll calls probe until it succeeds. It fails when ctx ends, after readyTimeout, or when broken, which
// may be nil, returns an error. The error names what was awaited.
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

// findProgram returns the path of a program of the operating system.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: run \"hack/packages.sh e2e-clusterctl\"", err)
	}
	return path, nil
}
