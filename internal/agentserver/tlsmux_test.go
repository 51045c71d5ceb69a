// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// broken is a listener that fails as it is told, and then is as it was.
type broken struct {
	net.Listener
	err   error
	calls atomic.Int32
}

func (b *broken) Accept() (net.Conn, error) {
	if b.calls.Add(1) == 1 {
		return nil, b.err
	}
	return b.Listener.Accept()
}

func listenHere(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// A connection that says nothing keeps nobody from speaking, and ends with the listener.
func TestEitherSilent(t *testing.T) {
	inner := listenHere(t)
	l := newTLSMux(inner, nil)
	silent, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	speaker, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = speaker.Close() }()
	if _, err := speaker.Write([]byte("GET")); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	got := make([]byte, 3)
	if _, err := conn.Read(got); err != nil || string(got) != "GET" {
		t.Errorf("read %q, %v", got, err)
	}
	_ = l.Close()
	l.running.Wait()
	_ = silent.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := silent.Read(got); err == nil {
		t.Error("the silent connection is still open")
	} else if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		t.Error("the silent connection was left open")
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after the end: %v", err)
	}
}

// What is wrong with the listener is told, and it goes on where it can.
func TestEitherPassesErrorsOn(t *testing.T) {
	want := errors.New("too many open files")
	l := newTLSMux(&broken{Listener: listenHere(t), err: want}, nil)
	defer l.running.Wait()
	defer func() { _ = l.Close() }()
	if _, err := l.Accept(); !errors.Is(err, want) {
		t.Errorf("accept: %v, want %v", err, want)
	}
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := client.Write([]byte("G")); err != nil {
		t.Fatal(err)
	}
	if conn, err := l.Accept(); err != nil {
		t.Errorf("accept after the error: %v", err)
	} else {
		_ = conn.Close()
	}
}
