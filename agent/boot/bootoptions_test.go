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

// answer is what one DHCP server on the segment says to an INFORM.
type answer struct {
	kind   dhcpv4.MessageType
	server string
}

// loopback is a client whose every packet goes to the server beside it.
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

// segment answers each request of a client with all answers, in turn.
func segment(t *testing.T, answers ...answer) *leased {
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
	return &leased{client: client, ack: &dhcpv4.DHCPv4{YourIPAddr: net.IPv4(192, 0, 2, 7)}}
}

// A DHCP server that knows nothing of Ingot may answer first, and the replica that
// went silent may have come back.
func TestAsk(t *testing.T) {
	const ack, nak = dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak
	for _, tc := range []struct {
		name    string
		answers []answer
		avoid   string
		want    string
	}{
		{"the only one", []answer{{ack, "a:1"}}, "", "a:1"},
		{"another server is faster", []answer{{ack, ""}, {ack, "a:1"}}, "", "a:1"},
		{"a refusal says nothing", []answer{{nak, "b:1"}, {ack, "a:1"}}, "", "a:1"},
		{"the first of two", []answer{{ack, "a:1"}, {ack, "b:1"}}, "", "a:1"},
		{"not the one that is silent", []answer{{ack, "a:1"}, {ack, "b:1"}}, "a:1", "b:1"},
		{"the only one, after all", []answer{{ack, "a:1"}}, "a:1", "a:1"},
		{"nobody", nil, "", ""},
		{"nobody who knows", []answer{{ack, ""}}, "a:1", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := segment(t, tc.answers...).Inform(t.Context(), tc.avoid)
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

// Nothing is asked a second time that the lease says.
func TestToldByTheLease(t *testing.T) {
	nic := &leased{ack: &dhcpv4.DHCPv4{Options: dhcpv4.Options{}}}
	nic.ack.UpdateOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(agentapi.OptionServer), []byte("a:1")))
	told, err := nic.told(t.Context())
	if err != nil || told.Server != "a:1" {
		t.Errorf("%+v, %v", told, err)
	}
}
