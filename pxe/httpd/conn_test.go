// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/pxe"
)

// bigFile returns a registry with one file of zeros.
func bigFile(t *testing.T, size int64) (*pxe.Files, pxe.File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "big")
	must(t, os.WriteFile(path, nil, 0o600))
	must(t, os.Truncate(path, size))
	files := &pxe.Files{}
	f, err := files.Add(path)
	must(t, err)
	return files, f
}

// serve serves on loopback until the test ends.
func serve(t *testing.T, h http.Handler, o Options) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, h, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func dial(t *testing.T, from, to string) *net.TCPConn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 30 * time.Second}
	c, err := d.Dial("tcp4", to)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	return c.(*net.TCPConn)
}

// answer reads the head of a response.
func answer(t *testing.T, c net.Conn) *http.Response {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	return r
}

// spy records what its connections send by sendfile.
type spy struct {
	*limiter
	mu   sync.Mutex
	seen []string
}

func (s *spy) Accept() (net.Conn, error) {
	c, err := s.limiter.Accept()
	if err != nil {
		return nil, err
	}
	return &spied{c.(*limitedTCP), s}, nil
}

type spied struct {
	*limitedTCP
	spy *spy
}

func (c *spied) ReadFrom(src io.Reader) (int64, error) {
	kind := fmt.Sprintf("%T", src)
	if l, ok := src.(*io.LimitedReader); ok {
		kind += fmt.Sprintf(" of %T", l.R)
	}
	n, err := c.limitedTCP.ReadFrom(src)
	c.spy.mu.Lock()
	defer c.spy.mu.Unlock()
	c.spy.seen = append(c.spy.seen, fmt.Sprintf("%s: %d", kind, n))
	return n, err
}

// net/http passes the file itself to the connection, as net.TCPConn needs it for sendfile(2).
func TestFilesAreSentByTheKernel(t *testing.T) {
	const size = 5<<20 + 7
	files, f := bigFile(t, size)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	o := Options{}
	o.setDefaults()
	s := &spy{limiter: newLimiter(l, o)}
	srv := &http.Server{Handler: &Handler{Files: files}}
	go func() { _ = srv.Serve(s) }()
	defer func() { _ = srv.Close() }()
	r, err := http.Get("http://" + l.Addr().String() + f.Path())
	must(t, err)
	n, err := io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	if n != size || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
	must(t, srv.Shutdown(t.Context())) // sends are recorded after the client has the data
	s.mu.Lock()
	defer s.mu.Unlock()
	// net/http reads the first 512 bytes itself.
	if want := fmt.Sprintf("*io.LimitedReader of *os.File: %d", size-512); len(s.seen) != 1 || s.seen[0] != want {
		t.Errorf("the connection was given %q, want %q", s.seen, want)
	}
}

// deadlines records the write deadlines of a connection.
type deadlines struct {
	net.Conn
	given []time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.given = append(d.given, at)
	return d.Conn.SetWriteDeadline(at)
}

// A slow client that makes progress is not cut off, even if the download takes many times the
// stall time: each piece restarts that time, with and without sendfile.
func TestSlowDownloadContinues(t *testing.T) {
	const (
		size   = 5*pieceSize + 7
		pieces = 6
		stall  = time.Hour
	)
	files, f := bigFile(t, size)
	for name, send := range map[string]func(*testing.T, *limitedTCP) (int64, error){
		"by the kernel": func(t *testing.T, c *limitedTCP) (int64, error) {
			src, _, err := files.Open(f)
			must(t, err)
			defer func() { _ = src.Close() }()
			return c.ReadFrom(&io.LimitedReader{R: src, N: size})
		},
		"by ourselves": func(_ *testing.T, c *limitedTCP) (int64, error) {
			n, err := c.Write(make([]byte, size))
			return int64(n), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			must(t, err)
			defer func() { _ = l.Close() }()
			client := dial(t, "127.0.0.1", l.Addr().String())
			server, err := l.Accept()
			must(t, err)
			took := make(chan int64)
			go func() {
				n, _ := io.Copy(io.Discard, client)
				took <- n
			}()
			noted := &deadlines{Conn: server}
			began := time.Now()
			n, err := send(t, &limitedTCP{limitedConn: limitedConn{Conn: noted, stall: stall, leave: func() {}}, tcp: server.(*net.TCPConn)})
			_ = server.Close()
			if got := <-took; n != size || got != size || err != nil {
				t.Errorf("sent %d bytes of %d, %d came: %v", n, size, got, err)
			}
			if len(noted.given) != pieces {
				t.Errorf("%d deadlines for %d pieces", len(noted.given), pieces)
			}
			earliest := began.Add(stall / writeAttempts)
			for i, at := range noted.given {
				if at.Before(earliest) {
					t.Errorf("piece %d has until %s, want no earlier than %s", i, at, earliest)
				}
				earliest = at
			}
		})
	}
}

// A client that reads nothing is cut off, and its slot becomes free.
func TestStalledClientIsCutOff(t *testing.T) {
	const size = 24 << 20 // more than the buffers hold
	files, f := bigFile(t, size)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	o := Options{WriteStall: 100 * time.Millisecond}
	o.setDefaults()
	limited := newLimiter(l, o)
	closed := make(chan struct{}, 1)
	srv := &http.Server{Handler: &Handler{Files: files}, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}}
	go func() { _ = srv.Serve(limited) }()
	defer func() { _ = srv.Close() }()
	c := dial(t, "127.0.0.3", l.Addr().String())
	must(t, c.SetReadBuffer(64<<10))
	_, err = io.WriteString(c, "GET "+f.Path()+" HTTP/1.1\r\nHost: x\r\n\r\n")
	must(t, err)
	select {
	case <-closed:
	case <-time.After(30 * time.Second):
		t.Fatal("the client that stands still is served on")
	}
	if n, _ := io.Copy(io.Discard, c); n >= size {
		t.Errorf("%d bytes came all the same", n)
	}
	if n := limited.clients.Len(); n != 0 {
		t.Errorf("%d clients hold connections", n)
	}
}

// refusals counts the log lines about clients with too many connections.
type refusals struct{ atomic.Int32 }

func (r *refusals) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("the client has too many")) && bytes.Contains(line, []byte("client=127.0.0.11 limit=2")) {
		r.Add(1)
	}
	return len(line), nil
}

// A client address is limited to its share and gets 503. Others are served, and connections
// above the total limit wait.
func TestConnectionsAreBounded(t *testing.T) {
	files, f := bigFile(t, 10)
	told := &refusals{}
	addr := serve(t, &Handler{Files: files}, Options{MaxConns: 4, MaxConnsPerClient: 2, Log: slog.New(slog.NewTextHandler(told, nil))})
	ask := func(c net.Conn) *http.Response {
		_, err := io.WriteString(c, "GET "+f.Path()+" HTTP/1.1\r\nHost: x\r\n\r\n")
		must(t, err)
		return answer(t, c)
	}
	var held []net.Conn
	for i := range 4 {
		c := dial(t, fmt.Sprintf("127.0.0.%d", 10+i/2), addr)
		if r := ask(c); r.StatusCode != 200 {
			t.Fatalf("connection %d: %s", i, r.Status)
		}
		held = append(held, c)
	}
	waiting := dial(t, "127.0.0.20", addr)
	_, err := io.WriteString(waiting, "GET "+f.Path()+" HTTP/1.1\r\nHost: x\r\n\r\n")
	must(t, err)
	_ = held[0].Close() // frees a slot
	if r := answer(t, waiting); r.StatusCode != 200 {
		t.Errorf("the waiting client got %s", r.Status)
	}
	_ = held[1].Close()
	for range 2 {
		third := dial(t, "127.0.0.11", addr) // has two
		if r := answer(t, third); r.StatusCode != 503 || r.Header.Get("Retry-After") == "" {
			t.Errorf("one too many of one address got %s", r.Status)
		}
	}
	if n := told.Load(); n != 1 {
		t.Errorf("logged %d times within a minute, want once", n)
	}
}

// Requests that are too large, never end, or have a body are refused and hold no slot.
func TestInvalidRequestsAreRefused(t *testing.T) {
	files, f := bigFile(t, 10)
	addr := serve(t, &Handler{Files: files}, Options{})
	for _, tc := range []struct {
		name, request string
		status        int
	}{
		{"headers", "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431},
		{"path", "GET /" + strings.Repeat("x", 64<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", 431},
		{"body", "GET " + f.Path() + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n", 400},
		{"body of a write", "PUT " + f.Path() + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 405},
		{"no HTTP", "\x16\x03\x01\x02\x00\r\n\r\n", 400},
		{"HTTP/1.0, as BIOSes speak it", "GET " + f.Path() + " HTTP/1.0\r\n\r\n", 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := dial(t, "127.0.0.1", addr)
			go func() { _, _ = io.WriteString(c, tc.request) }()
			if r := answer(t, c); r.StatusCode != tc.status {
				t.Errorf("status %s, want %d", r.Status, tc.status)
			}
		})
	}
}

// The client notices that the response is incomplete.
func TestPanicEndsOneRequestOnly(t *testing.T) {
	files, f := bigFile(t, 10)
	addr := serve(t, &Handler{Files: files}, Options{}) // no Directory: a script panics
	if r, err := http.Get("http://" + addr + "/boot/52:54:00:00:00:01/script.ipxe"); err == nil {
		_ = r.Body.Close()
		t.Errorf("got %s", r.Status)
	}
	r, err := http.Get("http://" + addr + f.Path())
	must(t, err)
	_ = r.Body.Close()
}
