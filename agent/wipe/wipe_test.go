// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/partition/gpt"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agent/wipe"
	"github.com/ingot-metal/ingot/agentapi"
)

const (
	mib  = 1 << 20
	gib  = 1 << 30
	size = 200 * mib
)

// planted is a signature that a wipe must remove.
type planted struct {
	name string
	off  int64
	data string
}

// inPartition plants signatures in a partition.
func inPartition(where string, off, length int64) []planted {
	return []planted{
		{where + ": XFS", off, "XFSB"},
		{where + ": LVM", off + 512, "LABELONE"},
		{where + ": ext4", off + 1080, "\x53\xef"},
		{where + ": md 1.2", off + 4096, "\xfc\x4e\x2b\xa9"},
		{where + ": swap", off + 4086, "SWAPSPACE2"},
		{where + ": btrfs", off + 64<<10 + 64, "_BHRfS_M"},
		{where + ": second LUKS header", off + 4*mib, "SKUL\xba\xbe"},
		{where + ": second btrfs", off + 64*mib + 64, "_BHRfS_M"},
		{where + ": md 1.0", off + length - 8192, "\xfc\x4e\x2b\xa9"},
		{where + ": md 0.90", off + length - 64<<10, "\xfc\x4e\x2b\xa9"},
	}
}

func newDisk(t *testing.T) (*os.File, string) { return newDiskOf(t, size) }

func newDiskOf(t *testing.T, size int64) (*os.File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f, path
}

func put(t *testing.T, f *os.File, off int64, data []byte) {
	t.Helper()
	if _, err := f.WriteAt(data, off); err != nil {
		t.Fatal(err)
	}
}

// withGPT makes two partitions. sector is 512 or 4096.
func withGPT(t *testing.T, f *os.File, sector int) []planted {
	t.Helper()
	s := uint64(sector)
	table := &gpt.Table{
		LogicalSectorSize: sector, PhysicalSectorSize: sector, ProtectiveMBR: true,
		Partitions: []*gpt.Partition{
			{Index: 1, Start: 2 * mib / s, End: 80*mib/s - 1, Type: gpt.LinuxFilesystem, Name: "a"},
			{Index: 2, Start: 80 * mib / s, End: 190*mib/s - 1, Type: gpt.LinuxFilesystem, Name: "b"},
		},
	}
	target, err := file.New(f, false).Writable()
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Write(target, size); err != nil {
		t.Fatal(err)
	}
	return append(inPartition("first", 2*mib, 78*mib), inPartition("second", 80*mib, 110*mib)...)
}

// withMBR makes a primary partition and an extended one with two logical ones. sector is 512
// or 4096.
func withMBR(t *testing.T, f *os.File, sector int64) []planted {
	t.Helper()
	table := func(at int64, entries ...[3]int64) {
		b := make([]byte, 512)
		for i, e := range entries {
			b[446+16*i+4] = byte(e[0])
			binary.LittleEndian.PutUint32(b[446+16*i+8:], uint32(e[1]/sector))
			binary.LittleEndian.PutUint32(b[446+16*i+12:], uint32(e[2]/sector))
		}
		b[510], b[511] = 0x55, 0xaa
		put(t, f, at, b)
	}
	table(0, [3]int64{0x83, 2 * mib, 18 * mib}, [3]int64{0x05, 20 * mib, 180 * mib})
	table(20*mib, [3]int64{0x83, mib, 79 * mib}, [3]int64{0x05, 80 * mib, 100 * mib})
	table(100*mib, [3]int64{0x8e, mib, 70 * mib})
	return append(append([]planted{{"primary: XFS", 2 * mib, "XFSB"}},
		inPartition("first logical", 21*mib, 79*mib)...), inPartition("second logical", 101*mib, 70*mib)...)
}

// Copies far inside a large disk are removed: Ceph's labels (BlueStore's
// bdev_label_positions) and btrfs's superblocks, on the disk, on a partition, and on a logical
// volume, whose data starts 1 MiB into its disk or partition.
func TestMetadataRemovesCopies(t *testing.T) {
	const whole, partition = 1001 * gib, 2 * mib
	f, path := newDiskOf(t, whole)
	target, err := file.New(f, false).Writable()
	if err != nil {
		t.Fatal(err)
	}
	table := &gpt.Table{LogicalSectorSize: 512, PhysicalSectorSize: 512, ProtectiveMBR: true, Partitions: []*gpt.Partition{
		{Index: 1, Start: partition / 512, End: (whole-2*mib)/512 - 1, Type: gpt.LinuxFilesystem},
	}}
	if err := table.Write(target, whole); err != nil {
		t.Fatal(err)
	}
	signs := []planted{{"Ceph on a volume of the disk", mib, "bluestore block device"}}
	for _, begin := range []int64{0, mib, partition, partition + mib} {
		for _, at := range []int64{gib, 10 * gib, 100 * gib, 1000 * gib} {
			signs = append(signs, planted{fmt.Sprintf("Ceph at %d MiB", (begin+at)/mib), begin + at, "bluestore block device"})
		}
	}
	for _, begin := range []int64{0, partition} {
		for _, at := range []int64{64 * mib, 256 * gib} {
			signs = append(signs, planted{fmt.Sprintf("btrfs at %d MiB", (begin+at)/mib), begin + at + 64, "_BHRfS_M"})
		}
	}
	for _, s := range signs {
		put(t, f, s.off, []byte(s.data))
	}
	put(t, f, 5*gib, []byte("content is not touched"))
	if _, err := wipe.Metadata(t.Context(), open(t, path)); err != nil {
		t.Fatal(err)
	}
	for _, s := range signs {
		if !block.IsZero(read(t, f, s.off, len(s.data))) {
			t.Errorf("%s is still there", s.name)
		}
	}
	if block.IsZero(read(t, f, 5*gib, 8)) {
		t.Error("content away from any signature was removed")
	}
}

func TestMetadata(t *testing.T) {
	for _, tc := range []struct {
		name string
		lay  func(*testing.T, *os.File) []planted
	}{
		{"an empty disk", func(*testing.T, *os.File) []planted { return nil }},
		{"a file system without partitions", func(*testing.T, *os.File) []planted { return inPartition("disk", 0, size) }},
		{"GPT", func(t *testing.T, f *os.File) []planted { return withGPT(t, f, 512) }},
		{"GPT with sectors of 4 KiB", func(t *testing.T, f *os.File) []planted { return withGPT(t, f, 4096) }},
		{"GPT whose first copy is gone", func(t *testing.T, f *os.File) []planted {
			p := withGPT(t, f, 512)
			put(t, f, 0, make([]byte, 34*512))
			return p
		}},
		{"MBR with logical partitions", func(t *testing.T, f *os.File) []planted { return withMBR(t, f, 512) }},
		{"MBR with sectors of 4 KiB", func(t *testing.T, f *os.File) []planted { return withMBR(t, f, 4096) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, path := newDisk(t)
			signs := tc.lay(t, f)
			for _, s := range signs {
				put(t, f, s.off, []byte(s.data))
			}
			if err := marker.Write(f, agentapi.Marker{InstanceID: "i1", Complete: true}); err != nil {
				t.Fatal(err)
			}
			content := []byte("content is not touched")
			put(t, f, 30*mib, content)
			dev := open(t, path)
			if _, err := wipe.Metadata(t.Context(), dev); err != nil {
				t.Fatal(err)
			}
			for _, s := range signs {
				if got := read(t, f, s.off, len(s.data)); !block.IsZero(got) {
					t.Errorf("%s is still there", s.name)
				}
			}
			for _, off := range []int64{0, 512, agentapi.MarkerOffset, size - 512, size - 4096} {
				if !block.IsZero(read(t, f, off, 512)) {
					t.Errorf("something is left at %d", off)
				}
			}
			if got := read(t, f, 30*mib, len(content)); !bytes.Equal(got, content) {
				t.Error("content away from any signature was removed")
			}
		})
	}
}

// An interrupted wipe keeps the marker, and the tables that lead to partitions with content.
func TestMarkerIsRemovedLast(t *testing.T) {
	f, path := newDisk(t)
	signs := withGPT(t, f, 512)
	for _, s := range signs {
		put(t, f, s.off, []byte(s.data))
	}
	want := agentapi.Marker{InstanceID: "i1", Complete: true}
	if err := marker.Write(f, want); err != nil {
		t.Fatal(err)
	}
	for budget := 0; ; budget++ {
		dev := &limited{Device: open(t, path), budget: budget}
		_, err := wipe.Metadata(t.Context(), dev)
		if err == nil {
			break
		}
		if got, err := marker.Read(f); err != nil || got == nil || *got != want {
			t.Fatalf("cut off after %d steps: marker %v, %v", budget, got, err)
		}
		if budget > 50 {
			t.Fatal("never done")
		}
	}
	for _, s := range signs {
		if !block.IsZero(read(t, f, s.off, len(s.data))) {
			t.Errorf("%s is still there after the wipe was repeated", s.name)
		}
	}
}

// limited fails after a number of zeroings.
type limited struct {
	block.Device
	budget int
}

func (l *limited) Zero(off, n int64) error {
	if l.budget == 0 {
		return errors.New("power lost")
	}
	l.budget--
	return l.Device.Zero(off, n)
}

// liar reports success but does not zero.
type liar struct{ block.Device }

func (liar) Zero(int64, int64) error { return nil }

func TestWipeIsVerified(t *testing.T) {
	f, path := newDisk(t)
	put(t, f, 1080, []byte("\x53\xef"))
	if _, err := wipe.Metadata(t.Context(), liar{open(t, path)}); !errors.Is(err, wipe.ErrNotClean) {
		t.Errorf("error %v", err)
	}
}

func TestWipeIsCanceled(t *testing.T) {
	_, path := newDisk(t)
	off := errors.New("canceled")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(off)
	if _, err := wipe.Metadata(ctx, open(t, path)); !errors.Is(err, off) {
		t.Errorf("error %v", err)
	}
}

// FuzzMetadata checks that a wipe ends and cleans both ends of the disk, whatever its tables
// contain.
func FuzzMetadata(f *testing.F) {
	f.Add([]byte("\x00\x00"), []byte("EFI PART"))
	f.Add(bytes.Repeat([]byte{0x05, 0xff}, 256), bytes.Repeat([]byte{0xff}, 92))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		path := filepath.Join(t.TempDir(), "disk")
		disk := make([]byte, 12*mib)
		copy(disk[:512], first)
		disk[510], disk[511] = 0x55, 0xaa
		copy(disk[512:], "EFI PART")
		copy(disk[520:8192], second)
		if err := os.WriteFile(path, disk, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := wipe.Metadata(t.Context(), open(t, path)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !block.IsZero(got[:mib]) || !block.IsZero(got[len(got)-mib:]) {
			t.Error("not clean")
		}
	})
}

func open(t *testing.T, path string) block.Device {
	t.Helper()
	dev, err := block.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	return dev
}

func read(t *testing.T, f *os.File, off int64, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, off); err != nil {
		t.Fatal(err)
	}
	return b
}

// synced records where zeroing started between two flushes.
type synced struct {
	block.Device
	groups [][]int64
	now    []int64
}

func (s *synced) Zero(off, n int64) error {
	s.now = append(s.now, off)
	return s.Device.Zero(off, n)
}

func (s *synced) Sync() error {
	s.groups, s.now = append(s.groups, s.now), nil
	return s.Device.Sync()
}

// Tables are removed after the content of partitions is durably removed: a disk's cache may
// reorder writes until it is flushed.
func TestTablesAreRemovedAfterPartitions(t *testing.T) {
	for name, lay := range map[string]func(*testing.T, string){"alone": func(*testing.T, string) {}, "in a mirror": mirrored} {
		t.Run(name, func(t *testing.T) { tablesGoAfterPartitions(t, lay) })
	}
}

func tablesGoAfterPartitions(t *testing.T, lay func(*testing.T, string)) {
	f, path := newDisk(t)
	withGPT(t, f, 512)
	lay(t, path)
	dev := &synced{Device: open(t, path)}
	if _, err := wipe.Metadata(t.Context(), dev); err != nil {
		t.Fatal(err)
	}
	partition, table := -1, -1
	for i, group := range dev.groups {
		for _, off := range group {
			switch {
			case off == 80*mib:
				partition = i
			case off < mib && table < 0:
				table = i
			}
		}
	}
	if partition < 0 || table <= partition {
		t.Errorf("the second partition is zeroed in group %d, the first table in group %d of %v", partition, table, dev.groups)
	}
}
