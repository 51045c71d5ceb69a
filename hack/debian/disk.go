// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/partition/gpt"
)

// Directories of the packages grub-pc-bin and grub-efi-amd64-bin.
const (
	grubBIOS = "/usr/lib/grub/i386-pc"
	grubEFI  = "/usr/lib/grub/x86_64-efi"
)

// The layout of the disk, in sectors of 512 bytes: a BIOS boot partition for
// GRUB's core image, an EFI system partition, the root file system, and 1 MiB at
// the end for the second GPT.
const (
	sectorSize     = 512
	biosStart      = 2048
	espStart       = 4096
	espSectors     = 16 << 20 / sectorSize
	rootStart      = espStart + espSectors
	backupSectors  = 2048
	bootCodeSize   = 440
	embeddedConfig = "base/boot/grub/early.cfg"
)

// RootOffset is the offset of the root file system on a disk, in bytes.
const RootOffset = rootStart * sectorSize

// Fixed identifiers make the disk reproducible.
const (
	diskGUID = "1B60D7A5-4F5C-4C4E-9C3B-0C6B0E5D1A00"
	biosGUID = "1B60D7A5-4F5C-4C4E-9C3B-0C6B0E5D1A01"
	espGUID  = "1B60D7A5-4F5C-4C4E-9C3B-0C6B0E5D1A02"
	rootGUID = "1B60D7A5-4F5C-4C4E-9C3B-0C6B0E5D1A03"
)

// assembleDisk writes a sparse disk image around a root file system.
func assembleDisk(ctx context.Context, work, rootFS, raw string) error {
	info, err := os.Stat(rootFS)
	if err != nil {
		return err
	}
	rootSectors := (info.Size() + sectorSize - 1) / sectorSize
	disk, err := os.Create(raw)
	if err != nil {
		return err
	}
	defer disk.Close()
	size := (rootStart + rootSectors + backupSectors) * sectorSize
	if err := disk.Truncate(size); err != nil {
		return err
	}
	if err := writeTable(disk, size, rootSectors); err != nil {
		return err
	}
	esp := filepath.Join(work, "esp.img")
	if err := makeESP(ctx, work, esp); err != nil {
		return err
	}
	defer os.Remove(esp)
	for path, start := range map[string]int64{rootFS: rootStart, esp: espStart} {
		if err := copySparse(disk, path, start*sectorSize); err != nil {
			return err
		}
	}
	if err := installBIOSGrub(ctx, work, disk); err != nil {
		return err
	}
	return disk.Close()
}

func writeTable(disk *os.File, size, rootSectors int64) error {
	table := &gpt.Table{
		LogicalSectorSize: sectorSize, PhysicalSectorSize: sectorSize,
		GUID: diskGUID, ProtectiveMBR: true,
		Partitions: []*gpt.Partition{
			{Index: 1, Start: biosStart, End: espStart - 1, Type: gpt.BIOSBoot, Name: "biosgrub", GUID: biosGUID},
			{Index: 2, Start: espStart, End: rootStart - 1, Type: gpt.EFISystemPartition, Name: "esp", GUID: espGUID},
			{
				Index: 3, Start: rootStart, End: uint64(rootStart + rootSectors - 1),
				Type: gpt.LinuxRootX86_64, Name: "root", GUID: rootGUID,
			},
		},
	}
	target, err := file.New(disk, false).Writable()
	if err != nil {
		return fmt.Errorf("write the partition table: %w", err)
	}
	if err := table.Write(target, size); err != nil {
		return fmt.Errorf("write the partition table: %w", err)
	}
	return nil
}

// makeESP creates a FAT file system with GRUB at the path that firmware tries without a boot entry.
func makeESP(ctx context.Context, work, esp string) error {
	f, err := os.Create(esp)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(espSectors*sectorSize), f.Close()); err != nil {
		return err
	}
	loader := filepath.Join(work, "bootx64.efi")
	defer os.Remove(loader)
	err = mkimage(ctx, work, []string{
		"-O", "x86_64-efi", "-d", grubEFI, "-p", "/boot/grub", "-o", loader,
		"part_gpt", "ext2", "search", "search_label", "normal", "configfile", "linux", "serial", "echo",
		// Without a video driver in GRUB, Linux has no screen and the BMC's console stays black.
		"efi_gop", "efi_uga",
	})
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mformat", "-i", esp, "-v", "ESP", "-N", "1b60d7a5", "::"},
		{"mmd", "-i", esp, "::/EFI", "::/EFI/BOOT"},
		{"mcopy", "-i", esp, loader, "::/EFI/BOOT/BOOTX64.EFI"},
	} {
		if _, err := Run(ctx, work, args[0], args[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// installBIOSGrub works like grub-bios-setup, without a block device: it writes boot.img to the boot
// code of the MBR, the core image to the BIOS boot partition, and the next sector into each.
func installBIOSGrub(ctx context.Context, work string, disk io.WriterAt) error {
	core := filepath.Join(work, "core.img")
	defer os.Remove(core)
	err := mkimage(ctx, work, []string{
		"-O", "i386-pc", "-d", grubBIOS, "-p", "/boot/grub", "-o", core,
		"biosdisk", "part_gpt", "ext2", "search", "search_label", "normal", "configfile", "linux", "serial", "echo",
	})
	if err != nil {
		return err
	}
	boot, err := os.ReadFile(grubBIOS + "/boot.img")
	if err != nil {
		return err
	}
	image, err := os.ReadFile(core)
	if err != nil {
		return err
	}
	if err := patchGrub(boot, image, biosStart); err != nil {
		return err
	}
	if _, err := disk.WriteAt(boot[:bootCodeSize], 0); err != nil {
		return err
	}
	_, err = disk.WriteAt(image, biosStart*sectorSize)
	return err
}

// patchGrub writes addresses to GRUB's boot sector and core image (offsets of grub/i386/pc/boot.h): the
// sector of the core image, the sector of its second block, and two no-ops instead of the jump that
// trusts the drive number of the BIOS.
func patchGrub(boot, core []byte, start uint64) error {
	const kernelSector, driveCheck, blocklist = 0x5c, 0x66, 0x1f4
	if len(boot) < sectorSize || len(core) < sectorSize {
		return fmt.Errorf("patch GRUB: boot code (%d bytes) or core image (%d bytes) too short", len(boot), len(core))
	}
	if room := (espStart - biosStart) * sectorSize; len(core) > room {
		return fmt.Errorf("patch GRUB: core image of %d bytes does not fit into %d", len(core), room)
	}
	binary.LittleEndian.PutUint64(boot[kernelSector:], start)
	copy(boot[driveCheck:], []byte{0x90, 0x90})
	binary.LittleEndian.PutUint64(core[blocklist:], start+1)
	return nil
}

func mkimage(ctx context.Context, work string, args []string) error {
	config, err := base.ReadFile(embeddedConfig)
	if err != nil {
		return err
	}
	path := filepath.Join(work, "early.cfg")
	if err := os.WriteFile(path, config, 0o644); err != nil {
		return err
	}
	defer os.Remove(path)
	_, err = Run(ctx, work, "grub-mkimage", append([]string{"-c", path}, args...)...)
	return err
}

// copySparse copies a file to an offset without runs of zeroes.
func copySparse(dst io.WriterAt, path string, at int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	buf, zero := make([]byte, 1<<16), make([]byte, 1<<16)
	for {
		n, err := io.ReadFull(f, buf)
		if n > 0 && string(buf[:n]) != string(zero[:n]) {
			if _, err := dst.WriteAt(buf[:n], at); err != nil {
				return fmt.Errorf("write %s into the disk: %w", path, err)
			}
		}
		at += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
	}
}
