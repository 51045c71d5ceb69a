// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agent/wait"
	"github.com/ingot-metal/ingot/agentapi"
)

// markerWait bounds the wait for the markers of all disks. It suffices for a disk that spins
// up; a hanging disk must not block the session.
const markerWait = 10 * time.Second

// markers reads markers in parallel, since a disk may answer late or never. The zero value is
// ready to use.
type markers struct {
	mu sync.Mutex
	// running are the reads without an answer yet, by disk name. The name stays that of the
	// disk while it is open. No such disk is read a second time.
	running map[string]*markerRead
	// read reads one marker, and expire returns at the deadline. Nil: readMarker, and wait.For
	// with markerWait.
	read   func(name string) *agentapi.Marker
	expire func(ctx context.Context) error
}

// markerRead is the read of one marker, which is set when done is closed.
type markerRead struct {
	done   chan struct{}
	marker *agentapi.Marker
}

// addMarkers sets the markers of the disks and logs those that do not arrive in time. It
// fails only with the context's cause.
func (d *Disks) addMarkers(ctx context.Context, disks []agentapi.Disk) error {
	all := make([]*markerRead, len(disks))
	for i := range disks {
		all[i] = d.markers.start(disks[i].Name)
	}
	expired, stop := d.markers.deadline(ctx)
	defer stop()
	for i := range disks {
		select {
		case <-all[i].done:
		case <-expired:
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		select {
		case <-all[i].done: // also after the deadline of an earlier disk
			disks[i].Marker = all[i].marker
		default:
			d.log("disks: %s does not answer; its marker is unknown", disks[i].Name)
		}
	}
	return nil
}

func (d *Disks) log(format string, args ...any) {
	if d.Log != nil {
		d.Log(format, args...)
	}
}

// start reads a marker in the background, or returns the running read of the disk.
func (m *markers) start(name string) *markerRead {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.running[name]; r != nil {
		return r
	}
	read := m.read
	if read == nil {
		read = readMarker
	}
	if m.running == nil {
		m.running = map[string]*markerRead{}
	}
	r := &markerRead{done: make(chan struct{})}
	m.running[name] = r
	go func() {
		found := read(name)
		m.mu.Lock()
		defer m.mu.Unlock()
		r.marker = found
		delete(m.running, name)
		close(r.done)
	}()
	return r
}

// deadline returns a channel that is closed when the wait for markers ends.
func (m *markers) deadline(ctx context.Context) (<-chan struct{}, context.CancelFunc) {
	expire := m.expire
	if expire == nil {
		expire = func(ctx context.Context) error { return wait.For(ctx, markerWait) }
	}
	ctx, stop := context.WithCancel(ctx)
	expired := make(chan struct{})
	go func() {
		defer close(expired)
		_ = expire(ctx)
	}()
	return expired, stop
}

// readMarker returns nil if the disk cannot be read. The result is informational: decisions
// read the marker again from the opened disk.
func readMarker(name string) *agentapi.Marker {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	m, err := marker.Read(f)
	if err != nil {
		return nil
	}
	return m
}
