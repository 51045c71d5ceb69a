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

// proxy forwards packets between the driver and a BMC and changes the BMC's packets.
type proxy struct {
	front  net.PacketConn
	back   net.Conn
	change func(p []byte) [][]byte
	mu     sync.Mutex
	client net.Addr
	wg     sync.WaitGroup
}

// startProxy returns the address of a proxy that ends with the test.
func startProxy(t *testing.T, target bmc.Target, change func(p []byte) [][]byte) bmc.Target {
	t.Helper()
	front, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	back, err := net.Dial("udp", strings.TrimPrefix(target.Address, "ipmi://"))
	if err != nil {
		t.Fatal(err)
	}
	m := &proxy{front: front, back: back, change: change}
	m.wg.Go(m.toBMC)
	m.wg.Go(m.toClient)
	t.Cleanup(func() {
		_, _ = front.Close(), back.Close()
		m.wg.Wait()
	})
	target.Address = "ipmi://" + front.LocalAddr().String()
	return target
}

func (m *proxy) toBMC() {
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

func (m *proxy) toClient() {
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

// TestCorruptAnswers shows that the driver ignores corrupt answers before and after the correct
// one, and does not panic.
func TestCorruptAnswers(t *testing.T) {
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
			target := startProxy(t, r.target, func(p []byte) [][]byte {
				corrupt := change(bytes.Clone(p))
				return [][]byte{corrupt, p, corrupt}
			})
			conn, err := ipmi.Dial(t.Context(), target)
			if err != nil {
				// Packets of session setup have no signature, so a corrupt one may end it.
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

// TestOnlyCorruptAnswers shows that a call without a valid answer ends with its context.
func TestOnlyCorruptAnswers(t *testing.T) {
	r := newRig(t, nil)
	var mu sync.Mutex
	broken := false
	target := startProxy(t, r.target, func(p []byte) [][]byte {
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
	r.ended(t) // while the proxy still runs
}

// TestFlood shows that endless packets from a BMC cause bounded reads and allocations.
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

// TestGoroutines shows that closed connections and consoles leave no goroutine.
func TestGoroutines(t *testing.T) {
	r := newRig(t, nil)
	r.dial(t)
	const slack = 3 // goroutines of the simulator
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
