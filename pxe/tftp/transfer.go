// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// Reasons for which a transfer ends early. UEFI ends its size probe with an ERROR packet.
var (
	errGone    = errors.New("client does not answer")
	errSlow    = errors.New("client receives the file too slowly")
	errAborted = errors.New("client ended the transfer")
)

const (
	// maxTimeout limits the doubling wait for one answer.
	maxTimeout = 8 * time.Second
	// firstAnswer is how long the server waits for a client's first packet: requests with
	// forged addresses must not hold slots for long.
	firstAnswer = 5 * time.Second
	// minRate is the minimal average rate in bytes per second: clients that acknowledge a
	// block from time to time must not hold slots for hours.
	minRate = 1 << 10
	// grace is added to the time that minRate allows.
	grace = 30 * time.Second
)

type transfer struct {
	link    link
	file    io.ReaderAt
	size    int64 // of the file when the transfer began
	terms   terms
	retries int
	// ending is set while only the last acknowledgment is missing.
	ending *atomic.Bool
	now    func() time.Time

	answered bool
	began    time.Time
	// acked is the number of acknowledged blocks, and sent the number of blocks sent after them.
	acked, sent int64
	// frames has the packets of a window, end to end.
	frames []byte
	// again is true if the window was sent twice. quiet is true if the previous window was,
	// or if the client reported a gap. Further acknowledgments of that window are echoes.
	again, quiet bool
}

// errRepeat means that the client requests the window again.
var errRepeat = errors.New("packet lost")

// run sends the whole file. A file whose size is a multiple of the block size ends with an
// empty block (RFC 1350 section 6).
func (t *transfer) run() error {
	t.began = t.now()
	if len(t.terms.accepted) > 0 {
		oack := encodeOACK(t.terms.accepted)
		if err := t.exchange(func() error { return t.link.send(oack, len(oack)) }); err != nil {
			return fmt.Errorf("negotiate options: %w", err)
		}
	}
	total := t.size/int64(t.terms.blockSize) + 1
	for t.acked < total {
		t.sent = min(int64(t.terms.window), total-t.acked)
		t.ending.Store(t.acked+t.sent == total)
		if err := t.fill(); err != nil {
			_ = t.link.send(encodeError(codeUndefined, "read error"), maxBurst)
			return err
		}
		if err := t.exchange(func() error { return t.link.send(t.frames, headerSize+t.terms.blockSize) }); err != nil {
			return fmt.Errorf("send block %d of %d: %w", t.acked+1, total, err)
		}
	}
	return nil
}

// exchange sends and waits for an acknowledgment that makes progress. Without one it sends
// again and doubles the wait (RFC 1123 section 4.2.3.2).
func (t *transfer) exchange(send func() error) error {
	t.again = false
	wait := t.terms.timeout
	for tries := 0; tries <= t.retries; {
		if err := send(); err != nil {
			return err
		}
		end, expired := t.limit()
		next := t.now().Add(wait)
		if end.Before(next) {
			next = end
		}
		err := t.await(next)
		silent := errors.Is(err, os.ErrDeadlineExceeded)
		switch {
		case !silent && !errors.Is(err, errRepeat):
			return err
		case !t.now().Before(end):
			return expired
		case silent:
			tries++
			wait = max(min(2*wait, maxTimeout), t.terms.timeout)
		}
		t.again = true
	}
	// A client whose acknowledgments are lost need not wait for its own timeout.
	_ = t.link.send(encodeError(codeUndefined, "no acknowledgment"), maxBurst)
	return errGone
}

// limit returns when the transfer ends without progress, and the error for that.
func (t *transfer) limit() (time.Time, error) {
	if !t.answered {
		return t.began.Add(firstAnswer), errGone
	}
	return t.began.Add(grace + time.Duration(t.size/minRate)*time.Second), errSlow
}

// await reads until an acknowledgment makes progress. It returns os.ErrDeadlineExceeded,
// errRepeat, or the error that ends the transfer.
func (t *transfer) await(deadline time.Time) error {
	for {
		p, err := t.link.receive(deadline)
		if err != nil {
			return fmt.Errorf("read acknowledgment: %w", err)
		}
		ack, err := parseReply(p)
		if errors.Is(err, errMalformed) {
			continue
		}
		t.answered = true
		if err != nil {
			return err
		}
		// Block numbers have 16 bits and wrap (a 40 MB file does). An acknowledgment of a
		// block that was not sent is old or wrong.
		switch ahead := int64(ack - uint16(t.acked)); {
		case t.sent == 0 && ahead == 0: // the OACK is acknowledged as block 0
			return nil
		case ahead >= 1 && ahead <= t.sent:
			t.quiet = t.again || ahead < t.sent
			t.acked += ahead
			return nil
		case ahead == 0 && t.mayRepeat():
			return errRepeat
		}
	}
}

// mayRepeat reports whether a repeated acknowledgment of the block before the window means
// that its first block was lost (RFC 7440 section 4).
//
// With a window of 1 it never does, or else every following packet would be sent twice (the
// Sorcerer's Apprentice, RFC 1123 section 4.2.3.1). With a larger window it does once. A second
// one, or one after a window that was sent twice, is an echo of the second copy. If it was a
// loss after all, the timeout repairs it.
func (t *transfer) mayRepeat() bool {
	return t.terms.window > 1 && t.sent > 0 && !t.again && !t.quiet
}

func (t *transfer) fill() error {
	t.frames = t.frames[:0]
	for number := t.acked + 1; number <= t.acked+t.sent; number++ {
		offset := (number - 1) * int64(t.terms.blockSize)
		n := int(min(int64(t.terms.blockSize), t.size-offset))
		t.frames = binary.BigEndian.AppendUint16(append(t.frames, 0, opData), uint16(number))
		start := len(t.frames)
		t.frames = slices.Grow(t.frames, n)[:start+n]
		if read, err := t.file.ReadAt(t.frames[start:], offset); read < n {
			return fmt.Errorf("read file: %w", errors.Join(err, io.ErrUnexpectedEOF))
		}
	}
	return nil
}
