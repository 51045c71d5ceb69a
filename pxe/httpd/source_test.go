// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd_test

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// The token in a boot script is for its host: whoever asks in the host's name from
// another network, or without an address, gets neither. Scripts without one go to
// everybody, so that no firmware hangs.
func TestScriptIsForItsHost(t *testing.T) {
	for name, tc := range map[string]struct {
		mac, from string
		status    int
		says      string
	}{
		"the host":                    {agentMAC, "192.0.2.17:40000", 200, token},
		"the host, as IPv6 writes it": {agentMAC, "[::ffff:192.0.2.17]:40000", 200, token},
		"a neighbour":                 {agentMAC, "192.0.2.18:40000", 404, "not from there"},
		"from afar":                   {agentMAC, "198.51.100.17:40000", 404, "not from there"},
		"by IPv6, which it has not":   {agentMAC, "[2001:db8::17]:40000", 404, "not from there"},
		"from nowhere":                {agentMAC, "pipe", 404, "not from there"},
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
				t.Errorf("told: %q", events)
			}
		})
	}
}
