// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/erase"
	"github.com/ingot-metal/ingot/agent/probe"
	"github.com/ingot-metal/ingot/agent/wait"
	"github.com/ingot-metal/ingot/agentapi"
)

// Disks are the disks of this machine. It implements agent.Disks.
type Disks struct {
	// Root is the root file system, os.DirFS("/").
	Root fs.FS
	// Settle loads drivers for devices that appeared since the last call.
	Settle func()
	Log    func(format string, args ...any)
	// settled is set after the list of disks was once stable.
	settled bool
	markers markers
}

const (
	diskPoll = 250 * time.Millisecond
	// diskCalm is the time for which the list must not change. diskWait bounds the wait for
	// the first disk.
	diskCalm = 2 * diskPoll
	diskWait = 15 * time.Second
)

func (d *Disks) List(ctx context.Context) ([]agentapi.Disk, error) {
	disks, err := d.Names(ctx)
	if err != nil {
		return nil, err
	}
	return disks, d.addMarkers(ctx, disks)
}

// Names returns the disks without their markers. The first call waits until the list is
// stable.
func (d *Disks) Names(ctx context.Context) ([]agentapi.Disk, error) {
	if !d.settled {
		if err := d.settle(ctx); err != nil {
			return nil, err
		}
	}
	return probe.Disks(d.Root), nil
}

func (d *Disks) settle(ctx context.Context) error {
	start := time.Now()
	var last []agentapi.Disk
	since := start
	for {
		d.Settle()
		now := probe.Disks(d.Root)
		if !slices.Equal(now, last) {
			last, since = now, time.Now()
		}
		if waited := time.Since(start); len(now) > 0 && time.Since(since) >= diskCalm || waited > diskWait {
			d.settled = true
			return nil
		}
		if err := wait.For(ctx, diskPoll); err != nil {
			return err
		}
	}
}

// realDisk is a block device with erase.Commands.
type realDisk struct {
	block.Device
	*erase.Kernel
}

func (o realDisk) Close() error { return errors.Join(o.Device.Close(), o.Kernel.Close()) }

// SectorSize is the logical sector size in bytes; 0: unknown.
func (o realDisk) SectorSize() int { return block.SectorSize(o.Device) }

func (d *Disks) Open(_ context.Context, disk agentapi.Disk) (block.Device, error) {
	dev, err := block.Open(disk.Name)
	if err != nil {
		return nil, err
	}
	commands, err := erase.OpenKernel(disk.Name)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return realDisk{dev, commands}, nil
}

// Hardware reads the hardware facts, with the addresses of the NICs.
func Hardware(_ context.Context) (agentapi.Hardware, error) {
	h, err := probe.Read(os.DirFS("/"))
	if err != nil {
		return h, err
	}
	for i := range h.NICs {
		h.NICs[i].Addresses = addresses(h.NICs[i].Name)
	}
	return h, nil
}

// Memory returns the memory that this kernel manages, in bytes.
func Memory() int64 { return probe.KernelMemory(os.DirFS("/")) }

func addresses(name string) []string {
	nic, err := net.InterfaceByName(name)
	if err != nil {
		return nil
	}
	all, err := nic.Addrs()
	if err != nil {
		return nil
	}
	var out []string
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok {
			out = append(out, ip.IP.String())
		}
	}
	return out
}
