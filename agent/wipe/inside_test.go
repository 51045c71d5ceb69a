// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/erase"
	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agent/raid"
	"github.com/ingot-metal/ingot/agent/wipe"
	"github.com/ingot-metal/ingot/agentapi"
)

// Inside removes the content of partitions, but keeps tables and marker: if the erasure is
// interrupted, the partitions are found empty.
func TestInsideKeepsTables(t *testing.T) {
	for name, lay := range map[string]func(*testing.T, *os.File) []planted{
		"GPT": func(t *testing.T, f *os.File) []planted { return withGPT(t, f, 512) },
		"MBR": func(t *testing.T, f *os.File) []planted { return withMBR(t, f, 512) },
	} {
		t.Run(name, func(t *testing.T) {
			f, path := newDisk(t)
			signs := lay(t, f)
			for _, s := range signs {
				put(t, f, s.off, []byte(s.data))
			}
			want := agentapi.Marker{InstanceID: "i1", Complete: true}
			if err := marker.Write(f, want); err != nil {
				t.Fatal(err)
			}
			head, tail := string(read(t, f, 0, 1<<14)), string(read(t, f, size-1<<14, 1<<14))
			if err := wipe.Inside(t.Context(), open(t, path)); err != nil {
				t.Fatal(err)
			}
			for _, s := range signs {
				if !block.IsZero(read(t, f, s.off, len(s.data))) {
					t.Errorf("%s is still there", s.name)
				}
			}
			if got, err := marker.Read(f); err != nil || got == nil || *got != want {
				t.Errorf("marker %v, %v", got, err)
			}
			if head != string(read(t, f, 0, 1<<14)) || tail != string(read(t, f, size-1<<14, 1<<14)) {
				t.Error("the tables changed")
			}
		})
	}
}

// mirrored makes f a member of an array of whole disks without a second table.
func mirrored(t *testing.T, path string) {
	t.Helper()
	_, other := newDisk(t)
	mirror, err := raid.New([]raid.Member{{Name: path, Device: open(t, path)}, {Name: other, Device: open(t, other)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := mirror.Seal(raid.Identity{Instance: "i1", Attempt: 1, Created: time.Unix(0, 0)}, mib); err != nil {
		t.Fatal(err)
	}
}

// The content of a mirror of whole disks starts with the disk: its tables stay.
func TestInsideKeepsTablesOfAMirror(t *testing.T) {
	f, path := newDisk(t)
	signs := withGPT(t, f, 512)
	mirrored(t, path)
	signs = slices.DeleteFunc(signs, func(s planted) bool { return s.off > 180*mib }) // the array has the second table
	for _, s := range signs {
		put(t, f, s.off, []byte(s.data))
	}
	head := string(read(t, f, 0, 1<<14))
	if err := wipe.Inside(t.Context(), open(t, path)); err != nil {
		t.Fatal(err)
	}
	for _, s := range signs {
		if !block.IsZero(read(t, f, s.off, len(s.data))) {
			t.Errorf("%s is still there", s.name)
		}
	}
	if len(raid.Find(f, size)) != 1 || head != string(read(t, f, 0, 1<<14)) {
		t.Error("the superblock or the tables are gone")
	}
}

// The journal of an interrupted erasure stays, even within the content of an array.
func TestInsideKeepsTheJournal(t *testing.T) {
	f, path := newDisk(t)
	put(t, f, 4096, superblock12(mib/2, 100*mib))
	put(t, f, mib/2, []byte("XFSB"))
	journal := bytes.Repeat([]byte("journal"), 500)
	put(t, f, erase.JournalOffset, journal)
	if err := wipe.Inside(t.Context(), open(t, path)); err != nil {
		t.Fatal(err)
	}
	if !block.IsZero(read(t, f, mib/2, 4)) {
		t.Error("the array's file system is still there")
	}
	if got := read(t, f, erase.JournalOffset, len(journal)); !bytes.Equal(got, journal) {
		t.Error("the journal is gone")
	}
}

// unreadable is a disk with a bad sector that a write repairs.
type unreadable struct {
	block.Device
	at      int64
	written bool
}

func (u *unreadable) covers(off, n int64) bool { return off <= u.at && u.at < off+n }

func (u *unreadable) ReadAt(b []byte, off int64) (int, error) {
	if !u.written && u.covers(off, int64(len(b))) {
		return 0, syscall.EIO
	}
	return u.Device.ReadAt(b, off)
}

func (u *unreadable) Zero(off, n int64) error {
	u.written = u.written || u.covers(off, n)
	return u.Device.Zero(off, n)
}

// Erased writes sectors that cannot be read.
func TestErasedWithABadSector(t *testing.T) {
	f, path := newDisk(t)
	put(t, f, 0, bytes.Repeat([]byte{0xa5}, 3*mib)) // an encrypting drive returns random data
	if err := marker.Write(f, agentapi.Marker{InstanceID: "i1"}); err != nil {
		t.Fatal(err)
	}
	dev := &unreadable{Device: open(t, path), at: 4096}
	if err := wipe.Erased(t.Context(), dev); err != nil || !dev.written {
		t.Fatal(err)
	}
	if !block.IsZero(read(t, f, 0, 5*mib)) {
		t.Error("something is left")
	}
}

// An unreadable table is not a missing one: Metadata fails and keeps the other tables. Inside
// cleans what is known.
func TestUnreadableTables(t *testing.T) {
	for name, at := range map[string]int64{"MBR": 0, "GPT": 512, "second GPT": size - 512, "md": 4096} {
		t.Run(name, func(t *testing.T) {
			f, path := newDisk(t)
			signs := withGPT(t, f, 512)
			for _, s := range signs {
				put(t, f, s.off, []byte(s.data))
			}
			dev := &unreadable{Device: open(t, path), at: at}
			if _, err := wipe.Metadata(t.Context(), dev); !errors.Is(err, wipe.ErrUnreadable) || !errors.Is(err, syscall.EIO) {
				t.Errorf("Metadata: %v", err)
			}
			for _, s := range signs {
				if string(read(t, f, s.off, len(s.data))) != s.data {
					t.Errorf("%s is gone", s.name)
				}
			}
			if err := wipe.Inside(t.Context(), dev); !errors.Is(err, wipe.ErrUnreadable) {
				t.Errorf("Inside: %v", err)
			}
			for _, s := range signs { // reachable by the other table
				if !block.IsZero(read(t, f, s.off, len(s.data))) {
					t.Errorf("%s is still there", s.name)
				}
			}
		})
	}
}
