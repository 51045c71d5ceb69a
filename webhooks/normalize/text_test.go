// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package normalize_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/inventory/bmcaddress"
	"github.com/ingot-metal/ingot/webhooks/normalize"
)

var (
	sum256 = strings.Repeat("0123456789abcdef", 4)
	sum512 = strings.Repeat("0123456789abcdef", 8)
)

func TestForms(t *testing.T) {
	type pair struct{ name, in, want string }
	tests := []struct {
		what  string
		f     func(string) string
		pairs []pair
	}{
		{"MAC", normalize.MAC, []pair{
			{"canonical", "aa:bb:cc:00:11:22", "aa:bb:cc:00:11:22"},
			{"upper case", "AA:BB:CC:00:11:22", "aa:bb:cc:00:11:22"},
			{"dashes", "AA-BB-CC-00-11-22", "aa:bb:cc:00:11:22"},
			{"fours with dots", "aabb.cc00.1122", "aa:bb:cc:00:11:22"},
			{"two halves", "AABBCC-001122", "aa:bb:cc:00:11:22"},
			{"bare", "AABBCC001122", "aa:bb:cc:00:11:22"},
			{"spaces around", " aa:bb:cc:00:11:22\n", "aa:bb:cc:00:11:22"},
			{"group address, refused under its own name", "01-00-5E-00-00-01", "01:00:5e:00:00:01"},
			{"mixed separators", "aa:bb-cc:00:11:22", "aa:bb-cc:00:11:22"},
			{"a digit left out", "a:bb:cc:00:11:22", "a:bb:cc:00:11:22"},
			{"64 bits", "AA:BB:CC:00:11:22:33:44", "AA:BB:CC:00:11:22:33:44"},
			{"no digits", "GG:BB:CC:00:11:22", "GG:BB:CC:00:11:22"},
			{"empty", "", ""},
			{"only spaces", "  ", "  "},
		}},
		{"checksum", normalize.Checksum, []pair{
			{"canonical", "sha256:" + sum256, "sha256:" + sum256},
			{"upper case digits", "sha256:" + strings.ToUpper(sum256), "sha256:" + sum256},
			{"upper case algorithm", "SHA512:" + sum512 + "\n", "sha512:" + sum512},
			{"no algorithm", strings.ToUpper(sum256), strings.ToUpper(sum256)},
			{"wrong length", "SHA256:" + sum512, "SHA256:" + sum512},
			{"another algorithm", "MD5:" + sum256[:32], "MD5:" + sum256[:32]},
		}},
		{"hostname", normalize.Hostname, []pair{
			{"canonical", "node-1", "node-1"},
			{"upper case", "Node-1", "node-1"},
			{"absolute", "node-1.", "node-1."},
			{"with a domain", "Node-1.Example", "Node-1.Example"},
			{"Kelvin sign", "\u212aube", "\u212aube"},
		}},
		{"domain", normalize.Domain, []pair{
			{"canonical", "dc1.example", "dc1.example"},
			{"upper case", "DC1.Example", "dc1.example"},
			{"absolute", "dc1.example.", "dc1.example"},
			{"two dots", "dc1.example..", "dc1.example.."},
			{"the root", ".", "."},
			{"underscore", "DC_1.example", "DC_1.example"},
			{"Kelvin sign and dot", "\u212aube.", "\u212aube."},
		}},
		{"endpoint", normalize.EndpointHost, []pair{
			{"name", "API.c1.example", "API.c1.example"},
			{"absolute", "api.c1.example.", "api.c1.example"},
			{"IPv4", "10.0.0.9", "10.0.0.9"},
			{"IPv4 with a dot", "10.0.0.9.", "10.0.0.9."},
			{"IPv6", "2001:db8::9", "2001:db8::9"},
			{"IPv6 in brackets", "[2001:db8::9]", "2001:db8::9"},
			{"IPv4 in brackets", "[10.0.0.9]", "[10.0.0.9]"},
			{"brackets not closed", "[2001:db8::9", "[2001:db8::9"},
			{"with a port", "[2001:db8::9]:6443", "[2001:db8::9]:6443"},
			{"with a zone", "[fe80::1%eth0]", "[fe80::1%eth0]"},
			{"a URL", "https://api.c1.example", "https://api.c1.example"},
			{"unset", "", ""},
		}},
		{"BMC address", normalize.BMCAddress, []pair{
			{"canonical", "redfish://BMC-1.Example.:443/redfish/v1/Systems/1/", "redfish://BMC-1.Example.:443/redfish/v1/Systems/1/"},
			{"scheme", "Redfish://10.0.0.9", "redfish://10.0.0.9"},
			{"spaces around", " redfish://10.0.0.9\n", "redfish://10.0.0.9"},
			{"with a password", "REDFISH://root:calvin@10.0.0.9", "REDFISH://root:calvin@10.0.0.9"},
			{"another scheme", "HTTPS://10.0.0.9", "HTTPS://10.0.0.9"},
			{"host alone", "BMC-1.example.", "BMC-1.example."},
			{"host alone with spaces around", " [2001:db8::9]:443\n", "[2001:db8::9]:443"},
			{"no host", " bmc_9 ", " bmc_9 "},
			{"IPMI", "IPMI://10.0.0.9", "ipmi://10.0.0.9"},
			{"in clear", "Redfish+HTTP://10.0.0.9", "redfish+http://10.0.0.9"},
			{"vendor", " Vendor+Dell://10.0.0.9", "vendor+dell://10.0.0.9"},
			{"vendor without a driver", "Vendor+://10.0.0.9", "Vendor+://10.0.0.9"},
			{"a path that ends with a space", "redfish://10.0.0.9/redfish/v1/Systems/a ", "redfish://10.0.0.9/redfish/v1/Systems/a "},
			{"scheme only", "REDFISH://", "REDFISH://"},
		}},
		{"URL", normalize.URL, []pair{
			{"canonical", "https://images.example/os.raw", "https://images.example/os.raw"},
			{"line end", "https://images.example/os.raw\n", "https://images.example/os.raw"},
			{"with a password", "https://a:b@images.example/os.raw\n", "https://a:b@images.example/os.raw\n"},
		}},
	}
	for _, tt := range tests {
		for _, p := range tt.pairs {
			t.Run(tt.what+"/"+p.name, func(t *testing.T) {
				if got := tt.f(p.in); got != p.want {
					t.Errorf("%q became %q, want %q", p.in, got, p.want)
				}
			})
		}
	}
}

// allowed are the forms of the schema; test/validation compares with the API server.
var allowed = map[string]func(string) bool{
	"mac":      regexp.MustCompile(`^[0-9a-f]{2}(:[0-9a-f]{2}){5}$`).MatchString,
	"checksum": regexp.MustCompile(`^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`).MatchString,
	"hostname": regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`).MatchString,
	"domain":   regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`).MatchString,
	"endpoint": regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$`).MatchString,
	"bmc": func(s string) bool {
		_, err := bmcaddress.Parse(s)
		return err == nil && regexp.MustCompile(`^(redfish([+]http)?://[^/@?#]+(/[^?#]*)?|(ipmi|vendor[+][a-z0-9]+(-[a-z0-9]+)*)://[^/@?#]+/?|[^]/@?#: []+(:[0-9]+)?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*|[[][0-9A-Fa-f:.]+[]](:[0-9]+)?)$`).MatchString(s)
	},
	"url": regexp.MustCompile(`^https?://[!-~]+$`).MatchString,
}

// An allowed value stays unchanged. Normalization is idempotent and changes only case, separators,
// brackets, dots and spaces.
func FuzzForms(f *testing.F) {
	for _, seed := range []string{
		"AA-BB-CC-00-11-22", "aabb.cc00.1122", "SHA256:" + sum256, "Node-1", "dc1.example.", "[2001:db8::9]",
		"Redfish://10.0.0.9", "redfish://10.0.0.9/redfish/v1/Systems/1 ", " bmc-1:443", "IPMI://[2001:db8::9]", "vendor+dell://h", "https://images.example/os.raw\n", "\u212aube", " . ",
	} {
		f.Add(seed)
	}
	functions := map[string]func(string) string{
		"mac": normalize.MAC, "checksum": normalize.Checksum, "hostname": normalize.Hostname, "domain": normalize.Domain,
		"endpoint": normalize.EndpointHost, "bmc": normalize.BMCAddress, "url": normalize.URL,
	}
	essence := func(s string) string {
		return strings.ToLower(strings.Map(func(r rune) rune {
			if strings.ContainsRune(":-.[]", r) || strings.ContainsRune(" \t\n\v\f\r\u0085\u00a0", r) {
				return -1
			}
			return r
		}, strings.TrimSpace(s)))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, function := range functions {
			got := function(text)
			if allowed[name](text) && got != text {
				t.Errorf("%s: %q is allowed, but became %q", name, text, got)
			}
			if again := function(got); again != got {
				t.Errorf("%s: %q became %q, and that %q", name, text, got, again)
			}
			if essence(got) != essence(text) {
				t.Errorf("%s: %q became %q", name, text, got)
			}
		}
	})
}
