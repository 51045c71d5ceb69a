// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/ingot-metal/ingot/agent/block"
)

const (
	// sampleEvery and sampleSize: of every 64 MiB one MiB is read back.
	sampleEvery = 64 << 20
	sampleSize  = 1 << 20
	// zeroStep is after how many zeroes progress is told.
	zeroStep = 64 << 20
	// zeroMost is how long a run of zeroes gets before it is sent to the disk.
	zeroMost = 1 << 30
)

// writer puts decoded chunks onto a disk.
type writer struct {
	dev     block.Device
	opts    Options
	percent func() int
	// size of the decoded image in bytes, if it is known before it is decoded; else -1.
	size int64
	// head is the first MiB of the image, held back until the rest is verified.
	head []byte
	// tail is the last MiB of the disk, held back as well; nil while the image has
	// nothing there.
	tail []byte
	// zero is a run of zeroes not yet sent to the disk.
	zero Range
	// end of the image so far; done are its bytes that were dealt with.
	end, done int64
	samples   []sample
	// unsampled are the bytes written since the last sample.
	unsampled int64
}

type sample struct {
	Range
	sum [sha256.Size]byte
}

// clear removes what the disk's old content may be recognised by, at its two ends.
func (w *writer) clear(ctx context.Context) error {
	ends := append(without(Range{0, headSize}, w.opts.Reserved), Range{w.dev.Size() - tailSize, tailSize})
	for _, r := range ends {
		if err := block.Zero(ctx, w.dev, r.Off, r.Len); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) write(ctx context.Context, c chunk) error {
	end := c.off + int64(len(c.data)) + c.hole
	if end > w.dev.Size() {
		return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, w.dev.Size())
	}
	if c.off == 0 && len(c.data) >= gptSeen { // before anything else is written
		if err := checkSectors(w.dev, c.data, w.size); err != nil {
			return err
		}
	}
	w.end = max(w.end, end)
	if missing := min(w.end, headSize) - int64(len(w.head)); missing > 0 {
		w.head = append(w.head, make([]byte, missing)...)
	}
	if c.hole > 0 {
		return w.blank(ctx, c.off, c.hole)
	}
	off, data := c.off, c.data
	if off < headSize {
		n := copy(w.head[off:], data)
		off, data, w.done = off+int64(n), data[n:], w.done+int64(n)
	}
	data = w.holdTail(off, data)
	w.sample(off, data)
	if err := w.spread(ctx, off, data); err != nil {
		return err
	}
	w.tell()
	return nil
}

func (w *writer) tailFrom() int64 { return w.dev.Size() - tailSize }

// holdTail keeps what belongs into the disk's last MiB and returns the rest.
func (w *writer) holdTail(off int64, data []byte) []byte {
	body := min(max(0, w.tailFrom()-off), int64(len(data)))
	if held := data[body:]; len(held) > 0 {
		if w.tail == nil {
			w.tail = make([]byte, tailSize)
		}
		w.done += int64(copy(w.tail[off+body-w.tailFrom():], held))
	}
	return data[:body]
}

// sample remembers what a part of the disk has to be, at the beginning and then
// after every so many bytes.
func (w *writer) sample(off int64, data []byte) {
	if len(data) == 0 {
		return
	}
	if len(w.samples) == 0 || w.unsampled >= sampleEvery {
		part := data[:min(len(data), sampleSize)]
		w.samples = append(w.samples, sample{Range{off, int64(len(part))}, sha256.Sum256(part)})
		w.unsampled = 0
	}
	w.unsampled += int64(len(data))
}

// blank makes a range read as zero that the image has nothing for. In the head it
// does already.
func (w *writer) blank(ctx context.Context, off, n int64) error {
	if inHead := min(n, headSize-off); inHead > 0 {
		off, n, w.done = off+inHead, n-inHead, w.done+inHead
	}
	if n > 0 {
		if err := w.collect(ctx, off, n); err != nil {
			return err
		}
	}
	w.tell()
	return nil
}

// collect makes a run of zeroes longer, or begins another. A long one is sent to the disk
// before it ends: while a slow decoder makes it, nothing else would be told.
func (w *writer) collect(ctx context.Context, off, n int64) error {
	if w.zero.Len > 0 && w.zero.end() != off {
		if err := w.flushZero(ctx); err != nil {
			return err
		}
	}
	if w.zero.Len == 0 {
		w.zero.Off = off
	}
	if w.zero.Len += n; w.zero.Len >= zeroMost {
		return w.flushZero(ctx)
	}
	return nil
}

// tell says how much is done; zeroes that are only collected are not.
func (w *writer) tell() {
	if w.opts.OnWrite != nil {
		w.opts.OnWrite(w.done, w.percent())
	}
}

// spread writes the content of a chunk and collects its zeroes into runs, which
// may go over many chunks.
func (w *writer) spread(ctx context.Context, off int64, data []byte) error {
	for len(data) > 0 {
		n, zero := run(data)
		if zero {
			if err := w.collect(ctx, off, int64(n)); err != nil {
				return err
			}
		} else {
			if err := w.flushZero(ctx); err != nil {
				return err
			}
			if _, err := w.dev.WriteAt(data[:n], off); err != nil {
				return fmt.Errorf("write at %d: %w", off, err)
			}
			w.done += int64(n)
		}
		off, data = off+int64(n), data[n:]
	}
	return nil
}

// run returns the length of the longest beginning whose grains are all zero, or
// all not zero.
func run(data []byte) (n int, zero bool) {
	first := min(grain, len(data))
	zero = block.IsZero(data[:first])
	for n = first; n < len(data); {
		next := min(grain, len(data)-n)
		if block.IsZero(data[n:n+next]) != zero {
			break
		}
		n += next
	}
	return n, zero
}

// flushZero sends the run of zeroes to the disk and tells of every piece: it may
// be most of the disk, which many devices take hours for, and an agent that tells
// nothing new is given up (I13).
func (w *writer) flushZero(ctx context.Context) error {
	for w.zero.Len > 0 {
		n := min(w.zero.Len, zeroStep)
		if err := block.Zero(ctx, w.dev, w.zero.Off, n); err != nil {
			return err
		}
		w.zero.Off, w.zero.Len, w.done = w.zero.Off+n, w.zero.Len-n, w.done+n
		w.tell()
	}
	return nil
}

// finish makes the body durable, reads samples back, and only then writes what was held
// back, which is read back too.
func (w *writer) finish(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := w.flushZero(ctx); err != nil {
		return err
	}
	if err := errors.Join(w.checkReserved(), checkSectors(w.dev, w.head, w.end)); err != nil {
		return err
	}
	if err := w.settle(); err != nil {
		return err
	}
	for i, s := range w.samples {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := w.check(s); err != nil {
			return err
		}
		if w.opts.OnVerify != nil {
			w.opts.OnVerify(percent(int64(i+1), int64(len(w.samples))))
		}
	}
	if ctx.Err() != nil { // the head makes the disk one that boots
		return context.Cause(ctx)
	}
	return w.writeEnds()
}

// held is content that was held back, and where it belongs.
type held struct {
	off  int64
	data []byte
}

func (w *writer) writeEnds() error {
	var ends []held
	if w.tail != nil {
		ends = append(ends, held{w.tailFrom(), w.tail})
	}
	for _, r := range without(Range{0, int64(len(w.head))}, w.opts.Reserved) {
		ends = append(ends, held{r.Off, w.head[r.Off:r.end()]})
	}
	for _, h := range ends {
		if _, err := w.dev.WriteAt(h.data, h.off); err != nil {
			return fmt.Errorf("write at %d: %w", h.off, err)
		}
	}
	if err := w.settle(); err != nil {
		return err
	}
	for _, h := range ends {
		got := make([]byte, len(h.data))
		if _, err := w.dev.ReadAt(got, h.off); err != nil {
			return fmt.Errorf("read back %d bytes at %d: %w", len(got), h.off, err)
		}
		if !bytes.Equal(got, h.data) {
			return fmt.Errorf("%w: %d bytes at %d", ErrReadBack, len(got), h.off)
		}
	}
	return nil
}

func (w *writer) settle() error {
	if err := w.dev.Sync(); err != nil {
		return fmt.Errorf("sync the disk: %w", err)
	}
	return w.dev.DropCache()
}

func (w *writer) check(s sample) error {
	got := make([]byte, s.Len)
	if _, err := w.dev.ReadAt(got, s.Off); err != nil {
		return fmt.Errorf("read back %d bytes at %d: %w", s.Len, s.Off, err)
	}
	if sha256.Sum256(got) != s.sum {
		return fmt.Errorf("%w: %d bytes at %d", ErrReadBack, s.Len, s.Off)
	}
	return nil
}

func (w *writer) checkReserved() error {
	r := w.opts.Reserved
	if r.Off >= int64(len(w.head)) {
		return nil
	}
	if !block.IsZero(w.head[r.Off:min(r.end(), int64(len(w.head)))]) {
		return fmt.Errorf("%w: bytes %d to %d", ErrReserved, r.Off, r.end())
	}
	return nil
}

// without returns what is left of r outside hole, in order.
func without(r, hole Range) []Range {
	parts := []Range{
		{r.Off, min(r.end(), hole.Off) - r.Off},
		{max(r.Off, hole.end()), r.end() - max(r.Off, hole.end())},
	}
	if hole.Len == 0 || hole.end() <= r.Off || hole.Off >= r.end() {
		parts = []Range{r}
	}
	return slices.DeleteFunc(parts, func(p Range) bool { return p.Len <= 0 })
}
