// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/pxe"
)

// discovering is the inventory's network in mode Discover.
func discovering(_ *infrav1.IngotHost, _ *infrav1.IngotHardware, n *infrav1.IngotNetwork) {
	n.Spec.Mode = infrav1.DHCPModeDiscover
	n.Spec.Relays = []string{"198.51.100.1"}
	n.Spec.Discover = &infrav1.NetworkDiscovery{Namespace: "n", MaxHosts: 2, PerMinute: 10,
		Range: infrav1.AddressRange{Start: "192.0.2.100", End: "192.0.2.199"}}
}

func unknownClient(n int) pxe.UnknownClient {
	mac := net.HardwareAddr{0x02, 0xff, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(mac[2:], uint32(n))
	return pxe.UnknownClient{MAC: mac, LocalSubnets: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}}
}

func settableClock(d *Directory) *testclock.FakePassiveClock {
	clock := testclock.NewFakePassiveClock(now)
	d.Clock = clock
	return clock
}

func waitingHost(name, mac string) *infrav1.IngotHost {
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Labels: map[string]string{infrav1.EnrolledLabel: ""}}}
	host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = mac, "net"
	return host
}

// One boot of an unknown machine, from the firmware to the agent and later.
func TestDiscoverOneBoot(t *testing.T) {
	d := newDirectory(t, oneHost(discovering)...)
	clock := settableClock(d)
	s := unknownClient(1)
	host, ok := d.Discover(s)
	if !ok || !netip.MustParsePrefix("192.0.2.96/27").Overlaps(netip.PrefixFrom(host.Address.Addr(), 32)) && host.Address.Addr().Less(netip.MustParseAddr("192.0.2.100")) {
		t.Fatalf("an unknown machine gets %v %v", host.Address, ok)
	}
	if host.Address.Bits() != 24 || host.Plan.Kind != pxe.Agent || host.Key() != "" || host.LeaseTime != leaseDuration {
		t.Errorf("it gets %+v", host)
	}
	claims, err := d.Keys.Verify(host.Plan.Agent.Token.Reveal())
	want := token.Claims{Host: "net", Purpose: token.Discover, OrderID: s.MAC.String(), Expiry: now.Add(token.Lifetime)}
	if err != nil || claims != want {
		t.Errorf("token says %+v, want %+v (%v)", claims, want, err)
	}
	address := host.Address.Addr()
	script := s
	script.Client = address
	take := s
	take.RequestedAddress = address
	agent := take
	agent.Agent = true
	other := unknownClient(2)
	other.Client = address
	for _, step := range []struct {
		name string
		ask  pxe.UnknownClient
		want bool
	}{
		{"takes it", take, true}, {"asks again as iPXE", s, true}, {"fetches its script", script, true},
		{"another fetches it", other, false}, {"the agent asks", agent, true},
		{"firmware again", s, false}, {"its script again", script, false}, {"the agent renews", agent, true},
	} {
		clock.SetTime(clock.Now().Add(20 * time.Second))
		got, ok := d.Discover(step.ask)
		if ok != step.want || ok && got.Address.Addr() != address {
			t.Errorf("%s: %v %v", step.name, ok, got.Address)
		}
	}
	clock.SetTime(now.Add(59 * time.Minute))
	if _, ok := d.Discover(s); ok {
		t.Error("it is let in again within the hour")
	}
	clock.SetTime(now.Add(62 * time.Minute))
	if _, ok := d.Discover(s); !ok {
		t.Error("it is never let in again")
	}
}

// Known machines, and networks that accept no unknown ones, get no answer.
func TestDiscoverNobody(t *testing.T) {
	relayed := func(address string) pxe.UnknownClient {
		s := unknownClient(1)
		s.Link, s.LocalSubnets = netip.MustParseAddr(address), nil
		return s
	}
	other := unknownClient(1)
	other.LocalSubnets = []netip.Prefix{netip.MustParsePrefix("203.0.113.1/24")}
	agent := unknownClient(1)
	agent.Agent = true
	second := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h2"}}
	second.Spec.NICs = []infrav1.HardwareNIC{{MAC: mac}, {MAC: unknownClient(1).MAC.String()}}
	afar := relayed("192.0.2.254")
	afar.Relay = netip.MustParseAddr("203.0.113.9")
	loopback := relayed("192.0.2.254")
	loopback.Relay = netip.MustParseAddr("198.51.100.1")
	boasting := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "e1"}}
	boasting.Spec.NICs = []infrav1.HardwareNIC{{MAC: "02:00:00:00:00:01"}, {MAC: unknownClient(1).MAC.String()}}
	full := []client.Object{waitingHost("e1", "02:00:00:00:00:01"), waitingHost("e2", "02:00:00:00:00:02")}
	for name, tc := range map[string]struct {
		ask  pxe.UnknownClient
		more []client.Object
		want bool
	}{
		"unknown":                   {ask: unknownClient(1), want: true},
		"by a relay of the network": {ask: relayed("192.0.2.254"), want: true},
		"by a relay that is named":  {ask: relayed("198.51.100.1"), want: true},
		"by another relay":          {ask: relayed("198.51.100.2")},
		"by a relay from afar that says it is of the network": {ask: afar},
		"by a relay that is named, of a link of the network":  {ask: loopback, want: true},
		"a NIC of which one that waits has told":              {ask: unknownClient(1), more: []client.Object{waitingHost("e1", "02:00:00:00:00:01"), boasting}, want: true},
		"on another segment":                                  {ask: other},
		"an agent out of nowhere":                             {ask: agent},
		"another NIC of a host":                               {ask: unknownClient(1), more: []client.Object{second}},
		"a host that has no address yet":                      {ask: unknownClient(1), more: []client.Object{waitingHost("e1", unknownClient(1).MAC.String())}},
		"one place left":                                      {ask: unknownClient(1), more: full[:1], want: true},
		"as many wait as may":                                 {ask: unknownClient(1), more: full},
		"script before it has an address":                     {ask: pxe.UnknownClient{MAC: unknownClient(1).MAC, Client: netip.MustParseAddr("192.0.2.100")}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t, append(oneHost(discovering), tc.more...)...)
			if _, ok := d.Discover(tc.ask); ok != tc.want {
				t.Errorf("answered: %v", ok)
			}
		})
	}
	d := newDirectory(t, oneHost(nil)...)
	if _, ok := d.Discover(unknownClient(1)); ok {
		t.Error("an unknown machine is answered in mode Reserve")
	}
}

// A hundred thousand random addresses use bounded memory and few leases, and a known host is still served.
func TestDiscoverFlood(t *testing.T) {
	d := newDirectory(t, oneHost(discovering)...)
	clock := settableClock(d)
	given := 0
	addresses := map[netip.Addr]int{}
	const flood, minutes = 100_000, 10
	for n := range flood {
		clock.SetTime(now.Add(time.Duration(n) * minutes * time.Minute / flood))
		s := unknownClient(n)
		if host, ok := d.Discover(s); ok {
			given++
			addresses[host.Address.Addr()]++
			s.RequestedAddress = host.Address.Addr()
			if _, ok := d.Discover(s); !ok {
				t.Fatalf("%d: what was offered is not given", n)
			}
		}
		if n%10_000 == 0 {
			if _, ok := d.Lookup(parse(t, mac)); !ok {
				t.Fatal("a known host is not served")
			}
		}
	}
	if most := 10 * (minutes + 1); given == 0 || given > most {
		t.Errorf("%d machines were let in within %d minutes, want at most %d", given, minutes, most)
	}
	for address, times := range addresses {
		if times > 1 {
			t.Errorf("%s was lent %d times at once", address, times)
		}
	}
	g := d.discovery.of("net")
	if n := len(g.byMAC); n > maxRemembered || n > given || len(g.byAddress) > n {
		t.Errorf("%d machines are remembered", n)
	}
}

// A packet with another machine's MAC address does not end that machine's lease.
func TestDiscoverForged(t *testing.T) {
	d := newDirectory(t, oneHost(discovering)...)
	clock := settableClock(d)
	s := unknownClient(1)
	host, _ := d.Discover(s)
	take := s
	take.RequestedAddress = host.Address.Addr()
	d.Discover(take)
	agent := take
	agent.Agent = true
	forged := s
	forged.RequestedAddress, forged.AcceptsOtherServer = take.RequestedAddress.Next(), true
	known := unknownClient(2)
	known.MAC = parse(t, mac)
	known.RequestedAddress, known.AcceptsOtherServer = forged.RequestedAddress.Next(), true
	places := d.discovery.of("net").rate.TokensAt(clock.Now())
	for range 20 {
		for _, packet := range []pxe.UnknownClient{forged, known} {
			if _, ok := d.Discover(packet); ok {
				t.Error("a machine is answered that takes another server's address")
			}
		}
	}
	if got := d.discovery.of("net").rate.TokensAt(clock.Now()); got < places {
		t.Errorf("%v places are left of %v", got, places)
	}
	if got, ok := d.Discover(agent); !ok || got.Address != host.Address {
		t.Errorf("its agent gets %v, %t", got.Address, ok)
	}
	clock.SetTime(now.Add(leaseDuration + time.Minute))
	d.Discover(forged)
	if _, ok := d.Discover(s); ok {
		t.Error("it is let in again within the hour")
	}
}

// A declined address is not offered for a while, and its client gets another one. A client cannot decline
// another one's address.
func TestDiscoverDeclined(t *testing.T) {
	d := newDirectory(t, oneHost(func(h *infrav1.IngotHost, f *infrav1.IngotHardware, n *infrav1.IngotNetwork) {
		discovering(h, f, n)
		n.Spec.Discover.Range.End = "192.0.2.102"
	})...)
	clock := settableClock(d)
	s := unknownClient(1)
	s.Server = netip.MustParseAddr("192.0.2.100") // lies in the range
	lent := map[netip.Addr]bool{}
	for range 2 {
		host, ok := d.Discover(s)
		if !ok || lent[host.Address.Addr()] || host.Address.Addr() == s.Server {
			t.Fatalf("it gets %v, %t", host.Address, ok)
		}
		lent[host.Address.Addr()] = true
		other := unknownClient(2)
		other.DeclinedAddress = host.Address.Addr()
		decline := s
		decline.DeclinedAddress = host.Address.Addr()
		for _, packet := range []pxe.UnknownClient{other, decline} {
			if _, ok := d.Discover(packet); ok {
				t.Error("a declining machine is answered")
			}
		}
	}
	if host, ok := d.Discover(s); ok {
		t.Errorf("%v is lent although all rest, or are somebody's", host.Address)
	}
	clock.SetTime(now.Add(declinedFor))
	if _, ok := d.Discover(s); !ok {
		t.Error("they rest for ever")
	}
}

// Replicas do not offer one address twice: each learns the requests sent to the others.
func TestDiscoverReplicas(t *testing.T) {
	objects := oneHost(func(h *infrav1.IngotHost, f *infrav1.IngotHardware, n *infrav1.IngotNetwork) {
		discovering(h, f, n)
		n.Spec.Discover.PerMinute = 60
		n.Spec.Discover.Range.End = "192.0.2.140"
		f.Spec.Address.IP = "192.0.2.120" // recorded before the range was changed
		h.Spec.Claim = &infrav1.HostClaim{State: infrav1.ClaimProvisioned, Network: &infrav1.ClaimedNetwork{Addresses: []string{"192.0.2.121"}}}
	})
	cluster := &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "c"}}
	cluster.Spec.ControlPlaneEndpoint.Host = "192.0.2.122"
	objects = append(objects, cluster)
	a, b := newDirectory(t, objects...), newDirectory(t, objects...)
	taken := map[netip.Addr]string{}
	for n := range 38 {
		mine, theirs := a, b
		if n%3 == 0 {
			mine, theirs = b, a
		}
		s := unknownClient(n)
		host, ok := mine.Discover(s)
		if !ok {
			t.Fatalf("machine %d is not let in", n)
		}
		if _, ok := theirs.Discover(s); !ok { // both hear its DISCOVER, and offer
			t.Fatalf("machine %d gets no second offer", n)
		}
		s.RequestedAddress = host.Address.Addr()
		if _, ok := mine.Discover(s); !ok {
			t.Fatalf("machine %d is refused its address", n)
		}
		s.AcceptsOtherServer = true
		if _, ok := theirs.Discover(s); ok {
			t.Fatalf("machine %d is answered by both", n)
		}
		if other := taken[s.RequestedAddress]; other != "" {
			t.Fatalf("%s is lent to %s and %s", s.RequestedAddress, other, s.MAC)
		}
		taken[s.RequestedAddress] = s.MAC.String()
	}
	if taken[netip.MustParseAddr("192.0.2.120")] != "" {
		t.Error("an address that is recorded for a host was lent")
	}
	if taken[netip.MustParseAddr("192.0.2.121")] != "" {
		t.Error("an address that a system was given was lent")
	}
	if taken[netip.MustParseAddr("192.0.2.122")] != "" {
		t.Error("the endpoint of a control plane was lent")
	}
	if _, ok := a.Discover(unknownClient(1000)); ok {
		t.Errorf("%d addresses were lent, and one more", len(taken))
	}
}
