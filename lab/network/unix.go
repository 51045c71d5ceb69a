// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// ListenUnix opens a socket for QEMU's `-netdev stream,server=off`. Each connection is a port with
// the given name until it ends; a server connects again at each power-on. ListenUnix replaces the
// socket file of an earlier run. The switch owns the listener.
func (s *Switch) ListenUnix(name, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove old socket of %s: %w", name, err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen for %s: %w", name, err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errors.Join(ErrClosed, l.Close())
	}
	s.closers = append(s.closers, l)
	s.listeners.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.listeners.Done()
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.listeners.Add(1)
			go func() {
				defer s.listeners.Done()
				s.serveStream(name, conn)
			}()
		}
	}()
	return nil
}

// DialUnix connects to the switch of another process through the socket of its ListenUnix: both are
// one network until the connection ends. done is closed then. The switch's Close ends it too.
func (s *Switch) DialUnix(name, path string) (done <-chan struct{}, err error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, fmt.Errorf("connect network to %s: %w", name, err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errors.Join(ErrClosed, conn.Close())
	}
	s.closers = append(s.closers, conn)
	s.listeners.Add(1)
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer s.listeners.Done()
		defer close(ended)
		s.serveStream(name, conn)
	}()
	return ended, nil
}

// serveStream forwards frames between a connection and a port until either ends.
func (s *Switch) serveStream(name string, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	port, err := s.Plug(name, func(frame []byte) {
		if writeFrame(conn, frame) != nil {
			_ = conn.Close()
		}
	})
	if err != nil {
		return
	}
	defer func() { _ = port.Close() }()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-port.done: // unblocks the reader below
			_ = conn.Close()
		case <-stop:
		}
	}()
	r := bufio.NewReaderSize(conn, MaxFrame)
	for {
		frame, err := readFrame(r)
		if err != nil {
			return
		}
		port.Send(frame)
	}
}

// readFrame reads one frame of QEMU's stream format: a 4-byte big-endian length, then the frame
// (QEMU docs, "-netdev stream").
func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("read frame length: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > MaxFrame {
		return nil, fmt.Errorf("frame of %d bytes is longer than %d", n, MaxFrame)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, fmt.Errorf("read frame: %w", err)
	}
	return frame, nil
}

// writeFrame writes length and frame in one call, so that writers cannot interleave and QEMU wakes
// up once.
func writeFrame(w io.Writer, frame []byte) error {
	buf := make([]byte, 4+len(frame))
	binary.BigEndian.PutUint32(buf, uint32(len(frame)))
	copy(buf[4:], frame)
	if _, err := w.Write(buf); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}
