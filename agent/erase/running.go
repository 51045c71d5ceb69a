// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Running collects commands that disks continue after the context's end. Such a command ends
// with the disk's work or a power loss. Until then a read of the disk blocks, possibly for
// hours. The zero value is ready to use.
type Running struct {
	mu   sync.Mutex
	left []leftover
}

type leftover struct {
	disk  string
	ended <-chan struct{}
	limit time.Duration
}

// Wait returns nil when all commands have ended, or the context's cause. It reports progress
// like Disk.
func (r *Running) Wait(ctx context.Context, opts Options) error {
	r.mu.Lock()
	left := slices.Clone(r.left) // includes ended ones, which await skips
	r.mu.Unlock()
	e := &eraser{opts: opts.withDefaults()}
	for _, l := range left {
		if err := e.await(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (e *eraser) await(ctx context.Context, l leftover) error {
	select {
	case <-l.ended:
		return nil
	default:
	}
	e.opts.Log("erase: %s is still executing an earlier command; waiting", l.disk)
	defer e.beat(ctx, l.limit)()
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *Running) keep(l leftover) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = append(r.left, l)
}

// detached runs a command that cannot be canceled and that ends within limit. If the context
// ends first, the command continues and is added to Options.Running.
func (e *eraser) detached(ctx context.Context, limit time.Duration, do func() error) error {
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = do()
	}()
	select {
	case <-ended:
		return err
	case <-ctx.Done():
		e.opts.Running.keep(leftover{e.Target.Disk.Name, ended, limit})
		return context.Cause(ctx)
	}
}
