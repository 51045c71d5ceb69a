// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd_test

import (
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/pxe"
)

// A boot script with a token is only for its host. Requests with the host's MAC address from
// another network, or from an unknown address, are refused. Scripts without a token are for
// everyone, so that no firmware hangs.
func TestScriptIsForItsHost(t *testing.T) {
	for name, tc := range map[string]struct {
		mac, from string
		status    int
		says      string
	}{
		"the host":                    {agentMAC, "192.0.2.17:40000", 200, token},
		"the host, as IPv6 writes it": {agentMAC, "[::ffff:192.0.2.17]:40000", 200, token},
		"a neighbor":                  {agentMAC, "192.0.2.18:40000", 404, "unknown address of the host"},
		"from afar":                   {agentMAC, "198.51.100.17:40000", 404, "unknown address of the host"},
		"by IPv6, which it has not":   {agentMAC, "[2001:db8::17]:40000", 404, "unknown address of the host"},
		"from nowhere":                {agentMAC, "pipe", 404, "unknown address of the host"},
		"a disk's, from afar":         {diskMAC, "198.51.100.17:40000", 200, "sanboot"},
	} {
		t.Run(name, func(t *testing.T) {
			h, _, seen, _ := newHandler(t)
			r := httptest.NewRequest("GET", "http://boot/boot/"+tc.mac+"/script.ipxe", nil)
			r.RemoteAddr = tc.from
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if got := w.Body.String(); w.Code != tc.status || !strings.Contains(got, tc.says) || (tc.status != 200 && strings.Contains(got, token)) {
				t.Errorf("%d: %s", w.Code, got)
			}
			if events := seen.text(); len(events) != 1 || strings.Contains(events[0], " Silent ") != (tc.status != 200) {
				t.Errorf("events: %q", events)
			}
		})
	}
}

// In mode Proxy the script is for the address that DHCP has shown.
func TestProxyScriptIsForItsHost(t *testing.T) {
	const other = "52:54:00:99:99:99"
	for name, tc := range map[string]struct {
		shown map[string]string // address to MAC address
		from  string
		given bool
	}{
		"the host":                     {map[string]string{"192.0.2.17": agentMAC}, "192.0.2.17:40000", true},
		"a neighbor":                   {map[string]string{"192.0.2.17": agentMAC}, "192.0.2.18:40000", false},
		"a neighbor with an address":   {map[string]string{"192.0.2.17": agentMAC, "192.0.2.18": other}, "192.0.2.18:40000", false},
		"before any exchange":          {nil, "192.0.2.17:40000", false},
		"an address of another subnet": {map[string]string{"198.51.100.17": agentMAC}, "198.51.100.17:40000", false},
	} {
		t.Run(name, func(t *testing.T) {
			h, _, _, _ := newHandler(t)
			table := h.Directory.(pxe.Table)
			host := table[agentMAC]
			host.Mode, host.Subnet, host.Address = pxe.Proxy, netip.MustParsePrefix("192.0.2.0/24"), netip.Prefix{}
			table[agentMAC] = host
			h.Bindings = &pxe.AddressBindings{}
			for address, mac := range tc.shown {
				h.Bindings.Bind(netip.MustParseAddr(address), mustMAC(t, mac))
			}
			r := httptest.NewRequest("GET", "http://boot/boot/"+agentMAC+"/script.ipxe", nil)
			r.RemoteAddr = tc.from
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if given := strings.Contains(w.Body.String(), token); given != tc.given {
				t.Errorf("token given: %t, want %t (%d)", given, tc.given, w.Code)
			}
		})
	}
}
