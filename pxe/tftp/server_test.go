// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pin "github.com/pin/tftp/v3"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/tftp"
)

const patience = 30 * time.Second

// memory is a Files in memory.
type memory map[string][]byte

type panicking struct{}

func (panicking) ReadAt([]byte, int64) (int, error) { panic("bug") }

func (m memory) Open(_ netip.Addr, name string) (*tftp.File, error) {
	switch name {
	case "panic":
		panic("bug")
	case "panic when read":
		return &tftp.File{ReaderAt: panicking{}, Closer: io.NopCloser(nil), Size: 1}, nil
	}
	b, ok := m[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return tftp.InMemory(b), nil
}

func listen(t *testing.T) net.PacketConn {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type events struct {
	mu   sync.Mutex
	list []string
	come chan struct{}
}

func (e *events) Observe(ev pxe.BootEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, string(ev.Stage)+" "+ev.Detail)
	e.come <- struct{}{}
}

// startServer serves until the test ends, and returns the address and the events.
func startServer(t *testing.T, srv tftp.Server) (string, *events) {
	t.Helper()
	ev := &events{come: make(chan struct{}, 1000)}
	srv.Observer = ev
	conn := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx, conn) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(patience):
			t.Error("Serve did not end")
		}
	})
	return conn.LocalAddr().String(), ev
}

func random(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

// The client of pin/tftp, which supports block size and size, reads files with sizes on both sides
// of every boundary.
func TestClientOfAnotherProject(t *testing.T) {
	const block = 1024
	files := memory{}
	for _, n := range []int{0, 1, 511, 512, 513, block - 1, block, block + 1, 10*block + 7, 70_000 * 16} {
		files[fmt.Sprint(n)] = random(n)
	}
	addr, _ := startServer(t, tftp.Server{Files: files})
	for _, blksize := range []int{0, block, 9000} { // 9000 is reduced
		for name, want := range files {
			t.Run(fmt.Sprintf("%s bytes in blocks of %d", name, blksize), func(t *testing.T) {
				c, err := pin.NewClient(addr)
				if err != nil {
					t.Fatal(err)
				}
				if blksize > 0 {
					c.SetBlockSize(blksize)
				}
				c.RequestTSize(true)
				wt, err := c.Receive(name, "octet")
				if err != nil {
					t.Fatal(err)
				}
				if n, ok := wt.(pin.IncomingTransfer).Size(); blksize > 0 && (!ok || n != int64(len(want))) {
					t.Errorf("size %d, %v", n, ok)
				}
				var got bytes.Buffer
				if _, err := wt.WriteTo(&got); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got.Bytes(), want) {
					t.Errorf("%d bytes arrived wrong, as %d", len(want), got.Len())
				}
			})
		}
	}
}

// client is a TFTP client that can lose packets.
type client struct {
	net.PacketConn
	t      *testing.T
	server *net.UDPAddr // the transfer's own socket, once it answered
	main   *net.UDPAddr
	buf    []byte
}

func newClient(t *testing.T, addr string) *client {
	t.Helper()
	return newClientAt(t, addr, "127.0.0.1")
}

// newClientAt returns a client with its own address.
func newClientAt(t *testing.T, addr, own string) *client {
	t.Helper()
	main, err := net.ResolveUDPAddr("udp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenPacket("udp4", own+":0")
	if err != nil {
		t.Fatal(err)
	}
	c := &client{PacketConn: conn, t: t, main: main, buf: make([]byte, 65536)}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *client) request(fields ...string) {
	c.t.Helper()
	p := "\x00\x01" + strings.Join(fields, "\x00") + "\x00"
	if _, err := c.WriteTo([]byte(p), c.main); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) ack(block uint16) {
	c.t.Helper()
	if _, err := c.WriteTo(binary.BigEndian.AppendUint16([]byte{0, 4}, block), c.server); err != nil {
		c.t.Fatal(err)
	}
}

// next returns opcode, number and rest of the next packet.
func (c *client) next() (op, n uint16, rest string) {
	c.t.Helper()
	buf := c.buf
	size, from, err := c.ReadFrom(buf)
	if err != nil {
		c.t.Fatal(err)
	}
	c.server = from.(*net.UDPAddr)
	op = binary.BigEndian.Uint16(buf)
	if op == 6 {
		return op, 0, string(buf[2:size])
	}
	return op, binary.BigEndian.Uint16(buf[2:]), string(buf[4:size])
}

// A client with a window of 16 loses one packet in 5,000 and repeats its acknowledgment as RFC
// 7440 says. 16-byte blocks make the block numbers wrap.
func TestWindowSurvivesLoss(t *testing.T) {
	want := random(70_000 * 16)
	addr, ev := startServer(t, tftp.Server{Files: memory{"big": want}, Timeout: 50 * time.Millisecond, Retries: 100})
	c := newClient(t, addr)
	c.request("big", "octet", "blksize", "16", "windowsize", "16", "tsize", "0")
	if op, _, options := c.next(); op != 6 || options != "blksize\x0016\x00windowsize\x0016\x00tsize\x001120000\x00" {
		t.Fatalf("got opcode %d, %q", op, options)
	}
	c.ack(0)
	var got []byte
	inWindow, count, last := 0, 0, uint16(0)
	for done := false; !done; {
		op, n, data := c.next()
		if op != 3 {
			t.Fatalf("opcode %d after %d bytes: %q", op, len(got), data)
		}
		if count++; count%5000 == 0 {
			continue // lost
		}
		if n != last+1 { // a gap: request what follows the last good block
			if inWindow != 0 {
				inWindow = 0
				c.ack(last)
			}
			continue
		}
		got, last = append(got, data...), n
		if inWindow++; inWindow == 16 || len(data) < 16 {
			inWindow = 0
			done = len(data) < 16
			c.ack(n)
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes arrived wrong, as %d", len(want), len(got))
	}
	<-ev.come
}

func TestLostPacketsAreSentAgain(t *testing.T) {
	addr, ev := startServer(t, tftp.Server{Files: memory{"f": []byte("hello")}, Timeout: time.Millisecond})
	c := newClient(t, addr)
	c.request("f", "octet", "tsize", "0")
	for range 2 { // the OACK, and its repetition
		if op, _, _ := c.next(); op != 6 {
			t.Fatalf("opcode %d", op)
		}
	}
	c.ack(0)
	for blocks := 0; blocks < 2; { // late OACKs may still come in between
		switch op, n, data := c.next(); {
		case op == 3 && n == 1 && data == "hello":
			blocks++
		case op != 6:
			t.Fatalf("opcode %d, %d, %q", op, n, data)
		}
	}
	c.ack(1)
	<-ev.come
	if got := ev.list[0]; got != "Loader f" {
		t.Errorf("event %q", got)
	}
}

func TestClientThatGoesAwayIsGivenUp(t *testing.T) {
	addr, ev := startServer(t, tftp.Server{Files: memory{"f": []byte("hello")}, Timeout: time.Millisecond, Retries: 2})
	c := newClient(t, addr)
	c.request("f", "octet")
	<-ev.come
	if got := ev.list[0]; !strings.HasPrefix(got, "Failed ") || !strings.Contains(got, "does not answer") {
		t.Errorf("event %q", got)
	}
}

func TestRefusals(t *testing.T) {
	addr, _ := startServer(t, tftp.Server{Files: memory{"f": []byte("hello")}})
	for _, tc := range []struct {
		name, packet string
		code         uint16
	}{
		{"not found", "\x00\x01revocations_sbat.efi\x00octet\x00", 1},
		{"write", "\x00\x02f\x00octet\x00", 4},
		{"netascii", "\x00\x01f\x00netascii\x00", 4},
		{"mail", "\x00\x01f\x00MAIL\x00", 4},
		{"panic", "\x00\x01panic\x00octet\x00", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, addr)
			if _, err := c.WriteTo([]byte(tc.packet), c.main); err != nil {
				t.Fatal(err)
			}
			if op, code, text := c.next(); op != 5 || code != tc.code {
				t.Errorf("opcode %d, code %d, %q", op, code, text)
			}
		})
	}
}

// A file that is missing on purpose is refused without an event.
func TestAbsentIsNoFailure(t *testing.T) {
	addr, ev := startServer(t, tftp.Server{Files: memory{"f": []byte("hello")}, Absent: []string{"boot-from-disk"}})
	for _, name := range []string{"boot-from-disk", "missing"} {
		c := newClient(t, addr)
		c.request(name, "octet")
		if op, code, text := c.next(); op != 5 || code != 1 {
			t.Fatalf("%s: opcode %d, code %d, %q", name, op, code, text)
		}
	}
	<-ev.come
	ev.mu.Lock()
	defer ev.mu.Unlock()
	if len(ev.list) != 1 || !strings.Contains(ev.list[0], "missing") {
		t.Errorf("events %q", ev.list)
	}
}

// OVMF asks for the size, ends the transfer with an error, and asks again.
func TestSizeProbe(t *testing.T) {
	addr, ev := startServer(t, tftp.Server{Files: memory{"f": []byte("hello")}})
	c := newClient(t, addr)
	c.request("f", "octet", "tsize", "0")
	if op, _, _ := c.next(); op != 6 {
		t.Fatalf("opcode %d", op)
	}
	if _, err := c.WriteTo([]byte("\x00\x05\x00\x08User aborted the transfer\x00"), c.server); err != nil {
		t.Fatal(err)
	}
	second := newClient(t, addr)
	second.request("f", "octet")
	if op, n, data := second.next(); op != 3 || n != 1 || data != "hello" {
		t.Fatalf("opcode %d, block %d, %q", op, n, data)
	}
	second.ack(1)
	<-ev.come
	if len(ev.list) != 1 || ev.list[0] != "Loader f" {
		t.Errorf("events %q: a probe is no failure", ev.list)
	}
}

// The kernel drops packets of other clients to a transfer's socket and answers by ICMP.
func TestOthersDoNotDisturbATransfer(t *testing.T) {
	addr, _ := startServer(t, tftp.Server{Files: memory{"f": random(600)}, Timeout: time.Hour})
	c := newClient(t, addr)
	c.request("f", "octet")
	c.expect(3, 1)
	other := newClient(t, addr)
	other.server = c.server
	for range 3 {
		other.ack(1)
	}
	c.ack(1)
	c.expect(3, 2)
	c.ack(2)
}

// A client with a closed port frees its slot at once if the kernel reports it.
func TestClosedPortIsGone(t *testing.T) {
	// The next block may be sent before the port is closed, but a later one fails.
	addr, ev := startServer(t, tftp.Server{Files: memory{"f": random(600)}, Timeout: 50 * time.Millisecond, Retries: 1 << 20})
	c := newClient(t, addr)
	c.request("f", "octet")
	c.expect(3, 1)
	c.ack(1)
	_ = c.Close()
	<-ev.come
	if got := ev.list[0]; !strings.Contains(got, "does not answer: its port is closed") {
		t.Errorf("event %q", got)
	}
}

func TestPanicEndsOneTransferOnly(t *testing.T) {
	addr, _ := startServer(t, tftp.Server{Files: memory{"f": []byte("hello")}})
	newClient(t, addr).request("panic", "octet")
	c := newClient(t, addr)
	c.request("f", "octet")
	if op, _, data := c.next(); op != 3 || data != "hello" {
		t.Errorf("opcode %d, %q", op, data)
	}
	c.ack(1)
	for _, name := range []string{"panic", "panic when read"} {
		c := newClient(t, addr)
		c.request(name, "octet")
		if op, code, text := c.next(); op != 5 || code != 0 {
			t.Errorf("%s: the client got opcode %d, code %d, %q", name, op, code, text)
		}
	}
}

func TestDir(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(outside, "loaders")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{"loaders/a.efi": "on disk", "loaders/sub/b": "below", "secret": "no"} {
		if err := os.WriteFile(filepath.Join(outside, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	d, err := tftp.OpenDir(dir, map[string][]byte{"autoexec.ipxe": []byte("#!ipxe")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	for _, tc := range []struct{ name, want string }{
		{"a.efi", "on disk"}, {"/a.efi", "on disk"}, {"//a.efi", "on disk"}, {`\a.efi`, "on disk"},
		{"sub/b", "below"}, {"autoexec.ipxe", "#!ipxe"}, {"/autoexec.ipxe", "#!ipxe"},
		{"none", ""}, {"sub", ""}, {"", ""}, {"../secret", ""}, {"/../../secret", ""}, {"link", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := d.Open(netip.Addr{}, tc.name)
			if err != nil {
				if tc.want != "" {
					t.Error(err)
				}
				return
			}
			defer func() { _ = f.Close() }()
			b := make([]byte, f.Size)
			if _, err := f.ReadAt(b, 0); err != nil || string(b) != tc.want {
				t.Errorf("got %q, %v, want %q", b, err, tc.want)
			}
		})
	}
}

func TestServeReportsABrokenSocket(t *testing.T) {
	conn := listen(t)
	srv := tftp.Server{Files: memory{}}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(context.Background(), conn) }()
	_ = conn.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want net.ErrClosed", err)
	}
}
