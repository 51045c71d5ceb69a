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
	// Of every 64 MiB, 1 MiB is read back.
	sampleEvery = 64 << 20
	sampleSize  = 1 << 20
	// zeroStep is the number of zeroes between two progress reports.
	zeroStep = 64 << 20
	// zeroMost is the maximum length of a run of zeroes before it is sent to the disk.
	zeroMost = 1 << 30
)

// writer writes decoded chunks to a disk.
type writer struct {
	dev     block.Device
	opts    Options
	percent func() int
	// size of the decoded image in bytes; -1 if unknown before decoding.
	size int64
	// head is the first MiB of the image, held back until the rest is verified.
	head []byte
	// tail is the last MiB of the disk, also held back; nil while the image has no content
	// there.
	tail []byte
	// zero is a run of zeroes that is not yet sent to the disk.
	zero Range
	// end is the end of the image so far, done the number of its bytes that are done.
	end, done int64
	samples   []sample
	// unsampled are the bytes written since the last sample.
	unsampled int64
}

type sample struct {
	Range
	sum [sha256.Size]byte
}

// clear removes signatures of old content at both ends of the disk.
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
		return w.writeHole(ctx, c.off, c.hole)
	}
	off, data := c.off, c.data
	if off < headSize {
		n := copy(w.head[off:], data)
		off, data, w.done = off+int64(n), data[n:], w.done+int64(n)
	}
	data = w.holdTail(off, data)
	w.sample(off, data)
	if err := w.writeBody(ctx, off, data); err != nil {
		return err
	}
	w.report()
	return nil
}

func (w *writer) tailFrom() int64 { return w.dev.Size() - tailSize }

// holdTail keeps the part that belongs into the disk's last MiB and returns the rest.
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

// sample records the checksum of a part of the disk: the first one, then one per sampleEvery
// bytes.
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

// writeHole makes a range without image content read as zero. In the head it already does.
func (w *writer) writeHole(ctx context.Context, off, n int64) error {
	if inHead := min(n, headSize-off); inHead > 0 {
		off, n, w.done = off+inHead, n-inHead, w.done+inHead
	}
	if n > 0 {
		if err := w.addZeroes(ctx, off, n); err != nil {
			return err
		}
	}
	w.report()
	return nil
}

// addZeroes extends the run of zeroes or starts another. It sends a long run to the disk
// before the run ends, so that a slow decoder does not suspend the progress reports.
func (w *writer) addZeroes(ctx context.Context, off, n int64) error {
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

// report reports the bytes done. Zeroes count when they are sent to the disk.
func (w *writer) report() {
	if w.opts.OnWrite != nil {
		w.opts.OnWrite(w.done, w.percent())
	}
}

// writeBody writes the content of a chunk and collects its zeroes into runs, which may span
// many chunks.
func (w *writer) writeBody(ctx context.Context, off int64, data []byte) error {
	for len(data) > 0 {
		n, zero := firstRun(data)
		if zero {
			if err := w.addZeroes(ctx, off, int64(n)); err != nil {
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

// firstRun returns the length of the longest prefix whose grains are all zero or all not
// zero.
func firstRun(data []byte) (n int, zero bool) {
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

// flushZero sends the run of zeroes to the disk and reports every piece. The run may be most
// of the disk and take hours on many devices; the manager gives up an agent without progress
// (I13).
func (w *writer) flushZero(ctx context.Context) error {
	for w.zero.Len > 0 {
		n := min(w.zero.Len, zeroStep)
		if err := block.Zero(ctx, w.dev, w.zero.Off, n); err != nil {
			return err
		}
		w.zero.Off, w.zero.Len, w.done = w.zero.Off+n, w.zero.Len-n, w.done+n
		w.report()
	}
	return nil
}

// finish makes the body durable and reads samples back. Only then it writes, and reads back,
// what was held back.
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
	if err := block.Flush(w.dev); err != nil {
		return err
	}
	for i, s := range w.samples {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := w.checkSample(s); err != nil {
			return err
		}
		if w.opts.OnVerify != nil {
			w.opts.OnVerify(percent(int64(i+1), int64(len(w.samples))))
		}
	}
	if ctx.Err() != nil { // the head makes the disk bootable
		return context.Cause(ctx)
	}
	return w.writeEnds()
}

// held is content that was held back, with its position.
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
	if err := block.Flush(w.dev); err != nil {
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

func (w *writer) checkSample(s sample) error {
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

// without returns the parts of r outside hole, in sequence.
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
