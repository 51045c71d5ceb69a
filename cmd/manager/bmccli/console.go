// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ingot-metal/ingot/bmc"
)

// console connects the terminal to the server's serial port, until one of them ends or the user types
// "~." at the beginning of a line, as in ssh.
func console(ctx context.Context, conn bmc.Conn, c *call) error {
	stream, err := conn.OpenConsole(ctx)
	if errors.Is(err, bmc.ErrNotSupported) {
		return fmt.Errorf("%w; use an address of the form ipmi://HOST", err)
	}
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	defer stop()
	// A read from the terminal ends only with the process or the terminal.
	input := make(chan error, 1)
	go func() { input <- copyInput(stream, c.in) }()
	output := make(chan error, 1)
	go func() {
		_, err := io.Copy(c.out, stream)
		output <- err
	}()
	select {
	case err = <-input:
		err = errors.Join(err, stream.Close())
		<-output //nolint:errcheck // it ends with the stream
	case err = <-output:
		err = errors.Join(err, stream.Close())
	}
	if ctx.Err() != nil {
		return nil // interrupted by the user
	}
	return err
}

// copyInput copies the input until its end or "~." at the beginning of a line. "~~" there writes "~".
func copyInput(out io.Writer, in io.ByteReader) error {
	const lineStart, tilde, middle = 0, 1, 2
	state := lineStart
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
		case state == lineStart && b == '~':
			state = tilde
			continue
		case state == tilde && b == '.':
			return nil
		case state == tilde && b != '~':
			text = []byte{'~', b}
		}
		state = middle
		if b == '\r' || b == '\n' {
			state = lineStart
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
}
