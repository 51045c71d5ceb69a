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

func TestReadMarker(t *testing.T) {
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
	if diff := cmp.Diff(&want, readMarker(path)); diff != "" {
		t.Error(diff)
	}
	if m := readMarker(filepath.Join(dir, "missing")); m != nil {
		t.Errorf("%+v on a missing disk", m)
	}
}

// fakeDisks are disks whose markers are read on release.
type fakeDisks struct {
	*Disks
	mu    sync.Mutex
	reads []string
	lines []string
	// hangs are the disks that block until release.
	hangs   []string
	release chan struct{}
}

func newFakeDisks(hangs ...string) *fakeDisks {
	s := &fakeDisks{hangs: hangs, release: make(chan struct{})}
	root := fstest.MapFS{}
	for _, name := range []string{"sda", "sdb", "sdc"} {
		root["sys/block/"+name+"/size"] = &fstest.MapFile{Data: []byte("1000000\n")}
		root["sys/block/"+name+"/device/model"] = &fstest.MapFile{Data: []byte("x\n")}
	}
	s.Disks = &Disks{Root: root, settled: true, Settle: func() {}, Log: func(format string, args ...any) {
		s.lines = append(s.lines, fmt.Sprintf(format, args...))
	}}
	s.markers.read = s.readMarker
	s.markers.expire = s.othersAreRead
	return s
}

func (s *fakeDisks) readMarker(name string) *agentapi.Marker {
	s.mu.Lock()
	s.reads = append(s.reads, name)
	s.mu.Unlock()
	if slices.Contains(s.hangs, name) {
		<-s.release
	}
	return &agentapi.Marker{InstanceID: "of " + name}
}

// othersAreRead returns when only hanging disks are left.
func (s *fakeDisks) othersAreRead(ctx context.Context) error {
	for {
		s.markers.mu.Lock()
		n := len(s.markers.running)
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

// list returns the instances in the markers.
func (s *fakeDisks) list(t *testing.T) []string {
	t.Helper()
	disks, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range disks {
		if d.Marker == nil {
			out = append(out, d.Name+" has no marker")
			continue
		}
		out = append(out, d.Marker.InstanceID)
	}
	return out
}

// A hanging disk is listed without marker and does not block the others. It is not read a
// second time, and gets its marker when it answers.
func TestHangingDiskDoesNotBlockTheList(t *testing.T) {
	s := newFakeDisks("/dev/sdb")
	for range 2 {
		want := []string{"of /dev/sda", "/dev/sdb has no marker", "of /dev/sdc"}
		if diff := cmp.Diff(want, s.list(t)); diff != "" {
			t.Error(diff)
		}
	}
	line := "disks: /dev/sdb does not answer; its marker is unknown"
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

// Names reads no disk.
func TestNamesReadNoDisk(t *testing.T) {
	s := newFakeDisks()
	disks, err := s.Names(t.Context())
	if err != nil || len(disks) != 3 || disks[0].Marker != nil || len(s.reads) != 0 {
		t.Errorf("%+v, %v, read %v", disks, err, s.reads)
	}
}

// A hanging disk does not delay the context's end.
func TestListIsCanceled(t *testing.T) {
	s := newFakeDisks("/dev/sda", "/dev/sdb", "/dev/sdc")
	t.Cleanup(func() { close(s.release) })
	canceled := errors.New("canceled")
	ctx, cancel := context.WithCancelCause(t.Context())
	s.markers.expire = func(ctx context.Context) error {
		cancel(canceled)
		<-ctx.Done()
		return ctx.Err()
	}
	if _, err := s.List(ctx); !errors.Is(err, canceled) {
		t.Errorf("error %v", err)
	}
}
