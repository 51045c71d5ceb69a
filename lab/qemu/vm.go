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
	"path/filepath"
	"sync"
	"time"
)

// Device is what to boot from.
type Device string

// The boot devices. The other one is what firmware falls back to.
const (
	Disks   Device = "disk"
	Network Device = "network"
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
type VM struct {
	cfg Config

	mu sync.Mutex
	// order is the standing boot device, once the next boot's; empty: none.
	order, once Device
	run         *running
}

// running is one QEMU process, from power on to power off.
type running struct {
	*process
	qmp *qmp
}

// New makes a server that is powered off and boots from its disks. It makes
// its UEFI variables if there are none yet.
func New(cfg Config) (*VM, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.Firmware == UEFI {
		if err := copyOnce(cfg.nvram(), filepath.Join(cfg.FirmwareDir, ovmfVars)); err != nil {
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
	return v.current() != nil
}

// current is the live process, or nil. The caller holds v.mu.
func (v *VM) current() *running {
	if v.run == nil {
		return nil
	}
	select {
	case <-v.run.ended:
		v.run = nil
	default:
	}
	return v.run
}

// Ended is closed when the server goes off, by itself or not; nil if it is
// off already.
func (v *VM) Ended() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r := v.current(); r != nil {
		return r.ended
	}
	return nil
}

// SetBoot sets what the next boot, or each one from now on, starts from. On a
// running server it holds from the next reset.
func (v *VM) SetBoot(ctx context.Context, b Boot) error {
	if b.Device != Disks && b.Device != Network {
		return fmt.Errorf("server %s cannot boot from %q", v.cfg.Name, b.Device)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if b.Once {
		v.once = b.Device
	} else {
		v.order, v.once = b.Device, ""
	}
	if r := v.current(); r != nil {
		return v.applyOrder(ctx, r, orDefault(v.once, v.order))
	}
	return nil
}

// NextBoot is what the next boot starts from.
func (v *VM) NextBoot() Boot {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.once != "" {
		return Boot{Device: v.once, Once: true}
	}
	return Boot{Device: v.order}
}

// PowerOn starts the server; one that runs is left alone.
func (v *VM) PowerOn(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.current() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, controlTime)
	defer cancel()
	if err := os.Remove(v.cfg.qmpSocket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("power on %s: %w", v.cfg.Name, err)
	}
	first := orDefault(v.once, v.order)
	// Not CommandContext: the process outlives this call.
	proc, err := start(exec.Command(v.cfg.Binary, v.cfg.arguments(first)...))
	if err != nil {
		return fmt.Errorf("power on %s: %w", v.cfg.Name, err)
	}
	r := &running{process: proc}
	v.run = r
	if err := v.begin(ctx, r, first); err != nil {
		return fmt.Errorf("power on %s: %w", v.cfg.Name, errors.Join(err, v.kill(r)))
	}
	v.once = ""
	return nil
}

// begin takes control of a stopped machine, sets the order for the boot after
// the first, and lets it go. Firmware reads the order that held at the last
// reset, so what is set now does not touch the boot that begins.
func (v *VM) begin(ctx context.Context, r *running, first Device) error {
	var err error
	r.qmp, err = dialQMP(ctx, v.cfg.qmpSocket(), r.ended, func(event string) {
		if event == "RESET" {
			go v.afterReset(r)
		}
	})
	if err != nil {
		return err
	}
	if first != v.order {
		if err := v.applyOrder(ctx, r, v.order); err != nil {
			return err
		}
	}
	_, err = r.qmp.call(ctx, "cont", nil)
	return err
}

// afterReset uses up a one-time setting: the boot that has just begun took it.
func (v *VM) afterReset(r *running) {
	ctx, cancel := context.WithTimeout(context.Background(), controlTime)
	defer cancel()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.current() != r || v.once == "" {
		return
	}
	v.once = ""
	// A machine that goes off now has no order to keep.
	_ = v.applyOrder(ctx, r, v.order)
}

// applyOrder numbers the boot devices of a running machine anew.
func (v *VM) applyOrder(ctx context.Context, r *running, first Device) error {
	// Numbers must be unique at every moment: take them all away first.
	type numbered struct {
		id    string
		index int
	}
	var devices []numbered
	for i := range v.cfg.Disks {
		devices = append(devices, numbered{diskID(i), v.cfg.bootIndex(first, Disks, i)})
	}
	for i := range v.cfg.NICs {
		devices = append(devices, numbered{nicID(i), v.cfg.bootIndex(first, Network, i)})
	}
	set := func(id string, index int) error {
		_, err := r.qmp.call(ctx, "qom-set", map[string]any{
			"path": "/machine/peripheral/" + id, "property": "bootindex", "value": index})
		return err
	}
	for _, d := range devices {
		if err := set(d.id, -1); err != nil {
			return fmt.Errorf("set boot order of %s: %w", v.cfg.Name, err)
		}
	}
	for _, d := range devices {
		if err := set(d.id, d.index); err != nil {
			return fmt.Errorf("set boot order of %s: %w", v.cfg.Name, err)
		}
	}
	return nil
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
	r := v.current()
	if r == nil {
		return fmt.Errorf("%s of %s: %w", name, v.cfg.Name, ErrPoweredOff)
	}
	if _, err := r.qmp.call(ctx, name, nil); err != nil {
		return fmt.Errorf("server %s: %w", v.cfg.Name, err)
	}
	return nil
}

// PowerOff cuts the power: at once, whatever the server does. One that is off
// is left alone.
func (v *VM) PowerOff() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.current()
	if r == nil {
		return nil
	}
	if err := v.kill(r); err != nil {
		return fmt.Errorf("power off %s: %w", v.cfg.Name, err)
	}
	return nil
}

// kill ends the process and waits for its end. QEMU's own quit flushes the
// files of its disks; SIGKILL by the process's pid is what is left.
func (v *VM) kill(r *running) error {
	v.run = nil
	if r.qmp != nil {
		ctx, cancel := context.WithTimeout(context.Background(), controlTime)
		defer cancel()
		_, _ = r.qmp.call(ctx, "quit", nil) // its reply may not come any more
		defer r.qmp.close()
		return r.end(quitGrace)
	}
	return r.end(0)
}

// Close powers the server off for good.
func (v *VM) Close() error { return v.PowerOff() }
