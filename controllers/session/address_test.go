// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"net/http"
	"testing"
)

// The installed system reports to where its agent came, unless an address is given.
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
			got, err := (&Server{Options: Options{Address: tc.configured}}).addressFor(&http.Request{Host: tc.host})
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("address = %q, error %v; want %q", got, err, tc.want)
			}
		})
	}
}
