// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcpclients

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/segment"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/httpd"
)

const bootToken = "token-of-the-host"

// The tenant drill on the boot network: another tenant's server, on the same segment and
// next to a DHCP server of others, gets the boot script's token of no host. It asks from its
// own address, whatever MAC address it writes into packets. The host itself gets its script.
func TestNeighborGetsNoToken(t *testing.T) {
	t.Parallel()
	host := knownHost(func(h *pxe.Host) {
		h.Mode, h.Subnet, h.Address = pxe.Proxy, netip.MustParsePrefix("192.0.2.0/24"), netip.Prefix{}
		h.Plan = pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{
			Kernel: pxe.File{SHA256: strings.Repeat("0", 64), Name: "vmlinuz"}, Server: serverIP + ":8843", Pin: "sha256/pin", Token: bootToken,
		}}
	})
	wire, boot, client, neighbor, other := lan(t), room(t), room(t), room(t), room(t)
	join(t, wire, boot, "eth0", serverIP+"/24", nil)
	join(t, wire, client, "eth0", "", hostMAC)
	join(t, wire, neighbor, "eth0", "192.0.2.66/24", nil)
	join(t, wire, other, "eth0", "192.0.2.2/24", nil)
	srv := serve(t, boot, nil, host)
	serveHTTP(t, boot, srv)
	run(t, other, "dnsmasq", dnsmasqArgs(t, "192.0.2")...)

	refused := func(what string) {
		t.Helper()
		if got := fetchScript(t, neighbor); strings.Contains(got, bootToken) {
			t.Errorf("%s: a neighbor has the host's token:\n%s", what, got)
		}
	}
	refused("nothing was heard of the host yet")

	attack := &packets{t: t, room: neighbor}
	attack.open()
	mine := dhcpv4.WithClientIP(net.ParseIP("192.0.2.66"))
	takes := dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.ParseIP("192.0.2.66")))
	for name, to := range map[string]string{"unicast": serverIP, "broadcast": "192.0.2.255"} {
		attack.send(to, dhcpv4.MessageTypeRequest, takes)
		attack.send(to, dhcpv4.MessageTypeRequest, takes, mine)
		attack.send(to, dhcpv4.MessageTypeRequest, takes, dhcpv4.WithRelay(net.ParseIP("192.0.2.254")))
		refused("a DHCPREQUEST in the host's name by " + name)
		if answer := attack.ask(to, mine); answer == nil || answer.Options.Has(dhcpv4.GenericOptionCode(agentapi.OptionToken)) {
			t.Errorf("a DHCPINFORM in the host's name by %s was answered with %v", name, answer)
		}
	}

	path, dir := script(t)
	udhcpc(t, client, path, "-q")
	address := variables(t, dir, "bound")["ip"]
	waitFor(t, "the boot server has heard which address the host takes", func() bool {
		return srv.bindings.At(netip.MustParseAddr(address)).String() == hostMAC.String()
	})
	if got := fetchScript(t, client); !strings.Contains(got, bootToken) {
		t.Errorf("the host at %s has no token:\n%s", address, got)
	}
	refused("the host has its address")
	if answer := attack.ask(serverIP, mine); answer == nil || answer.Options.Has(dhcpv4.GenericOptionCode(agentapi.OptionToken)) {
		t.Errorf("once the host has its address, a DHCPINFORM in its name was answered with %v", answer)
	}
}

// serveHTTP runs the boot server's HTTP side in its room.
func serveHTTP(t *testing.T, r *segment.Room, srv *server) {
	t.Helper()
	var listener net.Listener
	if err := r.Do(func() (err error) { listener, err = net.Listen("tcp4", serverIP+":8880"); return err }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	handler := &httpd.Handler{BaseURL: "http://" + serverIP + ":8880", Directory: srv.table, Files: &pxe.Files{}, Bindings: srv.bindings}
	go func() { done <- httpd.Serve(ctx, listener, handler, httpd.Options{}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// fetchScript asks for the host's boot script from a room.
func fetchScript(t *testing.T, r *segment.Room) string {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = r.Do(func() error {
			conn, err = (&net.Dialer{Timeout: patience}).Dial("tcp4", address)
			return err
		})
		return conn, err
	}}
	response, err := (&http.Client{Transport: transport, Timeout: patience}).Get("http://" + serverIP + ":8880/boot/" + hostMAC.String() + "/script.ipxe")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// packets are sent by a neighbor in the host's name, from its own address.
type packets struct {
	t    *testing.T
	room *segment.Room
	conn net.PacketConn
}

func (p *packets) open() {
	p.t.Helper()
	if err := p.room.Do(func() (err error) { p.conn, err = net.ListenPacket("udp4", "192.0.2.66:68"); return err }); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = p.conn.Close() })
}

func (p *packets) send(to string, kind dhcpv4.MessageType, change ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	p.t.Helper()
	m, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(hostMAC), dhcpv4.WithMessageType(kind),
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier(agentapi.VendorClass)),
		dhcpv4.WithRequestedOptions(dhcpv4.GenericOptionCode(agentapi.OptionServer), dhcpv4.GenericOptionCode(agentapi.OptionToken))}, change...)...)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.conn.WriteTo(m.ToBytes(), &net.UDPAddr{IP: net.ParseIP(to), Port: 67}); err != nil {
		p.t.Fatal(err)
	}
	return m
}

// ask sends a DHCPINFORM as the agent does, and returns the boot server's answer; nil: none.
func (p *packets) ask(to string, change ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	p.t.Helper()
	asked := p.send(to, dhcpv4.MessageTypeInform, change...)
	buf := make([]byte, 1500)
	_ = p.conn.SetReadDeadline(time.Now().Add(patience))
	for {
		n, from, err := p.conn.ReadFrom(buf)
		if err != nil {
			return nil
		}
		answer, err := dhcpv4.FromBytes(buf[:n])
		if err == nil && answer.TransactionID == asked.TransactionID && strings.HasPrefix(from.String(), serverIP+":") {
			return answer
		}
	}
}
