// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootserver_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	pin "github.com/pin/tftp/v3"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/pxe/dhcp"
)

const patience = 30 * time.Second

var hostMAC = net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56}

// loaderDir returns a directory with two loaders.
func loaderDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range dhcp.DefaultLoaders().Names() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("loader "+name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// wire is a DHCP socket made of channels, because loopback has no broadcast.
type wire struct {
	net.PacketConn // nil: other methods are not called
	in, out        chan []byte
	closed         chan struct{}
}

func newWire() *wire {
	return &wire{in: make(chan []byte), out: make(chan []byte, 1), closed: make(chan struct{}, 1)}
}

func (w *wire) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case p := <-w.in:
		return copy(b, p), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 68}, nil
	case <-w.closed:
		return 0, nil, net.ErrClosed
	}
}

func (w *wire) WriteTo(b []byte, _ net.Addr) (int, error) {
	w.out <- bytes.Clone(b)
	return len(b), nil
}

func (w *wire) Close() error {
	select {
	case w.closed <- struct{}{}:
	default:
	}
	return nil
}

func (w *wire) exchange(t *testing.T, packet []byte) *dhcpv4.DHCPv4 {
	t.Helper()
	w.in <- packet
	select {
	case p := <-w.out:
		r, err := dhcpv4.FromBytes(p)
		if err != nil {
			t.Fatal(err)
		}
		return r
	case <-time.After(patience):
		t.Fatal("no DHCP answer")
		return nil
	}
}

type running struct {
	dhcp, binl *wire
	tftp, base string
}

// start runs a boot server for one host on loopback.
func start(t *testing.T, plan func(add func(name, text string) pxe.File) pxe.Plan) running {
	t.Helper()
	var files pxe.Files
	dir := t.TempDir()
	p := plan(func(name, text string) pxe.File {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := files.Add(path)
		if err != nil {
			t.Fatal(err)
		}
		return f
	})
	return startFor(t, &files, pxe.Table{hostMAC.String(): {Namespace: "default", Name: "h", MAC: hostMAC,
		Address: netip.MustParsePrefix("127.0.0.1/8"), Plan: p}})
}

// startFor runs a boot server for the hosts of a directory on loopback.
func startFor(t *testing.T, files *pxe.Files, dir pxe.Directory) running {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := bootserver.New(bootserver.Config{
		Address: netip.MustParseAddr("127.0.0.1"), HTTPPort: uint16(l.Addr().(*net.TCPAddr).Port),
		LoaderDir: loaderDir(t), Files: files, Directory: dir,
		Signed: bootserver.Signed{Shim: []byte("shim"), GRUB: []byte("GRUB")},
	})
	if err != nil {
		t.Fatal(err)
	}
	udp := func() (net.PacketConn, error) { return net.ListenPacket("udp4", "127.0.0.1:0") }
	tftp, err := udp()
	if err != nil {
		t.Fatal(err)
	}
	r := running{dhcp: newWire(), binl: newWire(), tftp: tftp.LocalAddr().String(), base: srv.BaseURL()}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- srv.Run(ctx, bootserver.Sockets{DHCP: r.dhcp, BINL: r.binl, TFTP: tftp, HTTP: l})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

func (r running) fetch(t *testing.T, file string) string {
	t.Helper()
	var b bytes.Buffer
	if strings.HasPrefix(file, "http://") {
		c := http.Client{Timeout: patience}
		resp, err := c.Get(file)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := io.Copy(&b, resp.Body); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: status %d, %v", file, resp.StatusCode, err)
		}
		return b.String()
	}
	c, err := pin.NewClient(r.tftp)
	if err != nil {
		t.Fatal(err)
	}
	wt, err := c.Receive(file, "octet")
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if _, err := wt.WriteTo(&b); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return b.String()
}

// capturedRequest reads a packet of a real client (pxe/dhcp/testdata).
func capturedRequest(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "dhcp", "testdata", name+".request"))
	if err != nil {
		t.Fatal(err)
	}
	_, digits, _ := strings.Cut(string(text), "\n") // after the comment
	b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var links = regexp.MustCompile(`http://\S+`)

// The file that DHCP names exists for each kind of client, and so do the files in its script.
func TestEverythingAdvertisedCanBeFetched(t *testing.T) {
	r := start(t, func(add func(name, text string) pxe.File) pxe.Plan {
		return pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{
			Kernel: add("vmlinuz", "the kernel"), Initrds: []pxe.File{add("initramfs.zst", "the initramfs")}, Server: "192.0.2.1:8843"}}
	})
	for _, tc := range []struct {
		name string
		port *wire
		want []string // contents in the order of fetching
	}{
		{"undionly-discover", r.dhcp, []string{"#!ipxe", "the kernel", "the initramfs"}},
		{"ipxe-bios-rom-discover", r.dhcp, []string{"#!ipxe", "the kernel", "the initramfs"}},
		{"snponly-discover", r.dhcp, []string{"#!ipxe", "the kernel", "the initramfs"}},
		{"ovmf-discover", r.dhcp, []string{"loader snponly.efi"}},
		{"ovmf-request.binl", r.binl, []string{"loader snponly.efi"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reply := tc.port.exchange(t, capturedRequest(t, tc.name))
			todo := []string{reply.BootFileNameOption()}
			var got []string
			for i := 0; i < len(todo); i++ {
				text := r.fetch(t, todo[i])
				for _, link := range links.FindAllString(text, -1) {
					if strings.Contains(link, "/files/") {
						todo = append(todo, link)
					}
				}
				if strings.HasPrefix(text, "#!ipxe") {
					text = "#!ipxe"
				}
				got = append(got, text)
			}
			if strings.Join(got, "|") != strings.Join(tc.want, "|") {
				t.Errorf("fetched %q, want %q", got, tc.want)
			}
		})
	}
	t.Run("autoexec.ipxe", func(t *testing.T) {
		if text := r.fetch(t, "autoexec.ipxe"); !strings.Contains(text, "/boot/${netX/mac}/script.ipxe") {
			t.Errorf("got %q", text)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	good := func() bootserver.Config {
		return bootserver.Config{Address: netip.MustParseAddr("192.0.2.1"), LoaderDir: loaderDir(t),
			Directory: pxe.Table{}, Files: &pxe.Files{}}
	}
	for _, tc := range []struct {
		name     string
		change   func(*bootserver.Config)
		contains string
	}{
		{"no address", func(c *bootserver.Config) { c.Address = netip.Addr{} }, "not IPv4"},
		{"IPv6", func(c *bootserver.Config) { c.Address = netip.MustParseAddr("2001:db8::1") }, "not IPv4"},
		{"no directory", func(c *bootserver.Config) { c.Directory = nil }, "directory"},
		{"no files", func(c *bootserver.Config) { c.Files = nil }, "directory"},
		{"no loaders", func(c *bootserver.Config) { c.LoaderDir = t.TempDir() }, "package ipxe"},
		{"no loader directory", func(c *bootserver.Config) { c.LoaderDir = "/nonexistent" }, "loader directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := good()
			tc.change(&cfg)
			if _, err := bootserver.New(cfg); err == nil || !strings.Contains(err.Error(), tc.contains) {
				t.Errorf("got %v, want %q", err, tc.contains)
			}
		})
	}
	s, err := bootserver.New(good())
	if err != nil {
		t.Fatal(err)
	}
	if got := s.BaseURL(); got != "http://192.0.2.1:8880" {
		t.Errorf("BaseURL %q", got)
	}
}

// A loader that cannot be served, such as Debian's ipxe.efi (a link to another directory), is
// only an error if it is required.
func TestLoaderThatLeadsOutside(t *testing.T) {
	for name, refused := range map[string]bool{"ipxe.efi": false, "snponly.efi": true} {
		dir := loaderDir(t)
		outside := filepath.Join(t.TempDir(), name)
		for _, err := range []error{os.WriteFile(outside, []byte("loader"), 0o644), os.Remove(filepath.Join(dir, name)), os.Symlink(outside, filepath.Join(dir, name))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err := bootserver.New(bootserver.Config{Address: netip.MustParseAddr("192.0.2.1"), LoaderDir: dir, Directory: pxe.Table{}, Files: &pxe.Files{}})
		if (err != nil) != refused {
			t.Errorf("%s leads outside: %v, want refused: %t", name, err, refused)
		}
	}
}

// A server without DHCP must not look healthy.
func TestOneFailureEndsAll(t *testing.T) {
	srv, err := bootserver.New(bootserver.Config{Address: netip.MustParseAddr("127.0.0.1"),
		LoaderDir: loaderDir(t), Directory: pxe.Table{}, Files: &pxe.Files{}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tftp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sockets := bootserver.Sockets{DHCP: newWire(), BINL: newWire(), TFTP: tftp, HTTP: l}
	_ = sockets.DHCP.Close()
	done := make(chan error, 1)
	go func() { done <- srv.Run(context.Background(), sockets) }()
	select {
	case err := <-done:
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("Run ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Run continues without DHCP")
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the HTTP listener is still open: %v", err)
	}
}
