// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ra

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/links"
)

var update = flag.Bool("update", false, "rewrite the golden file")

var hardware = net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}

func stateful() pxe.Advertisement {
	return pxe.Advertisement{Network: "rack-a", Prefix: netip.MustParsePrefix("2001:db8:0:1::/64"), Mode: pxe.Stateful}
}

func TestGoldenMessages(t *testing.T) {
	stateless := stateful()
	stateless.Mode = pxe.Stateless
	full := stateless
	full.RouterLifetime, full.MTU, full.Search = 30*time.Minute, 9000, []string{"dc1.example", "a..b"}
	full.DNS = []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("2001:db8::53")}
	narrow := stateless
	narrow.Prefix = netip.MustParsePrefix("2001:db8:0:1:8000::/80")
	others := full
	others.DNS = []netip.Addr{netip.MustParseAddr("2001:db8::54"), netip.MustParseAddr("2001:db8::55")}
	before := full
	before.DNS = append(slices.Clone(full.DNS), others.DNS[0])
	forever := stateful()
	forever.RouterLifetime = 24 * time.Hour
	var got strings.Builder
	for _, tc := range []struct {
		name     string
		source   net.HardwareAddr
		networks []pxe.Advertisement
		last     bool
		gone     []pxe.Advertisement
	}{
		{name: "nothing to say", source: hardware},
		{name: "stateful", source: hardware, networks: []pxe.Advertisement{stateful()}},
		{name: "stateless: hosts make addresses", source: hardware, networks: []pxe.Advertisement{stateless}},
		{name: "stateless, but the prefix is not for that", source: hardware, networks: []pxe.Advertisement{narrow}},
		{name: "all there is", source: hardware, networks: []pxe.Advertisement{full}},
		{name: "two networks on a link", source: hardware, networks: []pxe.Advertisement{stateful(), full}},
		{name: "a default router for as long as one can be", source: hardware, networks: []pxe.Advertisement{forever}},
		{name: "a router that goes", source: hardware, networks: []pxe.Advertisement{full}, last: true},
		{name: "a network that is advertised no more", source: hardware, gone: []pxe.Advertisement{full}},
		{name: "one of two", source: hardware, networks: []pxe.Advertisement{stateful()}, gone: []pxe.Advertisement{narrow}},
		{name: "servers that are others now", source: hardware, networks: []pxe.Advertisement{others}, gone: []pxe.Advertisement{before}},
		{name: "from a link without hardware addresses", networks: []pxe.Advertisement{stateful()}},
	} {
		fmt.Fprintf(&got, "=== %s\n", tc.name)
		for line := range slices.Chunk(Message(tc.source, Content{Networks: tc.networks, Gone: tc.gone, Last: tc.last}), 16) {
			fmt.Fprintln(&got, hex.EncodeToString(line))
		}
	}
	const golden = "testdata/messages.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error(diff)
	}
}

func TestSolicitations(t *testing.T) {
	from := netip.MustParseAddr("fe80::1")
	bare := []byte{133, 0, 0, 0, 0, 0, 0, 0}
	sourced := append(slices.Clone(bare), 1, 1, 2, 0, 0, 0, 0, 9)
	for _, tc := range []struct {
		name   string
		packet []byte
		from   netip.Addr
		hops   int
		want   bool
	}{
		{"bare", bare, from, 255, true},
		{"with its source", sourced, from, 255, true},
		{"without an address", bare, netip.IPv6Unspecified(), 255, true},
		{"without an address, with a source", sourced, netip.IPv6Unspecified(), 255, false},
		{"from beyond a router", bare, from, 64, false},
		{"an advertisement", append([]byte{134}, bare[1:]...), from, 255, false},
		{"another code", append([]byte{133, 1}, bare[2:]...), from, 255, false},
		{"cut off", bare[:7], from, 255, false},
		{"an option of no length", append(slices.Clone(bare), 1, 0, 0, 0, 0, 0, 0, 0), from, 255, false},
		{"an option that is cut off", sourced[:12], from, 255, false},
		{"half an option", append(slices.Clone(bare), 1), from, 255, false},
	} {
		if got := isSolicitation(tc.packet, tc.from, tc.hops); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}

func FuzzSolicitation(f *testing.F) {
	f.Add([]byte{133, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, packet []byte) {
		if isSolicitation(packet, netip.MustParseAddr("fe80::1"), 255) && packet[0] != typeSolicitation {
			t.Error("accepted what is none")
		}
	})
}

// The first advertisements are closer together than later ones, and solicitations cause at most
// one in three seconds.
func TestPacing(t *testing.T) {
	start := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	least := func(time.Duration) time.Duration { return 0 }
	most := func(d time.Duration) time.Duration { return d }
	var p pacing
	if !p.isDue(start) {
		t.Error("the first does not go at once")
	}
	for _, want := range []time.Duration{initialInterval, initialInterval, initialInterval, maxInterval} {
		p.done(start, most)
		if got := p.next.Sub(start); got != want {
			t.Errorf("the next after %s, want %s", got, want)
		}
	}
	p.done(start, least)
	if got := p.next.Sub(start); got != minInterval {
		t.Errorf("the next after %s, want %s", got, minInterval)
	}
	sent := 0
	for i := range 60_000 { // a minute with a thousand solicitations per second
		now := start.Add(time.Duration(i) * time.Millisecond)
		p.solicited(now, most)
		if p.isDue(now) {
			sent++
			p.done(now, least)
		}
	}
	if sent != 19 {
		t.Errorf("%d were sent in a minute, want one every three seconds", sent)
	}
}

// wire is an in-memory socket.
type wire struct {
	links  []links.Link
	asks   chan int
	sent   chan string
	closed chan struct{}
	once   sync.Once
}

func newWire(list ...links.Link) *wire {
	return &wire{links: list, asks: make(chan int), sent: make(chan string, 16), closed: make(chan struct{})}
}

func (w *wire) Receive() (int, error) {
	select {
	case i := <-w.asks:
		return i, nil
	case <-w.closed:
		return 0, net.ErrClosed
	}
}

func (w *wire) Links() []links.Link { return w.links }

func (w *wire) Send(message []byte, index int) error {
	w.sent <- fmt.Sprintf("%d %x", index, message)
	return nil
}

func (w *wire) Close() error { w.once.Do(func() { close(w.closed) }); return nil }

type networks []pxe.Advertisement

func (n networks) Advertisements() []pxe.Advertisement { return n }

// A server advertises on its networks, answers solicitations, and withdraws at the end.
func TestServe(t *testing.T) {
	routed := stateful()
	routed.RouterLifetime = time.Hour
	here := links.Link{Index: 3, Name: "eth0", Hardware: hardware, Subnets: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), routed.Prefix}}
	elsewhere := links.Link{Index: 4, Name: "eth1", Subnets: []netip.Prefix{netip.MustParsePrefix("2001:db8:0:2::/64")}}
	w := newWire(here, elsewhere)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- (&Server{Networks: networks{routed}}).Serve(ctx, w) }()
	usual := fmt.Sprintf("3 %x", Message(hardware, Content{Networks: networks{routed}}))
	if got := <-w.sent; got != usual {
		t.Errorf("%s, want %s", got, usual)
	}
	w.asks <- 9 // an interface that is not served
	w.asks <- 3
	if got := <-w.sent; got != usual {
		t.Errorf("%s, want %s", got, usual)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got, want := <-w.sent, fmt.Sprintf("3 %x", Message(hardware, Content{Networks: networks{routed}, Last: true})); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if len(w.sent) > 0 {
		t.Errorf("unexpected message: %s", <-w.sent)
	}
}

// A network is advertised on interfaces with exactly its prefix.
func TestNetworksOn(t *testing.T) {
	for name, tc := range map[string]struct {
		here string
		want bool
	}{
		"its prefix":        {"2001:db8:0:1::/64", true},
		"an address of its": {"2001:db8:0:1::7/64", true},
		"the site's":        {"2001:db8::/48", false},
		"a part of it":      {"2001:db8:0:1::/80", false},
		"a single address":  {"2001:db8:0:1::7/128", false},
		"a neighbor":        {"2001:db8:0:2::/64", false},
		"IPv4":              {"192.0.2.0/24", false},
	} {
		link := links.Link{Subnets: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix(tc.here)}}
		if got := networksOn(link, networks{stateful()}); (len(got) > 0) != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Removed networks are withdrawn once, and changes are advertised soon.
func TestChanges(t *testing.T) {
	routed := stateful()
	routed.RouterLifetime = time.Hour
	served, elsewhere := stateful(), stateful()
	served.DNS = []netip.Addr{netip.MustParseAddr("2001:db8::53")}
	elsewhere.DNS = []netip.Addr{netip.MustParseAddr("2001:db8::54")}
	var says networks
	link := links.Link{Index: 3, Hardware: hardware, Subnets: []netip.Prefix{routed.Prefix}}
	w := newWire(link)
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	states := map[int]*linkState{}
	for i, step := range []struct {
		after time.Duration
		says  networks
		want  *Content // nil means no message
	}{
		{0, nil, nil},
		{recheckEvery, networks{routed}, &Content{Networks: networks{routed}}},
		{recheckEvery, networks{routed}, &Content{Networks: networks{routed}}},
		{recheckEvery, networks{routed}, &Content{Networks: networks{routed}}},
		{recheckEvery, networks{routed}, &Content{Networks: networks{routed}}},
		{recheckEvery, networks{routed}, nil},
		{recheckEvery, networks{stateful()}, &Content{Networks: networks{stateful()}}}, // no router anymore
		{time.Second, nil, nil},
		{recheckEvery, networks{served}, &Content{Networks: networks{served}}},
		{recheckEvery, networks{elsewhere}, &Content{Networks: networks{elsewhere}, Gone: networks{served}}},
		{recheckEvery, nil, &Content{Gone: networks{elsewhere}}},
		{recheckEvery, nil, nil},
		{maxInterval, nil, nil},
		{recheckEvery, networks{routed}, &Content{Networks: networks{routed}}},
		{time.Second, networks{routed}, nil},
	} {
		now, says = now.Add(step.after), step.says
		(&Server{Networks: says}).sendDue(w, states, now)
		got, want := "", ""
		if len(w.sent) > 0 {
			got = <-w.sent
		}
		if step.want != nil {
			want = fmt.Sprintf("3 %x", Message(hardware, *step.want))
		}
		if got != want {
			t.Errorf("step %d: %q, want %q", i, got, want)
		}
	}
	(&Server{Networks: networks(nil)}).withdraw(w, states) // independent of the current networks
	if len(w.sent) != 1 || !strings.HasPrefix(<-w.sent, fmt.Sprintf("3 %x", Message(hardware, Content{Networks: networks{routed}, Last: true}))) {
		t.Error("takes no leave")
	}
}

// Without a default router there is nothing to withdraw.
func TestServeWithoutRouterSendsNoWithdrawal(t *testing.T) {
	w := newWire(links.Link{Index: 3, Name: "eth0", Hardware: hardware, Subnets: []netip.Prefix{stateful().Prefix}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- (&Server{Networks: networks{stateful()}}).Serve(ctx, w) }()
	<-w.sent
	cancel()
	if err := <-done; err != nil || len(w.sent) > 0 {
		t.Errorf("%v, and %d more messages", err, len(w.sent))
	}
}

func TestServeReportsBrokenSocket(t *testing.T) {
	w := newWire()
	_ = w.Close()
	if err := (&Server{Networks: networks{}}).Serve(t.Context(), w); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

// Networks come from a map, and a different order is not a change.
func TestOrderIsNoChange(t *testing.T) {
	first, second := stateful(), stateful()
	second.Network, second.Prefix = "second", netip.MustParsePrefix("2001:db8:0:7::/64")
	here := links.Link{Index: 3, Name: "eth0", Hardware: hardware, Subnets: []netip.Prefix{first.Prefix, second.Prefix}}
	w := newWire(here)
	now := time.Unix(1_000_000, 0)
	states := map[int]*linkState{}
	for _, order := range []networks{{first, second}, {second, first}} {
		s := Server{Networks: order}
		s.sendDue(w, states, now)
		states[here.Index].next = now.Add(time.Hour)
		now = now.Add(recheckEvery)
	}
	if n := len(w.sent); n != 1 {
		t.Errorf("%d messages were sent, want the first alone", n)
	}
}
