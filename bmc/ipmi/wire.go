// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

const (
	// firstWait is the wait for the first answer before a request is repeated; each further
	// wait is twice as long.
	firstWait = time.Second
	// attempts of a request that may be repeated: 1, 2, 4 and 8 seconds.
	attempts = 4
	// writeWait is the wait for the answer to a write.
	writeWait = 15 * time.Second
	// maxStray bounds the packets per request that are no answer.
	maxStray = 4096
)

// Errors of wire.exchange, in addition to a context's error.
var (
	errNoAnswer = errors.New("no answer")
	errRefused  = errors.New("the host reports that the port is closed")
	errStray    = errors.New("too many packets that are no answer")
	// errUnsent is joined with the context's error if no packet was sent.
	errUnsent = errors.New("nothing was sent")
)

// wire is one UDP socket to one BMC.
type wire struct {
	conn   net.Conn
	buffer []byte
	// stray counts the packets that were no answer; heard reports whether one was an answer.
	stray int
	heard bool
}

// openWire opens a socket. It resolves the host and sends no packet.
func openWire(ctx context.Context, target bmc.Target, host string) (*wire, error) {
	conn, err := target.DialContext(ctx, "udp", host)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, buffer: make([]byte, maxPacket)}, nil
}

func (w *wire) close() { _ = w.conn.Close() }

// plan controls how a request is sent.
type plan struct {
	// once sends only one packet (I17).
	once bool
	// tries bounds the packets; 0 means attempts.
	tries int
	// wait overrides firstWait, or writeWait with once.
	wait time.Duration
}

func (p plan) filled() plan {
	if p.once {
		return plan{once: true, tries: 1, wait: cmp.Or(p.wait, writeWait)}
	}
	return plan{tries: cmp.Or(p.tries, attempts), wait: cmp.Or(p.wait, firstWait)}
}

// exchange sends the packet that pack returns, packed again for each attempt and at the BMC's
// rate limit, and reads until accept returns true. It returns errNoAnswer, errRefused,
// errStray, the context's error, or an error of pack, accept or the socket. A sent packet may
// have arrived, except with errUnsent.
func (w *wire) exchange(ctx context.Context, p plan, pack func() ([]byte, error), accept func([]byte) (bool, error)) error {
	p = p.filled()
	stop := context.AfterFunc(ctx, func() { _ = w.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	wait := p.wait
	for sent := range p.tries {
		if err := errors.Join(bmc.WaitForRateLimit(ctx), ctx.Err()); err != nil {
			if sent == 0 {
				err = fmt.Errorf("%w: %w", errUnsent, err)
			}
			return err
		}
		packet, err := pack()
		if err != nil {
			return err
		}
		if _, err := w.conn.Write(packet); err != nil {
			return socketError(err)
		}
		err = w.await(ctx, time.Now().Add(wait), accept)
		if !errors.Is(err, errNoAnswer) {
			return err
		}
		wait *= 2
	}
	return errNoAnswer
}

// await reads until accept returns true or the wait ends.
func (w *wire) await(ctx context.Context, until time.Time, accept func([]byte) (bool, error)) error {
	if err := w.conn.SetReadDeadline(until); err != nil {
		return err
	}
	for range maxStray {
		// The deadline that the end of ctx sets must not be overwritten.
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := w.conn.Read(w.buffer)
		var timeout net.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &timeout) && timeout.Timeout():
			return errNoAnswer
		case err != nil:
			return socketError(err)
		}
		if ok, err := accept(w.buffer[:n]); ok || err != nil {
			w.heard = true
			bmc.ResponseReceived(ctx)
			return err
		}
		w.stray++
	}
	return errStray
}

func socketError(err error) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errRefused
	case errors.Is(err, net.ErrClosed):
		return io.ErrClosedPipe
	}
	return fmt.Errorf("socket: %w", err)
}
