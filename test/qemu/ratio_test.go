// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/capture"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/test/bench"
)

const (
	// rounds of each way; of the times the medians count.
	rounds = 5
	// slowest is what a boot from the network may take, of the time of the same kernel and
	// initramfs without one, the firmware apart: a fifth more at most.
	slowest = 1.2
	// setupSpeaks is the first that a kernel says on the serial port that was started by
	// BIOS, stubSpeaks one that UEFI started: both before it unpacks itself.
	setupSpeaks = "Probing EDD"
	stubSpeaks  = "EFI stub:"
	// agentSpeaks is the agent's.
	agentSpeaks = "ingot ["
	// bootArguments are those of both ways.
	bootArguments = "console=ttyS0,115200"
)

// course is one way by which a server comes to the agent.
type course struct {
	name     string
	firmware qemu.Firmware
	nic      qemu.NIC
	// plainROM and httpOnly are as in a line; unified boots one UEFI program by HTTP.
	plainROM, httpOnly, unified bool
}

// TestBootRatio compares boots from the network with boots of a kernel and initramfs that
// are there already: from the first packet to the agent's first word, over from the
// kernel's first word to the agent's. The firmware's own time is listed apart: what it
// does before the first packet, and what it waits, starts and copies between the packets
// ([capture.ClientTime]), which no server makes shorter. A second line has all of it, but
// for what is before the first packet.
func TestBootRatio(t *testing.T) {
	if os.Getenv("INGOT_BENCH_QEMU") == "" {
		t.Skip("make bench-boot runs it: it measures, and judges nothing")
	}
	for _, c := range []course{
		{name: "boot-bios-ipxe-rom"},
		{name: "boot-bios-tftp", plainROM: true, nic: qemu.NIC{Model: qemu.E1000E}},
		{name: "boot-uefi-tftp", firmware: qemu.UEFI, nic: qemu.NIC{NoROM: true}},
		{name: "boot-uefi-http-uki", firmware: qemu.UEFI, nic: qemu.NIC{NoROM: true}, httpOnly: true, unified: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			result := bench.Comparison{Name: c.name, Unit: "s", Bar: slowest}
			whole := bench.Comparison{Name: c.name + "-with-firmware", Unit: "s"}
			for round := range rounds {
				t.Run(fmt.Sprint(round), func(t *testing.T) {
					all, firmware := fromNetwork(t, c)
					result.Ours = append(result.Ours, (all - firmware).Seconds())
					result.Theirs = append(result.Theirs, direct(t, c).Seconds())
					whole.Ours = append(whole.Ours, all.Seconds())
				})
			}
			result.Write(os.Stdout)
			whole.Theirs = result.Theirs
			whole.Write(os.Stdout)
		})
	}
}

// fromNetwork is the time from the first packet to the agent, and how much of it was the
// firmware's own.
func fromNetwork(t *testing.T, c course) (all, firmware time.Duration) {
	t.Helper()
	var files pxe.Files
	var host pxe.Host
	if c.unified {
		host = unifiedHost(t, &files, unifiedImage(t, "sha256/"+strings.Repeat("A", 43)), "token-of-this-boot")
	} else {
		kernel, err := files.Add(agentFile(t, "vmlinuz"))
		if err != nil {
			t.Fatal(err)
		}
		initrd, err := files.Add(agentFile(t, "initramfs.cpio.zst"))
		if err != nil {
			t.Fatal(err)
		}
		host = newHost(pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{
			Kernel: kernel, Initrds: []pxe.File{initrd}, Server: "192.0.2.1:8843",
			Token: agentapi.Sensitive("token-of-this-boot"), Arguments: []string{bootArguments},
		}})
	}
	var wrap func(net.PacketConn) net.PacketConn
	if c.plainROM {
		wrap = func(conn net.PacketConn) net.PacketConn { return &plainROM{PacketConn: conn} }
	}
	seg := startSegment(t, host, &files, wrap)
	vm := newVM(t, seg, host.MAC, qemu.Config{Firmware: c.firmware, NICs: []qemu.NIC{c.nic}, NoPXE: c.httpOnly})
	if err := vm.SetBoot(qemu.Boot{Device: qemu.Network, Once: true}); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := seg.Capture(&file); err != nil {
		t.Fatal(err)
	}
	seg.record.restart()
	began := time.Now()
	kernel, agent := spoken(t, vm, c.firmware)
	first := seg.record.first()
	seg.record.log(t)
	if err := vm.PowerOff(); err != nil {
		t.Fatal(err)
	}
	seg.StopCapture()
	frames, err := network.ReadCapture(&file)
	if err != nil {
		t.Fatal(err)
	}
	frames = fromQuestion(frames, host.MAC, first)
	first = frames[0].At
	firmware = capture.ClientTime(frames, host.MAC, kernel)
	t.Logf("the firmware took %.2f s to its first packet and %.2f s between packets, network and servers %.2f s to the kernel, the kernel %.2f s to the agent",
		first.Sub(began).Seconds(), firmware.Seconds(), (kernel.Sub(first) - firmware).Seconds(), agent.Sub(kernel).Seconds())
	return agent.Sub(first), firmware
}

// fromQuestion leaves out what was before the client's question to which the first answer
// was given at a time.
func fromQuestion(frames []network.Frame, client net.HardwareAddr, answered time.Time) []network.Frame {
	question := 0
	for i, f := range frames {
		if !f.At.After(answered) && bytes.Equal(f.Data[6:12], client) {
			question = i
		}
	}
	return frames[question:]
}

// direct is the time from the kernel to the agent.
func direct(t *testing.T, c course) time.Duration {
	t.Helper()
	host := newHost(pxe.Plan{})
	seg := startSegment(t, host, &pxe.Files{}, nil)
	vm := newVM(t, seg, host.MAC, qemu.Config{Firmware: c.firmware, NICs: []qemu.NIC{c.nic}, Direct: &qemu.Linux{
		Kernel: agentFile(t, "vmlinuz"), Initrd: agentFile(t, "initramfs.cpio.zst"), CommandLine: bootArguments,
	}})
	kernel, agent := spoken(t, vm, c.firmware)
	if err := vm.PowerOff(); err != nil {
		t.Fatal(err)
	}
	return agent.Sub(kernel)
}

// spoken powers a server on and says when its kernel and its agent were first heard.
func spoken(t *testing.T, vm *qemu.VM, firmware qemu.Firmware) (kernel, agent time.Time) {
	t.Helper()
	kernelSpeaks := setupSpeaks
	if firmware == qemu.UEFI {
		kernelSpeaks = stubSpeaks
	}
	ctx, cancel := context.WithTimeout(t.Context(), bootDeadline)
	defer cancel()
	if err := vm.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	for _, w := range []struct {
		marker string
		at     *time.Time
	}{{kernelSpeaks, &kernel}, {agentSpeaks, &agent}} {
		text, err := waitSerial(ctx, vm, w.marker)
		if err != nil {
			t.Fatalf("no %q: %v; the console ends in:\n%s", w.marker, err, tail(text, 3000))
		}
		*w.at = time.Now()
	}
	return kernel, agent
}
