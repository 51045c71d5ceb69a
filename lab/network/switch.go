// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// ethernetHeader is destination, source and type, in bytes.
	ethernetHeader = 14
	// MaxFrame is the maximum frame size, in bytes. It bounds the memory that one sender can make
	// the switch allocate.
	MaxFrame = 64 << 10
	// portQueue is the number of frames that wait for one port before the switch drops further
	// ones, like a real switch. A TCP window of 1 MiB is about 700 frames.
	portQueue = 2048
)

// ErrClosed reports use of a switch after Close.
var ErrClosed = errors.New("switch is closed")

// Stats counts the frames since the switch was created.
type Stats struct {
	// Frames counts the frames received from ports.
	Frames uint64
	// Dropped counts frames that found a full queue or were not Ethernet.
	Dropped uint64
}

// Switch is a learning Ethernet switch. It is safe for concurrent use.
type Switch struct {
	mu        sync.Mutex
	ports     map[*Port]struct{}
	learned   map[[6]byte]*Port
	closers   []io.Closer
	capture   *pcapWriter
	closed    bool
	listeners sync.WaitGroup

	frames, dropped atomic.Uint64
}

// NewSwitch returns a switch without ports. Close ends it.
func NewSwitch() *Switch {
	return &Switch{ports: map[*Port]struct{}{}, learned: map[[6]byte]*Port{}}
}

// Port is one port of the switch with the device behind it.
type Port struct {
	sw    *Switch
	name  string
	queue chan []byte
	done  chan struct{}
	once  sync.Once
}

// Plug adds a port. It passes the port's frames to receive, one at a time and in order, on a
// goroutine that ends when the port or the switch is closed. receive must not modify the slice. It
// may block: frames that exceed the queue meanwhile are dropped.
func (s *Switch) Plug(name string, receive func(frame []byte)) (*Port, error) {
	p := &Port{sw: s, name: name, queue: make(chan []byte, portQueue), done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	s.ports[p] = struct{}{}
	go func() {
		for {
			select {
			case f := <-p.queue:
				receive(f)
			case <-p.done:
				return
			}
		}
	}()
	return p, nil
}

// Name returns the port's name.
func (p *Port) Name() string { return p.name }

// Send sends one frame. The switch keeps the slice.
func (p *Port) Send(frame []byte) { p.sw.forward(p, frame) }

// Close removes the port and the addresses learned from it.
func (p *Port) Close() error {
	p.once.Do(func() {
		close(p.done)
		p.sw.mu.Lock()
		defer p.sw.mu.Unlock()
		delete(p.sw.ports, p)
		maps.DeleteFunc(p.sw.learned, func(_ [6]byte, port *Port) bool { return port == p })
	})
	return nil
}

// forward learns the sender's port and passes the frame to the port of the destination. It passes the
// frame to all other ports if the destination is unknown or a group address.
func (s *Switch) forward(from *Port, frame []byte) {
	if len(frame) < ethernetHeader || len(frame) > MaxFrame {
		s.dropped.Add(1)
		return
	}
	s.frames.Add(1)
	var dst, src [6]byte
	copy(dst[:], frame[0:6])
	copy(src[:], frame[6:12])

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.capture != nil {
		s.capture.write(time.Now(), frame)
	}
	if _, plugged := s.ports[from]; plugged && !isGroup(src) {
		s.learned[src] = from
	}
	if to, ok := s.learned[dst]; ok && !isGroup(dst) {
		if to != from {
			s.enqueue(to, frame)
		}
		return
	}
	for p := range s.ports {
		if p != from {
			s.enqueue(p, frame)
		}
	}
}

func (s *Switch) enqueue(p *Port, frame []byte) {
	select {
	case p.queue <- frame:
	default:
		s.dropped.Add(1)
	}
}

// isGroup reports whether an address is multicast or broadcast (IEEE 802.3 section 3.2.3).
func isGroup(mac [6]byte) bool { return mac[0]&1 == 1 }

// PortOf returns the name of the port from which a MAC address last sent.
func (s *Switch) PortOf(mac net.HardwareAddr) (string, bool) {
	var key [6]byte
	if copy(key[:], mac) != len(key) {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.learned[key]
	if !ok {
		return "", false
	}
	return p.name, true
}

// Stats returns the counters.
func (s *Switch) Stats() Stats {
	return Stats{Frames: s.frames.Load(), Dropped: s.dropped.Load()}
}

// Close closes every port and ends all goroutines of the switch, except a running receive function.
func (s *Switch) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	ports := slices.Collect(maps.Keys(s.ports))
	closers := s.closers
	s.mu.Unlock()

	var errs []error
	for _, c := range closers {
		errs = append(errs, c.Close())
	}
	for _, p := range ports {
		errs = append(errs, p.Close())
	}
	s.listeners.Wait()
	return errors.Join(errs...)
}
