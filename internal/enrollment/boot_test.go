// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package enrollment_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/agentserver"
	"github.com/ingot-metal/ingot/internal/bootconfig"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/test/eventually"
)

// testBoot boots unknown machines by real packets: a PXE ROM, an iPXE ROM, and one that finds the network
// full. Each reports itself at most once, and then boots its disk, which stays unchanged.
func testBoot(t *testing.T, s *site) {
	s.change(func(d *infrav1.NetworkDiscovery) { d.MaxHosts, d.PerMinute = 2, 60 })
	sw := network.NewSwitch()
	t.Cleanup(func() { _ = sw.Close() })
	startBootServer(t, s, sw)
	for i, plain := range []bool{true, false, false} {
		mac := net.HardwareAddr{0x52, 0x54, 0, 0xe0, 0, byte(i)}
		nic, err := network.NewStack(sw, network.StackConfig{Name: "unknown", MAC: mac})
		must(t, err)
		t.Cleanup(func() { _ = nic.Close() })
		disk := filepath.Join(t.TempDir(), "disk.raw")
		machine, err := server.New(server.Config{
			Name: "unknown", NIC: nic, Serial: "E" + mac.String(), UUID: "4c4c4544-0000-1000-80e0-0000000000e" + string('0'+rune(i)),
			Manufacturer: "ACME", Model: "Anvil", PlainPXE: plain, Retry: 20 * time.Millisecond, DHCPTimeout: 200 * time.Millisecond,
			Disks: []server.DiskConfig{{Path: disk, Serial: "DISK", SizeBytes: 8 << 20}},
		})
		must(t, err)
		t.Cleanup(func() { _ = machine.Close() })
		must(t, machine.Power(t.Context(), bmc.On))
		// It boots from its disk after the second try of the network; the third machine does at once.
		until(t, machine, func() bool { return fromDisk(machine) })
		w, z := machine.Disks()[0].BytesWritten()
		if w+z != 0 {
			t.Errorf("machine %d: %d bytes were written to its disk", i, w+z)
		}
		content, err := os.ReadFile(disk)
		must(t, err)
		if len(bytes.Trim(content, "\x00")) != 0 {
			t.Errorf("machine %d: its disk was changed", i)
		}
		reported := count(machine, server.EventAgentDone, "leaves the server as it was")
		if want := min(2-i, 1); reported != max(want, 0) {
			t.Errorf("machine %d reported itself %d times", i, reported)
		}
		must(t, machine.Power(t.Context(), bmc.Off))
	}
	hosts := s.hosts()
	if len(hosts) != 2 {
		t.Fatalf("%d hosts were enrolled, want 2", len(hosts))
	}
	for _, host := range hosts {
		if _, waits := host.Labels[infrav1.EnrolledLabel]; !waits || host.Spec.Order != nil || host.Spec.Record != nil || host.Spec.Claim != nil {
			t.Errorf("host %s: %v %+v", host.Name, host.Labels, host.Spec)
		}
	}
}

func count(machine *server.Server, kind server.EventKind, detail string) (n int) {
	for _, e := range machine.Events() {
		if e.Kind == kind && strings.Contains(e.Detail, detail) {
			n++
		}
	}
	return n
}

// fromDisk waits until the machine gives up the network and boots from its disk.
func fromDisk(machine *server.Server) bool {
	return count(machine, server.EventBootFrom, string(server.LocalDisk)) > 0
}

func until(t *testing.T, machine *server.Server, done func() bool) {
	t.Helper()
	eventually.Wait{Interval: 5 * time.Millisecond, Explain: func() string {
		var events strings.Builder
		for _, e := range machine.Events() {
			_, _ = fmt.Fprintf(&events, "%s %s %s\n", e.At.Format("05.000"), e.Kind, e.Detail)
		}
		return events.String()
	}}.Until(t, "the machine to come there", eventually.Holds(done))
}

// startBootServer puts boot server and agent API on 192.168.0.1.
func startBootServer(t *testing.T, s *site, sw *network.Switch) {
	t.Helper()
	address := netip.MustParseAddr("192.168.0.1")
	stack, err := network.NewStack(sw, network.StackConfig{Name: "boot", Address: netip.PrefixFrom(address, 16)})
	must(t, err)
	t.Cleanup(func() { _ = stack.Close() })
	keyFiles, err := token.NewFiles()
	must(t, err)
	keys, err := keyFiles.Keys()
	must(t, err)
	pins, err := keyFiles.Pins()
	must(t, err)
	certificate, err := keyFiles.Certificate()
	must(t, err)

	dir, files := t.TempDir(), &pxe.Files{}
	for _, name := range []string{"vmlinuz", "initramfs", "undionly.kpxe", "snponly.efi"} {
		must(t, os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte{'k'}, 10_000), 0o600))
	}
	kernel, err := files.Add(filepath.Join(dir, "vmlinuz"))
	must(t, err)
	initramfs, err := files.Add(filepath.Join(dir, "initramfs"))
	must(t, err)
	agentServer := netip.AddrPortFrom(address, 8843).String()
	boot, err := bootserver.New(bootserver.Config{Address: address, LoaderDir: dir, Files: files,
		Directory: bootconfig.New(bootconfig.Options{Cache: s, Keys: keys, Pins: pins, Server: agentServer,
			Kernel: kernel, Initrds: []pxe.File{initramfs}, Clock: clock.RealClock{}, Log: logr.Discard()})})
	must(t, err)
	var sockets bootserver.Sockets
	sockets.DHCP, err = stack.ListenUDP(bootserver.DHCPPort)
	must(t, err)
	sockets.BINL, err = stack.ListenUDP(bootserver.BINLPort)
	must(t, err)
	sockets.TFTP, err = stack.ListenUDP(bootserver.TFTPPort)
	must(t, err)
	sockets.HTTP, err = stack.ListenTCP(bootserver.DefaultHTTPPort)
	must(t, err)
	sockets.DialTFTP = stack.DialUDP
	agents, err := stack.ListenTCP(8843)
	must(t, err)
	api := agentserver.New(agentserver.Options{Client: s, Live: s, Keys: keys, Pins: pins, Address: agentServer,
		Recorder: s.events, Clock: clock.RealClock{}, Log: logr.Discard()})
	for _, serve := range []func(context.Context) error{
		func(ctx context.Context) error { return boot.Run(ctx, sockets) },
		func(ctx context.Context) error { return api.Serve(ctx, agents, certificate) },
	} {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- serve(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
