// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog_test

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootlog"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/test/eventually"
)

// kept collects delivered boots.
type kept struct {
	mu    sync.Mutex
	boots []bootlog.Boot
}

func (k *kept) deliver(_ context.Context, boots []bootlog.Boot) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.boots = append(k.boots, boots...)
	return nil
}

// first waits for the first boot of a host.
func (k *kept) first(t *testing.T, host string) bootlog.Boot {
	t.Helper()
	var first bootlog.Boot
	eventually.Wait{Interval: 5 * time.Millisecond}.Until(t, "a boot of "+host, eventually.Holds(func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		i := slices.IndexFunc(k.boots, func(b bootlog.Boot) bool { return b.Host == host })
		if i >= 0 {
			first = k.boots[i]
		}
		return i >= 0
	}))
	return first
}

// The stages of boots of simulated servers, in order, from real packets.
func TestBootsOfSimulatedServers(t *testing.T) {
	sw := network.NewSwitch()
	t.Cleanup(func() { _ = sw.Close() })
	keeper := &kept{}
	tracker := bootlog.New(bootlog.Options{Deliver: keeper.deliver, Server: "192.168.0.1", Timing: bootlog.Timing{Interval: 5 * time.Millisecond}})
	table := pxe.Table{}
	agent := startBootServer(t, sw, guarded(table), tracker)
	for i, tc := range []struct {
		name    string
		plain   bool
		mode    bmc.Mode
		plan    pxe.Plan
		outcome bootlog.Outcome
		first   string
		stages  []bootlog.Stage
	}{
		{"bios", true, bmc.Legacy, agent, bootlog.AgentStarted, "BIOS", []bootlog.Stage{bootlog.DHCP, bootlog.Loader, bootlog.Script, bootlog.Kernel, bootlog.Initramfs, bootlog.Agent}},
		{"uefi", true, bmc.UEFI, agent, bootlog.AgentStarted, "UEFI x64", []bootlog.Stage{bootlog.DHCP, bootlog.Loader, bootlog.Script, bootlog.Kernel, bootlog.Initramfs, bootlog.Agent}},
		{"ipxe", false, bmc.UEFI, agent, bootlog.AgentStarted, "iPXE", []bootlog.Stage{bootlog.DHCP, bootlog.Script, bootlog.Kernel, bootlog.Initramfs, bootlog.Agent}},
		{"disk", false, bmc.UEFI, pxe.Plan{Kind: pxe.LocalDisk}, bootlog.BootedFromDisk, "iPXE", []bootlog.Stage{bootlog.DHCP, bootlog.Script}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mac := net.HardwareAddr{0x52, 0x54, 0, 0xb0, 0, byte(i)}
			tables.Lock()
			table[mac.String()] = pxe.Host{Namespace: "lab", Name: tc.name, MAC: mac, Plan: tc.plan,
				Address: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 1, byte(i + 1)}), 16)}
			tables.Unlock()
			nic, err := network.NewStack(sw, network.StackConfig{Name: tc.name, MAC: mac})
			must(t, err)
			t.Cleanup(func() { _ = nic.Close() })
			machine, err := server.New(server.Config{Name: tc.name, NIC: nic, Serial: tc.name, PlainPXE: tc.plain, Retry: time.Hour,
				UUID: "00000000-0000-4000-8000-00000000000" + string('0'+rune(i)), Disks: []server.DiskConfig{{Path: filepath.Join(t.TempDir(), "d"), Serial: "D", SizeBytes: 8 << 20}}})
			must(t, err)
			t.Cleanup(func() { _ = machine.Close() })
			machine.SetBoot(bmc.Boot{Target: bmc.TargetPXE, Mode: tc.mode, Enabled: bmc.Once})
			must(t, machine.Power(t.Context(), bmc.On))
			got := keeper.first(t, "lab/"+tc.name)
			var stages []bootlog.Stage
			for n, m := range got.Marks {
				stages = append(stages, m.Stage)
				if n > 0 && m.At.Before(got.Marks[n-1].At) {
					t.Errorf("%s is before %s", m.Stage, got.Marks[n-1].Stage)
				}
			}
			if diff := cmp.Diff(tc.stages, stages); diff != "" || got.Outcome != tc.outcome || got.Firmware != tc.first || got.MAC != mac.String() || got.LastFailure != "" {
				t.Errorf("%+v\nstages (-want +got):\n%s", got, diff)
			}
		})
	}
}

// tables guards the growing table of hosts.
var tables sync.RWMutex

type guarded pxe.Table

func (g guarded) Lookup(mac net.HardwareAddr) (pxe.Host, bool) {
	tables.RLock()
	defer tables.RUnlock()
	return pxe.Table(g).Lookup(mac)
}

// startBootServer starts a boot server on 192.168.0.1. It returns the plan for booting an agent
// whose manager does not exist.
func startBootServer(t *testing.T, sw *network.Switch, hosts pxe.Directory, tracker *bootlog.Tracker) pxe.Plan {
	t.Helper()
	address := netip.MustParseAddr("192.168.0.1")
	stack, err := network.NewStack(sw, network.StackConfig{Name: "boot", Address: netip.PrefixFrom(address, 16)})
	must(t, err)
	t.Cleanup(func() { _ = stack.Close() })
	dir, files := t.TempDir(), &pxe.Files{}
	for _, name := range []string{"vmlinuz", "initramfs", "undionly.kpxe", "snponly.efi"} {
		must(t, os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte{'k'}, 10_000), 0o600))
	}
	kernel, err := files.Add(filepath.Join(dir, "vmlinuz"))
	must(t, err)
	initramfs, err := files.Add(filepath.Join(dir, "initramfs"))
	must(t, err)
	srv, err := bootserver.New(bootserver.Config{Address: address, LoaderDir: dir, Files: files, Directory: hosts, Observer: tracker})
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
	for _, run := range []func(context.Context) error{tracker.Run, func(ctx context.Context) error { return srv.Run(ctx, sockets) }} {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	return pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{Kernel: kernel, Initrds: []pxe.File{initramfs},
		Server: "192.168.0.1:8843", Pin: "sha256/" + strings.Repeat("A", 43), Token: "token"}}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
