// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/ipmi"
	"github.com/ingot-metal/ingot/test/eventually"
)

// mangler stands between the driver and a BMC and changes the BMC's packets.
type mangler struct {
	front  net.PacketConn
	back   net.Conn
	change func(p []byte) [][]byte

	mu     sync.Mutex
	client net.Addr
	wg     sync.WaitGroup
}

// mangle returns the target behind a mangler, which ends with the test.
func mangle(t *testing.T, target bmc.Target, change func(p []byte) [][]byte) bmc.Target {
	t.Helper()
	front, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	back, err := net.Dial("udp", strings.TrimPrefix(target.Address, "ipmi://"))
	if err != nil {
		t.Fatal(err)
	}
	m := &mangler{front: front, back: back, change: change}
	m.wg.Go(m.toBMC)
	m.wg.Go(m.toClient)
	t.Cleanup(func() {
		_, _ = front.Close(), back.Close()
		m.wg.Wait()
	})
	target.Address = "ipmi://" + front.LocalAddr().String()
	return target
}

func (m *mangler) toBMC() {
	p := make([]byte, 4096)
	for {
		n, from, err := m.front.ReadFrom(p)
		if err != nil {
			return
		}
		m.mu.Lock()
		m.client = from
		m.mu.Unlock()
		_, _ = m.back.Write(p[:n])
	}
}

func (m *mangler) toClient() {
	p := make([]byte, 4096)
	for {
		n, err := m.back.Read(p)
		if err != nil {
			return
		}
		m.mu.Lock()
		client := m.client
		m.mu.Unlock()
		for _, q := range m.change(bytes.Clone(p[:n])) {
			_, _ = m.front.WriteTo(q, client)
		}
	}
}

// TestMangledAnswers: whatever a network or a broken BMC makes of the answers, the
// driver neither panics nor takes them for the BMC's, and ends in time. Before
// each mangled packet and after it there may be the true one.
func TestMangledAnswers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) []byte {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(random.Uint32())
		}
		return p
	}
	for name, change := range map[string]func(p []byte) []byte{
		"cut":       func(p []byte) []byte { return p[:random.IntN(len(p)+1)] },
		"longer":    func(p []byte) []byte { return append(p, noise(1+random.IntN(3000))...) },
		"huge":      func(p []byte) []byte { return append(p, make([]byte, 60000)...) },
		"bit":       func(p []byte) []byte { p[random.IntN(len(p))] ^= 1 << random.IntN(8); return p },
		"noise":     func(p []byte) []byte { return noise(random.IntN(200)) },
		"head only": func(p []byte) []byte { return append(p[:min(16, len(p))], noise(random.IntN(64))...) },
		"empty":     func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			target := mangle(t, r.target, func(p []byte) [][]byte {
				mangled := change(bytes.Clone(p))
				return [][]byte{mangled, p, mangled}
			})
			conn, err := ipmi.Dial(t.Context(), target)
			if err != nil {
				// A packet of session setup is not signed: a changed one may end it.
				t.Logf("dial: %v", err)
				r.pending = true
				return
			}
			defer func() { _ = conn.Close(context.Background()) }()
			for range 20 {
				if state, err := conn.PowerState(t.Context()); err != nil || state != bmc.PowerOff {
					t.Errorf("%s, %v", state, err)
				}
			}
			if _, err := conn.Inventory(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOnlyMangledAnswers: without any true answer, a call ends with its context.
func TestOnlyMangledAnswers(t *testing.T) {
	r := newRig(t, nil)
	var mu sync.Mutex
	broken := false
	target := mangle(t, r.target, func(p []byte) [][]byte {
		mu.Lock()
		defer mu.Unlock()
		if broken {
			p[len(p)-1] ^= 1 // its signature
		}
		return [][]byte{p}
	})
	conn, err := ipmi.Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	broken = true
	mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, err = conn.PowerState(ctx)
	wantError(t, err, bmc.ErrTimeout)
	mu.Lock()
	broken = false
	mu.Unlock()
	if err := conn.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	r.ended(t) // the mangler has to be there for it
}

// TestFlood: a BMC that answers one question with packets without end costs a
// bounded number of reads and no memory.
func TestFlood(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		_, from, err := l.ReadFrom(make([]byte, 4096))
		if err != nil {
			return
		}
		junk := bytes.Repeat([]byte{6, 0, 0xff, 7}, 2000)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = l.WriteTo(junk, from)
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		_ = l.Close()
		wg.Wait()
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = ipmi.Dial(ctx, bmc.Target{Address: "ipmi://" + l.LocalAddr().String(), Username: username, Password: canary})
	wantError(t, err, bmc.ErrProtocol)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}

// TestGoroutines: nothing is left running behind closed connections and consoles,
// and none beside an open connection.
func TestGoroutines(t *testing.T) {
	r := newRig(t, nil)
	r.dial(t)
	const slack = 3 // the simulator's own come and go
	before := runtime.NumGoroutine()
	for range 10 {
		conn, err := ipmi.Dial(t.Context(), r.target)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := conn.OpenConsole(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := stream.Close(); err != nil {
			t.Error(err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	explain := func() string { return fmt.Sprintf("%d goroutines, %d before", runtime.NumGoroutine(), before) }
	eventually.Wait{Limit: 10 * time.Second, Interval: 10 * time.Millisecond, Explain: explain}.Until(t, "the end of the serial lines",
		eventually.Holds(func() bool { return runtime.NumGoroutine() <= before+slack }))
}
