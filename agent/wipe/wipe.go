// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/erase"
	"github.com/ingot-metal/ingot/agent/raid"
	"github.com/ingot-metal/ingot/agentapi"
)

// ErrNotClean says that a disk still shows old content where it was wiped.
var ErrNotClean = errors.New("disk is not clean after the wipe")

// ErrUnreadable says that a disk cannot be read where it may have a table of partitions, or
// an array, so that nobody knows where else it has to be cleaned.
var ErrUnreadable = errors.New("what the disk's tables lead to is not known; clean it with mode Full, which needs no tables, or replace it")

// Where signatures lie, in bytes from the beginning and from the end of a disk or
// partition. The beginning holds the partition tables, ext (1 KiB), xfs, vfat,
// ntfs, LVM2 (512), swap (4 KiB), btrfs (64 KiB), md 1.1 and 1.2 (0 and 4 KiB),
// bcache, LUKS with its second header (16 KiB to 4 MiB) and two ZFS labels; the
// end holds the second GPT, md 0.90 and 1.0, vendors' RAID, and two ZFS labels.
// Btrfs has more copies of its superblock at 64 MiB and 256 GiB, and Ceph's BlueStore,
// since Squid, of its label at 1, 10, 100 and 1000 GiB (bdev_label_positions), from which
// it is found again when the first is gone. Those are of as many bytes as the beginning:
// a logical volume has them behind the 1 MiB or 4 MiB where its data begins.
const (
	headSize  = 5 << 20
	tailSize  = 1 << 20
	btrfsSize = 4096
)

var copies = []extent{
	{64 << 20, btrfsSize}, {256 << 30, btrfsSize},
	{1 << 30, headSize}, {10 << 30, headSize}, {100 << 30, headSize}, {1000 << 30, headSize},
}

// Metadata removes partition tables and signatures from a disk, verifies by
// reading back that they are gone, and then removes the Ingot marker. It returns how
// many bytes it has zeroed and read back, those counted once that have several reasons.
func Metadata(ctx context.Context, dev block.Device) (int64, error) {
	found := look(dev)
	if found.unreadable != nil {
		return 0, found.unreadable
	}
	marker := markerOn(dev.Size())
	steps := append(avoidIn(slices.Concat(found.inside, found.outside), marker), []extent{marker})
	for _, extents := range steps {
		if err := clean(ctx, dev, extents); err != nil {
			return 0, err
		}
	}
	return covered(slices.Concat(steps...)), nil
}

// Inside removes the signatures of what a disk's tables and superblocks lead to, and leaves
// these and the marker, with the journal of package erase. It is for before they go in any
// order, as when the whole disk is erased: that may be cut off, and nobody would find the
// rest then. A bad sector holds nothing else up; a disk that fails again and again is given
// up, since each failure may take it a minute. ErrUnreadable says that there may be more.
func Inside(ctx context.Context, dev block.Device) error {
	found := look(dev)
	marker := markerOn(dev.Size())
	kept := extent{erase.JournalOffset, marker.end() - erase.JournalOffset}
	var failed []error
	for _, e := range slices.Concat(avoidIn(found.inside, kept)...) {
		if err := clean(ctx, dev, []extent{e}); err != nil {
			failed = append(failed, err)
		}
		if len(failed) == maxFailures || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(append(failed, found.unreadable)...)
}

// maxFailures of Inside.
const maxFailures = 3

// Outside removes a disk's own tables and signatures, and leaves the marker: nothing boots
// from it, and nothing leads to what Inside did not clean.
func Outside(ctx context.Context, dev block.Device) error {
	for _, extents := range avoidIn(look(dev).outside, markerOn(dev.Size())) {
		if err := clean(ctx, dev, extents); err != nil {
			return err
		}
	}
	return nil
}

// Erased removes what is left on a disk that was erased as a whole, the marker last. What
// cannot be read of it is written, and read then.
func Erased(ctx context.Context, dev block.Device) error {
	if err := Outside(ctx, dev); err != nil {
		return err
	}
	return clean(ctx, dev, []extent{markerOn(dev.Size())})
}

// layout is what is to be cleaned of a disk, in steps that are durable one after the
// other: what leads to content goes after it.
type layout struct {
	// inside is what tables of partitions and superblocks of arrays lead to, outside what the
	// disk itself has of them.
	inside, outside [][]extent
	// unreadable: there may be more.
	unreadable error
}

func look(dev block.Device) layout {
	size := dev.Size()
	disk := &noted{ReaderAt: dev}
	inPartitions := partitions(disk, size)
	var inArrays, disks []extent
	for _, e := range append(inPartitions, extent{0, size}) {
		for _, content := range arrays(disk, e) {
			if content.off == 0 { // begins with the disk: so do its tables, which lead to partitions
				disks = append(disks, content)
				continue
			}
			inArrays = append(inArrays, content)
		}
	}
	return layout{
		inside:     [][]extent{signatures(distinct(inArrays, size)...), signatures(inPartitions...)},
		outside:    [][]extent{signatures(distinct(disks, size)...), signatures(extent{0, size})},
		unreadable: disk.err,
	}
}

func markerOn(size int64) extent {
	return extent{agentapi.MarkerOffset, min(agentapi.MarkerSize, max(0, size-agentapi.MarkerOffset))}
}

// arrays are where a member of md arrays (metadata 1), a disk or a partition, has their
// content: a file system, or the second partition table of an array of whole disks, that
// would come to light again.
func arrays(disk io.ReaderAt, member extent) []extent {
	var found []extent
	for _, s := range raid.Find(io.NewSectionReader(disk, member.off, member.len), member.len) {
		if s.DataOffset < member.len {
			found = append(found, extent{member.off + s.DataOffset, min(s.DataBytes, member.len-s.DataOffset)})
		}
	}
	return found
}

// covered is how many bytes extents cover together.
func covered(extents []extent) int64 {
	slices.SortFunc(extents, func(a, b extent) int { return cmp.Compare(a.off, b.off) })
	var sum, end int64
	for _, e := range extents {
		if e.len <= 0 || e.end() <= end {
			continue
		}
		sum += e.end() - max(e.off, end)
		end = e.end()
	}
	return sum
}

func signatures(of ...extent) []extent {
	var all []extent
	for _, e := range of {
		all = append(all, extent{e.off, min(headSize, e.len)}, extent{max(e.off, e.end()-tailSize), min(tailSize, e.len)})
		for _, c := range copies {
			if c.off < e.len {
				all = append(all, extent{e.off + c.off, min(c.len, e.len-c.off)})
			}
		}
	}
	return all
}

// avoidIn is avoid for each step.
func avoidIn(steps [][]extent, hole extent) [][]extent {
	out := make([][]extent, 0, len(steps))
	for _, extents := range steps {
		out = append(out, avoid(extents, hole))
	}
	return out
}

// avoid cuts a hole out of extents.
func avoid(extents []extent, hole extent) []extent {
	var out []extent
	for _, e := range extents {
		if hole.end() <= e.off || hole.off >= e.end() {
			out = append(out, e)
			continue
		}
		out = append(out, extent{e.off, hole.off - e.off}, extent{hole.end(), e.end() - hole.end()})
	}
	return out
}

// clean zeroes extents, waits until that is durable, and reads them back.
func clean(ctx context.Context, dev block.Device, extents []extent) error {
	for _, e := range extents {
		if err := block.Zero(ctx, dev, e.off, e.len); err != nil {
			return err
		}
	}
	if err := dev.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if err := dev.DropCache(); err != nil {
		return err
	}
	for _, e := range extents {
		if err := verify(dev, e); err != nil {
			return err
		}
	}
	return nil
}

func verify(dev block.Device, e extent) error {
	if e.len <= 0 {
		return nil
	}
	buf := make([]byte, e.len)
	if _, err := dev.ReadAt(buf, e.off); err != nil {
		return fmt.Errorf("read back %d bytes at %d: %w", e.len, e.off, err)
	}
	if !block.IsZero(buf) {
		return fmt.Errorf("%w: %d bytes at %d", ErrNotClean, e.len, e.off)
	}
	return nil
}
