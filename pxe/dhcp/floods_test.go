// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/internal/ttlset"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcpserver"
)

// retained returns the heap in use, in bytes.
func retained() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A flood neither exceeds the memory limits nor stops the service: 100,000 unknown clients
// (starvation), a host's MAC address in 100,000 packets, thousands of other servers, and
// malformed packets.
func TestFloods(t *testing.T) {
	const packets = 100_000
	random := rand.New(rand.NewPCG(1, 2))
	unknown := message(dhcpv4.MessageTypeDiscover).ToBytes()
	spoofed := message(dhcpv4.MessageTypeRequest, serverID("10.0.0.1"), requested("192.0.2.200")).ToBytes()
	other := bytes.Index(spoofed, []byte{54, 4, 10, 0, 0, 1})
	relayed := message(dhcpv4.MessageTypeDiscover, giaddr("10.0.0.1")).ToBytes()
	for name, next := range map[string]func(int) []byte{
		"unknown clients": func(i int) []byte {
			binary.BigEndian.PutUint32(unknown[30:], uint32(i)) // chaddr
			return unknown
		},
		"a host's name": func(int) []byte { return message(dhcpv4.MessageTypeDiscover).ToBytes() },
		"declines":      func(int) []byte { return message(dhcpv4.MessageTypeDecline, requested(right)).ToBytes() },
		"other servers": func(i int) []byte {
			binary.BigEndian.PutUint32(spoofed[other+2:], uint32(0x0a000000+i))
			return spoofed
		},
		"relays": func(i int) []byte {
			binary.BigEndian.PutUint32(relayed[24:], uint32(0x0a000000+i)) // giaddr
			return relayed
		},
		"noise": func(int) []byte {
			b := make([]byte, random.IntN(700))
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			return b
		},
		"oversize": func(int) []byte { return append(bytes.Clone(unknown[:239]), bytes.Repeat([]byte{200}, maxPacket)...) },
	} {
		t.Run(name, func(t *testing.T) {
			host := testHost(pxe.Agent)
			d := newDesk(t, host)
			d.Observer = nil // it limits its own memory
			decide := func(q Query) (Answer, error) { return Reply(d.Identity, d.Directory, q) }
			before := retained()
			for i := range packets {
				d.out.answers = nil
				d.handle(&d.out, Query{Packet: next(i)}, decide)
			}
			d.out.answers = nil
			if grown := retained() - before; grown > 16<<20 {
				t.Errorf("%d packets made it keep %d KiB", packets, grown>>10)
			}
			if n := d.memory.Len(); n > 2*ttlset.DefaultMax {
				t.Errorf("%d things are remembered, at most %d may be", n, 2*ttlset.DefaultMax)
			}
			if lines := strings.Count(d.log.String(), "level=WARN"); lines > maxRogueServers+1 {
				t.Errorf("%d warnings, want at most one for each of %d other servers, and one for the rest", lines, maxRogueServers)
			}
			d.now = d.now.Add(dhcpserver.Quarantine)
			d.handle(&d.out, Query{Packet: message(dhcpv4.MessageTypeDiscover).ToBytes()}, decide)
			if len(d.out.answers) != 1 || d.out.answers[0].reply != dhcpv4.MessageTypeOffer {
				t.Errorf("afterwards the host is not served: %v", d.out.answers)
			}
		})
	}
}

// An answer goes only to the segment, to the host's network, or to its relay. So the server
// cannot be used for reflection attacks.
func TestNoReflection(t *testing.T) {
	host := testHost(pxe.Agent)
	host.Relays = []netip.Addr{netip.MustParseAddr("10.255.0.7")}
	allowed := func(to netip.Addr) bool {
		return to == limitedBroadcast || host.IPv4Subnet().Contains(to) || to == host.Relays[0]
	}
	victims := []string{"203.0.113.9", "10.0.0.1", "192.0.3.1", "255.255.255.254", "127.0.0.1", "224.0.0.1"}
	for _, victim := range victims {
		for kind := dhcpv4.MessageTypeDiscover; kind <= dhcpv4.MessageTypeInform; kind++ {
			for _, in := range []*dhcpv4.DHCPv4{
				message(kind, ciaddr(victim)),
				message(kind, giaddr(victim)),
				message(kind, ciaddr(victim), requested(right)),
				message(kind, ciaddr(victim), requested(right), class("IngotAgent")),
				message(kind, giaddr(victim), ciaddr(victim), requested(right)),
				message(kind, requested(victim), serverID(ours)),
				message(kind, giaddr(victim), requested(right), info("5:0x0aff0001", "11:0xcb007109")),
				message(kind, giaddr(victim), requested(right), info("5:0xc00002fe")), // a link of the network
				message(kind, requested(right), class("PXEClient:Arch:00007:UNDI:003016")),
			} {
				q := Query{Packet: in.ToBytes(), From: netip.AddrPortFrom(netip.MustParseAddr(victim), 4011)}
				for _, decide := range []func(Identity, pxe.Directory, Query) (Answer, error){Reply, ReplyBINL} {
					a, err := decide(testIdentity, directory(host), q)
					if err != nil {
						t.Fatal(err)
					}
					if a.Packet != nil && !allowed(a.To.Addr()) {
						t.Errorf("%s is sent to %s:\n%s", kind, a.To, in.Summary())
					}
				}
			}
		}
	}
}

// A distant sender cannot decline a host's address, which would prevent the host from booting.
func TestDeclinedFromAfar(t *testing.T) {
	host := testHost(pxe.LocalDisk)
	host.Relays = []netip.Addr{netip.MustParseAddr("10.255.0.7")}
	decline := []dhcpv4.Modifier{serverID(ours), requested(right)}
	for _, tc := range []struct {
		name, from string
		in         []dhcpv4.Modifier
		heard      bool
	}{
		{"on the segment", "0.0.0.0:68", nil, true},
		{"by an address of the network", "192.0.2.99:68", nil, true},
		{"passed on by a relay of the network", "192.0.2.254:67", []dhcpv4.Modifier{giaddr("192.0.2.254")}, true},
		{"passed on by a relay that is named", "10.255.0.7:67", []dhcpv4.Modifier{giaddr("192.0.2.254")}, true},
		{"from afar", "203.0.113.9:68", nil, false},
		{"from afar in a relay's name", "203.0.113.9:67", []dhcpv4.Modifier{giaddr("192.0.2.254")}, false},
		{"from afar by a relay of its own", "203.0.113.9:67", []dhcpv4.Modifier{giaddr("203.0.113.9"), info("5:0xc00002fe")}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newDesk(t, host)
			q := Query{Packet: message(dhcpv4.MessageTypeDecline, append(decline, tc.in...)...).ToBytes(), From: netip.MustParseAddrPort(tc.from)}
			d.handle(&d.out, q, func(q Query) (Answer, error) { return Reply(d.Identity, d.Directory, q) })
			if why := d.memory.Withheld(netip.MustParseAddr(right), d.now); (why != "") != tc.heard {
				t.Errorf("the address rests: %q", why)
			}
		})
	}
}

// FuzzServer: no sequence of packets causes a panic or gives a client another host's address.
func FuzzServer(f *testing.F) {
	requests, _ := filepath.Glob("testdata/*.request")
	for _, path := range requests {
		f.Add(readHex(f, path), uint8(0), uint8(0))
	}
	f.Add(message(dhcpv4.MessageTypeDecline, requested(right)).ToBytes(), uint8(1), uint8(1))
	f.Add(replyOf(dhcpv4.MessageTypeOffer, theirs, "192.0.2.200").ToBytes(), uint8(0), uint8(2))
	f.Fuzz(func(t *testing.T, packet []byte, mode, where uint8) {
		host := testHost(pxe.Agent)
		host.Mode = pxe.Mode(mode % 2)
		id, dir := testIdentity, directory(host)
		s := Server{Identity: id, Directory: dir, Log: slog.New(strictLog{t})}
		var out sent
		q := Query{Packet: packet, From: netip.MustParseAddrPort("192.0.2.17:68")}
		switch where % 3 {
		case 0:
			s.handle(&out, q, func(q Query) (Answer, error) { return Reply(id, dir, q) })
		case 1:
			s.handle(&out, q, func(q Query) (Answer, error) { return ReplyBINL(id, dir, q) })
		case 2:
			s.handleReply(q)
		}
		for _, a := range out.answers {
			r, err := dhcpv4.FromBytes(a.Packet)
			if err != nil {
				t.Fatalf("reply does not parse: %v", err)
			}
			if y := r.YourIPAddr; !y.Equal(net.IPv4zero) && (host.Mode == pxe.Proxy || !y.Equal(host.Address.Addr().AsSlice())) {
				t.Errorf("mode %s gives %s", host.Mode, y)
			}
			if len(a.Packet) > largest {
				t.Errorf("%d bytes do not fit a frame", len(a.Packet))
			}
		}
	})
}

// strictLog fails the test on errors, because the server logs panics as errors.
type strictLog struct{ t *testing.T }

func (l strictLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (l strictLog) Handle(_ context.Context, r slog.Record) error {
	l.t.Error(r.Message)
	r.Attrs(func(a slog.Attr) bool { l.t.Log(a); return true })
	return nil
}

func (l strictLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l strictLog) WithGroup(string) slog.Handler      { return l }

func TestFindingIsLoggedAgainAfterQuiet(t *testing.T) {
	d := newDesk(t, testHost(pxe.Agent))
	relayed := message(dhcpv4.MessageTypeDiscover, giaddr("10.0.0.1"))
	for i, step := range []struct {
		wait time.Duration
		logs int
	}{{0, 1}, {time.Second, 1}, {dhcpserver.Quiet - 2*time.Second, 1}, {time.Second, 2}} {
		d.now = d.now.Add(step.wait)
		if got := d.ask(relayed); got != string(pxe.StageWrongNetwork) {
			t.Fatalf("step %d: got %q", i, got)
		}
		if got := bytes.Count(d.log.Bytes(), []byte("another network")); got != step.logs {
			t.Errorf("step %d: logged %d times, want %d\n%s", i, got, step.logs, d.log.String())
		}
	}
}
