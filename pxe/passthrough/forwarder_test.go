// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/test/eventually"
)

var key = []byte("the key of both sides")

func sealWith(key []byte) func([]byte) []byte {
	return func(message []byte) []byte {
		h := hmac.New(sha256.New, key)
		h.Write(message)
		return h.Sum(nil)
	}
}

func sealed(message, sum []byte) bool { return hmac.Equal(sum, sealWith(key)(message)) }

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Skipf("no %s on this machine: %v", network, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// forward runs a Forwarder to the upstream and returns its address.
func forward(t *testing.T, network, address string, c Config) net.Addr {
	t.Helper()
	c.Seal = sealWith(key)
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t, network, address)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if n := f.clients.Len(); n != 0 {
			t.Errorf("%d clients are still counted", n)
		}
	})
	return l.Addr()
}

func dial(t *testing.T, to net.Addr) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute)) // a hang fails the test
	return conn.(*net.TCPConn)
}

// Data arrives, the end of a request does not end its answer, and the manager sees the addresses
// of the agent's connection, for IPv4 and IPv6.
func TestPassThrough(t *testing.T) {
	for name, tc := range map[string]struct{ network, address string }{
		"IPv4": {"tcp4", "127.0.0.1:0"},
		"IPv6": {"tcp6", "[::1]:0"},
		"both": {"tcp", ":0"},
	} {
		t.Run(name, func(t *testing.T) {
			inner := listen(t, "tcp4", "127.0.0.1:0")
			agents := Listen(inner, ListenConfig{Sealed: sealed})
			at := forward(t, tc.network, tc.address, Config{Upstream: inner.Addr().String()})
			client := dial(t, at)
			request := bytes.Repeat([]byte("question "), 100_000)
			go func() {
				_, _ = client.Write(request)
				_ = client.CloseWrite()
			}()
			conn, err := agents.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			got, err := io.ReadAll(conn)
			if err != nil || !bytes.Equal(got, request) {
				t.Fatalf("%d bytes arrived of %d, error %v", len(got), len(request), err)
			}
			if normalize(conn.RemoteAddr()) != normalize(client.LocalAddr()) || normalize(conn.LocalAddr()) != normalize(client.RemoteAddr()) {
				t.Errorf("connection of %s to %s, want %s to %s", conn.RemoteAddr(), conn.LocalAddr(), client.LocalAddr(), client.RemoteAddr())
			}
			if _, err := io.WriteString(conn, "answer"); err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
			if answer, err := io.ReadAll(client); err != nil || string(answer) != "answer" {
				t.Errorf("answer = %q, error %v", answer, err)
			}
		})
	}
}

// The manager's HTTP server sees the agent's address, with end-to-end TLS.
func TestSourceOverTLS(t *testing.T) {
	inner := listen(t, "tcp4", "127.0.0.1:0")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.RemoteAddr)
	}))
	_ = server.Listener.Close()
	server.Listener = Listen(inner, ListenConfig{Sealed: sealed})
	server.StartTLS()
	defer server.Close()
	at := forward(t, "tcp4", "127.0.0.1:0", Config{Upstream: inner.Addr().String()})

	const source = "127.0.0.2"
	transport := server.Client().Transport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	transport.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}).DialContext
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if host, _, _ := net.SplitHostPort(string(body)); host != source || err != nil {
		t.Errorf("the server saw %q, error %v; want %s", body, err, source)
	}
}

// A connection ends with the manager's connection, with a missing manager, when idle, and with
// the process.
func TestConnectionsEnd(t *testing.T) {
	ended := func(t *testing.T, client net.Conn) {
		t.Helper()
		if _, err := client.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("the connection continues: %v", err)
		}
	}
	t.Run("manager closes", func(t *testing.T) {
		inner := listen(t, "tcp", "127.0.0.1:0")
		client := dial(t, forward(t, "tcp", "127.0.0.1:0", Config{Upstream: inner.Addr().String()}))
		conn, err := inner.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		ended(t, client)
	})
	t.Run("no manager", func(t *testing.T) {
		inner := listen(t, "tcp", "127.0.0.1:0")
		_ = inner.Close()
		ended(t, dial(t, forward(t, "tcp", "127.0.0.1:0", Config{Upstream: inner.Addr().String()})))
	})
	t.Run("idle", func(t *testing.T) {
		inner := listen(t, "tcp", "127.0.0.1:0")
		ended(t, dial(t, forward(t, "tcp", "127.0.0.1:0", Config{Upstream: inner.Addr().String(), Idle: time.Millisecond})))
	})
	t.Run("process ends", func(t *testing.T) {
		inner := listen(t, "tcp", "127.0.0.1:0")
		f, err := New(Config{Upstream: inner.Addr().String(), Seal: sealWith(key)})
		if err != nil {
			t.Fatal(err)
		}
		l := listen(t, "tcp", "127.0.0.1:0")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx, l) }()
		client := dial(t, l.Addr())
		if _, err := inner.Accept(); err != nil { // the connection is running
			t.Fatal(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		ended(t, client)
	})
	t.Run("listener breaks", func(t *testing.T) {
		f, err := New(Config{Upstream: "127.0.0.1:1", Seal: sealWith(key)})
		if err != nil {
			t.Fatal(err)
		}
		l := listen(t, "tcp", "127.0.0.1:0")
		_ = l.Close()
		if err := f.Run(t.Context(), l); err == nil {
			t.Error("Run ended without an error before its context ended")
		}
	})
	t.Run("one of two listeners breaks", func(t *testing.T) {
		f, err := New(Config{Upstream: "127.0.0.1:1", Seal: sealWith(key)})
		if err != nil {
			t.Fatal(err)
		}
		whole, broken := listen(t, "tcp", "127.0.0.1:0"), listen(t, "tcp", "127.0.0.1:0")
		_ = broken.Close()
		if err := f.Run(t.Context(), whole, broken); err == nil {
			t.Error("Run ended without an error before its context ended")
		}
		if c, err := net.Dial("tcp", whole.Addr().String()); err == nil {
			_ = c.Close()
			t.Error("the other listener still takes connections")
		}
	})
}

func TestTwoListeners(t *testing.T) {
	upstream := listen(t, "tcp", "127.0.0.1:0")
	f, err := New(Config{Upstream: upstream.Addr().String(), Seal: sealWith(key)})
	if err != nil {
		t.Fatal(err)
	}
	four, six := listen(t, "tcp4", "127.0.0.1:0"), listen(t, "tcp6", "[::1]:0")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx, four, six) }()
	for _, at := range []net.Listener{four, six} {
		c, err := net.Dial("tcp", at.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		reached, err := upstream.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = reached.Close(), c.Close()
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// One address is limited to its share, and ended connections free their slots.
func TestPerClient(t *testing.T) {
	inner := listen(t, "tcp", "127.0.0.1:0")
	at := forward(t, "tcp", "127.0.0.1:0", Config{Upstream: inner.Addr().String(), MaxPerClient: 1})
	first := dial(t, at)
	conn, err := inner.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, at).Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("a second connection continues: %v", err)
	}
	_ = first.Close()
	if _, err := io.ReadAll(conn); err != nil { // header and end of stream
		t.Fatal(err)
	}
	_ = conn.Close()
	// The forwarder frees the slot after it closed the connection, so retry.
	again := make(chan net.Conn, 1)
	go func() {
		if conn, err := inner.Accept(); err == nil {
			again <- conn
		}
	}()
	eventually.Wait{Interval: 10 * time.Millisecond}.Until(t, "room for another", eventually.Holds(func() bool {
		_ = dial(t, at)
		select {
		case conn := <-again:
			_ = conn.Close()
			return true
		default:
			return false
		}
	}))
}

// Above the limit clients wait.
func TestMaxConnections(t *testing.T) {
	inner := listen(t, "tcp", "127.0.0.1:0")
	at := forward(t, "tcp", "127.0.0.1:0", Config{Upstream: inner.Addr().String(), MaxConnections: 1})
	first := dial(t, at)
	conn, err := inner.Accept()
	if err != nil {
		t.Fatal(err)
	}
	second := dial(t, at)
	if _, err := io.WriteString(second, "x"); err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	_ = conn.Close()
	next, err := inner.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = next.Close() }()
	_ = second.CloseWrite()
	if data, err := io.ReadAll(next); err != nil || !bytes.HasSuffix(data, []byte("x")) {
		t.Errorf("the second client sent %q, error %v", data, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]Config{
		"upstream without a port": {Upstream: "ingot-agent", Seal: sealWith(key)},
		"no seal":                 {Upstream: "ingot-agent:8843"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(c); err == nil || strings.Contains(err.Error(), string(key)) {
				t.Errorf("New = %v", err)
			}
		})
	}
}
