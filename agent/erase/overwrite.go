// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agentapi"
)

const (
	// piece is the unit of discarding and overwriting, between which the work can stop.
	piece = 64 << 20
	// journalEvery is the amount overwritten between two entries of the journal.
	journalEvery = 4 << 30
	// JournalOffset is the start of the journal, which ends at the marker.
	JournalOffset = agentapi.MarkerOffset - journalSize
	journalSize   = 4096
	bodyFrom      = reservedTo
)

// discard marks the whole disk as unused.
func (e *eraser) discard(ctx context.Context, secure bool) error {
	rate := e.startRate()
	for off := int64(0); off < e.size; off += piece {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(piece, e.size-off)
		if err := e.Commands.Discard(ctx, DiscardRange{Off: off, Len: n, Secure: secure}); err != nil {
			return err
		}
		e.reportBytes(off + n)
		if err := rate.check(off + n); err != nil {
			return err
		}
	}
	return nil
}

// discardAndZero frees the flash and then makes the disk zero itself, since a discard alone
// guarantees nothing.
func (e *eraser) discardAndZero(ctx context.Context) error {
	if err := e.discard(ctx, false); err != nil {
		return err
	}
	return e.each(ctx, bodyFrom, func(off, n int64) error { return block.Zero(ctx, e.Device, off, n) })
}

// overwrite writes zeroes to the disk, starting at a byte.
func (e *eraser) overwrite(ctx context.Context, from int64) error {
	zeroes := make([]byte, 4<<20)
	saved := from
	err := e.each(ctx, max(from, bodyFrom), func(off, n int64) error {
		for n > 0 {
			part := min(n, int64(len(zeroes)))
			if _, err := e.Device.WriteAt(zeroes[:part], off); err != nil {
				return fmt.Errorf("write at %d: %w", off, err)
			}
			off, n = off+part, n-part
		}
		if off-saved < journalEvery {
			return nil
		}
		saved = off
		return e.writeJournal(off)
	})
	if err != nil {
		return err
	}
	return e.writeJournal(0)
}

// each calls do for every piece of the body, and then zeroes the part before the reserved one.
func (e *eraser) each(ctx context.Context, from int64, do func(off, n int64) error) error {
	rate := e.startRate()
	for off := from; off < e.size; off += piece {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(piece, e.size-off)
		if err := do(off, n); err != nil {
			return err
		}
		e.reportBytes(off + n)
		if err := rate.check(off + n - from); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return block.Zero(ctx, e.Device, 0, min(reservedFrom, e.size))
}

// A disk must sustain slowestWrite bytes per second, after paceGrace for its start. A slower
// one is dying and would occupy its host for years, despite its progress.
const (
	slowestWrite = 10e6
	paceGrace    = 2 * time.Hour
)

type rate struct {
	now   func() time.Time
	start time.Time
}

func (e *eraser) startRate() rate { return rate{now: e.opts.Now, start: e.opts.Now()} }

// check fails if the disk is too slow for the number of bytes done.
func (p rate) check(done int64) error {
	took := p.now().Sub(p.start)
	if took <= paceGrace+time.Duration(float64(done)/slowestWrite*float64(time.Second)) {
		return nil
	}
	return fmt.Errorf("the disk is too slow: %d MB in %s are %.1f MB/s, the minimum is %d MB/s", done/1e6, took.Round(time.Minute), float64(done)/1e6/took.Seconds(), int(slowestWrite/1e6))
}

func (e *eraser) reportBytes(done int64) {
	e.opts.OnProgress(Progress{Bytes: done, Percent: int(done * 100 / e.size)})
}

// The journal is one block: magic, the byte at which to resume, and a MAC (RFC 2104) of both
// and the disk's identity. The previously installed system could write a false journal, but
// it never had the key.
const journalMagic = "ingot erase 2\x00\x00\x00"

func (e *eraser) journal(done int64) []byte {
	b := make([]byte, journalSize)
	copy(b, journalMagic)
	binary.BigEndian.PutUint64(b[16:], uint64(done))
	sum := hmac.New(sha256.New, []byte(e.JournalKey.Reveal()))
	_, _ = fmt.Fprintf(sum, "%s\x00%d\x00%q\x00%q", b[:24], e.size, e.Target.Disk.Serial, e.Target.Disk.WWN)
	copy(b[24:], sum.Sum(nil))
	return b
}

// writeJournal flushes the disk and writes the byte at which to resume; 0 removes the journal.
func (e *eraser) writeJournal(done int64) error {
	if e.JournalKey == "" || e.size < bodyFrom {
		return nil
	}
	if err := e.Device.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	b := make([]byte, journalSize)
	if done > 0 {
		b = e.journal(done)
	}
	if _, err := e.Device.WriteAt(b, JournalOffset); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return e.Device.Sync()
}

// resumeFrom returns the journal's byte, or 0 without a journal made with the key.
func (e *eraser) resumeFrom() int64 {
	b := make([]byte, journalSize)
	if e.JournalKey == "" || e.size < bodyFrom {
		return 0
	}
	if _, err := e.Device.ReadAt(b, JournalOffset); err != nil {
		return 0
	}
	done := int64(binary.BigEndian.Uint64(b[16:]))
	if done <= 0 || done > e.size || !hmac.Equal(b, e.journal(done)) {
		return 0
	}
	return done
}
