// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp6

import (
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
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var testIdentity = NewIdentity(netip.MustParseAddr("2001:db8::1"), "http://[2001:db8::1]:8880", dhcp.DefaultLoaders())

const (
	right = "2001:db8::17"
	wrong = "2001:db8::18"
	away  = "2001:db8:ffff::18"
)

var (
	hostMAC = net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56}
	// linkLocal is the address that the kernel makes from hostMAC, relayAddress the address
	// of a relay in the network.
	linkLocal    = netip.MustParseAddrPort("[fe80::5054:ff:fe12:3456]:546")
	relayAddress = netip.MustParseAddrPort("[2001:db8:0:ffff::7]:547")
	// between is the segment between that relay and this server.
	between = []netip.Prefix{netip.MustParsePrefix("2001:db8:0:ffff::/64")}
)

func testHost(kind pxe.PlanKind) pxe.Host {
	return pxe.Host{
		Namespace: "default", Name: "server-1", MAC: hostMAC, Hostname: "server-1", Network: "rack-a",
		IPv6: pxe.IPv6{Mode: pxe.Stateful, Subnet: netip.MustParsePrefix("2001:db8::/64"), Address: netip.MustParseAddr(right)},
		DNS:  []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("2001:db8::53")},
		NTP:  []netip.Addr{netip.MustParseAddr("2001:db8::123")}, Search: []string{"example.org", "lab.example.org"},
		LeaseTime: time.Hour, Plan: pxe.Plan{Kind: kind, Agent: pxe.AgentBoot{
			Server: "192.0.2.1:8843", ServerIPv6: "[2001:db8::1]:8843", Pin: "pin", Token: "token"}},
	}
}

func directory(hosts ...pxe.Host) pxe.Table {
	t := pxe.Table{}
	for _, h := range hosts {
		t[h.MAC.String()] = h
	}
	return t
}

// change modifies a message.
type change func(*dhcpv6.Message)

// message returns a minimal client message.
func message(kind dhcpv6.MessageType, changes ...change) *dhcpv6.Message {
	m := &dhcpv6.Message{MessageType: kind, TransactionID: dhcpv6.TransactionID{1, 2, 3}}
	for _, c := range changes {
		c(m)
	}
	return m
}

func with(options ...dhcpv6.Option) change {
	return func(m *dhcpv6.Message) {
		for _, o := range options {
			m.AddOption(o)
		}
	}
}

// client sets a UUID as client identifier, as firmware does; it contains no MAC address.
func client() change {
	return with(dhcpv6.OptClientID(&dhcpv6.DUIDUUID{UUID: [16]byte{0xc, 1, 1, 0xe, 14: 9}}))
}

func chosen() change { return with(dhcpv6.OptServerID(testIdentity.duid)) }

func other() change {
	return with(dhcpv6.OptServerID(NewIdentity(netip.MustParseAddr("2001:db8::2"), "", dhcp.Loaders{}).duid))
}

// ia requests an address, or claims the given ones.
func ia(id byte, has ...string) change {
	na := &dhcpv6.OptIANA{IaId: [4]byte{0, 0, 0, id}}
	for _, address := range has {
		na.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP(address), PreferredLifetime: time.Hour, ValidLifetime: time.Hour})
	}
	return with(na)
}

func asks(codes ...dhcpv6.OptionCode) change { return with(dhcpv6.OptRequestedOption(codes...)) }

func class(text string, archs ...iana.Arch) change {
	return with(dhcpv6.OptClientArchType(archs...), &dhcpv6.OptVendorClass{EnterpriseNumber: enterprisePXE, Data: [][]byte{[]byte(text)}},
		dhcpv6.OptRequestedOption(dhcpv6.OptionBootfileURL, dhcpv6.OptionBootfileParam, dhcpv6.OptionDNSRecursiveNameServer))
}

func uefi() change { return class("PXEClient:Arch:00007:UNDI:003016", iana.EFI_BC) }

func uefiHTTP() change { return class("HTTPClient:Arch:00016:UNDI:003001", iana.EFI_X86_64_HTTP) }

func ipxe() change {
	return with(&dhcpv6.OptUserClass{UserClasses: [][]byte{[]byte("iPXE")}}, dhcpv6.OptClientArchType(iana.EFI_BC),
		&dhcpv6.OptVendorClass{EnterpriseNumber: enterprisePXE, Data: [][]byte{[]byte("PXEClient:Arch:00007:UNDI:003010")}},
		dhcpv6.OptRequestedOption(dhcpv6.OptionBootfileURL, dhcpv6.OptionDNSRecursiveNameServer))
}

// agent makes the message one of Ingot's agent.
func agent() change {
	return with(&dhcpv6.OptVendorClass{EnterpriseNumber: agentapi.Enterprise, Data: [][]byte{[]byte(agentapi.VendorClass)}})
}

// tellAll returns the agent's options: server, pin, token and base URL, or "".
func tellAll(t *testing.T, a Answer) string {
	t.Helper()
	packet, err := dhcpv6.FromBytes(a.Packet)
	if err != nil {
		t.Fatal(err)
	}
	m, err := packet.GetInnerMessage()
	if err != nil {
		t.Fatal(err)
	}
	told := m.Options.VendorOpt(agentapi.Enterprise)
	if told == nil {
		return ""
	}
	var words []string
	for _, code := range []dhcpv6.OptionCode{agentapi.OptionServer, agentapi.OptionPin, agentapi.OptionToken, agentapi.OptionFiles} {
		option, _ := told.GetOne(code).(*dhcpv6.OptionGeneric)
		if option == nil {
			option = &dhcpv6.OptionGeneric{}
		}
		words = append(words, string(option.OptionData))
	}
	return strings.Join(words, " ")
}

// relayed wraps a message in a relay's.
func relayed(in dhcpv6.DHCPv6, link, peer string, options ...dhcpv6.Option) *dhcpv6.RelayMessage {
	r := &dhcpv6.RelayMessage{MessageType: dhcpv6.MessageTypeRelayForward, LinkAddr: net.ParseIP(link), PeerAddr: net.ParseIP(peer)}
	for _, o := range options {
		r.AddOption(o)
	}
	r.AddOption(dhcpv6.OptRelayMessage(in))
	return r
}

// TestGoldenPackets answers packets of firmware, iPXE, an installed system and relays under all
// plans.
func TestGoldenPackets(t *testing.T) {
	solicit, request, inform := dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeInformationRequest
	systems := asks(dhcpv6.OptionDNSRecursiveNameServer, dhcpv6.OptionDomainSearchList, dhcpv6.OptionNTPServer)
	for name, in := range map[string]dhcpv6.DHCPv6{
		"uefi-solicit":       message(solicit, client(), ia(1), uefi()),
		"uefi-request":       message(request, client(), chosen(), ia(1, right), uefi()),
		"uefi-arm64-solicit": message(solicit, client(), ia(1), class("PXEClient:Arch:00011:UNDI:003016", iana.EFI_ARM64)),
		"uefi-http-solicit":  message(solicit, client(), ia(1), uefiHTTP()),
		"uefi-http-request":  message(request, client(), chosen(), ia(1, right), uefiHTTP()),
		"ipxe-solicit":       message(solicit, client(), ia(1), ipxe()),
		"ipxe-inform":        message(inform, client(), ipxe()),
		"system-solicit":     message(solicit, client(), ia(1), systems),
		"system-rapid":       message(solicit, client(), ia(1), systems, with(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit})),
		"system-renew":       message(dhcpv6.MessageTypeRenew, client(), chosen(), ia(1, right), systems),
		"agent-solicit":      message(solicit, client(), ia(1), agent()),
		"agent-request":      message(request, client(), chosen(), ia(1, right), agent(), asks(dhcpv6.OptionVendorOpts)),
		"agent-inform":       message(inform, agent(), asks(dhcpv6.OptionVendorOpts)),
		"system-inform":      message(inform, systems, asks(dhcpv6.OptionInformationRefreshTime)),
		"relayed-solicit":    relayed(message(solicit, client(), ia(1), uefi()), "2001:db8::fe", linkLocal.Addr().String(), dhcpv6.OptInterfaceID([]byte("ge-0/0/7"))),
		"relayed-twice": relayed(relayed(message(solicit, client(), ia(1), uefi()), "::", "fe80::1",
			dhcpv6.OptClientLinkLayerAddress(iana.HWTypeEthernet, hostMAC), dhcpv6.OptInterfaceID([]byte{7})), "2001:db8::fe", "fe80::2",
			&dhcpv6.OptRemoteID{EnterpriseNumber: 9, RemoteID: []byte("leaf-12")}, dhcpv6.OptInterfaceID([]byte("vlan7"))),
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			for _, mode := range []pxe.IPv6Mode{pxe.Stateless, pxe.Stateful} {
				for _, kind := range []pxe.PlanKind{pxe.None, pxe.LocalDisk, pxe.Agent} {
					host := testHost(kind)
					host.IPv6.Mode = mode
					q := Query{Packet: in.ToBytes(), From: linkLocal}
					if in.IsRelay() {
						q.From, q.Link.Subnets = relayAddress, between
					}
					a, err := Reply(testIdentity, directory(host), q)
					if err != nil {
						t.Fatal(err)
					}
					fmt.Fprintf(&got, "=== mode %s, plan %s\n%s", mode, kind, describe(t, a))
				}
			}
			golden := filepath.Join("testdata", name+".golden")
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

func describe(t *testing.T, a Answer) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "event: %s %q %s\n", a.Event.Stage, a.Event.Detail, a.Event.Port)
	if a.Packet == nil {
		b.WriteString("no reply\n")
		return b.String()
	}
	p, err := dhcpv6.FromBytes(a.Packet)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "to: %s\n%s\n", a.To, p.Summary())
	for line := range slices.Chunk(a.Packet, 32) {
		fmt.Fprintf(&b, "%x\n", line)
	}
	return b.String()
}

// outcome formats a reply as "<type> <status> <address>=<valid> …", or "" for silence.
func outcome(t *testing.T, a Answer) string {
	t.Helper()
	if a.Packet == nil {
		return ""
	}
	packet, err := dhcpv6.FromBytes(a.Packet)
	if err != nil {
		t.Fatal(err)
	}
	m := packet.(*dhcpv6.Message)
	words := []string{m.MessageType.String()}
	say := func(s *dhcpv6.OptStatusCode) {
		if s != nil {
			words = append(words, s.StatusCode.String())
		}
	}
	say(m.Options.Status())
	for _, na := range m.Options.IANA() {
		say(na.Options.Status())
		for _, address := range na.Options.Addresses() {
			words = append(words, fmt.Sprintf("%s=%s", address.IPv6Addr, address.ValidLifetime))
		}
	}
	for _, ta := range m.Options.IATA() {
		say(ta.Options.Status())
	}
	for _, pd := range m.Options.IAPD() {
		say(pd.Options.Status())
	}
	return strings.Join(words, " ")
}

// TestRules tests RFC 8415 sections 16 and 18.3, message by message.
func TestRules(t *testing.T) {
	const given = "ADVERTISE " + right + "=1h0m0s"
	const leased = "REPLY " + right + "=1h0m0s"
	m := message
	solicit, request, confirm := dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeConfirm
	renew, rebind := dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRebind
	release, decline, inform := dhcpv6.MessageTypeRelease, dhcpv6.MessageTypeDecline, dhcpv6.MessageTypeInformationRequest
	for _, tc := range []struct {
		name  string
		in    *dhcpv6.Message
		want  string
		stage pxe.Stage
	}{
		{"solicit", m(solicit, client(), ia(1)), given, pxe.StageOffer},
		{"solicit for another address", m(solicit, client(), ia(1, wrong)), given, pxe.StageOffer},
		{"solicit without a client ID", m(solicit, ia(1)), "", ""},
		{"solicit of a server", m(solicit, client(), chosen(), ia(1)), "", ""},
		{"two addresses", m(solicit, client(), ia(1), ia(2)), given + " NoAddrsAvail", pxe.StageOffer},
		{"a temporary address and a prefix", m(solicit, client(), with(&dhcpv6.OptIATA{}, &dhcpv6.OptIAPD{})), "ADVERTISE NoAddrsAvail NoPrefixAvail", pxe.StageOffer},
		{"rapid commit", m(solicit, client(), ia(1), with(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit})), leased, pxe.StageAck},
		{"request", m(request, client(), chosen(), ia(1, right)), leased, pxe.StageAck},
		{"request of another replica", m(request, client(), other(), ia(1, right)), "", ""},
		{"request without client identifier", m(request, client(), ia(1, right)), "", ""},
		{"renew", m(renew, client(), chosen(), ia(1, right)), leased, pxe.StageAck},
		{"renew of a wrong address", m(renew, client(), chosen(), ia(1, wrong)), leased + " " + wrong + "=0s", pxe.StageAck},
		{"renew with another replica", m(renew, client(), other(), ia(1, right)), "", ""},
		{"rebind", m(rebind, client(), ia(1, right)), leased, pxe.StageAck},
		{"rebind of a server", m(rebind, client(), other(), ia(1, right)), "", ""},
		{"confirm", m(confirm, client(), ia(1, right)), "REPLY Success", pxe.StageAck},
		{"confirm on another network", m(confirm, client(), ia(1, right, away)), "REPLY NotOnLink", pxe.StageNak},
		{"confirm of nothing", m(confirm, client(), ia(1)), "", ""},
		{"release", m(release, client(), chosen(), ia(1, right)), "REPLY Success", ""},
		{"release of another's", m(release, client(), chosen(), ia(1, wrong)), "REPLY Success NoBinding", ""},
		{"decline", m(decline, client(), chosen(), ia(1, right)), "REPLY Success", pxe.StageConflict},
		{"decline of another's", m(decline, client(), chosen(), ia(1, wrong)), "REPLY Success", ""},
		{"inform", m(inform), "REPLY", pxe.StageAck},
		{"inform with an address", m(inform, client(), ia(1)), "", ""},
		{"inform of another replica", m(inform, client(), other()), "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := Reply(testIdentity, directory(testHost(pxe.LocalDisk)), Query{Packet: tc.in.ToBytes(), From: linkLocal})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, outcome(t, a)); diff != "" {
				t.Error(diff)
			}
			if a.Event.Stage != tc.stage {
				t.Errorf("stage %q, want %q (%s)", a.Event.Stage, tc.stage, a.Event.Detail)
			}
		})
	}
}

// How a packet is matched to a host, and in which networks the host is answered.
func TestHostAndNetwork(t *testing.T) {
	solicit := message(dhcpv6.MessageTypeSolicit, client(), ia(1))
	byDUID := func(id dhcpv6.DUID) *dhcpv6.Message {
		return message(dhcpv6.MessageTypeSolicit, with(dhcpv6.OptClientID(id)), ia(1))
	}
	hidden := netip.MustParseAddrPort("[fe80::1234]:546") // a privacy address
	mine := []netip.Prefix{netip.MustParsePrefix("2001:db8::/64")}
	seen := dhcpv6.OptClientLinkLayerAddress(iana.HWTypeEthernet, hostMAC)
	unknownClients := dhcpv6.OptClientLinkLayerAddress(iana.HWTypeEthernet, net.HardwareAddr{2, 0, 0, 0, 0, 9})
	second := testHost(pxe.LocalDisk)
	second.MAC, second.IPv6.Address = net.HardwareAddr{2, 0, 0, 0, 0, 2}, netip.MustParseAddr(wrong)
	for _, tc := range []struct {
		name   string
		in     dhcpv6.DHCPv6
		from   netip.AddrPort
		link   Link
		change func(*pxe.Host)
		alone  bool
		want   string
		stage  pxe.Stage
	}{
		{name: "by its link-local address", in: solicit, from: linkLocal, want: right, stage: pxe.StageOffer},
		{name: "unknown client", in: solicit, from: hidden},
		{name: "by DUID-LL", in: byDUID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: hostMAC}), from: hidden, want: right, stage: pxe.StageOffer},
		{name: "by DUID-LLT", in: byDUID(&dhcpv6.DUIDLLT{HWType: iana.HWTypeEthernet, LinkLayerAddr: hostMAC}), from: hidden, want: right, stage: pxe.StageOffer},
		{name: "InfiniBand's DUID-LL", in: byDUID(&dhcpv6.DUIDLL{HWType: iana.HWTypeInfiniband, LinkLayerAddr: hostMAC}), from: hidden},
		{name: "a DUID copied with its image", in: byDUID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: second.MAC}), from: linkLocal, want: right, stage: pxe.StageOffer},
		{name: "by what the relay saw", in: relayed(solicit, "2001:db8::fe", hidden.Addr().String(), seen), from: relayAddress, link: Link{Subnets: between}, want: right, stage: pxe.StageOffer},
		{name: "another card of the host, by the relay", in: relayed(byDUID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: hostMAC}), "2001:db8::fe", hidden.Addr().String(), unknownClients), from: relayAddress},
		{name: "another card of the host", in: byDUID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: hostMAC}), from: netip.MustParseAddrPort("[fe80::ff:fe00:9]:546")},
		{name: "by the peer's address", in: relayed(solicit, "2001:db8::fe", linkLocal.Addr().String()), from: relayAddress, link: Link{Subnets: between}, want: right, stage: pxe.StageOffer},
		{name: "a relay from afar", in: relayed(solicit, "2001:db8::fe", linkLocal.Addr().String()), from: netip.MustParseAddrPort("[2001:db8:f::66]:547"), link: Link{Subnets: between}, stage: pxe.StageWrongNetwork},
		{name: "a relay from afar takes the address away", in: relayed(message(dhcpv6.MessageTypeDecline, client(), chosen(), ia(1, right)), "2001:db8::fe", linkLocal.Addr().String()),
			from: netip.MustParseAddrPort("[2001:db8:f::66]:547"), link: Link{Subnets: between}, stage: pxe.StageWrongNetwork},
		{name: "a relay from afar without a link", in: relayed(solicit, "::", linkLocal.Addr().String()),
			from: netip.MustParseAddrPort("[2001:db8:f::66]:547"), link: Link{Subnets: between}, stage: pxe.StageWrongNetwork},
		{name: "a relay from afar without a link takes the address away", in: relayed(message(dhcpv6.MessageTypeDecline, client(), chosen(), ia(1, right)), "::", linkLocal.Addr().String()),
			from: netip.MustParseAddrPort("[2001:db8:f::66]:547"), link: Link{Subnets: between}, stage: pxe.StageWrongNetwork},
		{name: "a switch that relays on layer 2", in: relayed(solicit, "::", linkLocal.Addr().String()), from: linkLocal, want: right, stage: pxe.StageOffer},
		{name: "a relay from afar that the network names", in: relayed(solicit, "2001:db8::fe", linkLocal.Addr().String()), from: relayAddress, want: right, stage: pxe.StageOffer,
			change: func(h *pxe.Host) { h.IPv6.Relays = []netip.Addr{relayAddress.Addr()} }},
		{name: "a relay that speaks by its link-local address", in: relayed(solicit, "2001:db8::fe", linkLocal.Addr().String()), from: netip.MustParseAddrPort("[fe80::7]:547"), want: right, stage: pxe.StageOffer},
		{name: "a relay of another network", in: relayed(solicit, "2001:db8:9::fe", linkLocal.Addr().String()), from: relayAddress, stage: pxe.StageWrongNetwork},
		{name: "a relay that the network names", in: relayed(solicit, "2001:db8:9::fe", linkLocal.Addr().String()), from: relayAddress, want: right, stage: pxe.StageOffer,
			change: func(h *pxe.Host) { h.IPv6.Relays = []netip.Addr{relayAddress.Addr()} }},
		{name: "on its own interface", in: solicit, from: linkLocal, link: Link{Name: "eth0", Subnets: mine}, want: right, stage: pxe.StageOffer},
		{name: "on another's interface", in: solicit, from: linkLocal, link: Link{Name: "eth1", OtherSubnets: mine}, stage: pxe.StageWrongNetwork},
		{name: "by unicast", in: solicit, from: linkLocal, alone: true},
		{name: "no address is recorded", in: solicit, from: linkLocal, change: func(h *pxe.Host) { h.IPv6.Address = netip.Addr{} }, stage: pxe.StageSilent},
		{name: "a stateless network", in: solicit, from: linkLocal, change: func(h *pxe.Host) { h.IPv6.Mode = pxe.Stateless }, stage: pxe.StageSilent},
		{name: "no IPv6", in: solicit, from: linkLocal, change: func(h *pxe.Host) { h.IPv6 = pxe.IPv6{} }},
		{name: "not to be booted", in: solicit, from: linkLocal, change: func(h *pxe.Host) { h.Plan.Kind = pxe.None }, stage: pxe.StageSilent},
		{name: "firmware without a loader", in: message(dhcpv6.MessageTypeSolicit, client(), ia(1), class("PXEClient:Arch:00006", iana.EFI_IA32)), from: linkLocal,
			change: func(h *pxe.Host) { h.Plan.Kind = pxe.Agent }, stage: pxe.StageSilent},
	} {
		t.Run(tc.name, func(t *testing.T) {
			host := testHost(pxe.LocalDisk)
			if tc.change != nil {
				tc.change(&host)
			}
			a, err := Reply(testIdentity, directory(host, second), Query{Packet: tc.in.ToBytes(), From: tc.from, Link: tc.link, Unicast: tc.alone})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if a.Packet != nil {
				got = a.address.String()
			}
			if got != tc.want || a.Event.Stage != tc.stage {
				t.Errorf("%q %q (%s), want %q %q", got, a.Event.Stage, a.Event.Detail, tc.want, tc.stage)
			}
		})
	}
}

func TestDestination(t *testing.T) {
	solicit := message(dhcpv6.MessageTypeSolicit, client(), ia(1))
	peer := linkLocal.Addr().String()
	odd := netip.MustParseAddrPort("[2001:db8::fe]:1547")
	for _, tc := range []struct {
		name string
		in   dhcpv6.DHCPv6
		from netip.AddrPort
		want string
	}{
		{"to the client's port", solicit, netip.AddrPortFrom(linkLocal.Addr(), 999), linkLocal.String()},
		{"to the relay's port", relayed(solicit, "2001:db8::fe", peer), odd, "[2001:db8::fe]:547"},
		{"to the port that the relay names", relayed(solicit, "2001:db8::fe", peer, dhcpv6.OptRelayPort(0)), odd, odd.String()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := Reply(testIdentity, directory(testHost(pxe.LocalDisk)), Query{Packet: tc.in.ToBytes(), From: tc.from})
			if err != nil || a.To.String() != tc.want {
				t.Errorf("%s, %v, want %s", a.To, err, tc.want)
			}
		})
	}
}

func TestUnicastIsRefused(t *testing.T) {
	for kind, want := range map[dhcpv6.MessageType]string{
		dhcpv6.MessageTypeRequest: "REPLY UseMulticast", dhcpv6.MessageTypeRenew: "REPLY UseMulticast",
		dhcpv6.MessageTypeRelease: "REPLY UseMulticast", dhcpv6.MessageTypeDecline: "REPLY UseMulticast",
	} {
		in := message(kind, client(), chosen(), ia(1, right))
		a, err := Reply(testIdentity, directory(testHost(pxe.LocalDisk)), Query{Packet: in.ToBytes(), From: linkLocal, Unicast: true})
		if err != nil || outcome(t, a) != want {
			t.Errorf("%s: %q, %v", kind, outcome(t, a), err)
		}
	}
}

func TestMalformed(t *testing.T) {
	deep := dhcpv6.DHCPv6(message(dhcpv6.MessageTypeSolicit, client(), ia(1)))
	for range hopLimit + 1 {
		deep = relayed(deep, "2001:db8::fe", "fe80::1")
	}
	for name, packet := range map[string][]byte{
		"nothing": {}, "noise": {1, 2, 3}, "a server's message": message(dhcpv6.MessageTypeReply, client()).ToBytes(),
		"too many relays": deep.ToBytes(),
		"an empty relay":  (&dhcpv6.RelayMessage{MessageType: dhcpv6.MessageTypeRelayForward}).ToBytes(),
		"a relay's reply": (&dhcpv6.RelayMessage{MessageType: dhcpv6.MessageTypeRelayReply}).ToBytes(),
	} {
		if a, err := Reply(testIdentity, directory(testHost(pxe.Agent)), Query{Packet: packet, From: linkLocal}); !errors.Is(err, ErrMalformed) || a.Packet != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The identity survives restarts and differs between replicas.
func TestIdentity(t *testing.T) {
	of := func(address string) string {
		return fmt.Sprintf("%x", NewIdentity(netip.MustParseAddr(address), "", dhcp.Loaders{}).duid.ToBytes())
	}
	first, again, other := of("2001:db8::1"), of("2001:db8::1"), of("2001:db8::2")
	if first != again || first == other {
		t.Errorf("%s, %s and, of another address, %s", first, again, other)
	}
}
