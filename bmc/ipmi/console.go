// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

const (
	// solHeader is the header length of a Serial over LAN packet (§15.9 table 15-2).
	solHeader = 4
	// maxChunk bounds the input of one packet.
	maxChunk = 128
	// maxOutput bounds the output that waits for a slow reader, in bytes. More output is not
	// acknowledged, so that the BMC keeps it and sends it again.
	maxOutput = 64 << 10
	// solRetry is the pause between two of solTries attempts to send input.
	solRetry = 500 * time.Millisecond
	solTries = 8
	// keepAlive is less than the 60 s after which BMCs drop a session. The console ends after
	// three keep-alives without an answer.
	keepAlive  = 15 * time.Second
	solTimeout = 3*keepAlive + keepAlive/2

	// Status bits from the BMC: input not accepted, and payload deactivated.
	solNACK, solDeactivated = 0x40, 0x10
)

// OpenConsole implements bmc.Console with Serial over LAN (§15, §24) in a separate session,
// so that the connection stays usable. It returns ErrBusy if another session has the console.
// It does not report output that the BMC lost: serial lines lose output too.
func (c *conn) OpenConsole(ctx context.Context) (io.ReadWriteCloser, error) {
	s, err := openSession(ctx, c.host, c.target)
	if err != nil {
		return nil, fmt.Errorf("open console: %w", err)
	}
	size, err := s.activateSOL(ctx)
	if err != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
		defer cancel()
		_ = s.close(end)
		return nil, fmt.Errorf("open console: %w", err)
	}
	t := &terminal{session: s, chunk: max(1, min(maxChunk, size-solHeader)), acks: make(chan ack, 1), done: make(chan struct{})}
	t.changed = sync.NewCond(&t.mu)
	t.heard = time.Now()
	go t.read()
	t.stop = context.AfterFunc(ctx, func() { t.end(ctx.Err()) })
	return t, nil
}

// activateSOL activates the payload (§24.1), encrypted and authenticated, and returns the
// maximum size of a packet to the BMC.
func (s *session) activateSOL(ctx context.Context) (int, error) {
	const protected = 0xc0
	a, err := s.do(ctx, plan{once: true}, netFnApp, 0x48, []byte{payloadSOL, 1, protected, 0, 0, 0})
	switch {
	case err != nil:
		return 0, unanswered("activate console", true, err)
	case a.code == 0x80:
		return 0, fmt.Errorf("%w: the console is active in another session", bmc.ErrBusy)
	case a.code == 0x81 || a.code == 0x83:
		return 0, fmt.Errorf("%w: the console is disabled or cannot be encrypted (%02Xh)", bmc.ErrNotSupported, a.code)
	case a.code != 0:
		return 0, (&codeError{code: a.code}).as("activate console", true)
	case len(a.data) < 8:
		return 0, fmt.Errorf("activate console: %w", bmc.ErrProtocol)
	}
	return int(binary.LittleEndian.Uint16(a.data[4:])), nil
}

// ack is the BMC's answer to a packet of input.
type ack struct {
	sequence, count, status byte
}

// terminal is an open console. One goroutine reads the socket until the console ends.
type terminal struct {
	session *session
	// chunk is the maximum input of one packet.
	chunk int
	acks  chan ack
	done  chan struct{} // closed when the reader has ended
	stop  func() bool
	// writing serializes Write: one packet of input is in flight at a time.
	writing sync.Mutex
	// sequence of the last packet of input, 1 to 15; guarded by writing.
	sequence byte

	mu      sync.Mutex
	changed *sync.Cond
	output  []byte
	err     error
	heard   time.Time
	// last is the number of the last packet of output, and taken its accepted length.
	last, taken byte
}

var errConsoleClosed = fmt.Errorf("console: %w", io.ErrClosedPipe)

// Read returns io.EOF after the BMC ended the console.
func (t *terminal) Read(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.output) == 0 && t.err == nil {
		t.changed.Wait()
	}
	if len(t.output) == 0 {
		return 0, t.err
	}
	n := copy(p, t.output)
	t.output = t.output[n:]
	return n, nil
}

// Write returns when the BMC has accepted the input.
func (t *terminal) Write(p []byte) (written int, _ error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	for written < len(p) {
		n, err := t.writeChunk(p[written:min(len(p), written+t.chunk)])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// writeChunk sends one packet of input until it is acknowledged. Repeating a packet is safe,
// because its sequence number identifies it (§15.11).
func (t *terminal) writeChunk(p []byte) (int, error) {
	t.sequence = t.sequence%15 + 1
	for range solTries {
		if err := t.send(t.sequence, 0, 0, p); err != nil {
			return 0, err
		}
		deadline := time.NewTimer(solRetry)
		for waiting := true; waiting; {
			select {
			case <-t.done:
				deadline.Stop()
				return 0, t.ended()
			case <-deadline.C:
				waiting = false
			case a := <-t.acks:
				if a.sequence != t.sequence {
					continue
				}
				if a.status&solNACK != 0 && a.count == 0 {
					<-deadline.C // the BMC has no room: try again later
					waiting = false
					continue
				}
				deadline.Stop()
				return min(int(a.count), len(p)), nil
			}
		}
	}
	err := fmt.Errorf("console: %w: input was not acknowledged", bmc.ErrTimeout)
	t.end(err)
	return 0, err
}

func (t *terminal) send(sequence, acked, count byte, data []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	p, err := t.session.seal(payloadSOL, append([]byte{sequence, acked, count, 0}, data...))
	if err != nil {
		return err
	}
	if _, err := t.session.wire.conn.Write(p); err != nil {
		return fmt.Errorf("console: %w", socketError(err))
	}
	return nil
}

func (t *terminal) ended() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if errors.Is(t.err, io.EOF) {
		return errConsoleClosed
	}
	return t.err
}

// end ends the console: reads return the remaining output, then err.
func (t *terminal) end(err error) {
	t.mu.Lock()
	if t.err == nil {
		t.err = err
		t.changed.Broadcast()
		_ = t.session.wire.conn.SetReadDeadline(time.Unix(1, 0))
	}
	t.mu.Unlock()
}

// Close deactivates the payload and ends the session.
func (t *terminal) Close() error {
	t.stop()
	t.end(errConsoleClosed)
	<-t.done
	return nil
}

// read owns the receiving side of the session, and ends the session with the console.
func (t *terminal) read() {
	defer close(t.done)
	next := time.Now().Add(keepAlive)
	for {
		t.mu.Lock()
		ended := t.err != nil
		if !ended {
			_ = t.session.wire.conn.SetReadDeadline(next)
		}
		silent := time.Since(t.heard) > solTimeout
		t.mu.Unlock()
		if ended {
			break
		}
		if silent {
			t.end(fmt.Errorf("console: %w", bmc.ErrTimeout))
			break
		}
		n, err := t.session.wire.conn.Read(t.session.wire.buffer)
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
		case err != nil:
			t.end(fmt.Errorf("console: %w: %w", bmc.ErrUnreachable, socketError(err)))
		default:
			t.packet(t.session.wire.buffer[:n])
		}
		if now := time.Now(); !now.Before(next) {
			next = now.Add(keepAlive)
			t.keepAlive()
		}
	}
	t.finish()
}

// keepAlive reads the device ID; any packet counts as an answer.
func (t *terminal) keepAlive() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.session.request = t.session.request%63 + 1
	if p, err := t.session.seal(payloadIPMI, message(netFnApp, 0x01, t.session.request, nil)); err == nil {
		_, _ = t.session.wire.conn.Write(p) // a failure shows as silence
	}
}

func (t *terminal) packet(p []byte) {
	t.mu.Lock()
	kind, payload, err := t.session.unseal(p)
	if err != nil {
		t.mu.Unlock()
		return
	}
	t.heard = time.Now()
	if kind != payloadSOL || len(payload) < solHeader {
		t.mu.Unlock()
		return
	}
	sequence, acked, count, status := payload[0]&0x0f, payload[1]&0x0f, payload[2], payload[3]
	took, room := byte(0), false
	if sequence != 0 {
		took, room = t.take(sequence, payload[solHeader:])
	}
	t.mu.Unlock()
	if acked != 0 {
		select { // replaces an older acknowledgment
		case <-t.acks:
		default:
		}
		t.acks <- ack{acked, count, status}
	}
	if room {
		_ = t.send(0, sequence, took, nil) // the BMC repeats unacknowledged output
	}
	if status&solDeactivated != 0 {
		t.end(io.EOF)
	}
}

// take appends output and returns how much of the packet was accepted, or false if there was
// no room. A repeated packet may contain more than before (§15.11).
func (t *terminal) take(sequence byte, data []byte) (byte, bool) {
	data = data[:min(len(data), 255)]
	from := 0
	switch behind := (t.last + 15 - sequence) % 15; {
	case t.last == 0:
	case behind == 0:
		from = min(int(t.taken), len(data))
	case behind < 8:
		// A repeated older packet: its acknowledgment was still in flight.
		return byte(len(data)), true
	}
	if len(t.output)+len(data)-from > maxOutput {
		return 0, false
	}
	t.output = append(t.output, data[from:]...)
	t.last, t.taken = sequence, byte(len(data))
	t.changed.Broadcast()
	return t.taken, true
}

// finish deactivates the payload (§24.2) and ends the session.
func (t *terminal) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	_, _ = t.session.do(ctx, plan{tries: 2}, netFnApp, 0x49, []byte{payloadSOL, 1, 0, 0, 0, 0})
	_ = t.session.close(ctx) // otherwise the BMC drops the session after 60 s
}
