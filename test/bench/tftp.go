// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
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

// Run reads, and fails if one of the transfers does. All clients are one thread
// that waits for whichever socket has something: it costs the machine as little
// as can be, so that what is measured is the server's work rather than theirs.
func (l TFTPLoad) Run() (Transferred, error) {
	if l.Repeat == 0 {
		l.Repeat = time.Second
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return Transferred{}, fmt.Errorf("epoll: %w", err)
	}
	defer func() { _ = unix.Close(poll) }()
	r := &readings{TFTPLoad: l, poll: poll, running: map[int32]*reading{}, buf: make([]byte, 4+l.BlockSize+64)}
	defer r.close()
	start := time.Now()
	err = r.run()
	r.total.Took = time.Since(start)
	return r.total, err
}

// readings are the transfers of all clients.
type readings struct {
	TFTPLoad
	poll    int
	running map[int32]*reading // by socket
	total   Transferred
	buf     []byte
}

// reading is one client, and its transfer.
type reading struct {
	TFTPLoad
	fd   int
	peer unix.Sockaddr
	// left is how many transfers there are still to do.
	left int
	// last is what was sent last, and when.
	last   []byte
	sent   time.Time
	silent int
	// next is the number of the block that is to come.
	next                    uint16
	inWindow, block, window int
	result                  Transferred
}

// checkInterval is how often silent clients are looked for, mostSilent how often
// one asks again.
const (
	checkInterval = 100 * time.Millisecond
	mostSilent    = 10
)

func (r *readings) run() error {
	for range r.Clients {
		if err := r.begin(r.Each); err != nil {
			return err
		}
	}
	events, checked := make([]unix.EpollEvent, 128), time.Now()
	for len(r.running) > 0 {
		n, err := unix.EpollWait(r.poll, events, int(checkInterval/time.Millisecond))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait: %w", err)
		}
		for _, e := range events[:max(n, 0)] {
			if c := r.running[e.Fd]; c != nil {
				if err := r.receive(c); err != nil {
					return err
				}
			}
		}
		if now := time.Now(); now.Sub(checked) > checkInterval {
			checked = now
			if err := r.repeat(now); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin starts the next transfer of a client, on a socket of its own.
func (r *readings) begin(left int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	c := &reading{TFTPLoad: r.TFTPLoad, fd: fd, left: left, next: 1, block: 512, window: 1}
	c.peer = &unix.SockaddrInet4{Addr: r.Server.Addr().As4(), Port: int(r.Server.Port())}
	r.running[int32(fd)] = c
	if err := unix.EpollCtl(r.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return c.send(c.request())
}

// receive takes what has come for a client: a packet, or a window.
func (r *readings) receive(c *reading) error {
	for {
		n, from, err := unix.Recvfrom(c.fd, r.buf, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		if n < 4 {
			continue
		}
		c.peer, c.silent = from, 0
		done, err := c.take(r.buf[:n])
		switch {
		case err != nil:
			return err
		case done:
			return r.end(c)
		case c.inWindow == 0: // acknowledged: nothing more can be here
			return nil
		}
	}
}

func (r *readings) end(c *reading) error {
	delete(r.running, int32(c.fd))
	_ = unix.Close(c.fd)
	r.total.Bytes += c.result.Bytes
	r.total.Repeated += c.result.Repeated
	if c.left--; c.left > 0 {
		return r.begin(c.left)
	}
	return nil
}

// repeat has clients that hear nothing send their last packet again.
func (r *readings) repeat(now time.Time) error {
	for _, c := range r.running {
		if now.Sub(c.sent) < r.Repeat {
			continue
		}
		if c.silent++; c.silent > mostSilent {
			return errors.New("no answer")
		}
		c.result.Repeated++
		if err := c.send(c.last); err != nil {
			return err
		}
	}
	return nil
}

func (r *readings) close() {
	for fd := range r.running {
		_ = unix.Close(int(fd))
	}
}

// take reads a packet, and says whether the transfer has ended.
func (r *reading) take(p []byte) (bool, error) {
	switch op, number := binary.BigEndian.Uint16(p), binary.BigEndian.Uint16(p[2:]); {
	case op == 6:
		r.block, r.window = r.accepted(p[2:])
		return false, r.ack(0)
	case op == 5:
		return false, fmt.Errorf("refused: %q", p[4:])
	case op != 3:
		return false, fmt.Errorf("opcode %d", op)
	case number != r.next: // a gap, or a repeat
		r.inWindow = 0
		return false, r.ack(r.next - 1)
	default:
		r.result.Bytes += int64(len(p) - 4)
		r.next++
		last := len(p)-4 < r.block
		if r.inWindow++; last || r.inWindow >= r.window {
			r.inWindow = 0
			return last, r.ack(number)
		}
		return false, nil
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
	r.last, r.sent = p, time.Now()
	if err := unix.Sendto(r.fd, p, 0, r.peer); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}
