// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipv6

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ingot-metal/ingot/agentapi"
)

var card = client{mac: net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56}}

// given returns an identity association with one address.
func given(address string, valid, t1 time.Duration) *dhcpv6.OptIANA {
	ia := &dhcpv6.OptIANA{IaId: [4]byte{0, 0x12, 0x34, 0x56}, T1: t1}
	ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP(address), PreferredLifetime: valid, ValidLifetime: valid})
	return ia
}

func failing(code iana.StatusCode) *dhcpv6.OptStatusCode {
	return &dhcpv6.OptStatusCode{StatusCode: code}
}

func TestLease(t *testing.T) {
	server := &dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
	refusing := given("2001:db8::7", time.Hour, 0)
	refusing.Options.Add(failing(iana.StatusNoAddrsAvail))
	timed := given("2001:db8::7", time.Hour, 10*time.Minute)
	timed.T2 = 20 * time.Minute
	another := given("2001:db8::7", time.Hour, 0)
	another.IaId = [4]byte{9, 9, 9, 9}
	taken := given("2001:db8::6", 0, 0)
	taken.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP("2001:db8::7"), PreferredLifetime: time.Hour, ValidLifetime: time.Hour})
	for name, tc := range map[string]struct {
		options       []dhcpv6.Option
		want          string
		renew, rebind time.Duration
	}{
		"address":                  {[]dhcpv6.Option{dhcpv6.OptServerID(server), given("2001:db8::7", time.Hour, 10*time.Minute)}, "2001:db8::7", 10 * time.Minute, 48 * time.Minute},
		"T1 and T2":                {[]dhcpv6.Option{dhcpv6.OptServerID(server), timed}, "2001:db8::7", 10 * time.Minute, 20 * time.Minute},
		"times left to the client": {[]dhcpv6.Option{dhcpv6.OptServerID(server), given("2001:db8::7", time.Hour, 0)}, "2001:db8::7", 30 * time.Minute, 48 * time.Minute},
		"short lease":              {[]dhcpv6.Option{dhcpv6.OptServerID(server), given("2001:db8::7", time.Minute, time.Second)}, "2001:db8::7", minRenew, 48 * time.Second},
		"one is withdrawn":         {[]dhcpv6.Option{dhcpv6.OptServerID(server), taken}, "2001:db8::7", 30 * time.Minute, 48 * time.Minute},
		"unique local":             {[]dhcpv6.Option{dhcpv6.OptServerID(server), given("fd00::7", time.Hour, 0)}, "fd00::7", 30 * time.Minute, 48 * time.Minute},
		"no server ID":             {options: []dhcpv6.Option{given("2001:db8::7", time.Hour, 0)}},
		"nothing":                  {options: []dhcpv6.Option{dhcpv6.OptServerID(server)}},
		"no address left":          {options: []dhcpv6.Option{dhcpv6.OptServerID(server), refusing}},
		"refused":                  {options: []dhcpv6.Option{dhcpv6.OptServerID(server), failing(iana.StatusNotOnLink), given("2001:db8::7", time.Hour, 0)}},
		"another association":      {options: []dhcpv6.Option{dhcpv6.OptServerID(server), another}},
		"link-local":               {options: []dhcpv6.Option{dhcpv6.OptServerID(server), given("fe80::7", time.Hour, 0)}},
		"multicast":                {options: []dhcpv6.Option{dhcpv6.OptServerID(server), given("ff02::7", time.Hour, 0)}},
		"IPv4-mapped":              {options: []dhcpv6.Option{dhcpv6.OptServerID(server), given("::ffff:192.0.2.7", time.Hour, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeReply, Options: dhcpv6.MessageOptions{Options: tc.options}}
			// As it comes off the wire.
			m, err := dhcpv6.MessageFromBytes(m.ToBytes())
			if err != nil {
				t.Fatal(err)
			}
			got, err := card.leaseIn(m)
			if tc.want == "" {
				if !errors.Is(err, errNoAddress) {
					t.Errorf("%+v, %v, want %v", got, err, errNoAddress)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := lease{address: netip.MustParseAddr(tc.want), renew: tc.renew, rebind: tc.rebind, server: server}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(lease{}), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBootOptions(t *testing.T) {
	value := func(code dhcpv6.OptionCode, text string) dhcpv6.Option {
		return &dhcpv6.OptionGeneric{OptionCode: code, OptionData: []byte(text)}
	}
	all := dhcpv6.Options{value(agentapi.OptionServer, "[2001:db8::1]:8843"), value(agentapi.OptionPin, "pin"),
		value(agentapi.OptionToken, "token"), value(agentapi.OptionFiles, "http://[2001:db8::1]:8880")}
	for name, tc := range map[string]struct {
		options []dhcpv6.Option
		want    agentapi.BootOptions
	}{
		"all": {[]dhcpv6.Option{&dhcpv6.OptVendorOpts{EnterpriseNumber: agentapi.Enterprise, VendorOpts: all}},
			agentapi.BootOptions{Server: "[2001:db8::1]:8843", Pin: "pin", Token: "token", Files: "http://[2001:db8::1]:8880"}},
		"with another vendor's": {[]dhcpv6.Option{
			&dhcpv6.OptVendorOpts{EnterpriseNumber: 343, VendorOpts: dhcpv6.Options{value(agentapi.OptionServer, "other")}},
			&dhcpv6.OptVendorOpts{EnterpriseNumber: agentapi.Enterprise, VendorOpts: all[:1]}}, agentapi.BootOptions{Server: "[2001:db8::1]:8843"}},
		"only another vendor's": {[]dhcpv6.Option{&dhcpv6.OptVendorOpts{EnterpriseNumber: 343, VendorOpts: all}}, agentapi.BootOptions{}},
		"nothing":               {},
	} {
		t.Run(name, func(t *testing.T) {
			m := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeReply, Options: dhcpv6.MessageOptions{Options: tc.options}}
			m, err := dhcpv6.MessageFromBytes(m.ToBytes())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, bootOptions(m)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A message identifies the agent and its MAC address.
func TestMessageIdentifiesTheAgent(t *testing.T) {
	for name, ask := range map[string]bool{"address only": false, "with boot options": true} {
		t.Run(name, func(t *testing.T) {
			m, err := client{mac: card.mac, ask: ask}.message(dhcpv6.MessageTypeSolicit, card.association())
			if err != nil {
				t.Fatal(err)
			}
			if m, err = dhcpv6.MessageFromBytes(m.ToBytes()); err != nil {
				t.Fatal(err)
			}
			if got := m.Options.RequestedOptions().Contains(dhcpv6.OptionVendorOpts); got != ask {
				t.Errorf("requests boot options: %v, want %v", got, ask)
			}
			if diff := cmp.Diff([][]byte{[]byte(agentapi.VendorClass)}, m.Options.VendorClass(agentapi.Enterprise)); diff != "" {
				t.Error(diff)
			}
			id, ok := m.Options.ClientID().(*dhcpv6.DUIDLL)
			if !ok || id.LinkLayerAddr.String() != card.mac.String() {
				t.Errorf("calls itself %v", m.Options.ClientID())
			}
			if ia := m.Options.OneIANA(); ia == nil || ia.IaId != [4]byte{0, 0x12, 0x34, 0x56} {
				t.Errorf("asks for %v", ia)
			}
		})
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add((&dhcpv6.Message{MessageType: dhcpv6.MessageTypeReply, Options: dhcpv6.MessageOptions{Options: []dhcpv6.Option{
		given("2001:db8::7", time.Hour, time.Minute),
		&dhcpv6.OptVendorOpts{EnterpriseNumber: agentapi.Enterprise, VendorOpts: dhcpv6.Options{
			&dhcpv6.OptionGeneric{OptionCode: agentapi.OptionServer, OptionData: []byte("[2001:db8::1]:8843")}}},
	}}}).ToBytes())
	f.Fuzz(func(t *testing.T, packet []byte) {
		m, err := dhcpv6.MessageFromBytes(packet)
		if err != nil {
			return
		}
		_ = bootOptions(m)
		got, err := card.leaseIn(m)
		if err == nil && (!got.address.IsGlobalUnicast() || got.renew < minRenew || got.server == nil) {
			t.Errorf("%+v", got)
		}
	})
}
