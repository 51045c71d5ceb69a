// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/ingot-metal/ingot/agentapi"
)

// ErrFormat reports first-boot data that cannot be written into an installed system.
var ErrFormat = errors.New("write the bootstrap data: unsupported")

// ErrNoAssembly reports that the system on a disk cannot assemble a software RAID.
var ErrNoAssembly = errors.New("the image has no mdadm, so its system would use only one disk of the mirror; " +
	"install mdadm in the image and its initramfs, or remove softwareRAID")

// ErrIgnition reports a system that Ignition configures, for which Ingot makes no software
// RAID.
var ErrIgnition = errors.New("a system with Ignition makes its own mirror; " +
	"configure it there (boot_device.mirror in Butane) and remove softwareRAID")

// target is a method to give a system its first-boot data.
type target struct {
	// matches reports whether a mounted file system is the one to write to.
	matches func(*os.Root) bool
	write   func(*os.Root, agentapi.Bootstrap) error
	// onRoot is set if matches expects a root file system, which the partition type shows.
	onRoot bool
	name   string
}

var (
	cloudInit = target{matches: isCloudInitRoot, write: Write, onRoot: true, name: "with cloud-init"}
	ignition  = target{matches: isIgnitionBoot, write: writeIgnition, name: "with ignition.firstboot"}
)

func targetFor(data agentapi.Bootstrap) (target, error) {
	switch {
	case data.Format == "" || data.Format == agentapi.FormatCloudConfig:
		return cloudInit, nil
	case data.Format != agentapi.FormatIgnition:
		return target{}, fmt.Errorf("%w: format %.40q, this agent supports %s and %s",
			ErrFormat, data.Format, agentapi.FormatCloudConfig, agentapi.FormatIgnition)
	case data.NetworkConfig != "":
		return target{}, fmt.Errorf("%w: networkData works with cloud-init only; with Ignition configure the network there and remove networkData", ErrFormat)
	}
	return ignition, nil
}

// Paths below the boot file system. The boot loader of Fedora CoreOS and its relatives
// detects the first boot by firstBoot. Ignition then reads config.
const (
	firstBoot   = "ignition.firstboot"
	ignitionDir = "ignition"
	config      = ignitionDir + "/config.ign"
)

// isIgnitionBoot reports whether a file system is the boot file system of a system that
// Ignition has not configured yet.
func isIgnitionBoot(root *os.Root) bool {
	info, err := root.Lstat(firstBoot)
	return err == nil && info.Mode().IsRegular()
}

// writeIgnition writes the configuration, readable only by root.
func writeIgnition(root *os.Root, data agentapi.Bootstrap) error {
	if err := root.RemoveAll(ignitionDir); err != nil {
		return fmt.Errorf("remove the old Ignition configuration: %w", err)
	}
	if err := root.Mkdir(ignitionDir, 0o700); err != nil {
		return fmt.Errorf("make Ignition's directory: %w", err)
	}
	if err := writeFile(root, config, data.UserData.Reveal()); err != nil {
		return fmt.Errorf("write %s: %w", config, err)
	}
	return nil
}

// Dir is the directory of cloud-init's NoCloud seed, relative to the root.
const Dir = "var/lib/cloud/seed/nocloud"

// ConfigFile makes cloud-init read only this seed. It is relative to the root. Its name sorts
// after the images' own files, since the last file wins.
const ConfigFile = configDir + "/zzz-ingot.cfg"

const configDir = "etc/cloud/cloud.cfg.d"

// onlyThisSeed disables other sources of user data, and volumes labeled CIDATA, whose files
// would replace those of the seed: USB sticks, virtual media or disks that were not erased
// may have one. ds-identify requires the list in one line.
const onlyThisSeed = `# Written by Ingot: user data comes only from /` + Dir + `.
datasource_list: [NoCloud, None]
datasource:
  NoCloud:
    fs_label: null
`

// Write writes the seed below the root of an installed system, durably, with mode 0700 for
// the directory and 0600 for files. It removes an old seed and disables other sources.
func Write(root *os.Root, data agentapi.Bootstrap) error {
	if err := writeConfig(root); err != nil {
		return fmt.Errorf("write %s: %w", ConfigFile, err)
	}
	if err := root.RemoveAll(Dir); err != nil {
		return fmt.Errorf("remove the old seed: %w", err)
	}
	if err := root.MkdirAll(path.Dir(Dir), 0o755); err != nil {
		return fmt.Errorf("make the seed's directory: %w", err)
	}
	if err := root.Mkdir(Dir, 0o700); err != nil {
		return fmt.Errorf("make the seed's directory: %w", err)
	}
	type file struct{ name, content string }
	files := []file{
		{"user-data", data.UserData.Reveal()},
		{"meta-data", data.MetaData},
		{"vendor-data", data.VendorData.Reveal()},
	}
	if data.NetworkConfig != "" { // an empty file would disable the network
		files = append(files, file{"network-config", data.NetworkConfig})
	}
	for _, file := range files {
		if err := writeFile(root, path.Join(Dir, file.name), file.content); err != nil {
			return fmt.Errorf("write %s: %w", file.name, err)
		}
	}
	return nil
}

// writeConfig writes ConfigFile and replaces that of an earlier attempt.
func writeConfig(root *os.Root) error {
	if err := root.MkdirAll(configDir, 0o755); err != nil {
		return err
	}
	if err := root.Remove(ConfigFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeFile(root, ConfigFile, onlyThisSeed); err != nil {
		return err
	}
	return root.Chmod(ConfigFile, 0o644)
}

func writeFile(root *os.Root, name, content string) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, content)
	return errors.Join(err, f.Sync(), f.Close())
}

// isCloudInitRoot reports whether a mounted file system is the root of a system with
// cloud-init.
func isCloudInitRoot(root *os.Root) bool {
	for _, dir := range []string{"etc/cloud", "var/lib"} {
		info, err := root.Stat(dir)
		if err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// checkMDADM looks for mdadm, whose package also installs it into the initramfs (Debian's
// hook for initramfs-tools, dracut's module mdraid).
func checkMDADM(root *os.Root) error {
	for _, program := range []string{"usr/sbin/mdadm", "sbin/mdadm", "usr/bin/mdadm"} {
		if info, err := root.Stat(program); err == nil && info.Mode().IsRegular() {
			return nil
		}
	}
	return ErrNoAssembly
}

// rootTypes are the partition types of root file systems (Discoverable Partitions
// Specification) in their encoding on disk.
var rootTypes = map[[16]byte]bool{
	guid(0x4f68bce3, 0xe8cd, 0x4db1, 0x96e7fbcaf984b709): true, // x86-64
	guid(0xb921b045, 0x1df0, 0x41c3, 0xaf444c6f280d3fae): true, // arm64
}

// guid encodes a GUID as UEFI does: the first three fields little endian.
func guid(a uint32, b, c uint16, d uint64) [16]byte {
	var g [16]byte
	binary.LittleEndian.PutUint32(g[0:], a)
	binary.LittleEndian.PutUint16(g[4:], b)
	binary.LittleEndian.PutUint16(g[6:], c)
	binary.BigEndian.PutUint64(g[8:], d)
	return g
}

// gptTypes returns the type of each partition by its number, from a GPT with the given sector
// size; nil without a table (UEFI 2.10, section 5.3).
func gptTypes(disk io.ReaderAt, sector int64) map[int][16]byte {
	header := make([]byte, 92)
	if _, err := disk.ReadAt(header, sector); err != nil || string(header[:8]) != "EFI PART" {
		return nil
	}
	entries := int64(binary.LittleEndian.Uint64(header[72:]))
	count, length := binary.LittleEndian.Uint32(header[80:]), binary.LittleEndian.Uint32(header[84:])
	if entries < 0 || entries > 1<<32 || count > 1024 || length < 128 || length > 4096 {
		return nil
	}
	types := map[int][16]byte{}
	for i := range int64(count) {
		var kind [16]byte
		if _, err := disk.ReadAt(kind[:], entries*sector+i*int64(length)); err != nil {
			break
		}
		if kind != [16]byte{} {
			types[int(i)+1] = kind
		}
	}
	return types
}

// fileSystem detects the file systems that the agent can mount by the magic numbers of the
// superblocks: ext2/3/4 (0xEF53 at 1080) and XFS ("XFSB" at 0). It returns "" for others.
func fileSystem(partition io.ReaderAt) (string, error) {
	for _, known := range []struct {
		name, magic string
		at          int64
	}{{"ext4", "\x53\xef", 1024 + 56}, {"xfs", "XFSB", 0}} {
		b := make([]byte, len(known.magic))
		switch _, err := partition.ReadAt(b, known.at); {
		case err != nil && !errors.Is(err, io.EOF): // EOF: a small partition
			return "", err
		case err == nil && string(b) == known.magic:
			return known.name, nil
		}
	}
	return "", nil
}
