// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// The installed system reports to the address that its agent used, unless Address is set.
func TestAddressFor(t *testing.T) {
	for name, tc := range map[string]struct{ configured, host, want string }{
		"given":             {"192.0.2.1:8843", "192.0.2.9:8843", "192.0.2.1:8843"},
		"by the request":    {"", "192.0.2.9:8843", "192.0.2.9:8843"},
		"by IPv6":           {"", "[2001:db8::9]:8843", "[2001:db8::9]:8843"},
		"given, by IPv6":    {"192.0.2.1:8843", "[2001:db8::9]:8843", "[2001:db8::9]:8843"},
		"given as IPv6":     {"[2001:db8::1]:8843", "[2001:db8::9]:8843", "[2001:db8::1]:8843"},
		"given, by a name":  {"192.0.2.1:8843", "ingot:8843", "192.0.2.1:8843"},
		"a name":            {"", "ingot:8843", ""},
		"no port":           {"", "192.0.2.9", ""},
		"more than a host":  {"", "192.0.2.9:8843/x", ""},
		"shell in the host": {"", "192.0.2.9:8843;reboot", ""},
		"none":              {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&Server{Options: Options{Address: tc.configured}}).agentAPIAddress(&http.Request{Host: tc.host})
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("address = %q, error %v; want %q", got, err, tc.want)
			}
		})
	}
}

// allows admits recorded addresses and, without them, the network's.
func TestWhereabouts(t *testing.T) {
	const mac = "52:54:00:12:34:56"
	recorded := func(network, ip string) *infrav1.RecordedAddress {
		return &infrav1.RecordedAddress{NetworkName: network, MAC: mac, IP: ip}
	}
	six := func(mode infrav1.DHCPv6Mode) *infrav1.NetworkIPv6 {
		return &infrav1.NetworkIPv6{Mode: mode, Subnet: "2001:db8::/64"}
	}
	const stateful, stateless = infrav1.DHCPv6ModeStateful, infrav1.DHCPv6ModeStateless
	for name, tc := range map[string]struct {
		network *infrav1.IngotNetworkSpec
		four    *infrav1.RecordedAddress
		six     *infrav1.RecordedAddress
		yes, no string
	}{
		"IPv4":                         {&infrav1.IngotNetworkSpec{Subnet: "192.0.2.0/24"}, recorded("net", "192.0.2.7"), nil, "192.0.2.7", "192.0.2.8 2001:db8::7"},
		"both":                         {&infrav1.IngotNetworkSpec{Subnet: "192.0.2.0/24", IPv6: six(stateful)}, recorded("net", "192.0.2.7"), recorded("net", "2001:db8::7"), "192.0.2.7 2001:db8::7", "192.0.2.8 2001:db8::8"},
		"both, IPv6 is made":           {&infrav1.IngotNetworkSpec{Subnet: "192.0.2.0/24", IPv6: six(stateless)}, recorded("net", "192.0.2.7"), nil, "192.0.2.7", "2001:db8::7"},
		"IPv6 alone":                   {&infrav1.IngotNetworkSpec{IPv6: six(stateful)}, nil, recorded("net", "2001:db8::7"), "2001:db8::7", "2001:db8::8 192.0.2.7"},
		"IPv6 alone, and made":         {&infrav1.IngotNetworkSpec{IPv6: six(stateless)}, nil, nil, "2001:db8::7 2001:db8::8", "2001:db8:9::7 192.0.2.7"},
		"IPv6 alone, recorded no more": {&infrav1.IngotNetworkSpec{IPv6: six(stateless)}, nil, recorded("net", "2001:db8::7"), "2001:db8::7 2001:db8::8", "2001:db8:9::7"},
		"of another network":           {&infrav1.IngotNetworkSpec{IPv6: six(stateful)}, nil, recorded("old", "2001:db8::7"), "2001:db8::8", "192.0.2.7"},
		"the network is gone":          {nil, recorded("net", "192.0.2.7"), recorded("net", "2001:db8::7"), "192.0.2.7 2001:db8::7", "192.0.2.8 2001:db8::8"},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "h"}}
			host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = mac, "net"
			hardware := &infrav1.IngotHardware{ObjectMeta: host.ObjectMeta}
			hardware.Spec.Address, hardware.Spec.IPv6Address = tc.four, tc.six
			objects := []client.Object{hardware}
			if tc.network != nil {
				objects = append(objects, &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "net"}, Spec: *tc.network})
			}
			s := newSite(t, objects...)
			from, err := (&Server{Options: Options{Client: s.client}}).allowedSources(t.Context(), s.client, host)
			if err != nil {
				t.Fatal(err)
			}
			for list, want := range map[string]bool{tc.yes: true, tc.no: false} {
				for _, text := range strings.Fields(list) {
					if got := from.allows(netip.MustParseAddr(text)); got != want {
						t.Errorf("from %s: %v, want %v", text, got, want)
					}
				}
			}
		})
	}
}
