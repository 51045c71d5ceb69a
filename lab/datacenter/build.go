// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package datacenter

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/lab/server"
)

// virtual creates a QEMU process on the switch.
func (s *Server) virtual(dc *Datacenter, cfg Config, dir, id string) error {
	socket := filepath.Join(dir, "net.sock")
	if err := dc.Switch.ListenUnix(s.Spec.Name, socket); err != nil {
		return err
	}
	config := qemu.Config{
		Name: s.Spec.Name, Dir: dir, Firmware: s.Spec.Firmware, MemoryMiB: s.Spec.MemoryMiB, CPUs: s.Spec.CPUs,
		UUID: id, SerialNumber: s.Spec.Name, Manufacturer: "Ingot Lab", Product: "Virtual Server",
		NICs:  []qemu.NIC{{MAC: s.MAC, Model: s.Spec.NIC, Socket: socket, NoROM: s.Spec.NoPXE}},
		Accel: cfg.Accel, NoPXE: s.Spec.NoPXE,
	}
	if s.Spec.Media.IsValid() {
		var err error
		if s.drive, err = newDrive(dc.Switch, s.Spec, dir); s.drive != nil {
			s.closers = append(s.closers, s.drive.close)
		}
		if err != nil {
			return err
		}
		config.CD = s.drive.path
	}
	if s.DiskPath != "" {
		config.Disks = []qemu.Disk{{Path: s.DiskPath, Model: s.Spec.Disk}}
	}
	vm, err := qemu.New(config)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, vm.Close)
	s.VM, s.machine = vm, &virtualMachine{vm: vm, drive: s.drive}
	return nil
}

// simulated creates a server in this process.
func (s *Server) simulated(dc *Datacenter, _ Config, dir, id string) error {
	stack, err := network.NewStack(dc.Switch, network.StackConfig{Name: s.Spec.Name, MAC: s.MAC})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, stack.Close)
	config := server.Config{
		Name: s.Spec.Name, NIC: stack, UUID: id, Serial: s.Spec.Name, Manufacturer: "Ingot Lab", Model: "Simulated Server",
	}
	if s.DiskPath != "" {
		config.Disks = []server.DiskConfig{{Path: s.DiskPath, Serial: s.Spec.Name + "-d0"}}
	}
	console, err := os.OpenFile(filepath.Join(dir, "console.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, console.Close)
	config.Console = func(e server.Event) {
		_, _ = fmt.Fprintf(console, "%s %s %s\n", e.At.Format(time.RFC3339Nano), e.Kind, e.Detail)
	}
	if s.Spec.Simulate != nil {
		s.Spec.Simulate(&config)
	}
	if s.Simulated, err = server.New(config); err != nil {
		return err
	}
	s.closers = append(s.closers, s.Simulated.Close)
	s.machine = s.Simulated
	return nil
}

// virtualMachine adapts a QEMU process to its BMC.
type virtualMachine struct {
	bmc.BootSetting
	vm *qemu.VM
	// drive may be nil.
	drive *drive
}

// Powered implements lab/bmc.Machine.
func (m *virtualMachine) Powered() bool { return m.vm.Running() }

// Power implements lab/bmc.Machine. A power-on or reset uses up a boot override for one boot. A
// restart inside the guest boots from the disks.
func (m *virtualMachine) Power(ctx context.Context, action bmc.Action) error {
	switch action {
	case bmc.On:
		if m.vm.Running() {
			return nil
		}
		if err := m.prepare(ctx); err != nil {
			return err
		}
		return m.vm.PowerOn(ctx)
	case bmc.Off:
		return m.vm.PowerOff()
	case bmc.Shutdown:
		return m.vm.Shutdown(ctx)
	case bmc.Reset, bmc.Reboot:
		if !m.vm.Running() {
			return nil
		}
		if err := m.prepare(ctx); err != nil {
			return err
		}
		return m.vm.Reset(ctx)
	}
	return fmt.Errorf("virtual server: unknown power action %q", action)
}

// prepare configures the firmware for the boot override.
func (m *virtualMachine) prepare(ctx context.Context) error {
	target, _ := m.ConsumeBoot()
	switch target {
	case bmc.TargetCD:
		if m.drive == nil {
			return nil // without a drive the firmware boots from the disks
		}
		if err := m.drive.load(ctx); err != nil {
			return err
		}
		return m.vm.SetBoot(qemu.Boot{Device: qemu.CD, Once: true})
	case bmc.TargetPXE, bmc.TargetHTTP:
		return m.vm.SetBoot(qemu.Boot{Device: qemu.Network, Once: true})
	case bmc.TargetDisk:
		return m.vm.SetBoot(qemu.Boot{Device: qemu.Disks, Once: true})
	}
	return nil
}
