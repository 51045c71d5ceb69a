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

	"github.com/ingot-metal/ingot/agent/wait"
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

const (
	// partitionWait bounds how long device nodes take to appear after the partition
	// table was read again.
	partitionWait = 10 * time.Second
	partitionPoll = 50 * time.Millisecond
)

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
	root, err := choose(parts, how, m.look)
	if err != nil {
		return err
	}
	return m.mounted(root, 0, func(dir *os.Root) error { return writing(how.write(dir, data)) })
}

// Assembles fails with ErrNoAssembly where the system on a disk does not have what
// assembles a software RAID, with ErrIgnition where it makes its own, and with ErrNoRoot
// where none is found that reads a seed. Any other error says that the disk could not be
// looked into.
func (m *Mounter) Assembles(ctx context.Context, disk agentapi.Disk) error {
	parts, err := m.partitions(ctx, disk.Name)
	if err != nil {
		return err
	}
	return assembly(parts, m.look)
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
	var parts []partition
	var unlisted error // no reason to stop
	err = wait.Poll{Every: partitionPoll, Limit: partitionWait}.Until(ctx, func() (bool, error) {
		parts, unlisted = nodes(disk)
		return unlisted == nil && len(parts) >= max(1, len(types)), nil
	})
	switch {
	case errors.Is(err, wait.ErrLimit):
		return nil, missing(disk, len(types), len(parts), unlisted)
	case err != nil: // called off, which says nothing of the disk
		return nil, err
	}
	for i := range parts {
		parts[i].isRoot = rootTypes[types[parts[i].number]]
	}
	return slices.DeleteFunc(parts, func(p partition) bool { return p.fileSystem == "" && p.unread == nil }), nil
}

// missing says why a disk's partitions cannot be looked into: it has none, or the kernel
// does not show what its table says, for which the image is not to blame.
func missing(disk string, inTable, inKernel int, err error) error {
	if err == nil && inTable == 0 && inKernel == 0 {
		return fmt.Errorf("%w: %s has no partitions", ErrNoRoot, disk)
	}
	return errors.Join(fmt.Errorf("%s has %d partitions in its table, %d in the kernel", disk, inTable, inKernel), err)
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
		p.fileSystem, p.unread = fileSystem(f)
		if err := f.Close(); err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// look mounts it.
func (m *Mounter) look(p partition, do func(*os.Root) error) error {
	return m.mounted(p, unix.MS_RDONLY, do)
}

// mounted mounts a partition for the time of do. It returns when the file system
// is unmounted, and with it everything durable.
func (m *Mounter) mounted(p partition, flags uintptr, do func(*os.Root) error) (err error) {
	if p.unread != nil {
		return fmt.Errorf("read %s: %w", p.device, p.unread)
	}
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
		return mounting(fmt.Errorf("mount %s as %s: %w", p.device, p.fileSystem, err))
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
