// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// extent is a part of a disk, in bytes.
type extent struct{ off, len int64 }

func (e extent) end() int64 { return e.off + e.len }

const (
	gptSignature = "EFI PART"
	// maxPartitions bounds the effect of a damaged table.
	maxPartitions = 512
)

// partitions returns the partitions of a disk in all tables that it may have: GPT at both
// ends, and MBR with logical partitions, with sectors of 512 and 4096 bytes. It skips invalid
// tables and partitions outside the disk, and keeps what it found before damage.
func partitions(disk io.ReaderAt, size int64) []extent {
	var found []extent
	for _, sector := range []int64{512, 4096} {
		found = append(found, gpt(disk, size, sector, sector)...)
		found = append(found, gpt(disk, size, sector, size-sector)...)
		found = append(found, mbr(disk, sector)...)
	}
	return distinct(found, size)
}

// errorRecorder keeps the first read error: an unreadable table may lead to more content.
type errorRecorder struct {
	io.ReaderAt
	err error
}

func (d *errorRecorder) ReadAt(b []byte, off int64) (int, error) {
	n, err := d.ReaderAt.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) && d.err == nil {
		d.err = fmt.Errorf("%w: read %d bytes at %d: %w", ErrUnreadable, len(b), off, err)
	}
	return n, err
}

// gpt reads the table with the header at off (UEFI 2.10, section 5.3). It ignores checksums,
// since a damaged table may also lead to old file systems.
func gpt(disk io.ReaderAt, size, sector, off int64) []extent {
	header := make([]byte, 92)
	if off < 0 || !read(disk, header, off) || string(header[:8]) != gptSignature {
		return nil
	}
	entries := binary.LittleEndian.Uint64(header[72:])
	count := min(binary.LittleEndian.Uint32(header[80:]), maxPartitions)
	length := int64(binary.LittleEndian.Uint32(header[84:]))
	if entries > uint64(size/sector) || length < 128 || length > 4096 {
		return nil
	}
	var found []extent
	entry := make([]byte, 128)
	for i := range int64(count) {
		if !read(disk, entry, int64(entries)*sector+i*length) {
			break
		}
		if bytes.Equal(entry[:16], make([]byte, 16)) {
			continue
		}
		first, last := binary.LittleEndian.Uint64(entry[32:]), binary.LittleEndian.Uint64(entry[40:])
		if first > last || last > uint64(size/sector) {
			continue
		}
		found = append(found, extent{int64(first) * sector, int64(last-first+1) * sector})
	}
	return found
}

// mbr reads primary partitions and the chain of extended ones. An MBR counts in logical
// sectors and does not state their size.
func mbr(disk io.ReaderAt, sector int64) []extent {
	var found []extent
	var extended int64
	for _, p := range mbrEntries(disk, 0) {
		if p.kind == kindProtective { // covers the disk, whose own signatures are cleaned last
			continue
		}
		if isExtended(p.kind) {
			extended = p.start
			continue
		}
		found = append(found, extent{p.start * sector, p.sectors * sector})
	}
	for next := extended; next != 0 && len(found) < maxPartitions; {
		at := next
		next = 0
		for _, p := range mbrEntries(disk, at*sector) {
			if isExtended(p.kind) {
				// Links are relative to the extended partition. Only forward links are valid.
				if link := extended + p.start; link > at {
					next = link
				}
				continue
			}
			found = append(found, extent{(at + p.start) * sector, p.sectors * sector})
		}
	}
	return found
}

type mbrEntry struct {
	kind           byte
	start, sectors int64
}

func mbrEntries(disk io.ReaderAt, off int64) []mbrEntry {
	b := make([]byte, 512)
	if !read(disk, b, off) || b[510] != 0x55 || b[511] != 0xaa {
		return nil
	}
	var entries []mbrEntry
	for i := 446; i < 510; i += 16 {
		e := mbrEntry{
			kind:    b[i+4], //nolint:gosec // i ends at 494 of 512 bytes
			start:   int64(binary.LittleEndian.Uint32(b[i+8:])),
			sectors: int64(binary.LittleEndian.Uint32(b[i+12:])),
		}
		if e.kind != 0 && e.start != 0 && e.sectors != 0 {
			entries = append(entries, e)
		}
	}
	return entries
}

// kindProtective is the type of the entry that covers a GPT (UEFI section 5.2.3).
const kindProtective = 0xee

// isExtended matches CHS, LBA and Linux extended partitions.
func isExtended(kind byte) bool { return kind == 0x05 || kind == 0x0f || kind == 0x85 }

func read(disk io.ReaderAt, b []byte, off int64) bool {
	n, _ := disk.ReadAt(b, off)
	return n == len(b)
}

// distinct removes duplicates and parts outside the disk.
func distinct(all []extent, size int64) []extent {
	var out []extent
	seen := map[extent]bool{}
	for _, e := range all {
		e.len = min(e.len, size-e.off)
		if e.off < 0 || e.len <= 0 || seen[e] {
			continue
		}
		seen[e] = true
		out = append(out, e)
	}
	return out
}
