// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/uki"
)

// unifiedImage is the agent as one UEFI program, with a pin built in and nothing else
// of where to go.
func unifiedImage(t *testing.T, pin string) []byte {
	t.Helper()
	read := func(name string) []byte {
		b, err := os.ReadFile(agentFile(t, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	image, err := uki.Build(uki.Parts{
		Stub: read("linuxx64.efi.stub"), Kernel: read("vmlinuz"), Initrd: read("initramfs.cpio.zst"),
		CommandLine: "console=ttyS0,115200 " + agentapi.ArgPin + "=" + pin, OSRelease: "NAME=Ingot\nID=ingot\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// writeFile puts bytes into a file of the test's own.
func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// unifiedHost is a host that is to boot the agent by a unified image, with a pin that
// is wrong wherever the image's own does not win.
func unifiedHost(t *testing.T, files *pxe.Files, image []byte, token string) pxe.Host {
	t.Helper()
	file, err := files.Add(writeFile(t, "agent.efi", image))
	if err != nil {
		t.Fatal(err)
	}
	return newHost(pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{
		Method: pxe.BootHTTP, Unified: file, Kernel: file, Server: "192.0.2.1:8843",
		Pin: "sha256/" + strings.Repeat("A", 43), Token: agentapi.Sensitive(token),
	}})
}

// newInspector knows one token.
func newInspector() *inspector {
	return &inspector{token: "token-of-this-boot",
		session: make(chan agentapi.SessionRequest, 100), report: make(chan agentapi.Report, 100)}
}

// inspected waits for the agent's session and report, and for the server to go off.
func inspected(t *testing.T, seg *segment, vm *qemu.VM, manager *inspector) {
	t.Helper()
	began := time.Now()
	found := await(t, vm, manager.session)
	seg.record.log(t)
	t.Logf("%6.1f s  session", time.Since(began).Seconds())
	rep := await(t, vm, manager.report)
	t.Logf("%6.1f s  report", time.Since(began).Seconds())
	if rep.Outcome != agentapi.Succeeded || rep.OrderID != "order-1" || found.Hardware.Firmware != "UEFI" {
		t.Errorf("report %+v from firmware %q", rep, found.Hardware.Firmware)
	}
	select { // the acknowledgement said so
	case <-orClosed(vm.Ended()):
	case <-time.After(bootDeadline):
		t.Error("the server did not go off")
	}
}

// TestUnifiedByHTTP: UEFI loads the unified kernel image by HTTP, without a boot
// loader and without TFTP. The manager's pin is the image's own, server and token come
// by the agent's DHCP; a pin that comes with them is not taken.
func TestUnifiedByHTTP(t *testing.T) {
	needs(t, "all")
	cert, pin := newManagerKey(t)
	manager := newInspector()
	var files pxe.Files
	host := unifiedHost(t, &files, unifiedImage(t, pin), manager.token)
	seg := startSegment(t, host, &files, nil)
	serveManager(t, seg, cert, manager)
	vm := newVM(t, seg, host.MAC, qemu.Config{Firmware: qemu.UEFI, NICs: []qemu.NIC{{NoROM: true}}, NoPXE: true})
	if err := vm.SetBoot(qemu.Boot{Device: qemu.Network, Once: true}); err != nil {
		t.Fatal(err)
	}
	seg.record.restart()
	if err := vm.PowerOn(context.Background()); err != nil {
		t.Fatal(err)
	}
	inspected(t, seg, vm, manager)
	want := []string{"Offer UEFI x64 HTTP", "Ack UEFI x64 HTTP", "File agent.efi", "Ack agent"}
	got := seg.record.stages()
	if !inOrder(got, want) {
		t.Errorf("boot went by\n  %s\nwant, in this order,\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	if slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "Loader ") || strings.HasPrefix(s, "Script ") }) {
		t.Errorf("a loader or a script was fetched:\n  %s", strings.Join(got, "\n  "))
	}
}
