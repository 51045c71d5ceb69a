// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agentapi"
)

// DiskConfig describes a disk.
type DiskConfig struct {
	// Path is the file with the disk's bytes. A missing file is created, sparse; an existing
	// one is kept.
	Path string
	// Serial, WWN and Model are reported by the disk.
	Serial, WWN, Model string
	// SizeBytes is required to create the file.
	SizeBytes  int64
	Rotational bool
}

// DiskEventKind is the effect of a write on the Ingot marker.
type DiskEventKind string

const (
	// InstallBegun: an incomplete marker was written.
	InstallBegun DiskEventKind = "InstallBegun"
	// InstallComplete: a complete marker was written.
	InstallComplete DiskEventKind = "InstallComplete"
	// MarkerRemoved: a marker was removed.
	MarkerRemoved DiskEventKind = "MarkerRemoved"
	// MarkerDamaged: the area is neither a marker nor empty.
	MarkerDamaged DiskEventKind = "MarkerDamaged"
)

// DiskEvent is one entry of a disk's log.
type DiskEvent struct {
	At   time.Time
	Kind DiskEventKind
	// Marker is the written or the removed marker.
	Marker agentapi.Marker
	// Written and Zeroed count the bytes since the disk was created.
	Written, Zeroed int64
}

// Install names one install of one instance.
type Install struct {
	InstanceID string
	Attempt    int32
}

// Disk is a file that acts as a disk and records changes of its marker, for tests. It is safe
// for concurrent use.
type Disk struct {
	cfg  DiskConfig
	name string
	size int64

	mu              sync.Mutex
	written, zeroed int64
	marker          *agentapi.Marker
	log             []DiskEvent
}

func newDisk(index int, cfg DiskConfig) (*Disk, error) {
	f, err := os.OpenFile(cfg.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("disk %d: %w", index, err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err == nil && info.Size() == 0 {
		err = f.Truncate(cfg.SizeBytes)
	} else if info != nil {
		cfg.SizeBytes = info.Size()
	}
	if err != nil {
		return nil, fmt.Errorf("disk %d: %w", index, err)
	}
	if cfg.SizeBytes < minDisk {
		return nil, fmt.Errorf("disk %d: %d bytes, want at least %d", index, cfg.SizeBytes, minDisk)
	}
	d := &Disk{cfg: cfg, name: fmt.Sprintf("/dev/sd%c", 'a'+index), size: cfg.SizeBytes}
	if d.marker, err = marker.Read(f); err != nil && !errors.Is(err, marker.ErrDamaged) {
		return nil, fmt.Errorf("disk %d: %w", index, err)
	}
	return d, nil
}

// Path returns the path of the file.
func (d *Disk) Path() string { return d.cfg.Path }

// Log returns the changes of the marker, oldest first.
func (d *Disk) Log() []DiskEvent {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]DiskEvent(nil), d.log...)
}

// CompleteWrites counts the complete markers for each install.
func (d *Disk) CompleteWrites() map[Install]int {
	counts := map[Install]int{}
	for _, e := range d.Log() {
		if e.Kind == InstallComplete {
			counts[Install{e.Marker.InstanceID, e.Marker.Attempt}]++
		}
	}
	return counts
}

// Wipes counts the removed markers.
func (d *Disk) Wipes() int {
	n := 0
	for _, e := range d.Log() {
		if e.Kind == MarkerRemoved {
			n++
		}
	}
	return n
}

// BytesWritten counts the bytes written and zeroed since the disk was created, including
// repeated ones.
func (d *Disk) BytesWritten() (written, zeroed int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.written, d.zeroed
}

// describe returns the disk as an operating system reports it.
func (d *Disk) describe() agentapi.Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := agentapi.Disk{
		Name: d.name, Model: d.cfg.Model, Serial: d.cfg.Serial, WWN: d.cfg.WWN,
		Path: "lab-" + d.name[len("/dev/"):], SizeBytes: d.size, Rotational: d.cfg.Rotational,
	}
	if d.marker != nil {
		m := *d.marker
		out.Marker = &m
	}
	return out
}

// open opens the disk until ctx, the power, ends.
func (d *Disk) open(ctx context.Context) (block.Device, error) {
	dev, err := block.OpenFile(d.cfg.Path)
	if err != nil {
		return nil, err
	}
	return &openDisk{Device: dev, ctx: ctx, disk: d}, nil
}

// openDisk records writes. It stores the context because io.WriterAt has none, and a disk
// without power must not write.
type openDisk struct {
	block.Device
	ctx  context.Context
	disk *Disk
}

func (o *openDisk) WriteAt(p []byte, off int64) (int, error) {
	if o.ctx.Err() != nil {
		return 0, context.Cause(o.ctx)
	}
	n, err := o.Device.WriteAt(p, off)
	return n, errors.Join(err, o.disk.record(o.Device, off, int64(n), &o.disk.written))
}

func (o *openDisk) Zero(off, n int64) error {
	if o.ctx.Err() != nil {
		return context.Cause(o.ctx)
	}
	err := o.Device.Zero(off, n)
	if errors.Is(err, block.ErrNotSupported) {
		return err
	}
	return errors.Join(err, o.disk.record(o.Device, off, n, &o.disk.zeroed))
}

// record counts a write and logs a change of the marker.
func (d *Disk) record(dev block.Device, off, n int64, count *int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	*count += n
	if off >= agentapi.MarkerOffset+agentapi.MarkerSize || off+n <= agentapi.MarkerOffset {
		return nil
	}
	before := d.marker
	now, err := marker.Read(dev)
	damaged := errors.Is(err, marker.ErrDamaged)
	if err != nil && !damaged {
		return err
	}
	d.marker = now
	event := DiskEvent{At: time.Now(), Written: d.written, Zeroed: d.zeroed}
	switch {
	case damaged:
		event.Kind = MarkerDamaged
	case now == nil && before == nil:
		return nil
	case now == nil:
		event.Kind, event.Marker = MarkerRemoved, *before
	case !now.Complete:
		event.Kind, event.Marker = InstallBegun, *now
	default:
		// A repeated complete marker counts again, because it must not happen.
		event.Kind, event.Marker = InstallComplete, *now
	}
	d.log = append(d.log, event)
	return nil
}
