// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcpserver"
)

// sent collects what a server sends.
type sent struct {
	net.PacketConn
	answers []Answer
	fail    error
}

func (s *sent) receive([]byte) (int, netip.AddrPort, Link, error) {
	return 0, netip.AddrPort{}, Link{}, net.ErrClosed
}

func (s *sent) send(a Answer, _ Link) error {
	s.answers = append(s.answers, a)
	return s.fail
}

func (s *sent) Close() error { return nil }

// desk is a server without a socket whose clock the test sets.
type desk struct {
	Server
	out    sent
	events []pxe.BootEvent
	log    bytes.Buffer
	now    time.Time
}

func newDesk(t *testing.T, hosts ...pxe.Host) *desk {
	t.Helper()
	d := &desk{now: time.Unix(1_000_000, 0)}
	d.Identity, d.Directory = testIdentity, directory(hosts...)
	d.Observer = pxe.ObserverFunc(func(e pxe.BootEvent) { d.events = append(d.events, e) })
	d.Log = slog.New(slog.NewTextHandler(&d.log, nil))
	d.Now = func() time.Time { return d.now }
	return d
}

// ask handles a packet and returns the sent message and the event.
func (d *desk) ask(m *dhcpv4.DHCPv4) string {
	d.out.answers, d.events = nil, nil
	d.handle(&d.out, Query{Packet: m.ToBytes()}, func(q Query) (Answer, error) { return Reply(d.Identity, d.Directory, q) })
	return d.outcome()
}

func (d *desk) outcome() string {
	var parts []string
	for _, a := range d.out.answers {
		parts = append(parts, a.reply.String())
	}
	for _, e := range d.events {
		parts = append(parts, string(e.Stage))
	}
	return strings.Join(parts, " ")
}

func TestDeclinedAddressIsWithheld(t *testing.T) {
	discover := message(dhcpv4.MessageTypeDiscover)
	request := message(dhcpv4.MessageTypeRequest, serverID(ours), requested(right))
	decline := message(dhcpv4.MessageTypeDecline, serverID(ours), requested(right))
	renew := message(dhcpv4.MessageTypeRequest, ciaddr(right))
	d := newDesk(t, testHost(pxe.LocalDisk))
	for i, step := range []struct {
		in   *dhcpv4.DHCPv4
		wait time.Duration
		want string
	}{
		{in: discover, want: "OFFER Offer"},
		{in: decline, want: "AddressConflict"},
		{in: discover, want: "AddressConflict"},
		{in: request, want: "AddressConflict"},
		{in: discover, wait: dhcpserver.Quarantine - time.Second, want: "AddressConflict"},
		{in: discover, wait: time.Second, want: "OFFER Offer"},
		// Given by another replica and declined: withheld and reported here, too.
		{in: message(dhcpv4.MessageTypeDecline, serverID(theirs), requested(right)), want: ""},
		{in: discover, want: "AddressConflict"},
		// The host uses the address after all.
		{in: renew, want: "ACK Ack"},
		{in: discover, want: "OFFER Offer"},
		// The address of another host.
		{in: message(dhcpv4.MessageTypeDecline, serverID(ours), requested(wrong)), want: ""},
		{in: discover, want: "OFFER Offer"},
		{in: message(dhcpv4.MessageTypeRelease, serverID(ours), ciaddr(right)), want: ""},
		{in: discover, want: "OFFER Offer"},
	} {
		d.now = d.now.Add(step.wait)
		if got := d.ask(step.in); got != step.want {
			t.Fatalf("step %d: got %q, want %q", i, got, step.want)
		}
	}
	if lines := strings.Count(d.log.String(), "Another machine uses the address"); lines != 2 {
		t.Errorf("logged %d times, want once in each of two times %s:\n%s", lines, dhcpserver.Quiet, d.log.String())
	}
	d.now = d.now.Add(dhcpserver.Quiet)
	d.ask(decline)
	if lines := strings.Count(d.log.String(), "Another machine uses the address"); lines != 3 {
		t.Errorf("logged %d times after another %s, want once more", lines, dhcpserver.Quiet)
	}
}

func TestOtherServersAreReported(t *testing.T) {
	host, second := testHost(pxe.Agent), testHost(pxe.Agent)
	second.MAC, second.Address = net.HardwareAddr{0x52, 0x54, 0, 0, 0, 2}, netip.MustParsePrefix("192.0.2.99/24")
	d := newDesk(t, host, second)
	took := func(server string, who ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
		return message(dhcpv4.MessageTypeRequest, append([]dhcpv4.Modifier{serverID(server), requested("192.0.2.200")}, who...)...)
	}
	for _, in := range []*dhcpv4.DHCPv4{took(theirs), took(theirs), took(theirs, mac(second.MAC.String())), took("192.0.2.3")} {
		if got := d.ask(in); got != string(pxe.StageOtherServer) {
			t.Errorf("got %q", got)
		}
	}
	if lines := strings.Count(d.log.String(), "Another DHCP server"); lines != 2 {
		t.Errorf("logged %d times, want once for each of two servers:\n%s", lines, d.log.String())
	}
	if !strings.Contains(d.log.String(), "took 192.0.2.200 from DHCP server 192.0.2.2") {
		t.Errorf("the log does not say what was given:\n%s", d.log.String())
	}
}

// A server above the limit is not remembered until another was silent for a while. So a real
// server is reported again after an attacker has forged many.
func TestRogueServersAreBounded(t *testing.T) {
	var o rogueServers
	start := time.Unix(1_000_000, 0)
	madeUp := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}) }
	for i := range maxRogueServers {
		if known, forgotten := o.see(madeUp(i), start.Add(time.Duration(i)*time.Second)); !known || forgotten.IsValid() {
			t.Errorf("%s: known %t, in the place of %s", madeUp(i), known, forgotten)
		}
	}
	real := netip.MustParseAddr(theirs)
	for _, step := range []struct {
		server    netip.Addr
		after     time.Duration
		known     bool
		forgotten netip.Addr
	}{
		{real, time.Minute, false, netip.Addr{}},
		{madeUp(0), time.Minute, true, netip.Addr{}}, // seen again
		{real, dhcpserver.Quiet, false, netip.Addr{}},
		{real, dhcpserver.Quiet + time.Second, true, madeUp(1)},
		{real, dhcpserver.Quiet + 2*time.Second, true, netip.Addr{}},
	} {
		if known, forgotten := o.see(step.server, start.Add(step.after)); known != step.known || forgotten != step.forgotten {
			t.Errorf("after %s %s: known %t in the place of %s, want %t, %s", step.after, step.server, known, forgotten, step.known, step.forgotten)
		}
	}
}

// replyOf builds another server's reply to the test host.
func replyOf(kind dhcpv4.MessageType, server, yiaddr string, change ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	m := message(kind, append([]dhcpv4.Modifier{serverID(server)}, change...)...)
	m.OpCode = dhcpv4.OpcodeBootReply
	m.YourIPAddr = net.ParseIP(yiaddr)
	return m
}

func TestInspectReply(t *testing.T) {
	offer, ack := dhcpv4.MessageTypeOffer, dhcpv4.MessageTypeAck
	file := func(m *dhcpv4.DHCPv4) { m.BootFileName = "pxelinux.0\x01" }
	for _, tc := range []struct {
		name string
		in   *dhcpv4.DHCPv4
		mode pxe.Mode
		plan pxe.PlanKind
		want string // the event's detail; "" means no event
	}{
		{"offer of another address", replyOf(offer, theirs, "192.0.2.200"), pxe.Reserve, pxe.Agent, "DHCP server 192.0.2.2 gives 192.0.2.200, but 192.0.2.17 is recorded"},
		{"acknowledgment of one", replyOf(ack, theirs, "192.0.2.200"), pxe.Reserve, pxe.LocalDisk, "DHCP server 192.0.2.2 gives 192.0.2.200, but 192.0.2.17 is recorded"},
		{"proxyDHCP", replyOf(offer, theirs, "0.0.0.0", file), pxe.Reserve, pxe.Agent, `proxyDHCP server 192.0.2.2 offers the boot file "0x7078656c696e75782e3001"`},
		{"a replica", replyOf(offer, theirs, right), pxe.Reserve, pxe.Agent, ""},
		{"ourselves", replyOf(offer, ours, "192.0.2.200"), pxe.Reserve, pxe.Agent, ""},
		{"parameters", replyOf(ack, theirs, "0.0.0.0"), pxe.Reserve, pxe.Agent, ""},
		{"a refusal", replyOf(dhcpv4.MessageTypeNak, theirs, "0.0.0.0"), pxe.Reserve, pxe.Agent, ""},
		{"where another server is meant to be", replyOf(offer, theirs, "192.0.2.200"), pxe.Proxy, pxe.Agent, ""},
		{"a host that is not ours to boot", replyOf(offer, theirs, "192.0.2.200"), pxe.Reserve, pxe.None, ""},
		{"an unknown client", replyOf(offer, theirs, "192.0.2.200", mac("52:54:00:ff:ff:ff")), pxe.Reserve, pxe.Agent, ""},
		{"a request", message(dhcpv4.MessageTypeRequest, serverID(theirs)), pxe.Reserve, pxe.Agent, ""},
		{"no host's", func() *dhcpv4.DHCPv4 {
			m := replyOf(offer, theirs, "192.0.2.200")
			m.Options.Del(dhcpv4.OptionServerIdentifier)
			return m
		}(), pxe.Reserve, pxe.Agent, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			host := testHost(tc.plan)
			host.Mode = tc.mode
			d := newDesk(t, host)
			d.handleReply(Query{Packet: tc.in.ToBytes(), Link: Link{Name: "eth1"}})
			var want []pxe.BootEvent
			if tc.want != "" {
				want = []pxe.BootEvent{{MAC: host.MAC, Host: "default/server-1", Stage: pxe.StageOtherServer, Detail: tc.want,
					Port: pxe.Port{Interface: "eth1"}, At: d.now}}
			}
			if diff := cmp.Diff(want, d.events, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Error(diff)
			}
		})
	}
}
