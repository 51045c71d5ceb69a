// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"hash"
	"io"
	"sync/atomic"
)

// readAhead reads a source in one goroutine and hashes it in another. It is an io.Reader for
// a third.
type readAhead struct {
	ctx    context.Context
	source io.Reader
	hash   hash.Hash
	// A buffer cycles from free to fetched to full. Each channel has capacity for all buffers.
	free, fetched, full chan []byte
	// err is set before fetched is closed.
	err error
	// current is the unread rest of whole, the buffer being read.
	current, whole []byte
	consumed       atomic.Int64
}

const readBuffers = 8

func newReadAhead(ctx context.Context, source io.Reader, h hash.Hash) *readAhead {
	a := &readAhead{
		ctx: ctx, source: source, hash: h,
		free: make(chan []byte, readBuffers), fetched: make(chan []byte, readBuffers), full: make(chan []byte, readBuffers),
	}
	for range readBuffers {
		a.free <- make([]byte, readSize)
	}
	return a
}

func (a *readAhead) sum() error {
	defer close(a.full)
	for buf := range a.fetched {
		_, _ = a.hash.Write(buf) // never fails (package hash)
		a.consumed.Add(int64(len(buf)))
		a.full <- buf
	}
	return nil
}

// read reads the source to its end. Read returns its error.
func (a *readAhead) read() error {
	defer close(a.fetched)
	for {
		var buf []byte
		select {
		case buf = <-a.free:
		case <-a.ctx.Done():
			a.err = context.Cause(a.ctx)
			return nil
		}
		n, err := fill(a.source, buf)
		if n > 0 {
			a.fetched <- buf[:n]
		}
		if err != nil {
			a.err = err
			return nil
		}
	}
}

func (a *readAhead) Read(p []byte) (int, error) {
	for len(a.current) == 0 {
		if a.whole != nil {
			a.free <- a.whole[:cap(a.whole)]
			a.whole = nil
		}
		buf, open := <-a.full
		if !open {
			return 0, a.err
		}
		a.current, a.whole = buf, buf
	}
	n := copy(p, a.current)
	a.current = a.current[n:]
	return n, nil
}

func percent(done, total int64) int {
	if total <= 0 {
		return 0
	}
	return int(min(100, done*100/total))
}
