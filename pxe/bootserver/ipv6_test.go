// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootserver_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/pxe/dhcp"
	"github.com/ingot-metal/ingot/pxe/dhcp6"
)

// wire6 is an in-memory DHCPv6 socket.
type wire6 struct {
	in  chan dhcp6.Query
	out chan dhcp6.Answer
	end chan struct{}
}

func (w *wire6) Receive([]byte) (dhcp6.Query, error) {
	select {
	case q := <-w.in:
		return q, nil
	case <-w.end:
		return dhcp6.Query{}, net.ErrClosed
	}
}

func (w *wire6) Send(a dhcp6.Answer, _ dhcp6.Link) error { w.out <- a; return nil }

func (w *wire6) Close() error {
	select {
	case <-w.end:
	default:
		close(w.end)
	}
	return nil
}

// bootFile returns the boot file in the answer to a SOLICIT of this firmware.
func (w *wire6) bootFile(t *testing.T, class, user string, arch iana.Arch) string {
	t.Helper()
	m := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeSolicit, TransactionID: dhcpv6.TransactionID{1, 2, 3}}
	m.AddOption(dhcpv6.OptClientID(&dhcpv6.DUIDUUID{UUID: [16]byte{1}}))
	m.AddOption(&dhcpv6.OptIANA{IaId: [4]byte{1}})
	m.AddOption(dhcpv6.OptClientArchType(arch))
	m.AddOption(&dhcpv6.OptVendorClass{EnterpriseNumber: 343, Data: [][]byte{[]byte(class)}})
	if user != "" {
		m.AddOption(&dhcpv6.OptUserClass{UserClasses: [][]byte{[]byte(user)}})
	}
	w.in <- dhcp6.Query{Packet: m.ToBytes(), From: netip.MustParseAddrPort("[fe80::5054:ff:fe12:3456]:546")}
	reply, err := dhcpv6.MessageFromBytes((<-w.out).Packet)
	if err != nil {
		t.Fatal(err)
	}
	return reply.Options.BootFileURL()
}

// Every file that a DHCPv6 reply names can be fetched over IPv6, and BootFromDisk is refused.
func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	udp := func() (net.PacketConn, error) { return net.ListenPacket("udp6", "[::1]:0") }
	tftp, err := udp()
	if err != nil {
		t.Fatal(err)
	}
	l4, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tftp4, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	files := &pxe.Files{}
	path := filepath.Join(t.TempDir(), "vmlinuz")
	if err := os.WriteFile(path, []byte("the kernel"), 0o644); err != nil {
		t.Fatal(err)
	}
	kernel, err := files.Add(path)
	if err != nil {
		t.Fatal(err)
	}
	host := pxe.Host{Namespace: "default", Name: "h", MAC: hostMAC, Network: "n", Address: netip.MustParsePrefix("192.0.2.17/24"),
		IPv6: pxe.IPv6{Mode: pxe.Stateful, Subnet: netip.MustParsePrefix("::/64"), Address: netip.MustParseAddr("::1")},
		Plan: pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{Kernel: kernel, Server: "192.0.2.1:8843"}}}
	address := netip.MustParseAddr("::1")
	srv, err := bootserver.New(bootserver.Config{
		Address: netip.MustParseAddr("127.0.0.1"), HTTPPort: uint16(l.Addr().(*net.TCPAddr).Port),
		IPv6: bootserver.ConfigIPv6{Address: address}, LoaderDir: loaderDir(t), Files: files, Directory: pxe.Table{hostMAC.String(): host},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &wire6{in: make(chan dhcp6.Query), out: make(chan dhcp6.Answer), end: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- srv.Run(ctx, bootserver.Sockets{DHCP: newWire(), BINL: newWire(), TFTP: tftp4, HTTP: l4,
			IPv6: bootserver.SocketsIPv6{DHCP: w, TFTP: tftp, HTTP: l}})
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	r := running{tftp: tftp.LocalAddr().String()}
	base := "http://" + l.Addr().String()

	if got := r.fetch(t, onTFTP(t, w.bootFile(t, "PXEClient:Arch:00007:UNDI:003016", "", iana.EFI_BC), address)); got == "" {
		t.Error("the loader is empty")
	}
	if got := r.fetch(t, w.bootFile(t, "HTTPClient:Arch:00016:UNDI:003001", "", iana.EFI_X86_64_HTTP)); got == "" {
		t.Error("the loader by HTTP is empty")
	}
	script := r.fetch(t, w.bootFile(t, "PXEClient:Arch:00007:UNDI:003010", "iPXE", iana.EFI_BC))
	for _, link := range links.FindAllString(script, -1) {
		if !strings.HasPrefix(link, base) {
			t.Errorf("over IPv6 the script leads to %s", link)
		}
	}
	if !strings.Contains(script, base+kernel.Path()) || r.fetch(t, base+kernel.Path()) != "the kernel" {
		t.Errorf("the script does not load the kernel over IPv6:\n%s", script)
	}
	if got := r.fetch(t, "autoexec.ipxe"); !strings.Contains(got, base) {
		t.Errorf("autoexec.ipxe leads elsewhere:\n%s", got)
	}
	r.refused(t, dhcp.BootFromDisk)
}

// onTFTP returns the file name in a server's TFTP URL.
func onTFTP(t *testing.T, url string, server netip.Addr) string {
	t.Helper()
	name, ok := strings.CutPrefix(url, "tftp://["+server.String()+"]/")
	if !ok {
		t.Fatalf("%q is no file of %s by TFTP", url, server)
	}
	return name
}

func TestInvalidIPv6Addresses(t *testing.T) {
	for _, address := range []string{"192.0.2.1", "fe80::1", "::ffff:192.0.2.1"} {
		_, err := bootserver.New(bootserver.Config{Address: netip.MustParseAddr("127.0.0.1"), LoaderDir: loaderDir(t),
			Files: &pxe.Files{}, Directory: pxe.Table{}, IPv6: bootserver.ConfigIPv6{Address: netip.MustParseAddr(address)}})
		if err == nil || !strings.Contains(err.Error(), address) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestDHCPv6Conn(t *testing.T) {
	listen := func() net.PacketConn {
		c, err := net.ListenPacket("udp6", "[::1]:0")
		if err != nil {
			t.Skipf("no IPv6 on this machine: %v", err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	client, server := listen(), listen()
	conn := bootserver.DHCPv6Conn(server)
	if _, err := client.WriteTo([]byte("request"), server.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	q, err := conn.Receive(make([]byte, 64))
	if err != nil || string(q.Packet) != "request" || q.From.String() != client.LocalAddr().String() || q.Unicast {
		t.Fatalf("%+v, %v", q, err)
	}
	if err := conn.Send(dhcp6.Answer{Packet: []byte("reply"), To: q.From}, q.Link); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	if n, _, err := client.ReadFrom(buf); err != nil || string(buf[:n]) != "reply" {
		t.Errorf("%q, %v", buf[:n], err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if q, err := conn.Receive(buf); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%+v, %v after Close", q, err)
	}
}
