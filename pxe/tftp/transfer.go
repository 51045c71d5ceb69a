// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// errGone reports a client that stopped answering.
var errGone = errors.New("client does not answer")

// errSlow reports a client that takes less than minRate.
var errSlow = errors.New("client takes the file too slowly")

// errAborted reports an ERROR packet from the client. UEFI ends its size probe
// in this way on purpose.
var errAborted = errors.New("client ended the transfer")

const (
	// maxTimeout bounds the wait for one answer as it doubles.
	maxTimeout = 8 * time.Second
	// firstAnswer is how long the server waits for the first packet of a client: requests
	// under forged addresses must not hold slots for long.
	firstAnswer = 5 * time.Second
	// minRate is how much a client must take on average, in bytes a second: clients that
	// acknowledge a block from time to time must not hold slots for hours.
	minRate = 1 << 10
	// grace is added to the time that minRate allows.
	grace = 30 * time.Second
)

// transfer sends one file to one client.
type transfer struct {
	link    link
	file    File
	size    int64 // the file's, when the transfer began
	terms   terms
	retries int
	// ending is set while only the last acknowledgement is missing.
	ending *atomic.Bool
	// now is the clock; nil means time.Now.
	now func() time.Time

	// answered is set once the client has sent a packet.
	answered bool
	// began is the start of the transfer.
	began time.Time

	// acked is how many blocks the client has, sent how many follow on the
	// wire unacknowledged.
	acked, sent int64
	// frames holds the packets of a window, end to end; the first filled of
	// them are those from the block after filledAt on.
	frames           []byte
	filledAt, filled int64
	// again: the window was sent a second time. quiet: so was the one before,
	// or the client reported a gap; further acknowledgements of its end are
	// echoes of that.
	again, quiet bool
}

// outcome is what came of waiting for an acknowledgement.
type outcome int

const (
	// silence: nothing came in time.
	silence outcome = iota
	// progress: the client has more than before.
	progress
	// repeat: the client asks for the window again.
	repeat
)

// run sends the file to its end. A file whose size is a multiple of the block
// size ends in an empty block (RFC 1350 §6).
func (t *transfer) run() error {
	if t.now == nil {
		t.now = time.Now
	}
	t.began = t.now()
	if len(t.terms.accepted) > 0 {
		oack := encodeOACK(t.terms.accepted)
		if err := t.exchange(func() error { return t.link.send(oack, len(oack)) }); err != nil {
			return fmt.Errorf("negotiate options: %w", err)
		}
	}
	total := t.size/int64(t.terms.blockSize) + 1
	t.frames = make([]byte, 0, min(int64(t.terms.window), total)*int64(headerSize+t.terms.blockSize))
	for t.acked < total {
		t.sent = min(int64(t.terms.window), total-t.acked)
		t.ending.Store(t.acked+t.sent == total)
		if err := t.exchange(t.sendWindow); err != nil {
			return fmt.Errorf("send block %d of %d: %w", t.acked+1, total, err)
		}
	}
	return nil
}

// exchange sends, and waits for an acknowledgement that moves the transfer on,
// sending again when none comes; each time it waits twice as long (RFC 1123
// §4.2.3.2).
func (t *transfer) exchange(send func() error) error {
	t.again = false
	wait := t.terms.timeout
	for tries := 0; tries <= t.retries; {
		if err := send(); err != nil {
			return err
		}
		deadline, expired := t.limit()
		what, err := t.await(earlier(t.now().Add(wait), deadline))
		if err == nil && what != progress && !t.now().Before(deadline) {
			err = expired
		}
		if err != nil {
			return err
		}
		switch what {
		case progress:
			return nil
		case silence:
			tries++
			wait = max(min(2*wait, maxTimeout), t.terms.timeout)
		}
		t.again = true
	}
	// It may be there all the same, and only deaf to us: then it need not wait.
	_ = t.link.send(encodeError(codeUndefined, "no acknowledgement"), maxBurst)
	return errGone
}

// limit is when the transfer ends if it makes no progress until then, and the error that
// it ends with.
func (t *transfer) limit() (time.Time, error) {
	if !t.answered {
		return t.began.Add(firstAnswer), errGone
	}
	return t.began.Add(grace + time.Duration(t.size/minRate)*time.Second), errSlow
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// await reads until an acknowledgement comes that moves the transfer on, the
// deadline passes, or the client asks for the window again.
func (t *transfer) await(deadline time.Time) (outcome, error) {
	for {
		p, err := t.link.receive(deadline)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return silence, nil
		}
		if errors.Is(err, errGone) {
			return silence, err
		}
		if err != nil {
			return silence, fmt.Errorf("read acknowledgement: %w", err)
		}
		r, err := parseReply(p)
		if err != nil {
			continue
		}
		t.answered = true
		if r.failed {
			return silence, fmt.Errorf("%w: %s", errAborted, r.failure)
		}
		// Block numbers are 16 bits wide and wrap (a 40 MB file does). What is
		// ahead of all that was sent is old, or wrong.
		switch ahead := int64(r.ack - uint16(t.acked)); {
		case t.sent == 0 && ahead == 0: // the OACK is acknowledged as block 0
			return progress, nil
		case ahead >= 1 && ahead <= t.sent:
			t.quiet = t.again || ahead < t.sent
			t.acked += ahead
			return progress, nil
		case ahead == 0 && t.mayRepeat():
			return repeat, nil
		}
	}
}

// mayRepeat says whether a repeated acknowledgement of the block before the
// window is to be believed as the loss of its first block (RFC 7440 §4).
//
// With a window of 1 it never is, or every packet from there on would be sent
// twice (the Sorcerer's Apprentice, RFC 1123 §4.2.3.1). With a larger window it
// is once; a second one, and one after a window that was sent twice, is the echo
// of the second copy. If it was a loss after all, the timer sees to it.
func (t *transfer) mayRepeat() bool {
	return t.terms.window > 1 && t.sent > 0 && !t.again && !t.quiet
}

// sendWindow sends the unacknowledged blocks.
func (t *transfer) sendWindow() error {
	if err := t.fill(); err != nil {
		_ = t.link.send(encodeError(codeUndefined, "read error"), maxBurst)
		return err
	}
	return t.link.send(t.frames, headerSize+t.terms.blockSize)
}

// fill makes the packets of the window, unless they are there from the last time.
func (t *transfer) fill() error {
	if t.filled == t.sent && t.filledAt == t.acked {
		return nil
	}
	t.filled, t.frames = 0, t.frames[:0]
	for i := range t.sent {
		number := t.acked + i + 1
		offset := (number - 1) * int64(t.terms.blockSize)
		n := min(int64(t.terms.blockSize), t.size-offset)
		t.frames = binary.BigEndian.AppendUint16(t.frames, opData)
		t.frames = binary.BigEndian.AppendUint16(t.frames, uint16(number))
		start := len(t.frames)
		t.frames = t.frames[:start+int(n)]
		if read, err := t.file.ReadAt(t.frames[start:], offset); read < int(n) {
			return fmt.Errorf("read file: %w", errors.Join(err, io.ErrUnexpectedEOF))
		}
	}
	t.filledAt, t.filled = t.acked, t.sent
	return nil
}
