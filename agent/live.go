// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"time"

	"github.com/ingot-metal/ingot/agent/image"
	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agent/wipe"
	"github.com/ingot-metal/ingot/agentapi"
)

// Kernels can start another kernel in place of the agent's.
type Kernels interface {
	// File makes a place in memory for one file of the live system. The caller closes it.
	File(name string) (*os.File, error)
	// Load makes the kernel ready to be started, which agentapi.StartLive does. The
	// command line holds a secret: no error may repeat it. An error that wraps
	// ErrKernelRefused is the kernel's fault, and not the server's.
	Load(kernel, initrd *os.File, commandLine agentapi.Sensitive) error
}

// ErrKernelRefused: the running kernel does not start this one.
var ErrKernelRefused = errors.New("kernel is refused")

// liveShare of the memory is what a live system's files may take: they are there twice
// when the kernel has loaded them, and the system unpacks them into the rest.
const liveShare = 3

// live starts a system that installs itself. Until that has fetched its bootstrap data
// nothing is committed (I4): the agent gives no report unless it failed, and its order
// goes on until the fetch ends it.
func (s *session) live(ctx context.Context, order agentapi.InstallOrder) (agentapi.Report, error) {
	if s.cfg.Kernels == nil {
		return agentapi.Report{}, &Failure{Reason: ReasonOrderNotUnderstood, Message: "this agent cannot start a live system"}
	}
	ref := order.RootDisk
	report := agentapi.Report{RootDisk: &ref}
	disk, err := s.hold(ctx, order)
	if err != nil {
		return report, err
	}
	defer func() {
		if disk.dev != nil {
			_ = disk.dev.Close() // nothing of it was written
		}
	}()
	room := s.memory / liveShare
	if s.memory <= 0 { // nobody knows
		room = math.MaxInt64
	}
	kernel, err := s.fetchFile(ctx, "kernel", order.Live.Kernel, room)
	if err != nil {
		return report, err
	}
	defer kernel.Close()
	info, err := kernel.Stat()
	if err != nil {
		return report, failure(ReasonLiveFailed, fmt.Errorf("kernel: %w", err))
	}
	initrd, err := s.fetchFile(ctx, "initrd", order.Live.Initrd, room-info.Size())
	if err != nil {
		return report, err
	}
	defer initrd.Close()
	err = s.clearRoot(ctx, disk)
	if disk.dev = nil; err != nil {
		return report, err
	}
	s.progress.set(agentapi.StepLive, 0, 0)
	var boot agentapi.LiveBoot
	if err := s.client.callPatiently(ctx, agentapi.PathLive, agentapi.LiveRequest{OrderID: s.order.ID}, &boot, s.progress.waiting); err != nil {
		return report, err
	}
	if n := len(boot.CommandLine); n > agentapi.MaxCommandLine {
		return report, &Failure{Reason: ReasonLiveRefused, Message: fmt.Sprintf(
			"the kernel's command line has %d bytes with the address of the data, and at most %d fit; shorten live.commandLine", n, agentapi.MaxCommandLine)}
	}
	if err := s.cfg.Kernels.Load(kernel, initrd, boot.CommandLine); err != nil {
		if errors.Is(err, ErrKernelRefused) {
			return report, failure(ReasonLiveRefused, err)
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

// fetchFile brings a file of the live system into memory, verified.
func (s *session) fetchFile(ctx context.Context, name string, file agentapi.LiveFile, room int64) (_ *os.File, err error) {
	where := func() (string, error) { return imageURL(s.client.places.fileServer(), file.URL) }
	source, err := where()
	if err != nil {
		return nil, failure(ReasonImageUnavailable, err)
	}
	to, err := s.cfg.Kernels.File(name)
	if err != nil {
		return nil, failure(ReasonLiveFailed, fmt.Errorf("%s: %w", name, err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, to.Close())
		}
	}()
	client := &http.Client{Transport: &http.Transport{
		DialContext: s.cfg.Dial, ResponseHeaderTimeout: time.Minute, DisableCompression: true,
	}}
	defer client.CloseIdleConnections()
	request := image.Request{Client: client, URL: source, Stall: s.cfg.ImageStall, Sleep: s.cfg.Sleep, Log: s.cfg.Log, OnBusy: s.progress.waiting,
		Moved: func(ctx context.Context, failures int) string {
			if failures%searchAfter == 0 {
				s.client.places.search(ctx)
			}
			if now, err := where(); err == nil {
				return now
			}
			return source
		}}
	n, err := image.Fetch(ctx, request, image.File{Checksum: file.Checksum, Limit: room,
		OnRead: func(n int64, percent int) { s.progress.set(agentapi.StepLoad, percent, n) }}, to)
	switch {
	case errors.Is(err, image.ErrTooMuch):
		return nil, &Failure{Reason: ReasonLiveRefused, Err: err, Message: fmt.Sprintf(
			"%s: %v: kernel and initrd may take a third of the server's %d MiB of memory; choose hosts with more by hostSelector.minimum.memoryGiB", name, err, s.memory>>20)}
	case err != nil:
		return nil, imageFailure(fmt.Errorf("%s: %w", name, err))
	}
	s.cfg.Log("live: %s of %d KiB, checksum verified", name, n>>10)
	return to, nil
}

// hold finds the root disk, opens it and checks whose it is. It stays open until it is
// cleared, which is after two downloads: while it is, no other disk gets its name, so what
// is found under it once more now is what will be written (I8, I12).
func (s *session) hold(ctx context.Context, order agentapi.InstallOrder) (disk heldDisk, err error) {
	if disk.Disk, err = s.pick(ctx, order.RootDisk); err != nil {
		return disk, err
	}
	if disk.dev, err = s.cfg.Disks.Open(ctx, disk.Disk); err != nil {
		return disk, failure(ReasonDiskFailed, fmt.Errorf("%s: open: %w", disk.Name, err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, disk.dev.Close())
		}
	}()
	now, err := s.pick(ctx, order.RootDisk)
	if err != nil {
		return disk, err
	}
	if now.Name != disk.Name {
		return disk, &Failure{Reason: ReasonDiskNotFound, Message: fmt.Sprintf("%s became %s while it was opened", describe(order.RootDisk), now.Name)}
	}
	_, _, err = s.ownerOf(ctx, disk, order.ReleasedInstances)
	return disk, err
}

// clearRoot takes from the root disk what an old system is found and booted by, so that
// what boots next is the new one or none, and notes whose disk it is. The live system
// may write over that note: from its fetch on the ledger alone says so. It closes the disk.
func (s *session) clearRoot(ctx context.Context, disk heldDisk) error {
	_, err := wipe.Metadata(ctx, disk.dev)
	if err == nil {
		err = marker.Write(disk.dev, agentapi.Marker{InstanceID: s.order.InstanceID, Attempt: s.order.Attempt})
	}
	if err = errors.Join(err, disk.dev.Close()); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return failure(ReasonDiskFailed, fmt.Errorf("%s: %w", disk.Name, err))
}
