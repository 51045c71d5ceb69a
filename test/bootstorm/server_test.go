// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstorm

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/pxe/httpd"
)

// serverKey is set in the process that is the boot server.
const serverKey = "INGOT_BOOTSTORM_SERVER"

func TestMain(m *testing.M) {
	if text := os.Getenv(serverKey); text != "" {
		if err := serve(context.Background(), text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// setup is what a server is to serve.
type setup struct {
	Hosts int
	// Dir holds loaders, kernel and initramfs; Cache is for images.
	Dir, Cache string
	// HTTP is the address to listen on, host:port.
	HTTP string
	// Image is where an image comes from, if there is one.
	Image pxe.ImageSource
}

// endpoints are where a server listens.
type endpoints struct{ DHCP, TFTP, HTTP string }

const (
	loader    = "undionly.kpxe"
	uefi      = "snponly.efi"
	kernel    = "vmlinuz"
	initramfs = "initramfs.zst"
)

// hostAddress is a client's: the boot server records it, and the client speaks
// from it.
func hostAddress(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 1, byte(n >> 8), byte(n)})
}

func hostMAC(n int) net.HardwareAddr {
	return net.HardwareAddr{0x52, 0x54, 0, 1, byte(n >> 8), byte(n)}
}

// serve is the server's process.
func serve(ctx context.Context, text string) error {
	var s setup
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	l, err := net.Listen("tcp4", s.HTTP)
	if err != nil {
		return err
	}
	files := &pxe.Files{}
	plan := pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{Server: "127.0.0.1:8843", Initrds: make([]pxe.File, 1)}}
	if plan.Agent.Kernel, err = files.Add(filepath.Join(s.Dir, kernel)); err != nil {
		return err
	}
	if plan.Agent.Initrds[0], err = files.Add(filepath.Join(s.Dir, initramfs)); err != nil {
		return err
	}
	table := pxe.Table{}
	for n := range s.Hosts {
		table[hostMAC(n).String()] = pxe.Host{Namespace: "default", Name: "h" + strconv.Itoa(n), MAC: hostMAC(n),
			Address: netip.PrefixFrom(hostAddress(n), 8), Plan: plan}
	}
	allowed, err := httpd.ParseSources([]string{"127.0.0.0/8"})
	if err != nil {
		return err
	}
	images, err := httpd.NewImageCache(httpd.CacheConfig{Dir: s.Cache, MaxBytes: 1 << 30,
		Sources: pxe.Images{s.Image.Checksum: s.Image}, Client: httpd.NewClient(httpd.ClientConfig{Allowed: allowed})})
	if err != nil {
		return err
	}
	local := netip.MustParseAddr("127.0.0.1")
	srv, err := bootserver.New(bootserver.Config{Address: local, HTTPPort: uint16(l.Addr().(*net.TCPAddr).Port),
		LoaderDir: s.Dir, Directory: table, Files: files, Images: images})
	if err != nil {
		return err
	}
	udp := func() (net.PacketConn, error) { return net.ListenPacket("udp4", "127.0.0.1:0") }
	sockets := bootserver.Sockets{HTTP: l}
	dhcp, err := udp()
	if err != nil {
		return err
	}
	sockets.DHCP = &replier{PacketConn: dhcp, askers: map[string]net.Addr{}}
	if sockets.BINL, err = udp(); err != nil {
		return err
	}
	if sockets.TFTP, err = udp(); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(endpoints{
		DHCP: dhcp.LocalAddr().String(), TFTP: sockets.TFTP.LocalAddr().String(), HTTP: l.Addr().String()}); err != nil {
		return err
	}
	return srv.Run(ctx, sockets)
}

// replier sends each DHCP answer to who asked, known by transaction, in place of
// broadcasting it.
type replier struct {
	net.PacketConn
	mu     sync.Mutex
	askers map[string]net.Addr
}

const xidEnd = 8 // of bytes 4 to 7

func (r *replier) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := r.PacketConn.ReadFrom(b)
	if err == nil && n >= xidEnd {
		r.mu.Lock()
		r.askers[string(b[4:xidEnd])] = from
		r.mu.Unlock()
	}
	return n, from, err
}

func (r *replier) WriteTo(b []byte, _ net.Addr) (int, error) {
	r.mu.Lock()
	to := r.askers[string(b[4:xidEnd])]
	r.mu.Unlock()
	return r.PacketConn.WriteTo(b, to)
}

// process is a boot server that runs.
type process struct {
	endpoints
	cmd *exec.Cmd
}

// start runs a boot server until the test ends, or kill.
func start(t *testing.T, s setup) *process {
	t.Helper()
	text, err := json.Marshal(s)
	check(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverKey+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	p := &process{cmd: cmd}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadBytes('\n')
	check(t, err)
	check(t, json.Unmarshal(line, &p.endpoints))
	return p
}

// kill ends the server as a power cut does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// peakMemory is the most that the server had in memory so far, in bytes.
func (p *process) peakMemory(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	check(t, err)
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			check(t, err)
			return n << 10
		}
	}
	t.Fatal("the kernel tells no VmHWM")
	return 0
}

// served makes a directory with what a server serves, and returns it.
func served(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, size := range map[string]int{loader: 70_000, uefi: 150_016, kernel: 400_000, initramfs: 200_000} {
		check(t, os.WriteFile(filepath.Join(dir, name), pattern(name, size), 0o600))
	}
	return dir
}

// pattern is content that differs from place to place.
func pattern(name string, size int) []byte {
	b := make([]byte, 0, size+len(name)+20)
	for n := 0; len(b) < size; n++ {
		b = fmt.Appendf(b, "%s %d\n", name, n)
	}
	return b[:size]
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
