// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/agentapi"
)

// Mounter seeds an installed disk through the kernel it runs on.
type Mounter struct {
	// LoadModule loads a file system's module before it is mounted.
	LoadModule func(name string) error
	// Dir is an empty directory to mount on; it is made when missing. "/run/installed"
	// when empty.
	Dir string
}

// ErrNoRoot says that not exactly one partition is the root of a system.
var ErrNoRoot = errors.New("no root file system found on the installed disk")

// partitionWait bounds how long device nodes take to appear after the partition
// table was read again.
const partitionWait = 10 * time.Second

// partition of the installed disk.
type partition struct {
	number     int
	device     string
	fileSystem string
	isRoot     bool
}

// Seed implements agent.Seeder.
func (m *Mounter) Seed(ctx context.Context, disk agentapi.Disk, data agentapi.Bootstrap) error {
	how, err := kindOf(data)
	if err != nil {
		return err
	}
	parts, err := m.partitions(ctx, disk.Name)
	if err != nil {
		return err
	}
	root, err := m.choose(parts, how)
	if err != nil {
		return err
	}
	return m.mounted(root, 0, func(dir *os.Root) error { return how.write(dir, data) })
}

// Assembles fails with ErrNoAssembly where the system on a disk does not have what
// assembles a software RAID, and with ErrNoRoot where none is found that reads a seed.
func (m *Mounter) Assembles(ctx context.Context, disk agentapi.Disk) error {
	how, err := kindOf(agentapi.Bootstrap{})
	if err != nil {
		return err
	}
	parts, err := m.partitions(ctx, disk.Name)
	if err != nil {
		return err
	}
	root, err := m.choose(parts, how)
	if err != nil {
		return err
	}
	return m.mounted(root, unix.MS_RDONLY, assembles)
}

// partitions makes the kernel read the new partition table and lists what is
// there with a file system that can be mounted.
func (m *Mounter) partitions(ctx context.Context, disk string) ([]partition, error) {
	f, err := os.Open(disk)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.BLKRRPART, 0); err != nil {
		return nil, fmt.Errorf("read the partition table of %s again: %w", disk, err)
	}
	types := gptTypes(f, 512)
	if types == nil {
		types = gptTypes(f, 4096)
	}
	ctx, cancel := context.WithTimeout(ctx, partitionWait)
	defer cancel()
	var parts []partition
	for {
		parts, err = nodes(disk)
		if err == nil && len(parts) >= max(1, len(types)) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %s has %d partitions in its table, %d in the kernel", ErrNoRoot, disk, len(types), len(parts))
		case <-time.After(50 * time.Millisecond):
		}
	}
	for i := range parts {
		parts[i].isRoot = rootTypes[types[parts[i].number]]
	}
	return slices.DeleteFunc(parts, func(p partition) bool { return p.fileSystem == "" }), nil
}

// nodes lists the partitions that the kernel has made device nodes for.
func nodes(disk string) ([]partition, error) {
	name := strings.ReplaceAll(strings.TrimPrefix(disk, "/dev/"), "/", "!")
	files, err := filepath.Glob(filepath.Join("/sys/block", name, name+"*", "partition"))
	if err != nil {
		return nil, err
	}
	var parts []partition
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		number, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		node := "/dev/" + strings.ReplaceAll(filepath.Base(filepath.Dir(file)), "!", "/")
		p := partition{number: number, device: node}
		f, err := os.Open(node)
		if err != nil {
			return nil, err
		}
		p.fileSystem = fileSystem(f)
		if err := f.Close(); err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// choose takes the one partition whose type says root, where a root is looked for;
// without one, the only partition that is what is looked for when mounted.
func (m *Mounter) choose(parts []partition, how kind) (partition, error) {
	var typed, found []partition
	for _, p := range parts {
		if p.isRoot && how.onRoot {
			typed = append(typed, p)
		}
	}
	if len(typed) == 1 {
		return typed[0], nil
	}
	for _, p := range parts {
		system := false
		err := m.mounted(p, unix.MS_RDONLY, func(dir *os.Root) error {
			system = how.holds(dir)
			return nil
		})
		if err == nil && system {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		return partition{}, fmt.Errorf("%w: %d partitions with ext4 or xfs, %d typed as root, %d %s",
			ErrNoRoot, len(parts), len(typed), len(found), how.name)
	}
	return found[0], nil
}

// mounted mounts a partition for the time of do. It returns when the file system
// is unmounted, and with it everything durable.
func (m *Mounter) mounted(p partition, flags uintptr, do func(*os.Root) error) (err error) {
	dir := m.Dir
	if dir == "" {
		dir = "/run/installed"
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := m.LoadModule(p.fileSystem); err != nil {
		return err
	}
	flags |= unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOSUID | unix.MS_NOATIME
	if err := unix.Mount(p.device, dir, p.fileSystem, flags, ""); err != nil {
		return fmt.Errorf("mount %s as %s: %w", p.device, p.fileSystem, err)
	}
	defer func() {
		if e := unix.Unmount(dir, 0); e != nil {
			err = errors.Join(err, fmt.Errorf("unmount %s: %w", p.device, e))
		}
	}()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return do(root)
}
