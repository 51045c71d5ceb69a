// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
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
	// firstWait is how long the first answer is waited for before a request is
	// repeated; each further wait is twice as long.
	firstWait = time.Second
	// attempts of a request that may be repeated: 1, 2, 4 and 8 seconds.
	attempts = 4
	// writeWait is how long the answer to a write is waited for.
	writeWait = 15 * time.Second
	// maxStray is how many packets that are no answer are read for one request.
	maxStray = 4096
)

// What a wire's exchange may fail with, beside a context's error.
var (
	errNoAnswer = errors.New("no answer")
	errRefused  = errors.New("the host says that nothing listens on the port")
	errStray    = errors.New("too many packets that are no answer")
	// errUnsent is beside the context's error where not one packet was sent.
	errUnsent = errors.New("nothing was sent")
)

// wire is one UDP socket to one BMC.
type wire struct {
	conn   net.Conn
	buffer []byte
	// stray counts the packets that were no answer; heard says that there was one.
	stray int
	heard bool
}

// openWire opens a socket; no packet is sent, but a name is looked up.
func openWire(ctx context.Context, target bmc.Target, host string) (*wire, error) {
	conn, err := target.DialContext(ctx, "udp", host)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, buffer: make([]byte, maxPacket)}, nil
}

func (w *wire) close() { _ = w.conn.Close() }

// plan says how a request is sent.
type plan struct {
	// once sends one packet and never a second (I17).
	once bool
	// tries bounds the packets; 0 means attempts.
	tries int
	// wait replaces firstWait, or writeWait with once.
	wait time.Duration
}

func (p plan) filled() plan {
	switch {
	case p.once:
		p.tries = 1
		if p.wait == 0 {
			p.wait = writeWait
		}
	case p.tries == 0:
		p.tries = attempts
	}
	if p.wait == 0 {
		p.wait = firstWait
	}
	return p
}

// exchange sends what pack packs, anew for each attempt and at the BMC's pace, and
// reads until accept is content. It returns errNoAnswer, errRefused, errStray, the
// context's error, or what pack, accept or the socket said. Of a packet that was
// sent it is not known whether it arrived, whatever the error but errUnsent.
func (w *wire) exchange(ctx context.Context, p plan, pack func() ([]byte, error), accept func([]byte) (bool, error)) error {
	p = p.filled()
	stop := context.AfterFunc(ctx, func() { _ = w.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	wait := p.wait
	for sent := range p.tries {
		if err := errors.Join(bmc.Pace(ctx), ctx.Err()); err != nil {
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

// await reads until accept is content or the time is over.
func (w *wire) await(ctx context.Context, until time.Time, accept func([]byte) (bool, error)) error {
	if err := w.conn.SetReadDeadline(until); err != nil {
		return err
	}
	for range maxStray {
		// The deadline that the context's end sets must not be overwritten.
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
			bmc.Heard(ctx)
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
