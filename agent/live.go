// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/ingot-metal/ingot/agent/image"
	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agent/wipe"
	"github.com/ingot-metal/ingot/agentapi"
)

// Kernels loads another kernel to replace the agent's.
type Kernels interface {
	// File creates an in-memory file for one file of the live system. The caller closes it.
	File(name string) (*os.File, error)
	// Load prepares the kernel that agentapi.StartLive starts. The command line contains a
	// secret that no error may repeat. The error wraps ErrKernelRefused if the kernel is at
	// fault, not the server.
	Load(kernel, initrd *os.File, commandLine agentapi.Sensitive) error
}

// ErrKernelRefused reports that the running kernel does not start this kernel.
var ErrKernelRefused = errors.New("load the live system's kernel: refused")

// liveShare is the divisor of the memory that a live system's files may use. Loading makes
// a second copy of them, and the system unpacks them into the rest.
const liveShare = 3

// live starts a system that installs itself. Nothing is committed until that system fetches
// its bootstrap data (I4): the agent reports failures only, and the fetch ends its order.
func (s *session) live(ctx context.Context, order agentapi.InstallOrder) (agentapi.Report, error) {
	if s.cfg.Kernels == nil {
		return agentapi.Report{}, failuref(ReasonOrderNotUnderstood, "execute the order: this agent cannot start a live system")
	}
	report := agentapi.Report{RootDisk: new(order.RootDisk)}
	disk, err := s.openRootDisk(ctx, order)
	if err != nil {
		return report, err
	}
	defer func() { _ = disk.close() }() // nothing was written
	limit := s.memory / liveShare
	if s.memory <= 0 { // unknown
		limit = math.MaxInt64
	}
	kernel, err := s.fetchFile(ctx, "kernel", order.Live.Kernel, limit)
	if err != nil {
		return report, err
	}
	defer kernel.Close()
	info, err := kernel.Stat()
	if err != nil {
		return report, failure(ReasonLiveFailed, fmt.Errorf("kernel: %w", err))
	}
	initrd, err := s.fetchFile(ctx, "initrd", order.Live.Initrd, limit-info.Size())
	if err != nil {
		return report, err
	}
	defer initrd.Close()
	if err := s.clearRootDisk(ctx, &disk); err != nil {
		return report, err
	}
	s.progress.set(agentapi.StepLive, 0, 0)
	var boot agentapi.LiveBoot
	if err := s.client.callWithRetry(ctx, agentapi.PathLive, agentapi.LiveRequest{OrderID: s.order.ID}, &boot, s.progress.setWaiting); err != nil {
		return report, err
	}
	if n := len(boot.CommandLine); n > agentapi.MaxCommandLine {
		return report, failuref(agentapi.FailureLiveRefused, "the kernel command line has %d bytes with the address of the data, the limit is %d: shorten live.commandLine", n, agentapi.MaxCommandLine)
	}
	if err := s.cfg.Kernels.Load(kernel, initrd, boot.CommandLine); err != nil {
		if errors.Is(err, ErrKernelRefused) {
			return report, failure(agentapi.FailureLiveRefused, err)
		}
		return report, failure(ReasonLiveFailed, err)
	}
	if ctx.Err() != nil {
		return report, context.Cause(ctx)
	}
	s.loaded = true
	s.progress.set(agentapi.StepLive, 100, 0)
	return report, nil
}

// fetchFile fetches and verifies a file of the live system into memory. limit is in bytes.
func (s *session) fetchFile(ctx context.Context, name string, file agentapi.LiveFile, limit int64) (_ *os.File, err error) {
	request, stop, err := s.imageRequest(file.URL)
	if err != nil {
		return nil, err
	}
	defer stop()
	to, err := s.cfg.Kernels.File(name)
	if err != nil {
		return nil, failure(ReasonLiveFailed, fmt.Errorf("%s: %w", name, err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, to.Close())
		}
	}()
	n, err := image.Fetch(ctx, request, image.File{
		Checksum: file.Checksum, Limit: limit,
		OnRead: func(n int64, percent int) { s.progress.set(agentapi.StepLoad, percent, n) },
	}, to)
	switch {
	case errors.Is(err, image.ErrTooMuch):
		return nil, failure(agentapi.FailureLiveRefused, fmt.Errorf(
			"%s: %w: kernel and initrd may use a third of the %d MiB of memory; select larger hosts by hostSelector.minimum.memory", name, err, s.memory>>20))
	case err != nil:
		return nil, imageFailure(fmt.Errorf("%s: %w", name, err))
	}
	s.cfg.Log("live: fetched %s (%d KiB), checksum verified", name, n>>10)
	return to, nil
}

// openRootDisk finds and opens the root disk and checks its owner. The disk stays open until
// clearRootDisk, two downloads later, so that no other disk can get its name. The second
// lookup proves that the name did not change before the open (I8, I12).
func (s *session) openRootDisk(ctx context.Context, order agentapi.InstallOrder) (disk openDisk, err error) {
	if disk.Disk, err = s.pick(ctx, order.RootDisk); err != nil {
		return disk, err
	}
	if disk.dev, err = s.cfg.Disks.Open(ctx, disk.Disk); err != nil {
		return disk, failure(ReasonDiskFailed, fmt.Errorf("%s: open: %w", disk.Name, err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, disk.close())
		}
	}()
	now, err := s.pick(ctx, order.RootDisk)
	if err != nil {
		return disk, err
	}
	if err := checkSameName(order.RootDisk, disk.Name, now.Name); err != nil {
		return disk, err
	}
	_, _, err = s.checkOpenOwner(ctx, disk, order.ReleasedInstances)
	return disk, err
}

// clearRootDisk removes tables and signatures from the root disk, so that no old system can
// boot, writes the marker, and closes the disk. The live system may overwrite the marker:
// once it has fetched its data, only the host's persistent state names the owner.
func (s *session) clearRootDisk(ctx context.Context, disk *openDisk) error {
	_, err := wipe.Metadata(ctx, disk.dev)
	if err == nil {
		err = marker.Write(disk.dev, agentapi.Marker{InstanceID: s.order.InstanceID, Attempt: s.order.Attempt})
	}
	if err = errors.Join(err, disk.close()); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return failure(ReasonDiskFailed, fmt.Errorf("%s: %w", disk.Name, err))
}
