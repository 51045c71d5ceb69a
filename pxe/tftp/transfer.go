// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// errGone reports a client that stopped answering.
var errGone = errors.New("client does not answer")

// errAborted reports an ERROR packet from the client. UEFI ends its size probe
// in this way on purpose.
var errAborted = errors.New("client ended the transfer")

// maxTimeout bounds the wait for one answer as it doubles.
const maxTimeout = 8 * time.Second

// transfer sends one file to one client over a socket of its own.
type transfer struct {
	conn    net.PacketConn
	client  net.Addr
	file    File
	terms   terms
	retries int
	// acked is how many blocks the client has, sent how many follow on the
	// wire unacknowledged.
	acked, sent int64
	packet      []byte
}

// run sends the file to its end. A file whose size is a multiple of the block
// size ends in an empty block (RFC 1350 §6).
func (t *transfer) run() error {
	t.packet = make([]byte, 4+t.terms.blockSize)
	if len(t.terms.accepted) > 0 {
		if err := t.exchange(func() error { return t.write(encodeOACK(t.terms.accepted)) }); err != nil {
			return fmt.Errorf("negotiate options: %w", err)
		}
	}
	for total := t.file.Size()/int64(t.terms.blockSize) + 1; t.acked < total; {
		t.sent = min(int64(t.terms.window), total-t.acked)
		if err := t.exchange(t.sendWindow); err != nil {
			return fmt.Errorf("send block %d of %d: %w", t.acked+1, total, err)
		}
	}
	return nil
}

// exchange sends, and waits for an acknowledgement that moves the transfer on,
// sending again when none comes.
func (t *transfer) exchange(send func() error) error {
	wait := t.terms.timeout
	for range t.retries + 1 {
		if err := send(); err != nil {
			return err
		}
		progress, err := t.await(time.Now().Add(wait))
		if progress || err != nil {
			return err
		}
		wait = max(min(2*wait, maxTimeout), t.terms.timeout)
	}
	return errGone
}

// await reads until an acknowledgement comes that moves the transfer on
// (true), or the deadline passes or the client asks for the window again
// (false).
func (t *transfer) await(deadline time.Time) (bool, error) {
	if err := t.conn.SetReadDeadline(deadline); err != nil {
		return false, fmt.Errorf("set deadline: %w", err)
	}
	buf := make([]byte, 516)
	for {
		n, from, err := t.conn.ReadFrom(buf)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read acknowledgement: %w", err)
		}
		if from.String() != t.client.String() {
			// RFC 1350 §4: tell the stranger, and go on.
			_, _ = t.conn.WriteTo(encodeError(codeUnknownTID, "unknown transfer"), from)
			continue
		}
		r, err := parseReply(buf[:n])
		if err != nil {
			continue
		}
		if r.failed {
			return false, fmt.Errorf("%w: %s", errAborted, r.failure)
		}
		// Block numbers are 16 bits wide and wrap (a 40 MB file does).
		switch ahead := int64(r.ack - uint16(t.acked)); {
		case t.sent == 0 && ahead == 0: // the OACK is acknowledged as block 0
			return true, nil
		case ahead >= 1 && ahead <= t.sent:
			t.acked += ahead
			return true, nil
		case ahead == 0 && t.terms.window > 1:
			// The first block of the window was lost (RFC 7440 §4). With a
			// window of 1 a repeated ACK is ignored, or every packet from
			// there on would be sent twice (RFC 1123 §4.2.3.1).
			return false, nil
		}
	}
}

// sendWindow sends the unacknowledged blocks.
func (t *transfer) sendWindow() error {
	for i := range t.sent {
		block := t.acked + i + 1
		binary.BigEndian.PutUint16(t.packet, opData)
		binary.BigEndian.PutUint16(t.packet[2:], uint16(block))
		offset := (block - 1) * int64(t.terms.blockSize)
		want := min(int64(t.terms.blockSize), t.file.Size()-offset)
		n, err := t.file.ReadAt(t.packet[4:4+want], offset)
		if int64(n) < want {
			_ = t.write(encodeError(codeUndefined, "read error"))
			return fmt.Errorf("read file: %w", errors.Join(err, io.ErrUnexpectedEOF))
		}
		if err := t.write(t.packet[:4+n]); err != nil {
			return err
		}
	}
	return nil
}

func (t *transfer) write(p []byte) error {
	if _, err := t.conn.WriteTo(p, t.client); err != nil {
		return fmt.Errorf("send to %s: %w", t.client, err)
	}
	return nil
}
