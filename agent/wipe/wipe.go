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

// ErrNotClean reports that a disk still has old content after it was wiped.
var ErrNotClean = errors.New("disk is not clean after the wipe")

// ErrUnreadable reports that a partition table or array superblock cannot be read, so that
// other places with old content are unknown.
var ErrUnreadable = errors.New("partition tables or RAID superblocks are unreadable; clean the disk with mode Full, which does not need them, or replace it")

// Sizes of the areas with signatures at both ends of a disk or partition. The start contains
// partition tables, ext (1 KiB), xfs, vfat, ntfs, LVM2 (512), swap (4 KiB), btrfs (64 KiB),
// md 1.1 and 1.2 (0 and 4 KiB), bcache, LUKS with its second header (16 KiB to 4 MiB) and two
// ZFS labels. The end contains the second GPT, md 0.90 and 1.0, vendor RAID, and two ZFS
// labels. Btrfs has copies of its superblock at 64 MiB and 256 GiB. Ceph's BlueStore (since
// Squid) has copies of its label at 1, 10, 100 and 1000 GiB (bdev_label_positions), from which
// it recovers. The areas for these labels are as large as the start, since a logical volume
// shifts them by the 1 MiB or 4 MiB before its data.
const (
	headSize  = 5 << 20
	tailSize  = 1 << 20
	btrfsSize = 4096
)

var copies = []extent{
	{64 << 20, btrfsSize}, {256 << 30, btrfsSize},
	{1 << 30, headSize}, {10 << 30, headSize}, {100 << 30, headSize}, {1000 << 30, headSize},
}

// Metadata removes partition tables and signatures from a disk, verifies that by reading back,
// and then removes the Ingot marker. It returns the number of distinct bytes zeroed and
// verified.
func Metadata(ctx context.Context, dev block.Device) (int64, error) {
	found := findLayout(dev)
	if found.unreadable != nil {
		return 0, found.unreadable
	}
	marker := markerOn(dev.Size())
	steps := append(avoid(slices.Concat(found.inside, found.outside), marker), []extent{marker})
	for _, extents := range steps {
		if err := clean(ctx, dev, extents); err != nil {
			return 0, err
		}
	}
	return covered(slices.Concat(steps...)), nil
}

// Inside removes the signatures to which tables and superblocks lead, but not the tables
// themselves, the marker and the journal of package erase. It precedes the erasure of the whole
// disk, which may be interrupted after the tables are gone. It skips bad sectors, but stops
// after maxFailures, since each failure may take a minute. ErrUnreadable reports that there
// may be more content.
func Inside(ctx context.Context, dev block.Device) error {
	found := findLayout(dev)
	marker := markerOn(dev.Size())
	kept := extent{erase.JournalOffset, marker.end() - erase.JournalOffset}
	var failed []error
	for _, e := range slices.Concat(avoid(found.inside, kept)...) {
		if err := clean(ctx, dev, []extent{e}); err != nil {
			failed = append(failed, err)
		}
		if len(failed) == maxFailures || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(append(failed, found.unreadable)...)
}

// maxFailures is the number of failures after which Inside stops.
const maxFailures = 3

// Outside removes a disk's own tables and signatures, but not the marker: the disk does not
// boot, and nothing leads to content that Inside did not clean.
func Outside(ctx context.Context, dev block.Device) error {
	for _, extents := range avoid(findLayout(dev).outside, markerOn(dev.Size())) {
		if err := clean(ctx, dev, extents); err != nil {
			return err
		}
	}
	return nil
}

// Erased removes the rest from a disk that was erased as a whole, the marker last. It writes
// unreadable parts before it reads them.
func Erased(ctx context.Context, dev block.Device) error {
	if err := Outside(ctx, dev); err != nil {
		return err
	}
	return clean(ctx, dev, []extent{markerOn(dev.Size())})
}

// layout are the areas to clean, in durable steps: content before what leads to it.
type layout struct {
	// inside is the content to which partition tables and array superblocks lead. outside is
	// the disk's own.
	inside, outside [][]extent
	// unreadable is set if there may be more.
	unreadable error
}

func findLayout(dev block.Device) layout {
	size := dev.Size()
	disk := &errorRecorder{ReaderAt: dev}
	inPartitions := partitions(disk, size)
	var inArrays, disks []extent
	for _, e := range append(inPartitions, extent{0, size}) {
		for _, content := range arrays(disk, e) {
			if content.off == 0 { // starts with the disk: so do its tables, which lead to partitions
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

// arrays returns the content of md arrays (metadata 1) on a member, which is a disk or a
// partition: a file system, or the second partition table of an array of whole disks.
func arrays(disk io.ReaderAt, member extent) []extent {
	var found []extent
	for _, s := range raid.Find(io.NewSectionReader(disk, member.off, member.len), member.len) {
		if s.DataOffset < member.len {
			found = append(found, extent{member.off + s.DataOffset, min(s.DataBytes, member.len-s.DataOffset)})
		}
	}
	return found
}

// covered returns the number of distinct bytes in extents.
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

// avoid removes a hole from the extents of each step.
func avoid(steps [][]extent, hole extent) [][]extent {
	out := make([][]extent, len(steps))
	for i, extents := range steps {
		for _, e := range extents {
			if hole.end() <= e.off || hole.off >= e.end() {
				out[i] = append(out[i], e)
				continue
			}
			out[i] = append(out[i], extent{e.off, hole.off - e.off}, extent{hole.end(), e.end() - hole.end()})
		}
	}
	return out
}

// clean zeroes extents, makes that durable, and reads them back.
func clean(ctx context.Context, dev block.Device, extents []extent) error {
	for _, e := range extents {
		if err := block.Zero(ctx, dev, e.off, e.len); err != nil {
			return err
		}
	}
	if err := block.Flush(dev); err != nil {
		return err
	}
	for _, e := range extents {
		if e.len <= 0 {
			continue
		}
		buf := make([]byte, e.len)
		if _, err := dev.ReadAt(buf, e.off); err != nil {
			return fmt.Errorf("read back %d bytes at %d: %w", e.len, e.off, err)
		}
		if !block.IsZero(buf) {
			return fmt.Errorf("%w: %d bytes at %d", ErrNotClean, e.len, e.off)
		}
	}
	return nil
}
