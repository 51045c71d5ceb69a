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

// markerWait is how long all disks together have to say their markers: one that spins up
// answers within it, and one that hangs keeps nobody from the session.
const markerWait = 10 * time.Second

// markers are read side by side, because a disk may answer late or never. The zero value
// is ready.
type markers struct {
	mu sync.Mutex
	// reading are those that have not answered yet, by their disks' names. Nobody reads
	// such a disk a second time; its name is its own while it is open.
	reading map[string]*reading
	// of reads one, and late waits until no more are waited for; markerOf and wait.For of
	// markerWait when nil.
	of   func(name string) *agentapi.Marker
	late func(ctx context.Context) error
}

// reading of one marker, which is there when done is closed.
type reading struct {
	done   chan struct{}
	marker *agentapi.Marker
}

// addMarkers leaves those out that do not come in time, and says so. It fails only when
// the context ends, with its cause.
func (d *Disks) addMarkers(ctx context.Context, disks []agentapi.Disk) error {
	all := make([]*reading, len(disks))
	for i := range disks {
		all[i] = d.markers.begin(disks[i].Name)
	}
	late, stop := d.markers.timer(ctx)
	defer stop()
	for i := range disks {
		select {
		case <-all[i].done:
		case <-late:
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		select {
		case <-all[i].done: // in time, or later than another one was waited for
			disks[i].Marker = all[i].marker
		default:
			d.log("disks: %s does not answer; its marker is not known", disks[i].Name)
		}
	}
	return nil
}

func (d *Disks) log(format string, args ...any) {
	if d.Log != nil {
		d.Log(format, args...)
	}
}

// begin reads a marker aside, or returns the reading that has not ended yet.
func (m *markers) begin(name string) *reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.reading[name]; r != nil {
		return r
	}
	read := m.of
	if read == nil {
		read = markerOf
	}
	if m.reading == nil {
		m.reading = map[string]*reading{}
	}
	r := &reading{done: make(chan struct{})}
	m.reading[name] = r
	go func() {
		found := read(name)
		m.mu.Lock()
		defer m.mu.Unlock()
		r.marker = found
		delete(m.reading, name)
		close(r.done)
	}()
	return r
}

// timer returns what is closed when no more markers are waited for.
func (m *markers) timer(ctx context.Context) (<-chan struct{}, context.CancelFunc) {
	late := m.late
	if late == nil {
		late = func(ctx context.Context) error { return wait.For(ctx, markerWait) }
	}
	ctx, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = late(ctx) // its end is all that counts
	}()
	return over, stop
}

// markerOf is for information: a disk that cannot be read shows no marker, and
// what is decided by a marker reads it again from the opened disk.
func markerOf(name string) *agentapi.Marker {
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
