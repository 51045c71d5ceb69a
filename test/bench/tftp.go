// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// TFTPLoad is a number of clients that read one file, again and again.
type TFTPLoad struct {
	Server    netip.AddrPort
	File      string
	BlockSize int
	// Window is asked for if it is above 1.
	Window  int
	Clients int
	// Each is how many times each client reads the file.
	Each int
	// Repeat is how long a client waits before it sends its last packet again; a
	// second if it is zero.
	Repeat time.Duration
}

// Transferred is what a load has moved.
type Transferred struct {
	Bytes int64
	Took  time.Duration
	// Repeated counts packets that had to be sent again.
	Repeated int64
}

// MegabytesPerSecond is the rate in 10^6 bytes a second.
func (t Transferred) MegabytesPerSecond() float64 {
	return float64(t.Bytes) / 1e6 / t.Took.Seconds()
}

// Run reads, and fails if one of the transfers does. Each client is a thread that
// blocks in the kernel, so that the measured time is the server's rather than the
// Go scheduler's.
func (l TFTPLoad) Run() (Transferred, error) {
	results := make([]Transferred, l.Clients)
	errs := make([]error, l.Clients)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range l.Clients {
		wg.Go(func() {
			for range l.Each {
				r, err := l.read()
				results[i].Bytes += r.Bytes
				results[i].Repeated += r.Repeated
				if err != nil {
					errs[i] = fmt.Errorf("client %d: %w", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	total := Transferred{Took: time.Since(start)}
	for _, r := range results {
		total.Bytes += r.Bytes
		total.Repeated += r.Repeated
	}
	return total, errors.Join(errs...)
}

// reading is one transfer of a client.
type reading struct {
	TFTPLoad
	fd   int
	peer unix.Sockaddr
	// last is what was sent last.
	last   []byte
	result Transferred
}

func (l TFTPLoad) read() (Transferred, error) {
	if l.Repeat == 0 {
		l.Repeat = time.Second
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Transferred{}, fmt.Errorf("socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	timeout := unix.NsecToTimeval(l.Repeat.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return Transferred{}, fmt.Errorf("set timeout: %w", err)
	}
	r := &reading{TFTPLoad: l, fd: fd}
	r.peer = &unix.SockaddrInet4{Addr: l.Server.Addr().As4(), Port: int(l.Server.Port())}
	err = r.run()
	return r.result, err
}

func (r *reading) run() error {
	if err := r.send(r.request()); err != nil {
		return err
	}
	buf := make([]byte, 4+r.BlockSize+64)
	var next uint16 = 1
	inWindow, block, window := 0, 512, 1
	for {
		n, err := r.receive(buf)
		if err != nil {
			return err
		}
		switch op, number := binary.BigEndian.Uint16(buf), binary.BigEndian.Uint16(buf[2:]); {
		case op == 6:
			block, window = r.accepted(buf[2:n])
			err = r.ack(0)
		case op == 5:
			return fmt.Errorf("refused: %q", buf[4:n])
		case op != 3:
			return fmt.Errorf("opcode %d", op)
		case number != next: // a gap, or a repeat
			inWindow = 0
			err = r.ack(next - 1)
		default:
			r.result.Bytes += int64(n - 4)
			next++
			if inWindow++; n-4 < block {
				return r.ack(number)
			} else if inWindow >= window {
				inWindow = 0
				err = r.ack(number)
			}
		}
		if err != nil {
			return err
		}
	}
}

func (r *reading) request() []byte {
	b := append([]byte{0, 1}, r.File...)
	b = append(b, "\x00octet\x00"...)
	if r.BlockSize != 512 {
		b = fmt.Appendf(b, "blksize\x00%d\x00", r.BlockSize)
	}
	if r.Window > 1 {
		b = fmt.Appendf(b, "windowsize\x00%d\x00", r.Window)
	}
	return b
}

// accepted reads an OACK.
func (r *reading) accepted(b []byte) (block, window int) {
	block, window = 512, 1
	var fields []string
	for start, i := 0, 0; i < len(b); i++ {
		if b[i] == 0 {
			fields, start = append(fields, string(b[start:i])), i+1
		}
	}
	for i := 0; i+1 < len(fields); i += 2 {
		n, _ := strconv.Atoi(fields[i+1])
		switch fields[i] {
		case "blksize":
			block = n
		case "windowsize":
			window = n
		}
	}
	return block, window
}

func (r *reading) ack(number uint16) error {
	return r.send([]byte{0, 4, byte(number >> 8), byte(number)})
}

func (r *reading) send(p []byte) error {
	r.last = p
	if err := unix.Sendto(r.fd, p, 0, r.peer); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// receive returns the next packet; its sender is the peer from then on.
func (r *reading) receive(buf []byte) (int, error) {
	for tries := 0; tries < 10; {
		n, from, err := unix.Recvfrom(r.fd, buf, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			tries++
			r.result.Repeated++
			if err := unix.Sendto(r.fd, r.last, 0, r.peer); err != nil {
				return 0, fmt.Errorf("send again: %w", err)
			}
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("receive: %w", err)
		case n >= 4:
			r.peer = from
			return n, nil
		}
	}
	return 0, errors.New("no answer")
}
