// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/pxe/tftp"
)

// dawdle begins a transfer, and stands still in its midst: the server waits for it.
func dawdle(t *testing.T, addr, own string) *client {
	t.Helper()
	c := newClientAt(t, addr, own)
	c.request("f", "octet")
	c.expect(3, 1)
	c.ack(1)
	c.expect(3, 2)
	return c
}

// served asks again and again, as clients do that hear nothing, until the first block comes.
func served(t *testing.T, c *client) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		c.request("f", "octet")
		_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		buf := make([]byte, 600)
		if n, _, err := c.ReadFrom(buf); err == nil {
			if buf[1] != 3 || buf[3] != 1 {
				t.Errorf("got % x", buf[:n])
			}
			return
		}
	}
	t.Fatal("all places are held for ever")
}

// TestSlowClientsMakeRoom: clients that acknowledge now and then hold all places only until
// another wants one, and it takes but one of theirs.
func TestSlowClientsMakeRoom(t *testing.T) {
	for _, single := range []bool{false, true} {
		t.Run(fmt.Sprintf("single port %t", single), func(t *testing.T) {
			addr, ev := startServer(t, tftp.Server{Files: memory{"f": random(5000)}, SinglePort: single, MaxTransfers: 4, Timeout: time.Hour, SlowAfter: 1})
			for i := range 4 {
				dawdle(t, addr, fmt.Sprintf("127.0.0.%d", 20+i))
			}
			served(t, newClientAt(t, addr, "127.0.0.30"))
			<-ev.come
			ev.mu.Lock()
			defer ev.mu.Unlock()
			if len(ev.list) != 1 || !strings.Contains(ev.list[0], "too slowly, and others wait") {
				t.Errorf("events %q", ev.list)
			}
		})
	}
}

// TestSlowClientAloneFinishes: while places are free nobody is too slow, whoever else comes,
// also if one waits that has its share.
func TestSlowClientAloneFinishes(t *testing.T) {
	want := random(5000)
	addr, _ := startServer(t, tftp.Server{Files: memory{"f": want}, MaxTransfers: 4, Timeout: time.Hour, SlowAfter: 1})
	slow := dawdle(t, addr, "127.0.0.20")
	running := dawdle(t, addr, "127.0.0.21")
	greedy := newClientAt(t, addr, "127.0.0.21")
	for range 3 {
		greedy.request("f", "octet") // waits, and for nobody but itself
	}
	for i := range 3 {
		c := newClientAt(t, addr, fmt.Sprintf("127.0.0.%d", 30+i))
		c.request("f", "octet")
		if got := c.read(512); !bytes.Equal(got, want) {
			t.Errorf("%d bytes arrived as %d", len(want), len(got))
		}
	}
	for _, c := range []*client{slow, running} {
		c.ack(2)
		for n := uint16(3); ; n++ {
			data := c.expect(3, n)
			c.ack(n)
			if len(data) < 512 {
				break
			}
		}
	}
	if got := greedy.read(512); !bytes.Equal(got, want) {
		t.Errorf("%d bytes arrived as %d", len(want), len(got))
	}
}
