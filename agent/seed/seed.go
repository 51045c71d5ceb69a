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

// ErrFormat says that the seed is of a kind that cannot be written.
var ErrFormat = errors.New("the bootstrap data cannot be given to the installed system")

// ErrNoAssembly says that the system on a disk cannot assemble a software RAID.
var ErrNoAssembly = errors.New("the image's system has no mdadm, and would run on one disk of the mirror alone; " +
	"install mdadm in the image, also in its initramfs, or leave softwareRAID out")

// ErrIgnition says that the system on a disk is set up by Ignition, which no software RAID
// of Ingot's is for.
var ErrIgnition = errors.New("a system that Ignition sets up makes its own mirror; " +
	"say it in the Ignition configuration (boot_device.mirror of Butane), and leave softwareRAID out")

// kind is a way to give a system its seed.
type kind struct {
	// holds says whether a mounted file system is the one to write to.
	holds func(*os.Root) bool
	write func(*os.Root, agentapi.Bootstrap) error
	// onRoot: it is a root file system, which its partition's type may tell.
	onRoot bool
	// name of what holds looks for.
	name string
}

// kindOf chooses by the format of the data.
func kindOf(data agentapi.Bootstrap) (kind, error) {
	switch data.Format {
	case "", agentapi.FormatCloudConfig:
		return kind{holds: looksLikeSystem, write: Write, onRoot: true, name: "with cloud-init"}, nil
	case agentapi.FormatIgnition:
		if data.NetworkConfig != "" {
			return kind{}, fmt.Errorf("%w: network data is for cloud-init; with Ignition say it in the configuration, and leave networkData out", ErrFormat)
		}
		return kind{holds: awaitsIgnition, write: writeIgnition, name: "with ignition.firstboot"}, nil
	}
	return kind{}, fmt.Errorf("%w: its format is %.40q, and this agent knows %s and %s",
		ErrFormat, data.Format, agentapi.FormatCloudConfig, agentapi.FormatIgnition)
}

// firstBoot is the file by which the boot loader of Fedora CoreOS and its relatives
// knows the first boot, and config what Ignition then reads, both below the boot file
// system.
const (
	firstBoot   = "ignition.firstboot"
	ignitionDir = "ignition"
	config      = ignitionDir + "/config.ign"
)

// awaitsIgnition says whether a file system is the boot file system of a system that
// has not been set up.
func awaitsIgnition(root *os.Root) bool {
	info, err := root.Lstat(firstBoot)
	return err == nil && info.Mode().IsRegular()
}

// writeIgnition writes the configuration, readable by root alone.
func writeIgnition(root *os.Root, data agentapi.Bootstrap) error {
	if err := root.RemoveAll(ignitionDir); err != nil {
		return fmt.Errorf("remove the old configuration: %w", err)
	}
	if err := root.Mkdir(ignitionDir, 0o700); err != nil {
		return fmt.Errorf("make Ignition's directory: %w", err)
	}
	if err := writeFile(root, config, data.UserData.Reveal()); err != nil {
		return fmt.Errorf("write %s: %w", config, err)
	}
	return nil
}

// Dir is where cloud-init looks for a NoCloud seed, below the root.
const Dir = "var/lib/cloud/seed/nocloud"

// ConfigFile has cloud-init read this seed and no other, below the root. It sorts behind the
// files that images have, since cloud-init lets the last one win.
const ConfigFile = configDir + "/zzz-ingot.cfg"

const configDir = "etc/cloud/cloud.cfg.d"

// onlyThisSeed keeps cloud-init from other sources of user data, and from volumes labeled
// CIDATA, whose files would replace those of the seed: a USB stick, virtual media or a disk
// that was not erased may have one. The list stands in one line, as ds-identify needs it.
const onlyThisSeed = `# Written by Ingot: user data comes from /` + Dir + ` alone.
datasource_list: [NoCloud, None]
datasource:
  NoCloud:
    fs_label: null
`

// Write writes the seed below the root of an installed system: directory 0700,
// files 0600, an old seed removed, all of it durable. It has cloud-init read nothing else.
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
	if data.NetworkConfig != "" { // an empty file would say: no network
		files = append(files, file{"network-config", data.NetworkConfig})
	}
	for _, file := range files {
		if err := writeFile(root, path.Join(Dir, file.name), file.content); err != nil {
			return fmt.Errorf("write %s: %w", file.name, err)
		}
	}
	return nil
}

// writeConfig writes ConfigFile, in the place of one of an earlier try.
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

// looksLikeSystem says whether a mounted file system is the root of a system that
// reads the seed.
func looksLikeSystem(root *os.Root) bool {
	for _, dir := range []string{"etc/cloud", "var/lib"} {
		info, err := root.Stat(dir)
		if err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// assembles looks for mdadm, whose package also puts it into the initramfs (Debian's hook
// for initramfs-tools, dracut's module mdraid).
func assembles(root *os.Root) error {
	for _, program := range []string{"usr/sbin/mdadm", "sbin/mdadm", "usr/bin/mdadm"} {
		if info, err := root.Stat(program); err == nil && info.Mode().IsRegular() {
			return nil
		}
	}
	return ErrNoAssembly
}

// rootTypes are the partition types of a root file system, by architecture, of the
// Discoverable Partitions Specification, as they lie on disk.
var rootTypes = map[[16]byte]bool{
	guid(0x4f68bce3, 0xe8cd, 0x4db1, 0x96e7fbcaf984b709): true, // x86-64
	guid(0xb921b045, 0x1df0, 0x41c3, 0xaf444c6f280d3fae): true, // arm64
}

// guid lays out a GUID as UEFI does: the first three fields little endian.
func guid(a uint32, b, c uint16, d uint64) [16]byte {
	var g [16]byte
	binary.LittleEndian.PutUint32(g[0:], a)
	binary.LittleEndian.PutUint16(g[4:], b)
	binary.LittleEndian.PutUint16(g[6:], c)
	binary.BigEndian.PutUint64(g[8:], d)
	return g
}

// gptTypes returns the type of each partition by its number, from the GPT with
// sectors of the given size; nil when there is none (UEFI 2.10, section 5.3).
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

// fileSystem recognises what the agent can mount, by the magic numbers of the
// superblocks of ext2/3/4 (0xEF53 at 1080) and XFS ("XFSB" at 0); empty for others.
func fileSystem(partition io.ReaderAt) (string, error) {
	for _, known := range []struct {
		name, magic string
		at          int64
	}{{"ext4", "\x53\xef", 1024 + 56}, {"xfs", "XFSB", 0}} {
		b := make([]byte, len(known.magic))
		switch _, err := partition.ReadAt(b, known.at); {
		case err != nil && !errors.Is(err, io.EOF): // it may end there
			return "", err
		case err == nil && string(b) == known.magic:
			return known.name, nil
		}
	}
	return "", nil
}
