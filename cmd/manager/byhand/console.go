// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package byhand

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ingot-metal/ingot/bmc"
)

// console joins the terminal to the server's serial port, until either ends, or the person
// writes "~." at the beginning of a line, as with ssh.
func console(ctx context.Context, conn bmc.Conn, c *call) error {
	stream, err := conn.OpenConsole(ctx)
	if errors.Is(err, bmc.ErrNotSupported) {
		return fmt.Errorf("%w; an address of the form ipmi://HOST has one", err)
	}
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	defer stop()
	// Whoever waits for the terminal does so until the process ends, or the terminal.
	typed := make(chan error, 1)
	go func() { typed <- typeInto(stream, c.in) }()
	heard := make(chan error, 1)
	go func() {
		_, err := io.Copy(c.out, stream)
		heard <- err
	}()
	select {
	case err = <-typed:
		err = errors.Join(err, stream.Close())
		<-heard //nolint:errcheck // it ends with the stream, whatever the error
	case err = <-heard:
		err = errors.Join(err, stream.Close())
	}
	if ctx.Err() != nil {
		return nil // the person has ended it
	}
	return err
}

// typeInto copies what is typed, up to its end or "~." at the beginning of a line; "~~" there
// is one "~".
func typeInto(out io.Writer, in io.ByteReader) error {
	const begin, tilde, middle = 0, 1, 2
	state := begin
	for {
		b, err := in.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the terminal: %w", err)
		}
		text := []byte{b}
		switch {
		case state == begin && b == '~':
			state = tilde
			continue
		case state == tilde && b == '.':
			return nil
		case state == tilde && b != '~':
			text = []byte{'~', b}
		}
		state = middle
		if b == '\r' || b == '\n' {
			state = begin
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
}
