// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/pxe"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var testIdentity = Identity{
	Address: netip.MustParseAddr("192.0.2.1"),
	BaseURL: "http://192.0.2.1:8880",
	Loaders: DefaultLoaders(),
}

func testHost(kind pxe.PlanKind) pxe.Host {
	return pxe.Host{
		Namespace: "default", Name: "server-1",
		MAC:       net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56},
		Hostname:  "server-1",
		Address:   netip.MustParsePrefix("192.0.2.17/24"),
		Gateway:   netip.MustParseAddr("192.0.2.254"),
		DNS:       []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("2001:db8::53")},
		NTP:       []netip.Addr{netip.MustParseAddr("192.0.2.123")},
		Domain:    "example.org",
		MTU:       9000,
		LeaseTime: time.Hour,
		Network:   "rack-a",
		Search:    []string{"example.org", "lab.example.org"},
		Routes:    []pxe.Route{{Destination: netip.MustParsePrefix("198.51.100.0/24"), Gateway: netip.MustParseAddr("192.0.2.253")}},
		Plan: pxe.Plan{Kind: kind, Agent: pxe.AgentBoot{
			Server: "192.0.2.1:8843", Pin: "sha256/" + strings.Repeat("A", 43), Token: agentapi.Sensitive("token-of-the-order")}},
	}
}

func directory(hosts ...pxe.Host) pxe.Table {
	t := pxe.Table{}
	for _, h := range hosts {
		t[h.MAC.String()] = h
	}
	return t
}

// readHex reads a packet from hex digits with white space and comment lines.
func readHex(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			digits.WriteString(strings.Join(strings.Fields(line), ""))
		}
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return b
}

// TestGoldenPackets answers packets of real clients, captured on the lab's switch from SeaBIOS
// and OVMF in QEMU 7.2 and from Debian's iPXE. Each golden file has the answers to one request
// under all plans.
func TestGoldenPackets(t *testing.T) {
	requests, err := filepath.Glob("testdata/*.request")
	if err != nil || len(requests) == 0 {
		t.Fatalf("no requests: %v", err)
	}
	for _, path := range requests {
		name := strings.TrimSuffix(path, ".request")
		t.Run(filepath.Base(name), func(t *testing.T) {
			packet := readHex(t, path)
			bindings := &pxe.AddressBindings{}
			bindings.Bind(netip.MustParseAddr(right), testHost(pxe.Agent).MAC)
			var got strings.Builder
			for _, mode := range []pxe.Mode{pxe.Reserve, pxe.Proxy} {
				for _, kind := range []pxe.PlanKind{pxe.None, pxe.LocalDisk, pxe.Agent} {
					host := testHost(kind)
					host.Mode = mode
					decide, q := Reply, Query{Packet: packet, Bindings: bindings}
					if strings.HasSuffix(name, ".binl") {
						decide, q.From = ReplyBINL, netip.MustParseAddrPort("192.0.2.17:4011")
					}
					answer, err := decide(testIdentity, directory(host), q)
					if err != nil {
						t.Fatal(err)
					}
					fmt.Fprintf(&got, "=== mode %s, plan %s\n%s", mode, kind, describe(t, answer))
				}
			}
			golden := name + ".golden"
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
		})
	}
}

// describe formats an answer for people, with all fields and options, followed by its bytes.
func describe(t *testing.T, a Answer) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "event: %s %q\n", a.Event.Stage, a.Event.Detail)
	if a.Packet == nil {
		b.WriteString("no reply\n")
		return b.String()
	}
	p, err := dhcpv4.FromBytes(a.Packet)
	if err != nil {
		t.Fatal(err)
	}
	to := a.To.String()
	if a.Hardware != nil {
		to += ", by a frame to " + a.Hardware.String()
	}
	fmt.Fprintf(&b, "to: %s\n%s", to, strings.ReplaceAll(p.Summary(), "\x00", `\0`))
	for line := range slices.Chunk(a.Packet, 32) {
		fmt.Fprintf(&b, "%x\n", line)
	}
	return b.String()
}

// message builds a request of a plain client.
func message(kind dhcpv4.MessageType, change ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	m := &dhcpv4.DHCPv4{
		OpCode: dhcpv4.OpcodeBootRequest, HWType: 1,
		TransactionID: dhcpv4.TransactionID{1, 2, 3, 4},
		ClientHWAddr:  net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56},
		ClientIPAddr:  net.IPv4zero, YourIPAddr: net.IPv4zero, ServerIPAddr: net.IPv4zero, GatewayIPAddr: net.IPv4zero,
		Options: dhcpv4.Options{},
	}
	m.UpdateOption(dhcpv4.OptMessageType(kind))
	for _, c := range change {
		c(m)
	}
	return m
}

func ciaddr(ip string) dhcpv4.Modifier {
	return func(m *dhcpv4.DHCPv4) { m.ClientIPAddr = net.ParseIP(ip).To4() }
}

func giaddr(ip string) dhcpv4.Modifier {
	return func(m *dhcpv4.DHCPv4) { m.GatewayIPAddr = net.ParseIP(ip).To4() }
}

func mac(text string) dhcpv4.Modifier {
	return func(m *dhcpv4.DHCPv4) { m.ClientHWAddr, _ = net.ParseMAC(text) }
}

func requested(ip string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.ParseIP(ip)))
}

func serverID(ip string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP(ip)))
}

func broadcastFlag(m *dhcpv4.DHCPv4) { m.SetBroadcast() }

func class(text string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptClassIdentifier(text))
}

func option(code uint8, value ...byte) dhcpv4.Modifier {
	return dhcpv4.WithGeneric(dhcpv4.GenericOptionCode(code), value)
}

const (
	ours   = "192.0.2.1"
	theirs = "192.0.2.2"
	right  = "192.0.2.17"
	wrong  = "192.0.2.18"
)

// TestRequestRules tests RFC 2131 table 4 and section 4.3. The outcome is
// "<message> <yiaddr> <destination>", or "" for silence.
func TestRequestRules(t *testing.T) {
	const (
		broadcast = " 255.255.255.255:68"
		frame     = " 192.0.2.17:68 frame"
	)
	discover, request := dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest
	for _, tc := range []struct {
		name  string
		in    *dhcpv4.DHCPv4
		plan  pxe.PlanKind
		want  string
		stage pxe.Stage
	}{
		{"discover", message(discover), pxe.LocalDisk, "OFFER 192.0.2.17" + frame, pxe.StageOffer},
		{"discover, broadcast flag", message(discover, broadcastFlag), pxe.LocalDisk, "OFFER 192.0.2.17" + broadcast, pxe.StageOffer},
		{"discover for another address", message(discover, requested(wrong)), pxe.LocalDisk, "OFFER 192.0.2.17" + frame, pxe.StageOffer},
		{"discover of an unknown client", message(discover, mac("52:54:00:ff:ff:ff")), pxe.LocalDisk, "", ""},
		{"discover under no plan", message(discover), pxe.None, "", pxe.StageSilent},
		{"selecting us", message(request, serverID(ours), requested(right)), pxe.LocalDisk, "ACK 192.0.2.17" + frame, pxe.StageAck},
		{"selecting a replica", message(request, serverID(theirs), requested(right)), pxe.LocalDisk, "", ""},
		{"selecting another server", message(request, serverID(theirs), requested(wrong)), pxe.LocalDisk, "", pxe.StageOtherServer},
		{"selecting another server under no plan", message(request, serverID(theirs), requested(wrong)), pxe.None, "", ""},
		{"selecting us, wrong address", message(request, serverID(ours), requested(wrong)), pxe.LocalDisk, "NAK 0.0.0.0" + broadcast, pxe.StageNak},
		{"PXE selecting us, wrong address", message(request, serverID(ours), requested(wrong), class("PXEClient:Arch:00000:UNDI:002001")), pxe.Agent, "", pxe.StageSilent},
		{"init-reboot", message(request, requested(right)), pxe.LocalDisk, "ACK 192.0.2.17" + frame, pxe.StageAck},
		{"init-reboot, moved rack", message(request, requested("198.51.100.5")), pxe.LocalDisk, "NAK 0.0.0.0" + broadcast, pxe.StageNak},
		{"renewing or rebinding", message(request, ciaddr(right)), pxe.LocalDisk, "ACK 192.0.2.17 192.0.2.17:68", pxe.StageAck},
		{"renewing a wrong address", message(request, ciaddr(wrong)), pxe.LocalDisk, "NAK 0.0.0.0" + broadcast, pxe.StageNak},
		{"request without any address", message(request), pxe.LocalDisk, "", pxe.StageSilent},
		{"relayed discover", message(discover, giaddr("192.0.2.254")), pxe.LocalDisk, "OFFER 192.0.2.17 192.0.2.254:67", pxe.StageOffer},
		{"relayed wrong request", message(request, requested(wrong), giaddr("192.0.2.254")), pxe.LocalDisk, "NAK 0.0.0.0 192.0.2.254:67", pxe.StageNak},
		{"inform", message(dhcpv4.MessageTypeInform, ciaddr("192.0.2.99")), pxe.LocalDisk, "ACK 0.0.0.0 192.0.2.99:68", pxe.StageAck},
		{"inform that a relay passed on", message(dhcpv4.MessageTypeInform, ciaddr(right), giaddr("192.0.2.254")), pxe.LocalDisk, "ACK 0.0.0.0 192.0.2.17:68", pxe.StageAck},
		{"inform of our agent", message(dhcpv4.MessageTypeInform, ciaddr(right), class("IngotAgent")), pxe.Agent, "ACK 0.0.0.0 192.0.2.17:68", pxe.StageAck},
		{"inform of our agent from another's address", message(dhcpv4.MessageTypeInform, ciaddr("192.0.2.99"), class("IngotAgent")), pxe.Agent, "", pxe.StageSilent},
		{"inform of firmware from another's address", message(dhcpv4.MessageTypeInform, ciaddr("192.0.2.99"), class("PXEClient:Arch:00007:UNDI:003000")), pxe.Agent, "", pxe.StageSilent},
		{"inform without an address", message(dhcpv4.MessageTypeInform), pxe.LocalDisk, "", pxe.StageSilent},
		{"inform that points elsewhere", message(dhcpv4.MessageTypeInform, ciaddr("203.0.113.9")), pxe.LocalDisk, "", pxe.StageSilent},
		{"decline", message(dhcpv4.MessageTypeDecline, serverID(ours), requested(right)), pxe.LocalDisk, "", pxe.StageConflict},
		{"decline of another address", message(dhcpv4.MessageTypeDecline, serverID(ours), requested(wrong)), pxe.LocalDisk, "", ""},
		{"decline of a replica's", message(dhcpv4.MessageTypeDecline, serverID(theirs), requested(right)), pxe.LocalDisk, "", ""},
		{"release", message(dhcpv4.MessageTypeRelease, serverID(ours), ciaddr(right)), pxe.LocalDisk, "", ""},
		{"our agent", message(discover, class("IngotAgent")), pxe.Agent, "OFFER 192.0.2.17" + frame, pxe.StageOffer},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := Reply(testIdentity, directory(testHost(tc.plan)), Query{Packet: tc.in.ToBytes()})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if a.Packet != nil {
				r, err := dhcpv4.FromBytes(a.Packet)
				if err != nil {
					t.Fatal(err)
				}
				got = fmt.Sprintf("%s %s %s", r.MessageType(), r.YourIPAddr, a.To)
				if a.Hardware != nil {
					got += " frame"
				}
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if a.Event.Stage != tc.stage {
				t.Errorf("event %q (%s), want %q", a.Event.Stage, a.Event.Detail, tc.stage)
			}
		})
	}
}

func TestHostWithoutAddressIsNotAnswered(t *testing.T) {
	host := testHost(pxe.Agent)
	host.Address = netip.Prefix{}
	a, err := Reply(testIdentity, directory(host), Query{Packet: message(dhcpv4.MessageTypeDiscover).ToBytes()})
	if err != nil || a.Packet != nil || a.Event.Stage != pxe.StageSilent {
		t.Errorf("got %v, %v", a, err)
	}
}

func TestReplyOptions(t *testing.T) {
	type options map[uint8]string // hex; "-" means absent
	pxeClient := class("PXEClient:Arch:00007:UNDI:003000")
	uuid := append([]byte{0}, bytes.Repeat([]byte{0xaa}, 16)...)
	renew := message(dhcpv4.MessageTypeRequest, ciaddr(right))
	inform := message(dhcpv4.MessageTypeInform, ciaddr(right))
	for _, tc := range []struct {
		name string
		in   *dhcpv4.DHCPv4
		want options
	}{
		{"echoes 61, 82 and 97", message(dhcpv4.MessageTypeDiscover, option(61, 1, 2, 3), option(82, 1, 2, 9, 9), option(97, uuid...)),
			options{61: "010203", 82: "01020909", 97: hex.EncodeToString(uuid)}},
		{"only what is asked for", message(dhcpv4.MessageTypeDiscover, option(55, 1, 3)), options{1: "ffffff00", 6: "c0000235", 26: "-", 42: "-", 119: "-", 121: "-"}},
		{"asked for by number", message(dhcpv4.MessageTypeDiscover, option(55, 26, 119, 121)), options{26: "2328", 42: "-",
			119: "076578616d706c65036f726700" + "036c6162076578616d706c65036f726700", 121: "00c00002fe" + "18c63364c00002fd"}},
		{"agent's options only to the agent", message(dhcpv4.MessageTypeDiscover, option(55, 224, 225, 226, 227)), options{224: "-", 225: "-", 226: "-", 227: "-"}},
		{"agent's options only when asked for", message(dhcpv4.MessageTypeDiscover, class("IngotAgent")), options{224: "-", 225: "-", 226: "-", 227: "-"}},
		{"agent's boot server", message(dhcpv4.MessageTypeDiscover, class("IngotAgent"), option(55, 227)), options{224: "-", 227: hex.EncodeToString([]byte("http://192.0.2.1:8880"))}},
		{"agent's server", message(dhcpv4.MessageTypeDiscover, class("IngotAgent"), option(55, 224)), options{224: hex.EncodeToString([]byte("192.0.2.1:8843")), 226: "-"}},
		{"agent's server by inform", message(dhcpv4.MessageTypeInform, ciaddr(right), class("IngotAgent"), option(55, 224)), options{224: hex.EncodeToString([]byte("192.0.2.1:8843"))}},
		{"only the network from another's address", message(dhcpv4.MessageTypeInform, ciaddr("192.0.2.99"), option(55, 1, 224, 226)), options{1: "ffffff00", 66: "-", 67: "-", 224: "-", 226: "-"}},
		{"network", message(dhcpv4.MessageTypeDiscover, option(57, 5, 0)), options{1: "ffffff00", 3: "c00002fe", 6: "c0000235", 42: "c000027b",
			12: "7365727665722d31", 15: "6578616d706c652e6f7267", 26: "2328", 28: "c00002ff", 51: "00000e10", 58: "00000708",
			59: "00000c4e", 54: "c0000201"}},
		{"plain client gets no boot options", message(dhcpv4.MessageTypeDiscover), options{43: "-", 60: "-", 66: "-", 67: "-", 175: "-"}},
		{"UEFI", message(dhcpv4.MessageTypeDiscover, pxeClient, option(93, 0, 7)),
			options{43: "-", 60: hex.EncodeToString([]byte("PXEClient")), 67: hex.EncodeToString([]byte("snponly.efi\x00")), 175: "-"}},
		{"UEFI, as registered", message(dhcpv4.MessageTypeDiscover, pxeClient, option(93, 0, 9)),
			options{67: hex.EncodeToString([]byte("snponly.efi\x00"))}},
		{"BIOS older than option 93", message(dhcpv4.MessageTypeDiscover, class("PXEClient")),
			options{67: hex.EncodeToString([]byte("undionly.kpxe\x00"))}},
		{"iPXE, raw user class", message(dhcpv4.MessageTypeDiscover, option(77, []byte("iPXE")...)), options{175: "b00101", 60: "-"}},
		{"iPXE, RFC 3004 user class", message(dhcpv4.MessageTypeDiscover, option(77, []byte("\x04iPXE")...)), options{175: "b00101"}},
		{"iPXE by its own option", message(dhcpv4.MessageTypeDiscover, option(175, 1, 1, 1, 19, 1, 1)), options{175: "b00101"}},
		{"iPXE without HTTP", message(dhcpv4.MessageTypeDiscover, pxeClient, option(93, 0, 0), option(77, []byte("iPXE")...), option(175, 1, 1, 1)),
			options{67: hex.EncodeToString([]byte("undionly.kpxe\x00"))}},
		{"UEFI for Arm gets no PXE server", message(dhcpv4.MessageTypeDiscover, class("PXEClient:Arch:00011:UNDI:003000"), option(93, 0, 11)),
			options{60: "-", 67: hex.EncodeToString([]byte("snponly-arm64.efi\x00"))}},
		{"nor a ROM behind a relay that takes our place", message(dhcpv4.MessageTypeDiscover, pxeClient, option(93, 0, 0), giaddr("192.0.2.254"), option(82, 11, 4, 192, 0, 2, 254)),
			options{54: "c00002fe", 60: "-", 67: hex.EncodeToString([]byte("undionly.kpxe\x00"))}},
		{"renewal keeps its lease", renew, options{51: "00000e10"}},
		{"inform gives no lease", inform, options{51: "-", 58: "-", 59: "-", 1: "ffffff00"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := Reply(testIdentity, directory(testHost(pxe.Agent)), Query{Packet: tc.in.ToBytes()})
			if err != nil {
				t.Fatal(err)
			}
			r, err := dhcpv4.FromBytes(a.Packet)
			if err != nil {
				t.Fatal(err)
			}
			got := options{}
			for code := range tc.want {
				got[code] = "-"
				if v := r.Options.Get(dhcpv4.GenericOptionCode(code)); v != nil {
					got[code] = hex.EncodeToString(v)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// U-Boot reads the file name from the header, and other clients read option 67.
func TestBootFileInBothPlaces(t *testing.T) {
	for name, id := range map[string]Identity{"fits": testIdentity, "too long for the header": {
		Address: testIdentity.Address, BaseURL: "http://192.0.2.1:8880/" + strings.Repeat("x", 128)}} {
		t.Run(name, func(t *testing.T) {
			in := message(dhcpv4.MessageTypeDiscover, option(77, []byte("iPXE")...))
			a, err := Reply(id, directory(testHost(pxe.LocalDisk)), Query{Packet: in.ToBytes()})
			if err != nil {
				t.Fatal(err)
			}
			r, err := dhcpv4.FromBytes(a.Packet)
			if err != nil {
				t.Fatal(err)
			}
			url := id.BaseURL + "/boot/52:54:00:12:34:56/script.ipxe"
			header := url
			if len(url) > 127 {
				header = ""
			}
			if r.BootFileNameOption() != url || r.BootFileName != header || !r.ServerIPAddr.Equal(id.Address.AsSlice()) {
				t.Errorf("option %q, header %q, siaddr %s", r.BootFileNameOption(), r.BootFileName, r.ServerIPAddr)
			}
		})
	}
}

func TestMalformedIsAnError(t *testing.T) {
	valid := message(dhcpv4.MessageTypeDiscover).ToBytes()
	edit := func(at int, b byte) []byte { p := bytes.Clone(valid); p[at] = b; return p }
	for _, tc := range []struct {
		name   string
		packet []byte
	}{
		{"empty", nil},
		{"cut off", valid[:100]},
		{"a reply", edit(0, 2)},
		{"not Ethernet", edit(1, 6)},
		{"long hardware address", edit(2, 16)},
		{"no magic cookie", edit(236, 0)},
		{"option longer than the packet", edit(241, 250)},
		{"no message type", edit(240, 200)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := Reply(testIdentity, directory(testHost(pxe.Agent)), Query{Packet: tc.packet})
			if !errors.Is(err, ErrMalformed) || a.Packet != nil {
				t.Errorf("got %v, %v", a, err)
			}
		})
	}
}

// FuzzReply: no packet causes a panic, an answer to an unknown client, an answer without the
// client's identifiers, or an address other than the recorded one.
func FuzzReply(f *testing.F) {
	requests, _ := filepath.Glob("testdata/*.request")
	for _, path := range requests {
		f.Add(readHex(f, path))
	}
	f.Add(message(dhcpv4.MessageTypeRequest, requested(wrong), giaddr(theirs)).ToBytes())
	host := testHost(pxe.Agent)
	dir := directory(host)
	f.Fuzz(func(t *testing.T, packet []byte) {
		for _, decide := range []func() (Answer, error){
			func() (Answer, error) { return Reply(testIdentity, dir, Query{Packet: packet}) },
			func() (Answer, error) { return ReplyBINL(testIdentity, dir, Query{Packet: packet}) },
		} {
			a, err := decide()
			if err != nil || a.Packet == nil {
				continue
			}
			r, err := dhcpv4.FromBytes(a.Packet)
			if err != nil {
				t.Fatalf("reply does not parse: %v", err)
			}
			if !bytes.Equal(r.ClientHWAddr, host.MAC) || !bytes.Equal(packet[4:8], r.TransactionID[:]) {
				t.Errorf("reply to %s, transaction %s", r.ClientHWAddr, r.TransactionID)
			}
			if !r.YourIPAddr.Equal(net.IPv4zero) && !r.YourIPAddr.Equal(host.Address.Addr().AsSlice()) {
				t.Errorf("reply gives %s", r.YourIPAddr)
			}
		}
	})
}
