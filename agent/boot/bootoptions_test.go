// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"

	"github.com/ingot-metal/ingot/agentapi"
)

// answer is the answer of a DHCP server to a DHCPINFORM.
type answer struct {
	kind   dhcpv4.MessageType
	server string
}

// loopback returns a DHCP client and the server to which it sends all packets.
func loopback(t *testing.T, hardware net.HardwareAddr, timeout time.Duration, tries int) (*nclient4.Client, *net.UDPConn) {
	t.Helper()
	listen := func() *net.UDPConn {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	server := listen()
	client, err := nclient4.NewWithConn(listen(), hardware, nclient4.WithTimeout(timeout), nclient4.WithRetry(tries),
		nclient4.WithServerAddr(server.LocalAddr().(*net.UDPAddr)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client, server
}

// segment returns a lease whose requests get all answers.
func segment(t *testing.T, answers ...answer) *ipv4Lease {
	t.Helper()
	client, server := loopback(t, hardware, 50*time.Millisecond, 2)
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := server.ReadFromUDP(buf)
			if err != nil {
				return
			}
			request, err := dhcpv4.FromBytes(buf[:n])
			if err != nil || request.ClassIdentifier() != agentapi.VendorClass {
				continue
			}
			for _, a := range answers {
				reply, _ := dhcpv4.NewReplyFromRequest(request, dhcpv4.WithMessageType(a.kind))
				for code, text := range map[uint8]string{agentapi.OptionServer: a.server, agentapi.OptionPin: "pin",
					agentapi.OptionToken: "token", agentapi.OptionFiles: "http://" + a.server} {
					if a.server != "" && request.IsOptionRequested(dhcpv4.GenericOptionCode(code)) {
						reply.UpdateOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(code), []byte(text)))
					}
				}
				_, _ = server.WriteToUDP(reply.ToBytes(), from)
			}
		}
	}()
	return &ipv4Lease{client: client, ack: &dhcpv4.DHCPv4{YourIPAddr: net.IPv4(192, 0, 2, 7)}}
}

// An unrelated DHCP server may answer first, and the replica to avoid may be up again.
func TestRequestBootOptionsAvoidsAReplica(t *testing.T) {
	const ack, nak = dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak
	for _, tc := range []struct {
		name    string
		answers []answer
		avoid   string
		want    string
	}{
		{"a single one", []answer{{ack, "a:1"}}, "", "a:1"},
		{"another server is faster", []answer{{ack, ""}, {ack, "a:1"}}, "", "a:1"},
		{"a refusal is ignored", []answer{{nak, "b:1"}, {ack, "a:1"}}, "", "a:1"},
		{"the first of two", []answer{{ack, "a:1"}, {ack, "b:1"}}, "", "a:1"},
		{"not the one to avoid", []answer{{ack, "a:1"}, {ack, "b:1"}}, "a:1", "b:1"},
		{"only the one to avoid", []answer{{ack, "a:1"}}, "a:1", "a:1"},
		{"no answer", nil, "", ""},
		{"no options", []answer{{ack, ""}}, "a:1", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := (&NIC{source: segment(t, tc.answers...)}).RequestBootOptions(t.Context(), tc.avoid)
			if tc.want == "" {
				if !errors.Is(err, nclient4.ErrNoResponse) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := agentapi.BootOptions{Server: tc.want, Pin: "pin", Token: "token", Files: "http://" + tc.want}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Options in the lease need no second request.
func TestBootOptionsOfTheLease(t *testing.T) {
	nic := &ipv4Lease{ack: &dhcpv4.DHCPv4{Options: dhcpv4.Options{}}}
	nic.ack.UpdateOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(agentapi.OptionServer), []byte("a:1")))
	got, err := nic.findOptions(t.Context())
	if err != nil || got.Server != "a:1" {
		t.Errorf("%+v, %v", got, err)
	}
}
