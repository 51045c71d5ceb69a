// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package qemu runs one virtual server: firmware, disks and network cards as
// the hardware, power and boot device as its BMC would see them. It needs no
// privileges.
//
// It must not know what boots, nor who asks for power: an emulated BMC stands
// before it, and the lab's switch behind its network cards.
//
// Without KVM, the emulated processor is chosen so that Linux trusts its clock and needs no
// mitigations (accel.go). The lab's images add kernel options for the same reason: tsc=nowatchdog
// keeps the clock source of a paused server, norandmaps lets QEMU find translated code again, and
// highres=off saves timer interrupts. Images for physical servers do without them.
//
//	probe := &qemu.Probe{}
//	vm, err := qemu.New(qemu.Config{
//		Name: "server-1", Dir: dir, Firmware: qemu.UEFI, Accel: probe.Accel(ctx),
//		Disks: []qemu.Disk{{Path: "disk.raw", Model: qemu.NVMe}},
//		NICs:  []qemu.NIC{{MAC: mac, Socket: "nic0.sock"}},
//	})
//	err = vm.SetBoot(qemu.Boot{Device: qemu.Network, Once: true})
//	err = vm.PowerOn(ctx)
//	defer vm.Close()
package qemu
