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
	// Path of the file that holds the bytes. It is made, sparse, where it is
	// missing, and kept as it is otherwise.
	Path string
	// Serial, WWN and Model are what the disk says of itself.
	Serial, WWN, Model string
	// SizeBytes is needed to make the file.
	SizeBytes  int64
	Rotational bool
}

// DiskEventKind is what a write did to the Ingot marker.
type DiskEventKind string

// The kinds.
const (
	// InstallBegun: a marker that is not complete was written.
	InstallBegun DiskEventKind = "InstallBegun"
	// InstallComplete: the marker became complete.
	InstallComplete DiskEventKind = "InstallComplete"
	// MarkerRemoved: a marker was there and is not any more.
	MarkerRemoved DiskEventKind = "MarkerRemoved"
	// MarkerDamaged: what is there is no marker and not empty.
	MarkerDamaged DiskEventKind = "MarkerDamaged"
)

// DiskEvent is one entry of a disk's log.
type DiskEvent struct {
	At   time.Time
	Kind DiskEventKind
	// Marker that was written, or that was there before it was removed.
	Marker agentapi.Marker
	// Written and Zeroed are the bytes since the disk was made.
	Written, Zeroed int64
}

// Install names one install of one instance.
type Install struct {
	InstanceID string
	Attempt    int32
}

// Disk is a file as a disk that keeps a log of what was done to it, by which
// tests count. It is safe for concurrent use.
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
		return nil, fmt.Errorf("disk %d: %d bytes are too few: at least %d", index, cfg.SizeBytes, minDisk)
	}
	d := &Disk{cfg: cfg, name: fmt.Sprintf("/dev/sd%c", 'a'+index), size: cfg.SizeBytes}
	if d.marker, err = marker.Read(f); err != nil && !errors.Is(err, marker.ErrDamaged) {
		return nil, fmt.Errorf("disk %d: %w", index, err)
	}
	return d, nil
}

// Path of the file.
func (d *Disk) Path() string { return d.cfg.Path }

// Log lists what was done to the marker, oldest first.
func (d *Disk) Log() []DiskEvent {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]DiskEvent(nil), d.log...)
}

// CompleteWrites counts, for each install, how often it became complete.
func (d *Disk) CompleteWrites() map[Install]int {
	counts := map[Install]int{}
	for _, e := range d.Log() {
		if e.Kind == InstallComplete {
			counts[Install{e.Marker.InstanceID, e.Marker.Attempt}]++
		}
	}
	return counts
}

// Wipes counts how often a marker was removed.
func (d *Disk) Wipes() int {
	n := 0
	for _, e := range d.Log() {
		if e.Kind == MarkerRemoved {
			n++
		}
	}
	return n
}

// BytesWritten counts bytes written and zeroed since the disk was made, also
// those written twice.
func (d *Disk) BytesWritten() (written, zeroed int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.written, d.zeroed
}

// describe is what an operating system says of the disk.
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

// open opens the disk for as long as the power is on.
func (d *Disk) open(ctx context.Context) (block.Device, error) {
	dev, err := block.OpenFile(d.cfg.Path)
	if err != nil {
		return nil, err
	}
	return &openDisk{Device: dev, ctx: ctx, disk: d}, nil
}

// openDisk writes the log. It keeps the context, because a disk without power
// takes no byte, and io.WriterAt has no other way to say so.
type openDisk struct {
	block.Device
	ctx  context.Context
	disk *Disk
}

// WriteAt implements block.Device.
func (o *openDisk) WriteAt(p []byte, off int64) (int, error) {
	if o.ctx.Err() != nil {
		return 0, context.Cause(o.ctx)
	}
	n, err := o.Device.WriteAt(p, off)
	return n, errors.Join(err, o.disk.note(o.Device, off, int64(n), &o.disk.written))
}

// Zero implements block.Device.
func (o *openDisk) Zero(off, n int64) error {
	if o.ctx.Err() != nil {
		return context.Cause(o.ctx)
	}
	err := o.Device.Zero(off, n)
	if errors.Is(err, block.ErrNotSupported) {
		return err
	}
	return errors.Join(err, o.disk.note(o.Device, off, n, &o.disk.zeroed))
}

// note counts a write and logs what became of the marker.
func (d *Disk) note(dev block.Device, off, n int64, count *int64) error {
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
		// Written again is counted again: it must not happen.
		event.Kind, event.Marker = InstallComplete, *now
	}
	d.log = append(d.log, event)
	return nil
}
