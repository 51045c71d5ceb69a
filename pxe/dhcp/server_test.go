// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/pxe"
)

const patience = 30 * time.Second

// wire is a socket made of channels.
type wire struct {
	net.PacketConn
	in     chan []byte
	out    chan []byte
	closed chan struct{}
	fail   error // returned by the first ReadFrom
	refuse error // returned by WriteTo
}

func newWire() *wire {
	return &wire{in: make(chan []byte, 8), out: make(chan []byte, 8), closed: make(chan struct{})}
}

func (w *wire) ReadFrom(b []byte) (int, net.Addr, error) {
	if err := w.fail; err != nil {
		w.fail = nil
		return 0, nil, err
	}
	select {
	case p := <-w.in:
		return copy(b, p), &net.UDPAddr{IP: net.IPv4zero, Port: 68}, nil
	case <-w.closed:
		return 0, nil, net.ErrClosed
	}
}

func (w *wire) WriteTo(b []byte, _ net.Addr) (int, error) {
	if w.refuse != nil {
		return 0, w.refuse
	}
	w.out <- append([]byte(nil), b...)
	return len(b), nil
}

func (w *wire) Close() error {
	select {
	case <-w.closed:
	default:
		close(w.closed)
	}
	return nil
}

// panicky is a directory whose Lookup panics.
type panicky struct{ pxe.Directory }

func (p panicky) Lookup(m net.HardwareAddr) (pxe.Host, bool) {
	if m[5] == 0xff {
		panic("bug")
	}
	return p.Directory.Lookup(m)
}

func TestServeSurvivesBadPackets(t *testing.T) {
	w := newWire()
	w.fail = errors.New("destination unreachable") // of an earlier answer
	w.in <- []byte("rubbish")
	w.in <- message(dhcpv4.MessageTypeDiscover, mac("52:54:00:12:34:ff")).ToBytes()
	w.in <- message(dhcpv4.MessageTypeDiscover).ToBytes()
	events := make(chan pxe.BootEvent, 8)
	s := Server{Identity: testIdentity, Directory: panicky{directory(testHost(pxe.Agent))},
		Observer: pxe.ObserverFunc(func(e pxe.BootEvent) { events <- e })}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, w) }()
	select {
	case p := <-w.out:
		if r, err := dhcpv4.FromBytes(p); err != nil || r.MessageType() != dhcpv4.MessageTypeOffer {
			t.Errorf("got %v, %v", r, err)
		}
	case <-time.After(patience):
		t.Fatal("no answer after bad packets")
	}
	if e := <-events; e.Stage != pxe.StageOffer || e.At.IsZero() {
		t.Errorf("event %+v", e)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve ended with %v", err)
	}
}

func TestServeReportsFailedSend(t *testing.T) {
	w := newWire()
	w.refuse = errors.New("network is unreachable")
	w.in <- message(dhcpv4.MessageTypeDiscover).ToBytes()
	events := make(chan pxe.BootEvent, 1)
	s := Server{Identity: testIdentity, Directory: directory(testHost(pxe.Agent)),
		Observer: pxe.ObserverFunc(func(e pxe.BootEvent) { events <- e })}
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background(), w) }()
	select {
	case e := <-events:
		if e.Stage != pxe.StageFailed {
			t.Errorf("event %+v", e)
		}
	case <-time.After(patience):
		t.Fatal("no event")
	}
	_ = w.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a socket closed elsewhere ends Serve with %v, want net.ErrClosed", err)
	}
}
