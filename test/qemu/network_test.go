// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
)

// bootDeadline is generous: under emulation on a busy machine a UEFI boot
// takes a minute.
const bootDeadline = 5 * time.Minute

// probe is asked once for all tests of this package.
var probe qemu.Probe

// needs skips a test that INGOT_QEMU does not ask for.
func needs(t *testing.T, level string) {
	t.Helper()
	switch asked := os.Getenv("INGOT_QEMU"); {
	case asked == "":
		t.Skip("set INGOT_QEMU=bios or INGOT_QEMU=all to boot virtual servers")
	case asked != "all" && asked != level:
		t.Skipf("INGOT_QEMU=%s leaves this line out", asked)
	}
}

// segment is one network with a boot server on it.
type segment struct {
	*network.Switch
	stack  *network.Stack
	server *bootserver.Server
	record *recorder
	// stop ends the boot server, as the end of the test does, and whatever else is reached
	// at its address.
	stop func()
}

// startSegment runs a boot server for one host. The wrapper, if any, stands
// between the network and the DHCP server.
func startSegment(t *testing.T, host pxe.Host, files *pxe.Files, wrap func(net.PacketConn) net.PacketConn, change ...func(*bootserver.Config)) *segment {
	t.Helper()
	sw := network.NewSwitch()
	t.Cleanup(func() { _ = sw.Close() })
	if err := sw.AnswerRouterSolicitations(); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("INGOT_PCAP_DIR"); dir != "" {
		f, err := os.Create(filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "-")+".pcap"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sw.StopCapture(); _ = f.Close() })
		if err := sw.Capture(f); err != nil {
			t.Fatal(err)
		}
	}
	address := netip.MustParsePrefix("192.0.2.1/24")
	st, err := network.NewStack(sw, network.StackConfig{Name: "boot", Address: address})
	if err != nil {
		t.Fatal(err)
	}
	s := &segment{Switch: sw, stack: st, record: &recorder{start: time.Now()}}
	cfg := bootserver.Config{
		Address:   address.Addr(),
		LoaderDir: "/usr/lib/ipxe",
		Directory: pxe.Table{host.MAC.String(): host},
		Files:     files,
		Observer:  s.record,
	}
	for _, c := range change {
		c(&cfg)
	}
	s.server, err = bootserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.run(t, wrap)
	return s
}

func (s *segment) run(t *testing.T, wrap func(net.PacketConn) net.PacketConn) {
	t.Helper()
	var (
		sockets bootserver.Sockets
		err     error
	)
	open := func(port uint16) net.PacketConn {
		c, err := s.stack.ListenUDP(port)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	sockets.DHCP, sockets.BINL = open(bootserver.DHCPPort), open(bootserver.BINLPort)
	sockets.TFTP = open(bootserver.TFTPPort)
	if wrap != nil {
		sockets.DHCP = wrap(sockets.DHCP)
	}
	sockets.DialTFTP = s.stack.DialUDP
	if sockets.HTTP, err = s.stack.ListenTCP(bootserver.DefaultHTTPPort); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.server.Run(ctx, sockets) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("boot server: %v", err)
		}
		_ = s.stack.Close()
	})
	t.Cleanup(s.stop)
}

// recorder keeps the events of a boot with their times since power-on.
type recorder struct {
	mu     sync.Mutex
	start  time.Time
	events []pxe.BootEvent
}

func (r *recorder) Observe(e pxe.BootEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// restart forgets everything: the power is switched on now.
func (r *recorder) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start, r.events = time.Now(), nil
}

// first is when the first event was; now, if there was none.
func (r *recorder) first() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) == 0 {
		return time.Now()
	}
	return r.events[0].At
}

// log prints the boot's time line.
func (r *recorder) log(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		t.Logf("%6.1f s  %-8s %s", e.At.Sub(r.start).Seconds(), e.Stage, e.Detail)
	}
}

// stages are "Stage detail" of all events, each run of equal ones once.
func (r *recorder) stages() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var s []string
	for _, e := range r.events {
		s = append(s, string(e.Stage)+" "+e.Detail)
	}
	return slices.Compact(s)
}

// bootProof powers a server on and waits until its kernel has run our init,
// which switches it off; it returns what the init said.
func bootProof(t *testing.T, seg *segment, vm *qemu.VM) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bootDeadline)
	defer cancel()
	if err := vm.SetBoot(qemu.Boot{Device: qemu.Network, Once: true}); err != nil {
		t.Fatal(err)
	}
	seg.record.restart()
	began := time.Now()
	if err := vm.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	text, err := waitSerial(ctx, vm, "PROOF-END")
	seg.record.log(t)
	if err != nil {
		t.Fatalf("%v; the console ends in:\n%s", err, tail(text, 3000))
	}
	t.Logf("%6.1f s  init runs", time.Since(began).Seconds())
	_, proof, _ := strings.Cut(text, "PROOF-OF-BOOT ")
	return proof
}

func waitSerial(ctx context.Context, vm *qemu.VM, marker string) (string, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(vm.SerialLog())
		if err == nil && strings.Contains(string(b), marker) {
			return string(b), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return string(b), ctx.Err()
		}
	}
}

// console is what the server has said on its serial port.
func console(vm *qemu.VM) string {
	b, _ := os.ReadFile(vm.SerialLog()) // none yet: nothing said
	return string(b)
}

// makeDisk makes a sparse file of a size in bytes.
func makeDisk(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// line is one way from power-on to the kernel.
type line struct {
	name     string
	level    string
	firmware qemu.Firmware
	nic      qemu.NIC
	// plainROM hides from the DHCP server that QEMU's ROM is iPXE, until the
	// loader has been fetched.
	plainROM bool
	// httpOnly leaves UEFI its HTTP boot alone.
	httpOnly bool
	// proxy: another DHCP server gives the address.
	proxy bool
	// upgraded: the boot server has other files, and a script of them, when the first
	// script has been fetched.
	upgraded bool
	// want are the stages that must be passed, in this order.
	want []string
}

var lines = []line{
	{
		name: "BIOS with iPXE in the ROM", level: "all", firmware: qemu.BIOS,
		want: []string{"Offer iPXE", "Ack iPXE", "Script Agent", "File vmlinuz", "File proof.cpio"},
	},
	{
		name: "BIOS, the boot server upgraded meanwhile", level: "all", firmware: qemu.BIOS, upgraded: true,
		want: []string{"Script Agent", "File vmlinuz", "Script Agent", "File vmlinuz", "File proof.cpio"},
	},
	{
		name: "UEFI, the boot server upgraded meanwhile", level: "all", firmware: qemu.UEFI, nic: qemu.NIC{NoROM: true}, upgraded: true,
		want: []string{"Script Agent", "File vmlinuz", "Script Agent", "File vmlinuz", "File proof.cpio"},
	},
	{
		name: "BIOS with a plain PXE ROM", level: "all", firmware: qemu.BIOS, plainROM: true,
		nic: qemu.NIC{Model: qemu.E1000E},
		want: []string{"Offer BIOS", "Ack BIOS", "Loader undionly.kpxe",
			"Offer iPXE", "Ack iPXE", "Script Agent", "File vmlinuz", "File proof.cpio"},
	},
	{
		name: "UEFI with its own PXE driver", level: "all", firmware: qemu.UEFI, nic: qemu.NIC{NoROM: true},
		want: []string{"Offer UEFI x64", "Ack UEFI x64", "Loader snponly.efi",
			"Offer iPXE", "Ack iPXE", "Script Agent", "File vmlinuz", "File proof.cpio"},
	},
	{
		name: "BIOS with iPXE in the ROM, beside another DHCP server", level: "all", firmware: qemu.BIOS, proxy: true,
		want: []string{"Offer iPXE, boot file only", "Script Agent", "File vmlinuz", "File proof.cpio"},
	},
	{
		name: "UEFI with its own PXE driver, beside another DHCP server", level: "all", firmware: qemu.UEFI, nic: qemu.NIC{NoROM: true}, proxy: true,
		want: []string{"Offer UEFI x64, boot file only", "Ack UEFI x64, boot file only", "Loader snponly.efi",
			"Offer iPXE, boot file only", "Script Agent", "File vmlinuz", "File proof.cpio"},
	},
	{
		name: "UEFI by HTTP boot", level: "all", firmware: qemu.UEFI, nic: qemu.NIC{NoROM: true}, httpOnly: true,
		want: []string{"Offer UEFI x64 HTTP", "Ack UEFI x64 HTTP", "Loader snponly.efi",
			"Offer iPXE", "Ack iPXE", "Script Agent", "File vmlinuz", "File proof.cpio"},
	},
}

// TestNetworkLine boots each kind of firmware by Ingot's DHCP, TFTP and HTTP
// into a kernel, and checks that it came by the way that was meant, with the
// command line that was meant.
func TestNetworkLine(t *testing.T) {
	for _, l := range lines {
		t.Run(l.name, func(t *testing.T) {
			needs(t, l.level)
			runLine(t, l)
		})
	}
}

func runLine(t *testing.T, l line) {
	var files pxe.Files
	add := func(path string) pxe.File {
		f, err := files.Add(path)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	host := newHost(pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{
		Kernel:    add(agentFile(t, "vmlinuz")),
		Initrds:   []pxe.File{add(proofInitramfs(t))},
		Server:    "192.0.2.1:8843",
		Token:     "token-of-this-boot",
		Arguments: []string{"console=ttyS0,115200"},
	}})
	var wrap func(net.PacketConn) net.PacketConn
	if l.plainROM {
		wrap = func(c net.PacketConn) net.PacketConn { return &plainROM{PacketConn: c} }
	}
	if l.proxy {
		host = proxied(host)
	}
	seg := startSegment(t, host, &files, wrap, func(c *bootserver.Config) {
		if l.upgraded {
			u := &upgrade{Observer: c.Observer, now: host, before: host}
			u.before.Plan.Agent.Initrds = []pxe.File{{Name: "proof.cpio", SHA256: strings.Repeat("0", 64)}}
			c.Directory, c.Observer = u, u
		}
	})
	if l.proxy {
		startNeighbour(t, seg)
	}

	vm := newVM(t, seg, host.MAC, qemu.Config{Firmware: l.firmware, NICs: []qemu.NIC{l.nic}, NoPXE: l.httpOnly})

	proof := bootProof(t, seg, vm)
	for _, arg := range []string{"pid=1 ", "console=ttyS0,115200", "ingot.server=192.0.2.1:8843",
		"ingot.files=http://192.0.2.1:8880", "ingot.mac=52:54:00:12:34:56", "ingot.token=token-of-this-boot"} {
		if !strings.Contains(proof, arg) {
			t.Errorf("the booted kernel does not know %q:\n%s", arg, proof)
		}
	}
	if got := seg.record.stages(); !inOrder(got, l.want) {
		t.Errorf("boot went by\n  %s\nwant, in this order,\n  %s", strings.Join(got, "\n  "), strings.Join(l.want, "\n  "))
	}
	select {
	case <-orClosed(vm.Ended()):
	case <-time.After(bootDeadline):
		t.Error("the server did not go off")
	}
}

// upgrade is a directory whose host has an initramfs that is gone, until its script has
// been fetched.
type upgrade struct {
	pxe.Observer
	before, now pxe.Host
	scripts     atomic.Int32
}

func (u *upgrade) Lookup(mac net.HardwareAddr) (pxe.Host, bool) {
	if u.scripts.Load() == 0 {
		return u.before, mac.String() == u.before.MAC.String()
	}
	return u.now, mac.String() == u.now.MAC.String()
}

func (u *upgrade) Observe(e pxe.BootEvent) {
	if e.Stage == pxe.StageScript {
		u.scripts.Add(1)
	}
	u.Observer.Observe(e)
}

func newHost(plan pxe.Plan) pxe.Host {
	return pxe.Host{
		Namespace: "default", Name: "server-1",
		MAC:      net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56},
		Hostname: "server-1",
		Address:  netip.MustParsePrefix("192.0.2.17/24"),
		Gateway:  netip.MustParseAddr("192.0.2.1"),
		Plan:     plan,
	}
}

// newVM makes a server whose first card is plugged into the segment.
func newVM(t *testing.T, seg *segment, mac net.HardwareAddr, cfg qemu.Config) *qemu.VM {
	t.Helper()
	dir, err := os.MkdirTemp("", "ingot-vm-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg.Name, cfg.Dir, cfg.UUID = "server-1", dir, "4c4c4544-0000-2010-8020-80c04f202020"
	cfg.NICs[0].MAC, cfg.NICs[0].Socket = mac, filepath.Join(dir, "nic0.sock")
	if err := seg.ListenUnix(cfg.Name, cfg.NICs[0].Socket); err != nil {
		t.Fatal(err)
	}
	cfg.Accel = probe.Accel(context.Background())
	t.Logf("acceleration %s (KVM: %v)", cfg.Accel.Accelerator, probe.Reason())
	vm, err := qemu.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = vm.Close() })
	return vm
}

// orClosed is a closed channel for a nil one.
func orClosed(c <-chan struct{}) <-chan struct{} {
	if c != nil {
		return c
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

// inOrder reports whether all of want are in got, in order.
func inOrder(got, want []string) bool {
	for _, g := range got {
		if len(want) > 0 && g == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}
