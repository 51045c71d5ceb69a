// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"context"
	"io"
	"sync"

	"github.com/bougou/go-ipmi/pkg/hal"
)

// console opens the machine's console for the simulator.
type console struct {
	open func() (io.ReadWriteCloser, error)
}

func (c console) Open(context.Context) (hal.ConsoleConn, error) {
	stream, err := c.open()
	if err != nil {
		return nil, err
	}
	line := &serialLine{ReadWriteCloser: stream}
	go line.pump() // ends with the stream
	return line, nil
}

// serialLine makes a stream non-blocking, as the simulator requires.
type serialLine struct {
	io.ReadWriteCloser

	mu      sync.Mutex
	pending []byte
	err     error
}

func (l *serialLine) pump() {
	p := make([]byte, 1024)
	for {
		n, err := l.Read(p)
		l.mu.Lock()
		l.pending = append(l.pending, p[:n]...)
		l.err = err
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (l *serialLine) ReadAvailable(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := copy(p, l.pending)
	l.pending = l.pending[n:]
	if n == 0 {
		return 0, l.err
	}
	return n, nil
}

// SendBreak implements hal.ConsoleConn; a stream has no break.
func (l *serialLine) SendBreak(context.Context) error { return hal.ErrNotSupported }
