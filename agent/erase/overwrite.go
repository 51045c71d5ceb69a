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
	// piece is discarded or overwritten at a time; in between the work can be stopped.
	piece = 64 << 20
	// journalEvery is how much is overwritten between two entries of the journal.
	journalEvery = 4 << 30
	// JournalOffset: the journal lies from there to the marker, where nothing else is either.
	JournalOffset = agentapi.MarkerOffset - journalSize
	journalSize   = 4096
	bodyFrom      = reservedTo
)

// discard tells the disk that nothing on it is needed.
func (e *eraser) discard(ctx context.Context, secure bool) error {
	pace := e.startPace()
	for off := int64(0); off < e.size; off += piece {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(piece, e.size-off)
		if err := e.Commands.Discard(ctx, DiscardRange{Off: off, Len: n, Secure: secure}); err != nil {
			return err
		}
		e.tell(off + n)
		if err := pace.keep(off + n); err != nil {
			return err
		}
	}
	return nil
}

// discardAndZero frees the flash, and then makes the disk zero itself. What the
// discard alone promises is nothing.
func (e *eraser) discardAndZero(ctx context.Context) error {
	if err := e.discard(ctx, false); err != nil {
		return err
	}
	return e.each(ctx, bodyFrom, func(off, n int64) error { return block.Zero(ctx, e.Device, off, n) })
}

// overwrite writes zeroes over all of the disk, from a byte of it on.
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
		return e.note(off)
	})
	if err != nil {
		return err
	}
	return e.note(0)
}

// each does all of the disk piece by piece: the body, and then what is before the
// reserved part.
func (e *eraser) each(ctx context.Context, from int64, do func(off, n int64) error) error {
	pace := e.startPace()
	for off := from; off < e.size; off += piece {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(piece, e.size-off)
		if err := do(off, n); err != nil {
			return err
		}
		e.tell(off + n)
		if err := pace.keep(off + n - from); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return block.Zero(ctx, e.Device, 0, min(reservedFrom, e.size))
}

// A disk that is discarded or overwritten does slowestWrite bytes a second at least, after
// paceGrace for what it does before it gets going. One that is slower is dying: it would
// hold its host for years, with progress at every piece.
const (
	slowestWrite = 10e6
	paceGrace    = 2 * time.Hour
)

// pace is how fast the disk has been since it began.
type pace struct {
	now   func() time.Time
	began time.Time
}

func (e *eraser) startPace() pace { return pace{now: e.opts.Now, began: e.opts.Now()} }

// keep fails once the disk is too slow for the bytes done.
func (p pace) keep(done int64) error {
	took := p.now().Sub(p.began)
	if took <= paceGrace+time.Duration(float64(done)/slowestWrite*float64(time.Second)) {
		return nil
	}
	return fmt.Errorf("given up: %d MB in %s are %.1f MB/s, and a disk that is well does more than %d", done/1e6, took.Round(time.Minute), float64(done)/1e6/took.Seconds(), int(slowestWrite/1e6))
}

func (e *eraser) tell(done int64) {
	e.opts.OnProgress(Progress{Bytes: done, Percent: int(done * 100 / e.size)})
}

// The journal is one block: magic, the byte to go on at, and a MAC (RFC 2104) over both
// and the disk. The system that was installed here could write to this place, and whoever
// can make a journal says what is not erased: the key is one that it never had.
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

// note writes how far the overwriting is, once that is durable; 0 removes the journal.
func (e *eraser) note(done int64) error {
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

// resumeFrom reads the journal. Where it was made with another key, or is not
// there, it is 0.
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
