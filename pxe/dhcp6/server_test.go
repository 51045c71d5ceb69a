// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp6

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcpserver"
	"github.com/ingot-metal/ingot/test/eventually"
)

// wire is an in-memory socket.
type wire struct {
	in     chan Query
	out    chan Answer
	closed chan struct{}
	once   sync.Once
	broken error
}

func newWire() *wire {
	return &wire{in: make(chan Query), out: make(chan Answer, 1), closed: make(chan struct{})}
}

func (w *wire) Receive([]byte) (Query, error) {
	select {
	case q := <-w.in:
		return q, nil
	case <-w.closed:
		return Query{}, net.ErrClosed
	}
}

func (w *wire) Send(a Answer, _ Link) error {
	if w.broken != nil {
		return w.broken
	}
	w.out <- a
	return nil
}

func (w *wire) Close() error { w.once.Do(func() { close(w.closed) }); return nil }

// kept is a Conn that keeps replies.
type kept struct {
	wire
	answers []Answer
}

func (c *kept) Send(a Answer, _ Link) error { c.answers = append(c.answers, a); return nil }

func TestServe(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := NewMetrics(registry); err != nil || again.messages != metrics.messages {
		t.Errorf("a second server of the process: %v", err)
	}
	w := newWire()
	s := Server{Identity: testIdentity, Directory: directory(testHost(pxe.Agent)), Metrics: metrics}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, w) }()
	w.in <- Query{Packet: []byte{1}, From: linkLocal}
	w.in <- Query{Packet: message(dhcpv6.MessageTypeSolicit, client(), ia(1)).ToBytes(), From: netip.MustParseAddrPort("[fe80::9]:546")}
	w.in <- Query{Packet: message(dhcpv6.MessageTypeSolicit, client(), ia(1)).ToBytes(), From: linkLocal}
	if a := <-w.out; a.reply != dhcpv6.MessageTypeAdvertise || a.To != linkLocal {
		t.Errorf("%s to %s", a.reply, a.To)
	}
	for _, labels := range [][2]string{{"other", "malformed"}, {"solicit", "unknown"}, {"solicit", "advertise"}} {
		eventually.Wait{Interval: time.Millisecond}.Until(t, fmt.Sprintf("a count of %v", labels), eventually.Holds(func() bool {
			return testutil.ToFloat64(metrics.messages.WithLabelValues(labels[0], labels[1])) == 1 // the other reader may handle it
		}))
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestServeReportsBrokenSocket(t *testing.T) {
	w := newWire()
	s := Server{Identity: testIdentity, Directory: directory()}
	_ = w.Close()
	if err := s.Serve(t.Context(), w); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

// A declined address is withheld, but the host that has it may renew it.
func TestDeclined(t *testing.T) {
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	var events []pxe.BootEvent
	s := Server{Identity: testIdentity, Directory: directory(testHost(pxe.LocalDisk)), Now: func() time.Time { return now },
		Observer: pxe.ObserverFunc(func(e pxe.BootEvent) { events = append(events, e) })}
	var c kept
	send := func(m *dhcpv6.Message) dhcpv6.MessageType {
		c.answers = nil
		s.handle(&c, Query{Packet: m.ToBytes(), From: linkLocal})
		if len(c.answers) == 0 {
			return 0
		}
		return c.answers[0].reply
	}
	solicit := message(dhcpv6.MessageTypeSolicit, client(), ia(1))
	renew := message(dhcpv6.MessageTypeRenew, client(), chosen(), ia(1, right))
	if got := send(message(dhcpv6.MessageTypeDecline, client(), chosen(), ia(1, right))); got != dhcpv6.MessageTypeReply {
		t.Errorf("the decline is answered by %s", got)
	}
	if got := send(solicit); got != 0 {
		t.Errorf("given again at once: %s", got)
	}
	if last := events[len(events)-1]; last.Stage != pxe.StageConflict {
		t.Errorf("got event %+v", last)
	}
	if got := send(renew); got != dhcpv6.MessageTypeReply {
		t.Errorf("a renewal is answered by %s", got)
	}
	now = now.Add(dhcpserver.Quarantine)
	if got := send(solicit); got != dhcpv6.MessageTypeAdvertise {
		t.Errorf("after the quarantine: %s", got)
	}
}

func TestSendFails(t *testing.T) {
	var event pxe.BootEvent
	s := Server{Identity: testIdentity, Directory: directory(testHost(pxe.LocalDisk)), Observer: pxe.ObserverFunc(func(e pxe.BootEvent) { event = e })}
	w := newWire()
	w.broken = errors.New("network is unreachable")
	s.handle(w, Query{Packet: message(dhcpv6.MessageTypeSolicit, client(), ia(1)).ToBytes(), From: linkLocal})
	if event.Stage != pxe.StageFailed {
		t.Errorf("got event %+v", event)
	}
}

// A flood neither exceeds the memory limits nor stops the service.
func TestFloods(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	solicit := message(dhcpv6.MessageTypeSolicit, client(), ia(1)).ToBytes()
	for name, next := range map[string]func(int) Query{
		"unknown clients": func(i int) Query {
			a := linkLocal.Addr().As16()
			binary.BigEndian.PutUint16(a[14:], uint16(i))
			binary.BigEndian.PutUint16(a[8:], uint16(i>>16)+1)
			return Query{Packet: solicit, From: netip.AddrPortFrom(netip.AddrFrom16(a), 546)}
		},
		"a host's name": func(int) Query { return Query{Packet: solicit, From: linkLocal} },
		"declines": func(int) Query {
			return Query{Packet: message(dhcpv6.MessageTypeDecline, client(), chosen(), ia(1, right)).ToBytes(), From: linkLocal}
		},
		"noise": func(int) Query {
			b := make([]byte, random.IntN(300))
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			return Query{Packet: b, From: linkLocal}
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
			s := Server{Identity: testIdentity, Directory: directory(testHost(pxe.Agent)), Now: func() time.Time { return now }}
			var c kept
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for i := range 20_000 {
				s.handle(&c, next(i))
				c.answers = nil
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
				t.Errorf("it keeps %d KiB", grown>>10)
			}
			now = now.Add(dhcpserver.Quarantine)
			s.handle(&c, Query{Packet: solicit, From: linkLocal})
			if len(c.answers) != 1 || c.answers[0].reply != dhcpv6.MessageTypeAdvertise {
				t.Errorf("afterwards the host is not served: %v", c.answers)
			}
		})
	}
}

// FuzzServer: no sequence of packets causes a panic or gives a client another host's address.
func FuzzServer(f *testing.F) {
	for _, in := range []dhcpv6.DHCPv6{
		message(dhcpv6.MessageTypeSolicit, client(), ia(1), uefi()), message(dhcpv6.MessageTypeRequest, client(), chosen(), ia(1, right), uefiHTTP()),
		message(dhcpv6.MessageTypeInformationRequest, agent(), asks(dhcpv6.OptionVendorOpts)),
		message(dhcpv6.MessageTypeInformationRequest, ipxe()), message(dhcpv6.MessageTypeDecline, client(), chosen(), ia(1, right)),
		relayed(message(dhcpv6.MessageTypeRebind, client(), ia(1, wrong)), "2001:db8::fe", linkLocal.Addr().String(), dhcpv6.OptInterfaceID([]byte{1})),
	} {
		f.Add(in.ToBytes(), uint8(1))
	}
	f.Fuzz(func(t *testing.T, packet []byte, mode uint8) {
		host := testHost(pxe.Agent)
		host.IPv6.Mode = pxe.IPv6Mode(mode % 3)
		s := Server{Identity: testIdentity, Directory: directory(host), Log: slog.New(strictLog{t: t})}
		var c kept
		s.handle(&c, Query{Packet: packet, From: linkLocal, Unicast: mode > 127})
		for _, a := range c.answers {
			p, err := dhcpv6.FromBytes(a.Packet)
			if err != nil {
				t.Fatalf("the reply does not parse: %v", err)
			}
			for p.IsRelay() {
				p = p.(*dhcpv6.RelayMessage).Options.RelayMessage()
			}
			for _, na := range p.(*dhcpv6.Message).Options.IANA() {
				for _, address := range na.Options.Addresses() {
					if address.ValidLifetime > 0 && address.IPv6Addr.String() != right {
						t.Errorf("gives %s", address.IPv6Addr)
					}
				}
			}
		}
	})
}

// strictLog fails the test on errors, because the server logs panics as errors.
type strictLog struct {
	slog.Handler
	t *testing.T
}

func (strictLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (l strictLog) Handle(_ context.Context, r slog.Record) error {
	l.t.Error(r.Message)
	r.Attrs(func(a slog.Attr) bool { l.t.Log(a); return true })
	return nil
}
