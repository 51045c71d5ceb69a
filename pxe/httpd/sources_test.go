// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestSources(t *testing.T) {
	const (
		pub   = "93.184.216.34"
		priv  = "10.1.2.3"
		meta  = "169.254.169.254"
		local = "127.0.0.1"
	)
	for _, tc := range []struct {
		name    string
		entries string
		url     string
		// address is what the URL's host resolves to.
		address string
		want    bool
	}{
		{"nothing named, public", "", "https://images.example.com/os.raw", pub, true},
		{"nothing named, private", "", "http://images.example.com/os.raw", priv, false},
		{"nothing named, carrier's", "", "http://images.example.com/os.raw", "100.64.0.1", false},
		{"nothing named, loopback", "", "http://localhost/", local, false},
		{"nothing named, metadata service", "", "http://metadata/", meta, false},
		{"nothing named, this network", "", "http://x/", "0.0.0.0", false},
		{"nothing named, multicast", "", "http://x/", "224.0.0.1", false},
		{"nothing named, reserved", "", "http://x/", "240.0.0.1", false},
		{"nothing named, mapped loopback", "", "http://x/", "::ffff:127.0.0.1", false},
		{"nothing named, loopback by NAT64", "", "http://x/", "64:ff9b::7f00:1", false},
		{"nothing named, private by 6to4", "", "http://x/", "2002:0a01:0203::1", false},
		{"nothing named, IPv6 link", "", "http://x/", "fe80::1", false},
		{"nothing named, IPv6 private", "", "http://x/", "fd00::1", false},
		{"nothing named, IPv6 public", "", "http://x/", "2606:2800:220:1::1", true},
		{"not the web", "", "ftp://images.example.com/os.raw", pub, false},
		{"no host", "", "http:///os.raw", pub, false},

		{"network", "10.0.0.0/8", "http://images/os.raw", priv, true},
		{"network, another address", "10.0.0.0/8", "http://images/os.raw", pub, false},
		{"network, by address", "10.0.0.0/8", "http://10.1.2.3:8080/os.raw", priv, true},
		{"address", priv, "http://images/os.raw", priv, true},
		{"address of IPv6", "[fd00::1]", "http://images/os.raw", "fd00::1", true},
		{"all networks", "0.0.0.0/0,::/0", "http://images/os.raw", priv, true},
		{"all networks, metadata", "0.0.0.0/0,::/0", "http://images/os.raw", meta, false},
		{"all networks, IPv6 loopback", "0.0.0.0/0,::/0", "http://images/os.raw", "::1", false},
		{"loopback by network", "127.0.0.0/8", "http://localhost/", local, true},

		{"host", "images.example.com", "https://images.example.com/os.raw", pub, true},
		{"host, private", "images.example.com", "http://images.example.com:8080/os.raw", priv, true},
		{"host, turned to loopback", "images.example.com", "http://images.example.com/", local, false},
		{"host, turned to metadata", "images.example.com", "http://images.example.com/", meta, false},
		{"host, spelt otherwise", "Images.Example.com.", "http://IMAGES.example.com./", pub, true},
		{"another host", "images.example.com", "http://example.com/", pub, false},
		{"a host that ends so", "example.com", "http://evilexample.com/", pub, false},
		{"host and port", "images.example.com:8080", "http://images.example.com:8080/", pub, true},
		{"host and another port", "images.example.com:8080", "http://images.example.com/", pub, false},
		{"domain", "*.example.com", "http://a.b.example.com/", priv, true},
		{"domain itself", "*.example.com", "http://example.com/", pub, false},
		{"not the domain", "*.example.com", "http://evilexample.com/", pub, false},
		{"user in the URL", "images.example.com", "http://images.example.com@evil.example/", pub, false},

		{"URL", "https://images.example.com/os/", "https://images.example.com/os/a.raw", priv, true},
		{"URL, another scheme", "https://images.example.com/os/", "http://images.example.com/os/a.raw", pub, false},
		{"URL, another port", "https://images.example.com/os/", "https://images.example.com:8443/os/a.raw", pub, false},
		{"URL, its port written out", "https://images.example.com/os/", "https://images.example.com:443/os/a.raw", pub, true},
		{"URL, another path", "https://images.example.com/os/", "https://images.example.com/admin", pub, false},
		{"URL, a path that begins so", "https://images.example.com/os", "https://images.example.com/osx", pub, false},
		{"URL, up and over", "https://images.example.com/os/", "https://images.example.com/os/../admin", pub, false},
		{"URL, up and over, hidden", "https://images.example.com/os/", "https://images.example.com/os/%2e%2e/admin", pub, false},
		{"URL, up and over, by backslash", "https://images.example.com/os/", `https://images.example.com/os/..%5cadmin`, pub, false},
		{"URL by address on loopback", "http://127.0.0.1:8080/", "http://127.0.0.1:8080/a", local, true},
		{"URL by address, another one", "http://127.0.0.1:8080/", "http://127.0.0.1:8080/a", "127.0.0.2", false},

		{"several", "10.0.0.0/8,images.example.com", "http://other/", priv, true},
		{"several, the other", "10.0.0.0/8,images.example.com", "http://images.example.com/", pub, true},
		{"several, none", "10.0.0.0/8,images.example.com", "http://other/", pub, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var entries []string
			if tc.entries != "" {
				entries = strings.Split(tc.entries, ",")
			}
			s, err := ParseSources(entries)
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(tc.url)
			if err != nil {
				t.Fatal(err)
			}
			p := s.url(u)
			got := p != refused && s.address(netip.MustParseAddr(tc.address), hostOf(u), p)
			if got != tc.want {
				t.Errorf("%s at %s: allowed %t", tc.url, tc.address, got)
			}
		})
	}
}

func TestInvalidSources(t *testing.T) {
	for _, entry := range []string{"", "ftp://example.com/", "http://", "http:///os/", "example.com/os/", "http://user@example.com/",
		"http://example.com/?a=b", "http://example.com/os/../", "a.*.example.com", "*", "*.", "192.0.2.0/33", "http://[::1/"} {
		t.Run(entry, func(t *testing.T) {
			if s, err := ParseSources([]string{entry}); err == nil {
				t.Errorf("read as %+v", s)
			}
		})
	}
}
