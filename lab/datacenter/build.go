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

// virtual makes the server a QEMU process on the switch.
func (s *Server) virtual(dc *DataCentre, cfg Config, dir, id string) error {
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
		if s.drive, err = newDrive(dc.Switch, s.Spec, dir); err != nil {
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
	s.VM, s.machine = vm, &virtualMachine{vm: vm, drive: s.drive}
	return nil
}

// simulated makes the server a part of this process.
func (s *Server) simulated(dc *DataCentre, _ Config, dir, id string) error {
	stack, stackErr := network.NewStack(dc.Switch, network.StackConfig{Name: s.Spec.Name, MAC: s.MAC})
	if stackErr != nil {
		return stackErr
	}
	s.stack = stack
	config := server.Config{
		Name: s.Spec.Name, NIC: stack, UUID: id, Serial: s.Spec.Name, Manufacturer: "Ingot Lab", Model: "Simulated Server",
	}
	if s.DiskPath != "" {
		config.Disks = []server.DiskConfig{{Path: s.DiskPath, Serial: s.Spec.Name + "-d0"}}
	}
	var err error
	if s.console, err = os.OpenFile(filepath.Join(dir, "console.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	config.Console = func(e server.Event) {
		_, _ = fmt.Fprintf(s.console, "%s %s %s\n", e.At.Format(time.RFC3339Nano), e.Kind, e.Detail)
	}
	if s.Spec.Simulate != nil {
		s.Spec.Simulate(&config)
	}
	if s.Simulated, err = server.New(config); err != nil {
		return err
	}
	s.machine = s.Simulated
	return nil
}

// virtualMachine shows a QEMU process to its BMC.
type virtualMachine struct {
	bmc.BootSetting
	vm *qemu.VM
	// drive is nil where there is none.
	drive *drive
}

// Powered implements lab/bmc.Machine.
func (m *virtualMachine) Powered() bool { return m.vm.Running() }

// Power implements lab/bmc.Machine. An override is used up by the power-on or
// reset that it holds for; a restart from inside the guest goes by the disks, as
// after any boot for once.
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

// prepare tells the firmware what this boot starts from.
func (m *virtualMachine) prepare(ctx context.Context) error {
	target, _ := m.ConsumeBoot()
	switch target {
	case bmc.TargetCD:
		if m.drive == nil {
			return nil // nothing to boot from: on to the disks
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
