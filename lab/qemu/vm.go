// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Device is what to boot from.
type Device string

// The boot devices. The other one is what firmware falls back to.
const (
	Disks   Device = "disk"
	Network Device = "network"
	// CD is the virtual drive; without Config.CD there is none.
	CD Device = "cd"
)

// Boot is a boot device setting, as a BMC takes it.
type Boot struct {
	Device Device
	// Once makes it hold for the next boot only; else it stays.
	Once bool
}

// ErrPoweredOff reports an action that needs a running server.
var ErrPoweredOff = errors.New("server is powered off")

// controlTime bounds one exchange with a QEMU process.
const controlTime = 20 * time.Second

// quitGrace is how long QEMU may take to flush its disks after quit.
const quitGrace = 5 * time.Second

// VM is one virtual server. It is safe for concurrent use. Powered off, it is
// no process at all; what stays is its disks, its UEFI variables and its
// console log.
//
// Every reset is a new process, too. Firmware then reads the boot order of that
// boot, and of no other: SeaBIOS for one resets the machine a second time after
// each reset, which would use up a one-time setting before it is read.
type VM struct {
	cfg Config

	mu sync.Mutex
	// order is the standing boot device, once the next boot's; empty: none.
	order, once Device
	// nice is how much it leaves the processors to others.
	nice int
	// run is the process of this boot; nil when powered off.
	run *running
}

// running is one QEMU process, from power-on or reset to the next of either.
type running struct {
	*process
	qmp *qmp
	// reset is whether the process ended for a reset; read it after qmp's
	// reader has ended.
	reset bool
	// off is closed when the server is off; its resets share it.
	off chan struct{}
}

// New makes a server that is powered off and boots from its disks. It makes
// its UEFI variables if there are none yet.
func New(cfg Config) (*VM, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.Firmware == UEFI {
		if err := copyOnce(cfg.nvram(), cfg.Variables); err != nil {
			return nil, fmt.Errorf("make UEFI variables of %s (Debian: package ovmf): %w", cfg.Name, err)
		}
	}
	return &VM{cfg: cfg, order: Disks}, nil
}

func copyOnce(to, from string) error {
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	src, err := os.Open(from)
	if err != nil {
		return errors.Join(err, dst.Close(), os.Remove(to))
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, src.Close(), dst.Close())
}

// SerialLog is the path of what the server said on its serial console, of all
// boots.
func (v *VM) SerialLog() string { return v.cfg.serialLog() }

// Running reports whether the server is powered on.
func (v *VM) Running() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.run != nil
}

// Ended is closed when the server goes off, by itself or not; nil if it is
// off already.
func (v *VM) Ended() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.run == nil {
		return nil
	}
	return v.run.off
}

// SetBoot sets what the next boot, or each one from now on, starts from. On a
// running server it holds from the next reset, whoever causes it.
func (v *VM) SetBoot(b Boot) error {
	if b.Device != Disks && b.Device != Network && (b.Device != CD || v.cfg.CD == "") {
		return fmt.Errorf("server %s cannot boot from %q", v.cfg.Name, b.Device)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if b.Once {
		v.once = b.Device
	} else {
		v.order, v.once = b.Device, ""
	}
	return nil
}

// PowerOn starts the server; one that runs is left alone.
func (v *VM) PowerOn(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.run != nil {
		return nil
	}
	if err := v.launch(ctx, make(chan struct{})); err != nil {
		return fmt.Errorf("power on %s: %w", v.cfg.Name, err)
	}
	return nil
}

// launch starts the process of one boot and uses a one-time setting up. The
// caller holds v.mu.
func (v *VM) launch(ctx context.Context, off chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, controlTime)
	defer cancel()
	if err := os.Remove(v.cfg.qmpSocket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// Not CommandContext: the process outlives this call.
	proc, err := start(exec.Command(v.cfg.Binary, v.cfg.arguments(orDefault(v.once, v.order))...))
	if err != nil {
		return err
	}
	r := &running{process: proc, off: off}
	r.qmp, err = dialQMP(ctx, v.cfg.qmpSocket(), r.ended, func(e qmpEvent) {
		// With -no-reboot a reset is a shutdown with another reason.
		r.reset = r.reset || e.Name == "SHUTDOWN" && strings.HasSuffix(e.Data.Reason, "reset")
	})
	if err == nil && v.nice != 0 {
		err = r.setNice(v.nice)
	}
	if err == nil {
		_, err = r.qmp.call(ctx, "cont", nil)
	}
	if err != nil {
		err = errors.Join(err, r.kill())
		return errors.Join(err, proc.err) // proc.err has QEMU's own words
	}
	v.once, v.run = "", r
	go v.supervise(r)
	return nil
}

// supervise waits for the end of a boot, and begins the next one if that end
// was a reset. A boot that cannot begin leaves the server off, and its console
// log says why.
func (v *VM) supervise(r *running) {
	<-r.ended
	<-r.qmp.done
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.run != r {
		return // powered off
	}
	v.run = nil
	if r.reset {
		err := v.launch(context.Background(), r.off)
		if err == nil {
			return
		}
		v.note("reset failed: " + err.Error())
	}
	close(r.off)
}

// note appends a line of the lab's own to the console log.
func (v *VM) note(text string) {
	f, err := os.OpenFile(v.cfg.serialLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return // then there is nowhere to say it
	}
	_, _ = fmt.Fprintf(f, "\n[lab] %s\n", text)
	_ = f.Close()
}

// Reset restarts the server as its reset line would.
func (v *VM) Reset(ctx context.Context) error { return v.command(ctx, "system_reset") }

// Shutdown presses the power button: the operating system may go off, or not.
func (v *VM) Shutdown(ctx context.Context) error { return v.command(ctx, "system_powerdown") }

func (v *VM) command(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, controlTime)
	defer cancel()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.run == nil {
		return fmt.Errorf("%s of %s: %w", name, v.cfg.Name, ErrPoweredOff)
	}
	if _, err := v.run.qmp.call(ctx, name, nil); err != nil {
		return fmt.Errorf("server %s: %w", v.cfg.Name, err)
	}
	return nil
}

// PowerOff cuts the power: at once, whatever the server does. One that is off
// is left alone.
func (v *VM) PowerOff() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.run
	if r == nil {
		return nil
	}
	v.run = nil
	defer close(r.off)
	if err := r.kill(); err != nil {
		return fmt.Errorf("power off %s: %w", v.cfg.Name, err)
	}
	return nil
}

// kill ends the process and waits for its end. QEMU's own quit flushes the
// files of its disks; SIGKILL by the process's pid is what is left.
func (r *running) kill() error {
	if r.qmp == nil {
		return r.end(0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), quitGrace)
	defer cancel()
	_, _ = r.qmp.call(ctx, "quit", nil) // its reply may not come any more
	err := r.end(quitGrace)
	r.qmp.close()
	return err
}

// Close powers the server off for good.
func (v *VM) Close() error { return v.PowerOff() }
