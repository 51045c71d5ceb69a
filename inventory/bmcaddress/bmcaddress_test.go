// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmcaddress_test

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/inventory/bmcaddress"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, address string
		want          bmcaddress.Address
		wantErr       string
	}{
		{"name", "redfish://bmc-1.example", bmcaddress.Address{Host: "bmc-1.example:443"}, ""},
		{"case and final dot", "redfish://BMC-1.Example.", bmcaddress.Address{Host: "bmc-1.example:443"}, ""},
		{"port", "redfish://10.0.0.9:8443/", bmcaddress.Address{Host: "10.0.0.9:8443"}, ""},
		{"system", "redfish://10.0.0.9/redfish/v1/Systems/1/", bmcaddress.Address{Host: "10.0.0.9:443", System: "/redfish/v1/Systems/1"}, ""},
		{"IPv6", "redfish://[2001:DB8:0:0::1]", bmcaddress.Address{Host: "[2001:db8::1]:443"}, ""},
		{"IPv4 in IPv6", "redfish://[::ffff:10.0.0.9]", bmcaddress.Address{Host: "10.0.0.9:443"}, ""},
		{"scheme", "https://10.0.0.9", bmcaddress.Address{}, "redfish://"},
		{"user", "redfish://root:calvin@10.0.0.9", bmcaddress.Address{}, "credentialsRef"},
		{"query", "redfish://10.0.0.9?", bmcaddress.Address{}, "query"},
		{"fragment", "redfish://10.0.0.9#x", bmcaddress.Address{}, "fragment"},
		{"port too high", "redfish://10.0.0.9:65536", bmcaddress.Address{}, "1 to 65535"},
		{"port zero", "redfish://10.0.0.9:0", bmcaddress.Address{}, "1 to 65535"},
		{"no host", "redfish://:443", bmcaddress.Address{}, "DNS name"},
		{"IPv4 with a slip", "redfish://10.0.0.256", bmcaddress.Address{}, "DNS name"},
		{"IPv6 without brackets", "redfish://2001:db8::1", bmcaddress.Address{}, "brackets"},
		{"zone", "redfish://[fe80::1%25eth0]", bmcaddress.Address{}, "zone"},
		{"collection", "redfish://10.0.0.9/redfish/v1/Systems", bmcaddress.Address{}, "<id>"},
		{"below a system", "redfish://10.0.0.9/redfish/v1/Systems/1/Bios", bmcaddress.Address{}, "<id>"},
		{"not a URL", "redfish://10.0.0.9:calvin", bmcaddress.Address{}, "not a URL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := bmcaddress.Parse(tt.address)
			if tt.wantErr == "" && (err != nil || got != tt.want) {
				t.Errorf("got %v, %v; want %v", got, err, tt.want)
			}
			if tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("got %v, %v; want an error about %q", got, err, tt.wantErr)
			}
			if err != nil && strings.Contains(err.Error(), "calvin") {
				t.Errorf("the error repeats what may be a password: %v", err)
			}
		})
	}
}

func TestSameSystem(t *testing.T) {
	tests := []struct {
		name, a, b string
		want       bool
	}{
		{"equal", "redfish://10.0.0.9", "redfish://10.0.0.9:443/", true},
		{"another port", "redfish://10.0.0.9", "redfish://10.0.0.9:8443", false},
		{"two systems", "redfish://10.0.0.9/redfish/v1/Systems/1", "redfish://10.0.0.9/redfish/v1/Systems/2", false},
		{"one of them takes any", "redfish://10.0.0.9/redfish/v1/Systems/1", "redfish://10.0.0.9", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, errA := bmcaddress.Parse(tt.a)
			b, errB := bmcaddress.Parse(tt.b)
			if errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
			if a.SameSystem(b) != tt.want || b.SameSystem(a) != tt.want {
				t.Errorf("got %v, want %v", a.SameSystem(b), tt.want)
			}
		})
	}
}

// What is taken is canonical: it is taken again, and means the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"redfish://bmc-1.example", "redfish://[2001:db8::1]:8443/redfish/v1/Systems/1", "redfish://10.0.0.9:0", "redfish://a@b", "redfish://[fe80::1%25x]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		got, err := bmcaddress.Parse(address)
		if err != nil {
			return
		}
		again, err := bmcaddress.Parse("redfish://" + got.Host + got.System)
		if err != nil || again != got {
			t.Errorf("%q became %v, and that %v: %v", address, got, again, err)
		}
	})
}
