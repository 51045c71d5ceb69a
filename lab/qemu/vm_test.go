// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/needs"
)

const patience = 3 * time.Minute

// newVM makes a BIOS server with an empty disk and a card without a network.
func newVM(t *testing.T) *VM {
	t.Helper()
	needs.Program(t, "qemu-system-x86_64")
	if testing.Short() {
		t.Skip("boots a virtual machine")
	}
	dir, err := os.MkdirTemp("", "ingot-vm-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "nic0.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer func() { _ = c.Close() }()
		}
	}()
	vm, err := New(Config{
		Name: "server-1", Dir: dir, MemoryMiB: 128,
		Disks: []Disk{{Path: touch(t, filepath.Join(dir, "disk.raw"))}},
		NICs:  []NIC{{MAC: testMAC, Socket: socket}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := vm.Close(); err != nil {
			t.Error(err)
		}
	})
	return vm
}

// waitConsole waits for the nth time that the console shows a text.
func waitConsole(t *testing.T, vm *VM, text string, n int) {
	t.Helper()
	console := func() string {
		b, _ := os.ReadFile(vm.SerialLog())
		return string(b)
	}
	eventually.Wait{Limit: patience, Explain: console}.Until(t, fmt.Sprintf("%d times %q on the console", n, text),
		eventually.Holds(func() bool { return strings.Count(console(), text) >= n }))
}

const (
	fromDisk = "Booting from Hard Disk"
	fromNIC  = "starting execution" // of iPXE in the card's ROM
)

// nextBoot is what the next boot starts from.
func (v *VM) nextBoot() Boot {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.once != "" {
		return Boot{Device: v.once, Once: true}
	}
	return Boot{Device: v.order}
}

// TestOneTimeBoot: a one-time setting takes one boot and no more, whether it
// was made before power-on or on a running server; an order that stays, stays.
func TestOneTimeBoot(t *testing.T) {
	vm, ctx := newVM(t), context.Background()
	step := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	if err := vm.Reset(ctx); !errors.Is(err, ErrPoweredOff) {
		t.Fatalf("reset of a server that is off: %v", err)
	}
	if err := vm.SetBoot(Boot{Device: "floppy"}); err == nil {
		t.Error("boots from a floppy")
	}
	step("set", vm.SetBoot(Boot{Device: Network, Once: true}))
	step("power on", vm.PowerOn(ctx))
	step("power on again", vm.PowerOn(ctx))
	step("yield", vm.SetNice(5))
	waitConsole(t, vm, fromNIC, 1)
	checkNice(t, vm, 5)
	if got, want := vm.nextBoot(), (Boot{Device: Disks}); got != want {
		t.Errorf("next boot %v, want %v", got, want)
	}
	if b, _ := os.ReadFile(vm.SerialLog()); strings.Contains(string(b), fromDisk) {
		t.Error("the first boot was from disk")
	}
	step("reset", vm.Reset(ctx))
	waitConsole(t, vm, fromDisk, 1)
	// After the empty disk, firmware itself goes on to the card.
	waitConsole(t, vm, fromNIC, 2)

	checkNice(t, vm, 5) // another process

	step("set once, running", vm.SetBoot(Boot{Device: Network, Once: true}))
	step("reset", vm.Reset(ctx))
	waitConsole(t, vm, fromNIC, 3)
	if b, _ := os.ReadFile(vm.SerialLog()); strings.Count(string(b), fromDisk) != 1 {
		t.Errorf("a one-time setting on a running server was not used:\n%s", b)
	}
	step("reset", vm.Reset(ctx))
	waitConsole(t, vm, fromDisk, 2)

	step("power off", vm.PowerOff())
	step("power off again", vm.PowerOff())
	if vm.Running() || vm.Ended() != nil {
		t.Error("runs after power off")
	}
	step("set for good", vm.SetBoot(Boot{Device: Network}))
	step("power on", vm.PowerOn(ctx))
	waitConsole(t, vm, fromNIC, 4)
	if b, _ := os.ReadFile(vm.SerialLog()); strings.Count(string(b), fromDisk) != 2 {
		t.Error("a standing order was not used")
	}
}

// checkNice looks at every thread of the server's process.
func checkNice(t *testing.T, vm *VM, want int) {
	t.Helper()
	vm.mu.Lock()
	defer vm.mu.Unlock()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", vm.run.cmd.Process.Pid))
	if err != nil || len(files) < 2 { // its own, and the processor's
		t.Fatalf("threads: %q, %v", files, err)
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // one that has ended has none
		// proc(5): the 19th field, of which the second is in brackets.
		_, fields, _ := strings.Cut(string(text), ") ")
		if got := strings.Fields(fields); len(got) > 16 && got[16] != strconv.Itoa(want) {
			t.Errorf("%s: niceness %s, want %d", file, got[16], want)
		}
	}
}

// TestDeathIsNoticed: a process that dies is a server that is off.
func TestDeathIsNoticed(t *testing.T) {
	vm := newVM(t)
	if err := vm.PowerOn(context.Background()); err != nil {
		t.Fatal(err)
	}
	ended := vm.Ended()
	vm.mu.Lock()
	process := vm.run.cmd.Process
	vm.mu.Unlock()
	if err := process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the end was not noticed")
	}
	if vm.Running() {
		t.Error("a dead server runs")
	}
	if err := vm.PowerOn(context.Background()); err != nil {
		t.Errorf("power on after death: %v", err)
	}
}

func TestPowerOnFailureSaysWhy(t *testing.T) {
	vm, err := New(Config{Name: "a", Dir: t.TempDir(), Binary: fakeQEMU(t, "echo bad option >&2; exit 1")})
	if err != nil {
		t.Fatal(err)
	}
	if err := vm.PowerOn(context.Background()); err == nil || !strings.Contains(err.Error(), "bad option") {
		t.Errorf("got %v, want QEMU's own words", err)
	}
	if vm.Running() {
		t.Error("runs")
	}
}
