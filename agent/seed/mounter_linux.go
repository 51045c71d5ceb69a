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

// Mounter writes first-boot data to an installed disk through the running kernel.
type Mounter struct {
	// LoadModule loads a file system's module before it is mounted.
	LoadModule func(name string) error
	// Dir is an empty directory to mount on, created if missing. Empty: "/run/installed".
	Dir string
}

const (
	// partitionWait bounds the wait for device nodes after the kernel has read the partition
	// table again.
	partitionWait = 10 * time.Second
	partitionPoll = 50 * time.Millisecond
)

// Seed implements agent.Seeder.
func (m *Mounter) Seed(ctx context.Context, disk agentapi.Disk, data agentapi.Bootstrap) error {
	to, err := targetFor(data)
	if err != nil {
		return err
	}
	parts, err := m.partitions(ctx, disk.Name)
	if err != nil {
		return err
	}
	root, err := findTarget(parts, to, m.visit)
	if err != nil {
		return err
	}
	return m.mounted(root, 0, func(dir *os.Root) error { return writeError(to.write(dir, data)) })
}

// Assembles checks whether the system on a disk can assemble a software RAID. It fails with
// ErrNoAssembly if the system lacks mdadm, with ErrIgnition if it makes its own mirror, and
// with ErrNoRoot if there is no supported system. Any other error means that the disk could
// not be examined.
func (m *Mounter) Assembles(ctx context.Context, disk agentapi.Disk) error {
	parts, err := m.partitions(ctx, disk.Name)
	if err != nil {
		return err
	}
	return checkAssembly(parts, m.visit)
}

// partitions makes the kernel read the partition table again and returns the partitions with
// a file system that can be mounted.
func (m *Mounter) partitions(ctx context.Context, disk string) ([]partition, error) {
	f, err := os.Open(disk)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.BLKRRPART, 0); err != nil {
		return nil, fmt.Errorf("reread the partition table of %s: %w", disk, err)
	}
	types := gptTypes(f, 512)
	if types == nil {
		types = gptTypes(f, 4096)
	}
	var parts []partition
	var listErr error // transient
	err = wait.Poll{Every: partitionPoll, Limit: partitionWait}.Until(ctx, func() (bool, error) {
		parts, listErr = listPartitions(disk)
		return listErr == nil && len(parts) >= max(1, len(types)), nil
	})
	switch {
	case errors.Is(err, wait.ErrLimit):
		return nil, partitionsError(disk, len(types), len(parts), listErr)
	case err != nil: // canceled
		return nil, err
	}
	for i := range parts {
		parts[i].isRoot = rootTypes[types[parts[i].number]]
	}
	return slices.DeleteFunc(parts, func(p partition) bool { return p.fileSystem == "" && p.readErr == nil }), nil
}

// partitionsError is the error if a disk's partitions cannot be examined: it has none, or the
// kernel does not show those of its table, which is not the image's fault.
func partitionsError(disk string, inTable, inKernel int, err error) error {
	if err == nil && inTable == 0 && inKernel == 0 {
		return fmt.Errorf("%w: %s has no partitions", ErrNoRoot, disk)
	}
	return errors.Join(fmt.Errorf("the table of %s has %d partitions, the kernel shows %d", disk, inTable, inKernel), err)
}

// listPartitions returns the partitions that have device nodes.
func listPartitions(disk string) ([]partition, error) {
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
		p.fileSystem, p.readErr = fileSystem(f)
		if err := f.Close(); err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func (m *Mounter) visit(p partition, do func(*os.Root) error) error {
	return m.mounted(p, unix.MS_RDONLY, do)
}

// mounted mounts a partition during do. When it returns, the file system is unmounted and
// everything is durable.
func (m *Mounter) mounted(p partition, flags uintptr, do func(*os.Root) error) (err error) {
	if p.readErr != nil {
		return fmt.Errorf("read %s: %w", p.device, p.readErr)
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
		return mountError(fmt.Errorf("mount %s as %s: %w", p.device, p.fileSystem, err))
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
