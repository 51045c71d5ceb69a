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
	size := dev.Size()
	inside, err := within(dev)
	if err != nil {
		return 0, err
	}
	marker := markerOn(size)
	steps := append(inside, avoid(signatures(extent{0, size}), marker), []extent{marker})
	return cleanAll(ctx, dev, steps)
}

// Inside removes the signatures of what a disk's partition tables and arrays lead to, and
// leaves tables, arrays' superblocks and the marker. It is for before the whole disk is
// erased, which takes the tables first and may be cut off: nobody would find the rest then.
// What can be cleaned is, also where the disk cannot be read everywhere (ErrUnreadable).
func Inside(ctx context.Context, dev block.Device) error {
	steps, unreadable := within(dev)
	_, err := cleanAll(ctx, dev, steps)
	return errors.Join(unreadable, err)
}

// within are the steps for what partition tables and arrays lead to. What leads to content
// goes after it, superblocks of arrays as tables of partitions, each step durable. The
// error says where something may be missing.
func within(dev block.Device) ([][]extent, error) {
	size := dev.Size()
	disk := &noted{ReaderAt: dev}
	inPartitions := partitions(disk, size)
	var inArrays []extent
	for _, e := range append(inPartitions, extent{0, size}) {
		inArrays = append(inArrays, arrays(disk, e)...)
	}
	marker := markerOn(size)
	return [][]extent{
		avoid(signatures(distinct(inArrays, size)...), marker),
		avoid(signatures(inPartitions...), marker),
	}, disk.err
}

func markerOn(size int64) extent {
	return extent{agentapi.MarkerOffset, min(agentapi.MarkerSize, max(0, size-agentapi.MarkerOffset))}
}

// cleanAll cleans one step after the other, and says how many bytes they are.
func cleanAll(ctx context.Context, dev block.Device, steps [][]extent) (int64, error) {
	for _, extents := range steps {
		if err := clean(ctx, dev, extents); err != nil {
			return 0, err
		}
	}
	return covered(slices.Concat(steps...)), nil
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
