// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmcaddress_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/inventory/bmcaddress"
)

const systemOne = "/redfish/v1/Systems/1"

func TestParse(t *testing.T) {
	type address = bmcaddress.Address
	tests := []struct {
		name, address string
		want          address
		text          string
	}{
		{"name", "redfish://bmc-1.example", address{Scheme: "redfish", Host: "bmc-1.example"}, "redfish://bmc-1.example"},
		{"case and final dot", "Redfish://BMC-1.Example.", address{Scheme: "redfish", Host: "bmc-1.example"}, "redfish://bmc-1.example"},
		{"own port", "redfish://10.0.0.9:443/", address{Scheme: "redfish", Host: "10.0.0.9"}, "redfish://10.0.0.9"},
		{"port", "redfish://10.0.0.9:8443", address{Scheme: "redfish", Host: "10.0.0.9", Port: 8443}, "redfish://10.0.0.9:8443"},
		{"system", "redfish://10.0.0.9/redfish/v1/Systems/1/", address{Scheme: "redfish", Host: "10.0.0.9", System: systemOne}, "redfish://10.0.0.9" + systemOne},
		{"system with a space", "redfish://10.0.0.9/redfish/v1/Systems/a b", address{Scheme: "redfish", Host: "10.0.0.9", System: "/redfish/v1/Systems/a%20b"}, "redfish://10.0.0.9/redfish/v1/Systems/a%20b"},
		{"service root", "redfish://10.0.0.9/redfish/v1/", address{Scheme: "redfish", Host: "10.0.0.9"}, "redfish://10.0.0.9"},
		{"service root in clear", "redfish+http://10.0.0.9:8000/redfish/v1", address{Scheme: "redfish+http", Host: "10.0.0.9", Port: 8000}, "redfish+http://10.0.0.9:8000"},
		{"IPv6", "redfish://[2001:DB8:0:0::1]", address{Scheme: "redfish", Host: "2001:db8::1"}, "redfish://[2001:db8::1]"},
		{"IPv4 in IPv6", "redfish://[::ffff:10.0.0.9]", address{Scheme: "redfish", Host: "10.0.0.9"}, "redfish://10.0.0.9"},
		{"in clear", "redfish+http://10.0.0.9:80" + systemOne, address{Scheme: "redfish+http", Host: "10.0.0.9", System: systemOne}, "redfish+http://10.0.0.9" + systemOne},
		{"in clear on the port of HTTPS", "redfish+http://10.0.0.9:443", address{Scheme: "redfish+http", Host: "10.0.0.9", Port: 443}, "redfish+http://10.0.0.9:443"},
		{"IPMI", "ipmi://10.0.0.9", address{Scheme: "ipmi", Host: "10.0.0.9"}, "ipmi://10.0.0.9"},
		{"IPMI with its own port", "IPMI://[2001:db8::9]:623/", address{Scheme: "ipmi", Host: "2001:db8::9"}, "ipmi://[2001:db8::9]"},
		{"IPMI with a port", "ipmi://[2001:db8::9]:6230", address{Scheme: "ipmi", Host: "2001:db8::9", Port: 6230}, "ipmi://[2001:db8::9]:6230"},
		{"vendor", "vendor+dell://idrac-7.example", address{Scheme: "vendor+dell", Host: "idrac-7.example"}, "vendor+dell://idrac-7.example"},
		{"vendor with a port", "vendor+intel-amt://10.0.0.9:16993", address{Scheme: "vendor+intel-amt", Host: "10.0.0.9", Port: 16993}, "vendor+intel-amt://10.0.0.9:16993"},
		{"host alone", "10.0.0.9", address{Host: "10.0.0.9"}, "10.0.0.9"},
		{"name alone", "BMC-1.example.", address{Host: "bmc-1.example"}, "bmc-1.example"},
		{"host and port", "bmc-1:8443", address{Host: "bmc-1", Port: 8443}, "bmc-1:8443"},
		{"host and a usual port", "10.0.0.9:443", address{Host: "10.0.0.9", Port: 443}, "10.0.0.9:443"},
		{"IPv6 alone", "2001:db8::9", address{Host: "2001:db8::9"}, "[2001:db8::9]"},
		{"IPv6 in brackets", "[2001:db8::9]", address{Host: "2001:db8::9"}, "[2001:db8::9]"},
		{"IPv6 and port", "[2001:db8::9]:8443", address{Host: "2001:db8::9", Port: 8443}, "[2001:db8::9]:8443"},
		{"a name like a scheme", "redfish:8443", address{Host: "redfish", Port: 8443}, "redfish:8443"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := bmcaddress.Parse(tt.address)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("address (-want +got):\n%s", diff)
			}
			if got.String() != tt.text {
				t.Errorf("text %q, want %q", got, tt.text)
			}
		})
	}
}

// Each refusal has a remedy, and none repeats a password.
func TestParseRefuses(t *testing.T) {
	tests := []struct{ name, address, want string }{
		{"HTTPS", "https://10.0.0.9", "write redfish://"},
		{"HTTP", "http://10.0.0.9", "write redfish+http://"},
		{"another's scheme", "amt://10.0.0.9", "redfish://, redfish+http://, ipmi:// or vendor+<driver>://"},
		{"Metal3, iDRAC", "idrac://10.0.0.9", "which is Metal3's; write redfish://"},
		{"Metal3, iDRAC by Redfish", "idrac-redfish+https://10.0.0.9", "write redfish://"},
		{"Metal3, iDRAC with virtual media", "idrac-virtualmedia://10.0.0.9" + systemOne, "write redfish:// with bootMethod: VirtualMedia"},
		{"Metal3, iLO", "ilo5-redfish://10.0.0.9", "write redfish://"},
		{"Metal3, virtual media", "redfish-virtualmedia+https://10.0.0.9", "write redfish:// with bootMethod: VirtualMedia"},
		{"Metal3, virtual media in clear", "Redfish-VirtualMedia+HTTP://10.0.0.9", "write redfish+http:// with bootMethod: VirtualMedia"},
		{"Metal3, HTTP boot", "redfish-uefihttp+https://10.0.0.9", "write redfish:// with bootMethod: HTTP"},
		{"Metal3, Redfish", "redfish+https://10.0.0.9", "write redfish://"},
		{"Metal3, libvirt", "libvirt://10.0.0.9:6233/", "write ipmi://"},
		{"one like Metal3's", "redfish-virtualmedia+ftp://10.0.0.9", "or a host alone"},
		{"the slashes are missing before a port", "ipmi:10.0.0.9:623", "two slashes after ipmi:, as in ipmi://host"},
		{"the slashes are missing before IPv6", "ipmi:2001:db8::9", "two slashes"},
		{"no scheme", "://10.0.0.9", "write redfish://"},
		{"vendor without a driver", "vendor+://10.0.0.9", "vendor+dell://"},
		{"vendor with a strange driver", "vendor+de_ll://10.0.0.9", "vendor+dell://"},
		{"a slash is missing", "redfish:/10.0.0.9", "write redfish://host/redfish/v1/Systems/<id>"},
		{"the slashes are missing", "ipmi:host", "ipmi://host"},
		{"user", "redfish://root:calvin@10.0.0.9", "credentialsRef"},
		{"user of a host alone", "root:calvin@10.0.0.9", "credentialsRef"},
		{"user of a scheme that is none", "ipmi+x://root:calvin@10.0.0.9", "credentialsRef"},
		{"query", "redfish://10.0.0.9?", "query"},
		{"fragment", "10.0.0.9#x", "fragment"},
		{"port too high", "redfish://10.0.0.9:65536", "1 to 65535, not 65536; leave it out for 443"},
		{"port zero", "ipmi://10.0.0.9:0", "1 to 65535, not 0; leave it out for 623"},
		{"port that is none", "redfish://10.0.0.9:calvin", "digits"},
		{"port of a host alone that is none", "10.0.0.9:calvin", "digits"},
		{"nothing", "", "DNS name"},
		{"no host", "redfish://:443", "DNS name"},
		{"no host, path", "redfish:///redfish/v1/Systems/1", "DNS name"},
		{"IPv4 with a slip", "10.0.0.256", "DNS name"},
		{"a number", "ipmi://167772169", "DNS name"},
		{"a space", "10.0.0.9 ", "DNS name"},
		{"IPv6 without brackets", "redfish://2001:db8::1", "brackets"},
		{"IPv6 with a slip", "2001:db8:::9", "no IPv6 address"},
		{"IPv6 without brackets, port", "2001:db8:0:0:0:0:0:9:443", "no IPv6 address"},
		{"brackets not closed", "redfish://[2001:db8::9", "brackets"},
		{"text behind brackets", "[2001:db8::9]x", "brackets"},
		{"IPv4 in brackets", "redfish://[10.0.0.9]", "without brackets"},
		{"zone", "redfish://[fe80::1%25eth0]", "zone eth0"},
		{"zone of a host alone", "fe80::1%eth0", "zone eth0"},
		{"collection", "redfish://10.0.0.9/redfish/v1/Systems", "<id>"},
		{"below a system", "redfish://10.0.0.9/redfish/v1/Systems/1/Bios", "<id>"},
		{"up", "redfish://10.0.0.9/redfish/v1/Systems/..", "<id>"},
		{"up in disguise", "redfish://10.0.0.9/redfish/v1/Systems/%2e%2e", "<id>"},
		{"below in disguise", "redfish://10.0.0.9/redfish/v1/Systems/1%2fBios", "<id>"},
		{"not a path", "redfish://10.0.0.9/redfish/v1/Systems/%zz", "<id>"},
		{"system by IPMI", "ipmi://10.0.0.9" + systemOne, "one system"},
		{"system by a vendor's way", "vendor+dell://10.0.0.9" + systemOne, "one system"},
		{"system of a host alone", "10.0.0.9" + systemOne, "write redfish://"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := bmcaddress.Parse(tt.address)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, %v; want an error about %q", got, err, tt.want)
			}
			if strings.Contains(err.Error(), "calvin") {
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
		{"two systems", "redfish://10.0.0.9" + systemOne, "redfish://10.0.0.9/redfish/v1/Systems/2", false},
		{"one of them takes any", "redfish://10.0.0.9" + systemOne, "redfish://10.0.0.9", true},
		{"Redfish and IPMI", "redfish://10.0.0.9", "ipmi://10.0.0.9:623", true},
		{"a system and IPMI", "redfish://10.0.0.9" + systemOne, "ipmi://10.0.0.9", true},
		{"Redfish in clear", "redfish+http://10.0.0.9", "redfish://10.0.0.9", true},
		{"alone and Redfish", "bmc-1.example", "redfish://BMC-1.example.", true},
		{"alone and IPMI", "[2001:db8::9]", "ipmi://[2001:db8::9]", true},
		{"alone on a usual port", "10.0.0.9:443", "10.0.0.9", true},
		{"vendor and Redfish", "vendor+dell://10.0.0.9", "redfish://10.0.0.9", true},
		{"vendor on the port of IPMI", "vendor+x://10.0.0.9:623", "ipmi://10.0.0.9", true},
		{"two ways of vendors", "vendor+dell://10.0.0.9", "vendor+gofish://10.0.0.9", true},
		{"one address, ports of their own", "redfish://127.0.0.1:8001", "redfish://127.0.0.1:8002", false},
		{"one port, one by TCP and one by UDP", "redfish://127.0.0.1:8001", "ipmi://127.0.0.1:8001", false},
		{"a port that may be either", "127.0.0.1:8001", "ipmi://127.0.0.1:8001", true},
		{"a port in two schemes", "redfish+http://127.0.0.1:8001", "vendor+x://127.0.0.1:8001", true},
		{"the other's port", "redfish+http://10.0.0.9:443", "redfish://10.0.0.9", false},
		{"another host", "10.0.0.8", "10.0.0.9", false},
		{"an IPv6 address that looks like another with a port", "2001:db8::9", "[2001:db8::]:9", false},
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
			if tt.want && a.Key() != b.Key() {
				t.Errorf("keys %q and %q of one system", a.Key(), b.Key())
			}
		})
	}
}

func TestTLS(t *testing.T) {
	for address, want := range map[string]bool{
		"10.0.0.9": true, "redfish://10.0.0.9": true, "vendor+dell://10.0.0.9": true, "ipmi://10.0.0.9": false, "redfish+http://10.0.0.9": false,
	} {
		a, err := bmcaddress.Parse(address)
		if err != nil || a.TLS() != want {
			t.Errorf("%s: %v, %v; want %v", address, a.TLS(), err, want)
		}
	}
}

// FuzzParse: what is taken is canonical, so it is taken again and means the same;
// it is a twin of itself; and no error repeats what stands before an @.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"redfish://bmc-1.example", "redfish://[2001:db8::1]:8443/redfish/v1/Systems/1", "redfish://10.0.0.9:0", "redfish://a@b", "redfish://[fe80::1%25x]",
		"ipmi://10.0.0.9:623", "vendor+dell://h", "10.0.0.9", "[2001:db8::9]:443", "2001:db8::9", "h:443", "redfish+http://h/redfish/v1/Systems/%41", "redfish:h",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		const secret = "c4nary"
		if _, err := bmcaddress.Parse(address + secret + "@h"); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("a user name in the address: %v", err)
		}
		got, err := bmcaddress.Parse(address)
		if err != nil {
			return
		}
		again, err := bmcaddress.Parse(got.String())
		if err != nil || again != got {
			t.Errorf("%q became %v, and that %v: %v", address, got, again, err)
		}
		if !got.SameSystem(got) {
			t.Errorf("%v is not itself", got)
		}
	})
}
