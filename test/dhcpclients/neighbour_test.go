// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcpclients

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/lab/segment"
	"github.com/ingot-metal/ingot/pxe"
)

// A DHCP server that answers our hosts is found out, whichever of the two they
// take.
func TestAnotherServerIsToldInReserveMode(t *testing.T) {
	t.Parallel()
	srv, net, client := pair(t, knownHost())
	other := room(t)
	join(t, net, other, "eth0", "192.0.2.2/24", nil)
	p := run(t, other, "dnsmasq", dnsmasqArgs(t, "192.0.2")...)
	waitFor(t, "dnsmasq answers", func() bool { return strings.Contains(p.out.String(), "IP range") })
	path, _ := script(t)
	udhcpc(t, client, path, "-B")
	e := srv.wait(t, "that another server is told", at(pxe.StageOtherServer))
	if !strings.Contains(e.Detail, "DHCP server 192.0.2.2 ") {
		t.Errorf("told %q", e.Detail)
	}
}

// firmware is a PXE ROM, as far as DHCP goes.
type firmware struct {
	conn net.PacketConn
	arch iana.Arch
}

// newFirmware opens its socket: port 68 of an interface without an address.
func newFirmware(t *testing.T, r *segment.Room, arch iana.Arch) firmware {
	t.Helper()
	f := firmware{arch: arch}
	listen := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var bound error
		err := raw.Control(func(fd uintptr) { bound = unix.BindToDevice(int(fd), "eth0") })
		return errors.Join(err, bound)
	}}
	if err := r.Do(func() (err error) { f.conn, err = listen.ListenPacket(t.Context(), "udp4", "0.0.0.0:68"); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.conn.Close() })
	return f
}

func (f firmware) message(kind dhcpv4.MessageType, change ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	m, err := dhcpv4.New(append([]dhcpv4.Modifier{
		dhcpv4.WithHwAddr(hostMAC), dhcpv4.WithBroadcast(true), dhcpv4.WithMessageType(kind),
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00007:UNDI:003000")),
		dhcpv4.WithOption(dhcpv4.OptClientArch(f.arch)),
	}, change...)...)
	if err != nil {
		panic(err) // of constants
	}
	return m
}

func (f firmware) send(t *testing.T, m *dhcpv4.DHCPv4, to string) {
	t.Helper()
	if _, err := f.conn.WriteTo(m.ToBytes(), net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to))); err != nil {
		t.Fatal(err)
	}
}

// collect asks by a transaction of its own, again and again until a reply from each server has come.
func (f firmware) collect(t *testing.T, m *dhcpv4.DHCPv4, to string, servers ...string) map[string]*dhcpv4.DHCPv4 {
	t.Helper()
	got := map[string]*dhcpv4.DHCPv4{}
	complete := func() bool {
		return !slices.ContainsFunc(servers, func(s string) bool { return got[s] == nil })
	}
	buf := make([]byte, 2048)
	end := time.Now().Add(patience)
	for !complete() {
		if time.Now().After(end) {
			t.Fatalf("got replies %v, want of %v", got, servers)
		}
		f.send(t, m, to)
		for deadline := time.Now().Add(time.Second); ; {
			_ = f.conn.SetReadDeadline(deadline)
			n, _, err := f.conn.ReadFrom(buf)
			if err != nil {
				break
			}
			if r, err := dhcpv4.FromBytes(buf[:n]); err == nil && r.TransactionID == m.TransactionID {
				got[r.ServerIdentifier().String()] = r
			}
			if complete() {
				break
			}
		}
	}
	return got
}

// Beside dnsmasq, which gives the address, the server names the boot file: in an
// offer without an address, and on port 4011. Who only wants an address hears
// nothing of it.
func TestProxyBesideDnsmasq(t *testing.T) {
	t.Parallel()
	srv, net, client := pair(t, knownHost(func(h *pxe.Host) {
		h.Mode, h.Subnet, h.Address, h.Plan = pxe.Proxy, netip.MustParsePrefix("192.0.2.0/24"), netip.Prefix{}, pxe.Plan{Kind: pxe.Agent}
	}))
	other := room(t)
	join(t, net, other, "eth0", "192.0.2.2/24", nil)
	run(t, other, "dnsmasq", dnsmasqArgs(t, "192.0.2")...)

	fw := newFirmware(t, client, iana.EFI_X86_64)
	offers := fw.collect(t, fw.message(dhcpv4.MessageTypeDiscover), "255.255.255.255:67", serverIP, "192.0.2.2")
	ours, theirs := offers[serverIP], offers["192.0.2.2"]
	if !ours.YourIPAddr.IsUnspecified() || ours.BootFileNameOption() != "snponly.efi" || ours.ClassIdentifier() != "PXEClient" {
		t.Errorf("our offer:\n%s", ours.Summary())
	}
	if theirs.YourIPAddr.IsUnspecified() || theirs.BootFileName != "" {
		t.Errorf("dnsmasq's offer:\n%s", theirs.Summary())
	}
	request := fw.message(dhcpv4.MessageTypeRequest, dhcpv4.WithOption(dhcpv4.OptServerIdentifier(theirs.ServerIdentifier())),
		dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(theirs.YourIPAddr)))
	if ack := fw.collect(t, request, "255.255.255.255:67", "192.0.2.2")["192.0.2.2"]; ack.MessageType() != dhcpv4.MessageTypeAck {
		t.Errorf("dnsmasq refused its own offer:\n%s", ack.Summary())
	}
	_ = fw.conn.Close()

	path, dir := script(t)
	udhcpc(t, client, path, "-q")
	if got := variables(t, dir, "bound"); got["serverid"] != "192.0.2.2" || got["boot_file"] != "" {
		t.Errorf("a plain client got its lease of %s, boot file %q", got["serverid"], got["boot_file"])
	}
	// Now the client has an address, and asks for the boot file alone.
	binl := newFirmware(t, client, iana.EFI_X86_64)
	ack := binl.collect(t, binl.message(dhcpv4.MessageTypeRequest, dhcpv4.WithBroadcast(false)), serverIP+":4011", serverIP)[serverIP]
	if ack.MessageType() != dhcpv4.MessageTypeAck || ack.BootFileNameOption() != "snponly.efi" || !ack.YourIPAddr.IsUnspecified() {
		t.Errorf("on port 4011:\n%s", ack.Summary())
	}
	if text := srv.text(); strings.Contains(text, string(pxe.StageOtherServer)) {
		t.Errorf("the server that is meant to be there is reported:\n%s", text)
	}
}
