// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agentapi"
)

func TestMarkerOf(t *testing.T) {
	dir := t.TempDir()
	want := agentapi.Marker{InstanceID: "i1", Attempt: 1, Complete: true}
	path := filepath.Join(dir, "marked")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := marker.Write(f, want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, markerOf(path)); diff != "" {
		t.Error(diff)
	}
	if m := markerOf(filepath.Join(dir, "missing")); m != nil {
		t.Errorf("%+v on a disk that is not there", m)
	}
}

// shelf is a server whose disks say their markers when they are allowed to.
type shelf struct {
	*Disks
	mu    sync.Mutex
	reads []string
	lines []string
	// hangs are the disks that do not answer until released.
	hangs   []string
	release chan struct{}
}

func newShelf(hangs ...string) *shelf {
	s := &shelf{hangs: hangs, release: make(chan struct{})}
	root := fstest.MapFS{}
	for _, name := range []string{"sda", "sdb", "sdc"} {
		root["sys/block/"+name+"/size"] = &fstest.MapFile{Data: []byte("1000000\n")}
		root["sys/block/"+name+"/device/model"] = &fstest.MapFile{Data: []byte("x\n")}
	}
	s.Disks = &Disks{Root: root, settled: true, Settle: func() {}, Log: func(format string, args ...any) {
		s.lines = append(s.lines, fmt.Sprintf(format, args...))
	}}
	s.markers.of = s.markerOf
	s.markers.late = s.othersAreRead
	return s
}

func (s *shelf) markerOf(name string) *agentapi.Marker {
	s.mu.Lock()
	s.reads = append(s.reads, name)
	s.mu.Unlock()
	if slices.Contains(s.hangs, name) {
		<-s.release
	}
	return &agentapi.Marker{InstanceID: "of " + name}
}

// othersAreRead ends the waiting when nobody but who hangs is waited for.
func (s *shelf) othersAreRead(ctx context.Context) error {
	for {
		s.markers.mu.Lock()
		n := len(s.markers.reading)
		s.markers.mu.Unlock()
		if n <= len(s.hangs) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		runtime.Gosched()
	}
}

// list returns the instances that the markers name.
func (s *shelf) list(t *testing.T) []string {
	t.Helper()
	disks, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range disks {
		if d.Marker == nil {
			out = append(out, d.Name+" says nothing")
			continue
		}
		out = append(out, d.Marker.InstanceID)
	}
	return out
}

// A disk that does not answer is listed, and keeps neither the others nor the session. It
// is not asked a second time meanwhile, and has its marker when it answers after all.
func TestListWithADiskThatHangs(t *testing.T) {
	s := newShelf("/dev/sdb")
	for range 2 {
		want := []string{"of /dev/sda", "/dev/sdb says nothing", "of /dev/sdc"}
		if diff := cmp.Diff(want, s.list(t)); diff != "" {
			t.Error(diff)
		}
	}
	line := "disks: /dev/sdb does not answer; its marker is not known"
	if diff := cmp.Diff([]string{line, line}, s.lines); diff != "" {
		t.Error(diff)
	}
	slices.Sort(s.reads)
	if diff := cmp.Diff([]string{"/dev/sda", "/dev/sda", "/dev/sdb", "/dev/sdc", "/dev/sdc"}, s.reads); diff != "" {
		t.Error(diff)
	}
	close(s.release)
	s.hangs = nil
	if diff := cmp.Diff([]string{"of /dev/sda", "of /dev/sdb", "of /dev/sdc"}, s.list(t)); diff != "" {
		t.Error(diff)
	}
}

// Who needs names only reads no disk, and so waits for none.
func TestNamesReadNoDisk(t *testing.T) {
	s := newShelf()
	disks, err := s.Names(t.Context())
	if err != nil || len(disks) != 3 || disks[0].Marker != nil || len(s.reads) != 0 {
		t.Errorf("%+v, %v, read %v", disks, err, s.reads)
	}
}

// An end that comes while a disk hangs ends the listing, with its cause.
func TestListIsCalledOff(t *testing.T) {
	s := newShelf("/dev/sda", "/dev/sdb", "/dev/sdc")
	t.Cleanup(func() { close(s.release) })
	calledOff := errors.New("called off")
	ctx, cancel := context.WithCancelCause(t.Context())
	s.markers.late = func(ctx context.Context) error {
		cancel(calledOff)
		<-ctx.Done()
		return ctx.Err()
	}
	if _, err := s.List(ctx); !errors.Is(err, calledOff) {
		t.Errorf("error %v", err)
	}
}
