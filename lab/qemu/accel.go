// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Accel is how a server's instructions are run.
type Accel struct {
	// Accelerator is QEMU's -accel, CPU its -cpu.
	Accelerator, CPU string
}

var (
	// KVM runs them on the processor.
	KVM = Accel{Accelerator: "kvm", CPU: "host"}
	// TCG translates them. Without the bound on translated code a guest of 1
	// GiB takes 2 GiB; the plain CPU model boots Linux faster than "max"; rdrand
	// spares the kernel its wait for entropy; the instructions beside it are what
	// programs in Go hash, encrypt and count by. It calls itself an Atom that runs in
	// order (Saltwell): Linux believes the clocks of several such processors, which
	// otherwise are read through an emulated device at every look at the time, and finds
	// nothing to mitigate.
	TCG = Accel{
		Accelerator: "tcg,thread=multi," + tcgRoom,
		// All of them or none: Linux 6.1 takes pclmulqdq for granted where aes is.
		CPU: "qemu64,+rdrand,+ssse3,+sse4.1,+sse4.2,+popcnt,+aes,+pclmulqdq,vendor=GenuineIntel,family=6,model=54,stepping=1",
	}
)

// tcgRoom is the bound on translated code in TCG.
const tcgRoom = "tb-size=128"

// WithRoom is the same with that many MiB for translated code: a node of a cluster
// runs hundreds of MiB of programs, and when the room is full all of it is
// translated anew. KVM translates nothing.
func (a Accel) WithRoom(mib int) Accel {
	a.Accelerator = strings.Replace(a.Accelerator, tcgRoom, "tb-size="+strconv.Itoa(mib), 1)
	return a
}

// probeTime is how long each step of the probe may take. Where KVM works, the
// longest takes five seconds, four of which iPXE waits for a key.
const probeTime = 10 * time.Second

// Probe finds out, once, whether KVM works here. The zero value is ready.
type Probe struct {
	// Binary; empty means qemu-system-x86_64 from PATH.
	Binary string
	// Kernel is the path of a Linux kernel that is booted, too; empty means
	// that firmware alone decides.
	Kernel string

	once   sync.Once
	accel  Accel
	reason error
}

// Accel is KVM where it works, else TCG. The first call takes some seconds.
//
// That /dev/kvm can be opened proves nothing: under nested virtualisation a
// virtual machine can often be made, and then hangs or aborts in its firmware,
// in iPXE (waiting for a timer that never comes) or in its kernel.
func (p *Probe) Accel(ctx context.Context) Accel {
	p.once.Do(func() {
		p.accel = KVM
		if p.reason = p.try(ctx, KVM, probeTime); p.reason != nil {
			p.accel = TCG
		}
	})
	return p.accel
}

// Reason says why Accel did not return KVM; nil if it did, or was not called.
func (p *Probe) Reason() error { return p.reason }

// try boots firmware and a network card's ROM until it has found the card, and
// then a kernel until it misses its root file system.
func (p *Probe) try(ctx context.Context, accel Accel, limit time.Duration) error {
	if err := p.reach(ctx, accel, limit, "net0: ", "-netdev", "hubport,id=net0,hubid=0", "-device", "virtio-net-pci,netdev=net0"); err != nil {
		return fmt.Errorf("boot firmware: %w", err)
	}
	if p.Kernel == "" {
		return nil
	}
	if err := p.reach(ctx, accel, limit, "Unable to mount root fs", "-kernel", p.Kernel, "-append", "console=ttyS0"); err != nil {
		return fmt.Errorf("boot a kernel: %w", err)
	}
	return nil
}

// reach runs a machine until its console shows a text.
func (p *Probe) reach(ctx context.Context, accel Accel, limit time.Duration, text string, args ...string) error {
	dir, err := os.MkdirTemp("", "ingot-probe-")
	if err != nil {
		return fmt.Errorf("probe %s: %w", accel.Accelerator, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	log := filepath.Join(dir, "console.log")
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	proc, err := start(exec.Command(orDefault(p.Binary, "qemu-system-x86_64"), append([]string{
		"-nodefaults", "-no-user-config", "-machine", "q35,graphics=off", "-accel", accel.Accelerator,
		"-cpu", accel.CPU, "-m", "256", "-display", "none", "-vga", "none", "-serial", "file:" + quote(log)}, args...)...))
	if err != nil {
		return fmt.Errorf("probe %s: %w", accel.Accelerator, err)
	}
	defer func() { _ = proc.end(0) }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if b, err := os.ReadFile(log); err == nil && strings.Contains(string(b), text) {
				return nil
			}
		case <-proc.ended:
			return fmt.Errorf("probe %s: QEMU ended before %q: %w", accel.Accelerator, text, proc.err)
		case <-ctx.Done():
			return fmt.Errorf("probe %s: no %q: %w", accel.Accelerator, text, ctx.Err())
		}
	}
}
