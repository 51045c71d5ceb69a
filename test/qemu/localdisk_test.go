// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
)

// bootSector is a master boot record that writes a text to the serial port and
// halts.
func bootSector(text string) []byte {
	code := []byte{
		0xfa,             // cli
		0xbe, 0x14, 0x7c, // mov si, text (0x7c00 + 20)
		0xba, 0xf8, 0x03, // mov dx, 0x3f8
		0x31, 0xc0, // xor ax, ax
		0x8e, 0xd8, // mov ds, ax
		0xac,       // next: lodsb
		0x84, 0xc0, // test al, al
		0x74, 0x03, // jz halt
		0xee,       // out dx, al
		0xeb, 0xf8, // jmp next
		0xf4, // halt: hlt
	}
	sector := make([]byte, 512)
	copy(sector, code)
	copy(sector[len(code):], text)
	sector[510], sector[511] = 0x55, 0xaa
	return sector
}

// signedDisk is a disk without partitions that firmware with Microsoft's keys starts: shim, and
// Debian's GRUB, which reads its script from the disk that it came from.
func signedDisk(t *testing.T, text string) (path string) {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk.raw")
	if err := os.WriteFile(disk, make([]byte, 40<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	loaders := signedLoaders(t)
	commands := [][]string{{"mformat", "-i", disk, "-F", "::"}, {"mmd", "-i", disk, "::EFI", "::EFI/BOOT", "::grub"}}
	for name, content := range map[string][]byte{
		"EFI/BOOT/BOOTX64.EFI": loaders.Shim, "EFI/BOOT/grubx64.efi": loaders.GRUB,
		"grub/grub.cfg": []byte("echo " + text + "\nsleep 60\n"),
	} {
		commands = append(commands, []string{"mcopy", "-i", disk, writeFile(t, filepath.Base(name), content), "::" + name})
	}
	for _, command := range commands {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s (Debian: package mtools): %v\n%s", command[0], err, out)
		}
	}
	return disk
}

// disarmedDirectory has a host boot the agent until its server has loaded GRUB, and its disk
// from then on.
type disarmedDirectory struct {
	pxe.Table
	record *recorder
}

// Lookup implements pxe.Directory.
func (d disarmedDirectory) Lookup(mac net.HardwareAddr) (pxe.Host, bool) {
	host, ok := d.Table.Lookup(mac)
	if !slices.Contains(d.record.stages(), "Loader grubx64.efi") {
		host.Plan = pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{Method: pxe.BootNetwork}}
	}
	return host, ok
}

// TestLocalDiskSecureBoot shows that a server with Secure Boot and Microsoft's keys, whose plan
// becomes its disk after it has loaded GRUB from the network, starts the loader of its disk.
// GRUB's exit would leave it in the firmware's menu.
func TestLocalDiskSecureBoot(t *testing.T) {
	needs(t, "all")
	const diskBoots = "DISK-BOOTS"
	host := newHost(pxe.Plan{Kind: pxe.LocalDisk})
	host.Loader = pxe.SignedLoader
	seg := startSegment(t, host, &pxe.Files{}, nil, func(c *bootserver.Config) {
		c.Signed = signedLoaders(t)
		c.Directory = disarmedDirectory{pxe.Table{host.MAC.String(): host}, c.Observer.(*recorder)}
	})
	vm := newVM(t, seg, host.MAC, qemu.Config{Firmware: qemu.UEFI, SecureBoot: true, Variables: microsoftVariables,
		NICs: []qemu.NIC{{NoROM: true}}, Disks: []qemu.Disk{{Path: signedDisk(t, diskBoots)}}})
	ctx, cancel := context.WithTimeout(t.Context(), bootDeadline)
	defer cancel()
	if err := vm.SetBoot(qemu.Boot{Device: qemu.Network}); err != nil {
		t.Fatal(err)
	}
	seg.record.restart()
	if err := vm.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	text, err := waitSerial(ctx, vm, diskBoots)
	seg.record.log(t)
	if err != nil {
		t.Fatalf("%v; the console ends in:\n%s", err, tail(text, 3000))
	}
	if want, got := []string{"Loader shimx64.efi", "Loader grubx64.efi", "Loader /grub/grub.cfg", "Script LocalDisk"}, seg.record.stages(); !inOrder(got, want) {
		t.Errorf("boot went by %q, want %q", got, want)
	}
}

// TestLocalDisk boots servers from the network whose plan is their disk: each
// kind of firmware must end up there, and not in a menu.
func TestLocalDisk(t *testing.T) {
	const diskBoots = "DISK-BOOTS"
	for _, tc := range []struct {
		name     string
		level    string
		firmware qemu.Firmware
		nic      qemu.NIC
		// reaches is what the console shows once the disk had its turn.
		reaches string
		want    []string
	}{
		{"BIOS with iPXE in the ROM", "all", qemu.BIOS, qemu.NIC{}, diskBoots, []string{"Ack iPXE", "Script LocalDisk"}},
		// The disk holds no EFI program: that UEFI tries it shows that it did
		// not stop in its menu.
		{"UEFI with its own PXE driver", "all", qemu.UEFI, qemu.NIC{NoROM: true}, "UEFI Misc Device", []string{"Offer UEFI x64", "Ack UEFI x64"}},
		{"UEFI with iPXE in the ROM", "all", qemu.UEFI, qemu.NIC{}, "UEFI Misc Device", []string{"Ack iPXE", "Script LocalDisk"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			needs(t, tc.level)
			disk := filepath.Join(t.TempDir(), "disk.raw")
			if err := os.WriteFile(disk, append(bootSector(diskBoots), make([]byte, 1<<20)...), 0o600); err != nil {
				t.Fatal(err)
			}
			host := newHost(pxe.Plan{Kind: pxe.LocalDisk})
			seg := startSegment(t, host, &pxe.Files{}, nil)
			vm := newVM(t, seg, host.MAC, qemu.Config{Firmware: tc.firmware, NICs: []qemu.NIC{tc.nic}, Disks: []qemu.Disk{{Path: disk}}})
			ctx, cancel := context.WithTimeout(context.Background(), bootDeadline)
			defer cancel()
			if err := vm.SetBoot(qemu.Boot{Device: qemu.Network}); err != nil {
				t.Fatal(err)
			}
			seg.record.restart()
			if err := vm.PowerOn(ctx); err != nil {
				t.Fatal(err)
			}
			text, err := waitSerial(ctx, vm, tc.reaches)
			seg.record.log(t)
			if err != nil {
				t.Fatalf("%v; the console ends in:\n%s", err, tail(text, 3000))
			}
			if got := seg.record.stages(); !inOrder(got, tc.want) {
				t.Errorf("boot went by %q, want %q", got, tc.want)
			}
		})
	}
}
