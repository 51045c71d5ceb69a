// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/pxe/tftp"
)

// expect fails unless the next packet is as given, and returns the rest of it.
func (c *client) expect(op, n uint16) string {
	c.t.Helper()
	gotOp, gotN, rest := c.next()
	if gotOp != op || gotN != n {
		c.t.Fatalf("got opcode %d, number %d, %.40q; want %d, %d", gotOp, gotN, rest, op, n)
	}
	return rest
}

// read acknowledges a transfer block by block until its end.
func (c *client) read(block int) []byte {
	c.t.Helper()
	var got []byte
	for n := uint16(1); ; n++ {
		data := c.expect(3, n)
		got = append(got, data...)
		c.ack(n)
		if len(data) < block {
			return got
		}
	}
}

// Duplicate acknowledgments do not duplicate all following packets (RFC 1123 section 4.2.3.1),
// with windows of any size.
func TestSorcerersApprentice(t *testing.T) {
	for _, tc := range []struct {
		name     string
		window   int
		copies   int // of each acknowledgment
		mostSent int // of 64 blocks
	}{
		{"lock step", 1, 2, 64},
		// Each pair of windows is sent three times: a repeated acknowledgment may mean a loss,
		// but the echo of the second copy does not count.
		{"windows of 4", 4, 2, 96},
		{"windows of 4, three copies", 4, 3, 96},
	} {
		t.Run(tc.name, func(t *testing.T) {
			addr, ev := startServer(t, tftp.Server{Files: memory{"f": random(63*16 + 1)}, Timeout: time.Hour})
			c := newClient(t, addr)
			c.request("f", "octet", "blksize", "16", "windowsize", fmt.Sprint(tc.window))
			c.expect(6, 0)
			c.ack(0)
			sent, last := 0, uint16(0)
			for last < 64 {
				op, n, _ := c.next()
				if op != 3 {
					t.Fatalf("opcode %d", op)
				}
				sent++
				if n == last+1 {
					last++
				}
				if int(n)%tc.window == 0 { // also for a repeated window
					for range tc.copies {
						c.ack(last)
					}
				}
			}
			<-ev.come
			if sent > tc.mostSent {
				t.Errorf("%d blocks were sent for 64", sent)
			}
		})
	}
}

// Acknowledgments outside of the window change nothing.
func TestWrongAcknowledgments(t *testing.T) {
	want := random(100)
	addr, _ := startServer(t, tftp.Server{Files: memory{"f": want}, Timeout: time.Hour})
	c := newClient(t, addr)
	c.request("f", "octet", "blksize", "16", "windowsize", "2")
	c.expect(6, 0)
	c.ack(7) // not the OACK's number
	c.ack(0)
	c.expect(3, 1)
	c.expect(3, 2)
	for _, n := range []uint16{3, 100, 0xffff} {
		c.ack(n)
	}
	if _, err := c.WriteTo([]byte{0, 3, 0, 1}, c.server); err != nil { // DATA from a client
		t.Fatal(err)
	}
	c.ack(2)
	c.expect(3, 3)
	c.expect(3, 4)
	c.ack(3) // 4 was lost
	c.expect(3, 4)
	c.expect(3, 5)
}

// UEFI asks for the size, sends ERROR 8, and asks again. tftp-hpa reads several files from one
// port. Neither waits for a timeout, even if its second request overtakes the end of the first
// transfer.
func TestAskingAgainFromTheSamePort(t *testing.T) {
	want := random(1000)
	options := []string{"f", "octet", "tsize", "0", "blksize", "1468"}
	for _, single := range []bool{false, true} {
		start := func(t *testing.T) *client {
			addr, _ := startServer(t, tftp.Server{Files: memory{"f": want, "g": random(10)}, SinglePort: single, Timeout: time.Hour})
			return newClient(t, addr)
		}
		read := func(t *testing.T, c *client) {
			t.Helper()
			c.expect(6, 0)
			c.ack(0)
			if got := c.read(1468); !bytes.Equal(got, want) {
				t.Errorf("%d bytes arrived as %d", len(want), len(got))
			}
		}
		name := map[bool]string{false: "ports", true: "single port"}[single]
		t.Run(name+", after an error", func(t *testing.T) {
			c := start(t)
			c.request("f", "octet", "tsize", "0")
			c.expect(6, 0)
			if _, err := c.WriteTo([]byte("\x00\x05\x00\x08User aborted the transfer\x00"), c.server); err != nil {
				t.Fatal(err)
			}
			c.request(options...)
			read(t, c)
		})
		t.Run(name+", without an error", func(t *testing.T) {
			c := start(t)
			c.request("f", "octet", "tsize", "0")
			c.expect(6, 0)
			c.request(options...)
			read(t, c)
		})
		t.Run(name+", the same file again and again", func(t *testing.T) {
			c := start(t)
			for range 20 {
				c.request(options...)
				read(t, c)
			}
		})
	}
}

// The request was repeated before the answer arrived.
func TestRepeatedRequestStartsNoSecondTransfer(t *testing.T) {
	addr, _ := startServer(t, tftp.Server{Files: memory{"f": random(2000)}, Timeout: time.Hour})
	c := newClient(t, addr)
	c.request("f", "octet")
	c.expect(3, 1)
	c.request("f", "octet")
	first := c.server.Port
	for n := uint16(1); n < 4; n++ {
		c.ack(n)
		c.expect(3, n+1)
		if c.server.Port != first {
			t.Fatal("a second transfer runs")
		}
	}
}

// A request without a free slot waits. A missing file is refused at once nevertheless.
func TestOneTooManyWaits(t *testing.T) {
	want := random(600)
	addr, _ := startServer(t, tftp.Server{Files: memory{"f": want}, MaxTransfers: 2, MaxWaiting: 3, Timeout: time.Hour})
	var running [2]*client
	for i := range running {
		running[i] = newClientAt(t, addr, fmt.Sprintf("127.0.0.%d", 10+i))
		running[i].request("f", "octet")
		running[i].expect(3, 1)
	}
	var waiting []*client
	for i := range 3 {
		c := newClientAt(t, addr, fmt.Sprintf("127.0.0.%d", 20+i))
		c.request("f", "octet")
		waiting = append(waiting, c)
	}
	missing := newClient(t, addr)
	missing.request("missing", "octet")
	missing.expect(5, 1)
	late := newClient(t, addr) // the queue is full
	late.request("f", "octet")
	if text := late.expect(5, 0); !strings.Contains(text, "try again") {
		t.Errorf("refused with %q", text)
	}
	running[0].ack(1)
	running[0].expect(3, 2)
	running[0].ack(2)
	var all sync.WaitGroup // one slot serves all, in any order
	for _, c := range waiting {
		all.Go(func() {
			if got := c.read(512); !bytes.Equal(got, want) {
				t.Errorf("%d bytes arrived as %d", len(want), len(got))
			}
		})
	}
	all.Wait()
}

// A client with many transfers waits, and others do not.
func TestOneAddressDoesNotTakeAll(t *testing.T) {
	addr, _ := startServer(t, tftp.Server{Files: memory{"f": random(10)}, MaxTransfers: 8, Timeout: time.Hour})
	greedy := make([]*client, 8)
	for i := range greedy {
		greedy[i] = newClientAt(t, addr, "127.0.0.2")
		greedy[i].request("f", "octet")
	}
	modest := newClientAt(t, addr, "127.0.0.3")
	modest.request("f", "octet")
	modest.expect(3, 1)
	modest.ack(1)
	var all sync.WaitGroup
	for _, c := range greedy {
		all.Go(func() {
			c.expect(3, 1)
			c.ack(1)
		})
	}
	all.Wait()
}

// Requests with forged addresses hold slots for seconds only.
func TestClientsThatNeverAnswerFreeTheirSlot(t *testing.T) {
	addr, ev := startServer(t, tftp.Server{Files: memory{"f": random(10)}, MaxTransfers: 1, Timeout: time.Hour})
	mute := newClientAt(t, addr, "127.0.0.2")
	mute.request("f", "octet")
	mute.expect(3, 1)
	c := newClientAt(t, addr, "127.0.0.3")
	for end := time.Now().Add(patience); ; {
		c.request("f", "octet") // a repeat without hearing an answer
		_ = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		buf := make([]byte, 100)
		if n, _, err := c.ReadFrom(buf); err == nil {
			if buf[1] != 3 || n != 14 {
				t.Fatalf("got % x", buf[:n])
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal("the slot never came free")
		}
	}
	<-ev.come
	if !strings.Contains(ev.list[0], "does not answer") {
		t.Errorf("event %q", ev.list[0])
	}
}

// userSpace is a socket that the server does not recognize as the kernel's.
type userSpace struct{ net.Conn }

// A block is not larger than one packet to the client.
func TestBlocksFitThePath(t *testing.T) {
	for name, tc := range map[string]struct {
		dial func(netip.AddrPort) (net.Conn, error)
		want string
	}{
		"kernel": {nil, "65464"},
		"user space": {func(client netip.AddrPort) (net.Conn, error) {
			conn, err := net.Dial("udp4", client.String())
			return userSpace{conn}, err
		}, "1468"},
	} {
		for _, single := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, single port %t", name, single), func(t *testing.T) {
				addr, _ := startServer(t, tftp.Server{Files: memory{"f": nil}, Dial: tc.dial, SinglePort: single})
				c := newClient(t, addr)
				c.request("f", "octet", "blksize", "65464")
				if got, want := c.expect(6, 0), "blksize\x00"+tc.want+"\x00"; got != want {
					t.Errorf("accepted %q, want %q", got, want)
				}
			})
		}
	}
}

// All packets come from the request port, for many clients at once.
func TestSinglePort(t *testing.T) {
	want := random(100_000)
	addr, _ := startServer(t, tftp.Server{Files: memory{"f": want}, SinglePort: true})
	var clients []*client
	for range 5 {
		c := newClient(t, addr)
		c.request("f", "octet", "blksize", "1024", "windowsize", "4")
		clients = append(clients, c)
	}
	for _, c := range clients {
		c.expect(6, 0)
		c.ack(0)
		var got []byte
		for n := uint16(1); len(got) < len(want); n++ {
			got = append(got, c.expect(3, n)...)
			if c.server.String() != addr {
				t.Fatalf("a packet came from %s", c.server)
			}
			if n%4 == 0 || len(got) == len(want) {
				c.ack(n)
			}
		}
		if !bytes.Equal(got, want) {
			t.Error("arrived wrong")
		}
	}
}

// A stopping server finishes running transfers and starts none.
func TestEndWaitsForTransfers(t *testing.T) {
	for _, single := range []bool{false, true} {
		t.Run(fmt.Sprintf("single port %t", single), func(t *testing.T) {
			conn, want := listen(t), random(2000)
			ctx, cancel := context.WithCancel(context.Background())
			srv := tftp.Server{Files: memory{"f": want}, SinglePort: single, Drain: patience, Timeout: time.Hour}
			done := make(chan error, 1)
			go func() { done <- srv.Serve(ctx, conn) }()
			c := newClient(t, conn.LocalAddr().String())
			c.request("f", "octet")
			got := []byte(c.expect(3, 1))
			cancel()
			newClient(t, conn.LocalAddr().String()).request("f", "octet") // gets no answer
			c.ack(1)
			for n := uint16(2); ; n++ {
				data := c.expect(3, n)
				got = append(got, data...)
				c.ack(n)
				if len(data) < 512 {
					break
				}
			}
			if err := <-done; err != nil {
				t.Errorf("Serve: %v", err)
			}
			if !bytes.Equal(got, want) {
				t.Error("arrived wrong")
			}
		})
	}
}

// shrinkingFiles are shorter than their announced size.
type shrinkingFiles struct{}

func (shrinkingFiles) Open(netip.Addr, string) (*tftp.File, error) {
	f := tftp.InMemory(make([]byte, 600))
	f.Size = 10_000
	return f, nil
}

func TestFileThatShrinks(t *testing.T) {
	addr, ev := startServer(t, tftp.Server{Files: shrinkingFiles{}})
	c := newClient(t, addr)
	c.request("f", "octet")
	c.expect(3, 1)
	c.ack(1)
	if text := c.expect(5, 0); !strings.Contains(text, "read error") {
		t.Errorf("got %q", text)
	}
	<-ev.come
	if !strings.Contains(ev.list[0], "unexpected EOF") {
		t.Errorf("event %q", ev.list[0])
	}
}
