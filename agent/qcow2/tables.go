// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qcow2

import (
	"encoding/binary"
	"fmt"
)

// Bits of table entries (QEMU's docs/interop/qcow2.txt, "Cluster mapping").
const (
	offsetMask = 0x00fffffffffffe00
	copied     = 1 << 63
	compressed = 1 << 62
	readsZero  = 1 << 0
	sectorSize = 512
)

type kind uint8

const (
	firstTable kind = iota
	secondTable
	plainCluster
	compressedCluster
)

// region is a part of the file that is needed.
type region struct {
	off, size int64
	// guest is the position of a cluster, or of a second-level table's first cluster, on the
	// disk in bytes.
	guest int64
	kind  kind
}

// l1Entries returns the regions of the second-level tables that the first table names.
func (h Header) l1Entries(table []byte) ([]region, error) {
	var out []region
	for i := range int64(len(table) / 8) {
		entry := binary.BigEndian.Uint64(table[i*8:])
		guest := i * h.entries() << h.ClusterBits
		off := int64(entry & offsetMask)
		switch {
		case entry&^uint64(offsetMask|copied) != 0 || off%h.ClusterSize() != 0:
			return nil, fmt.Errorf("%w: entry %d of the first table is %#x", ErrFormat, i, entry)
		case off == 0 || guest >= h.Size: // unused, or beyond the end of a disk that was shrunk
			continue
		}
		out = append(out, region{off: off, size: h.ClusterSize(), guest: guest, kind: secondTable})
	}
	return out, nil
}

// l2Entries returns the regions of the clusters that a second-level table names, except those
// that read as zero. Its first cluster is at guest.
func (h Header) l2Entries(table []byte, guest int64) ([]region, error) {
	var out []region
	for i := 0; i < len(table); i, guest = i+8, guest+h.ClusterSize() {
		if guest >= h.Size {
			break
		}
		entry := binary.BigEndian.Uint64(table[i:])
		if entry&compressed != 0 {
			r, err := h.compressedRegion(entry, guest)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
			continue
		}
		off := int64(entry & offsetMask)
		switch {
		case entry&^uint64(offsetMask|copied|readsZero) != 0, off%h.ClusterSize() != 0,
			entry&readsZero != 0 && h.Version < 3:
			return nil, fmt.Errorf("%w: the entry for byte %d of the disk is %#x", ErrFormat, guest, entry)
		case off == 0 || entry&readsZero != 0:
			continue
		}
		out = append(out, region{off: off, size: min(h.ClusterSize(), h.Size-guest), guest: guest, kind: plainCluster})
	}
	return out, nil
}

// compressedRegion decodes a descriptor: x bits of offset, then the number of additional
// sectors, with x = 62 - (cluster bits - 8).
func (h Header) compressedRegion(entry uint64, guest int64) (region, error) {
	x := 62 - (h.ClusterBits - 8)
	off := int64(entry & (1<<x - 1))
	sectors := int64(entry>>x)&(1<<(62-x)-1) + 1
	if entry&copied != 0 || off == 0 || off > maxOffset {
		return region{}, fmt.Errorf("%w: the entry for byte %d of the disk is %#x", ErrFormat, guest, entry)
	}
	return region{off: off, size: sectors*sectorSize - off%sectorSize, guest: guest, kind: compressedCluster}, nil
}
