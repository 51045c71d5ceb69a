// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Running are the commands that disks are at by themselves although the work around them
// was called off: such a command ends with the disk or with the power. Until it has ended
// a read of that disk waits behind it, for hours perhaps. The zero value is ready.
type Running struct {
	mu   sync.Mutex
	left []leftover
}

type leftover struct {
	disk  string
	ended <-chan struct{}
	limit time.Duration
}

// Wait returns when the disks have ended, with nil, or with the context's cause. It tells
// of a disk as Disk does while that works by itself.
func (r *Running) Wait(ctx context.Context, opts Options) error {
	r.mu.Lock()
	left := slices.Clone(r.left) // those that have ended are waited for in no time
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
	e.opts.Log("erase: %s is still at what it was told before; waiting for it", l.disk)
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

// aside does a command that cannot be called off, and that ends within limit. When the
// context ends first it is left alone, and kept among those that run.
func (e *eraser) aside(ctx context.Context, limit time.Duration, do func() error) error {
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
