// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	// spares the kernel its wait for entropy.
	TCG = Accel{Accelerator: "tcg,thread=multi,tb-size=128", CPU: "qemu64,+rdrand"}
)

const (
	// probeTime is how long firmware may take under KVM. It takes well under a
	// second where KVM works.
	probeTime = 8 * time.Second
	// firmwareDone is what SeaBIOS says on its debug port when it has done all
	// it can without a disk.
	firmwareDone = "No bootable device"
)

// Probe finds out, once, whether KVM works here. The zero value is ready.
type Probe struct {
	// Binary; empty means qemu-system-x86_64 from PATH.
	Binary string

	once   sync.Once
	accel  Accel
	reason error
}

// Accel is KVM where it works, else TCG. The first call takes some seconds.
func (p *Probe) Accel(ctx context.Context) Accel {
	p.once.Do(func() {
		p.accel = KVM
		if p.reason = p.try(ctx, KVM); p.reason != nil {
			p.accel = TCG
		}
	})
	return p.accel
}

// Reason says why Accel did not return KVM; nil if it did, or was not called.
func (p *Probe) Reason() error { return p.reason }

// try boots firmware to its end. That /dev/kvm can be opened proves nothing:
// under nested virtualisation a virtual machine can often be made, and then
// hangs or aborts in its firmware.
func (p *Probe) try(ctx context.Context, accel Accel) error {
	dir, err := os.MkdirTemp("", "ingot-probe-")
	if err != nil {
		return fmt.Errorf("probe %s: %w", accel.Accelerator, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	log := filepath.Join(dir, "firmware.log")
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	cmd := exec.Command(orDefault(p.Binary, "qemu-system-x86_64"),
		"-nodefaults", "-no-user-config", "-machine", "q35", "-accel", accel.Accelerator, "-cpu", accel.CPU,
		"-m", "64", "-display", "none", "-vga", "none",
		"-chardev", "file,id=debug,path="+quote(log), "-device", "isa-debugcon,iobase=0x402,chardev=debug")
	proc, err := start(cmd)
	if err != nil {
		return fmt.Errorf("probe %s: %w", accel.Accelerator, err)
	}
	defer func() { _ = proc.end(0) }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if b, err := os.ReadFile(log); err == nil && strings.Contains(string(b), firmwareDone) {
				return nil
			}
		case <-proc.ended:
			return fmt.Errorf("probe %s: QEMU ended before its firmware was done: %w", accel.Accelerator, proc.err)
		case <-ctx.Done():
			return fmt.Errorf("probe %s: firmware was not done in time: %w", accel.Accelerator, ctx.Err())
		}
	}
}
