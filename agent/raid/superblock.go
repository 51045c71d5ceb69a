// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package raid

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// ErrFormat reports that the bytes are not a valid superblock of version 1.
var ErrFormat = errors.New("no md superblock")

const (
	magic = 0xa92b4efc
	// headerSize is the size of the fixed part. A role of two bytes for each device follows.
	headerSize = 256
	// superblockSize and maxDevices are those of mdadm.
	superblockSize = 1024
	maxDevices     = (superblockSize - headerSize) / 2
	// maxParsed is the maximum that the kernel accepts (drivers/md/md.c, super_1_load).
	maxParsed = (4096 - headerSize) / 2
	sector    = 512
	// inSync as resync_offset means that no copy is pending.
	inSync = math.MaxUint64
	// roleSpare is the role of a device without a place in the array.
	roleSpare = 0xffff
	level1    = 1
	nameSize  = 32
)

// Superblock is the superblock of one member (metadata 1.0, 1.1 and 1.2).
type Superblock struct {
	Array, Device [16]byte
	// Name of the array, for display and /dev/md: at most 32 bytes.
	Name    string
	Created time.Time
	Level   int32
	// Members is the number of members. Role is the index of this one; -1: spare.
	Members, Role int
	// Events counts changes of the array's state. The member with the highest count is current.
	Events uint64
	// DataOffset and DataBytes are the position of the member's content, SuperOffset that of
	// this superblock, in bytes of the disk.
	DataOffset, DataBytes, SuperOffset int64
	// SyncedBytes is the length of the start that is equal on all members, up to DataBytes.
	SyncedBytes int64
}

// encode is the inverse of Parse for a mirror. Fields that are not set are zero: no bitmap, no
// reshape, no log of bad blocks.
func (s Superblock) encode() []byte {
	b := make([]byte, superblockSize)
	le := binary.LittleEndian
	le.PutUint32(b[0:], magic)
	le.PutUint32(b[4:], 1) // major version
	copy(b[16:32], s.Array[:])
	copy(b[32:32+nameSize], s.Name)
	le.PutUint64(b[64:], uint64(s.Created.Unix()))
	le.PutUint32(b[72:], uint32(s.Level))
	le.PutUint64(b[80:], uint64(s.DataBytes/sector))
	le.PutUint32(b[92:], uint32(s.Members))
	le.PutUint64(b[128:], uint64(s.DataOffset/sector))
	le.PutUint64(b[136:], uint64(s.DataBytes/sector))
	le.PutUint64(b[144:], uint64(s.SuperOffset/sector))
	le.PutUint32(b[160:], uint32(s.Role))
	copy(b[168:184], s.Device[:])
	le.PutUint64(b[192:], uint64(s.Created.Unix()))
	le.PutUint64(b[200:], s.Events)
	resync := uint64(s.SyncedBytes / sector)
	if s.SyncedBytes >= s.DataBytes {
		resync = inSync
	}
	le.PutUint64(b[208:], resync)
	le.PutUint32(b[220:], maxDevices)
	for i := range maxDevices {
		role := uint16(roleSpare)
		if i < s.Members {
			role = uint16(i)
		}
		le.PutUint16(b[headerSize+2*i:], role)
	}
	le.PutUint32(b[216:], checksum(b))
	return b
}

// Parse parses a superblock of version 1 and any level. It fails with ErrFormat.
func Parse(b []byte) (Superblock, error) {
	le := binary.LittleEndian
	if len(b) < headerSize || le.Uint32(b) != magic || le.Uint32(b[4:]) != 1 {
		return Superblock{}, ErrFormat
	}
	devices := int64(le.Uint32(b[220:]))
	size := headerSize + 2*devices
	if devices > maxParsed || size > int64(len(b)) || checksum(b[:size]) != le.Uint32(b[216:]) {
		return Superblock{}, fmt.Errorf("%w: damaged", ErrFormat)
	}
	s := Superblock{
		Array: [16]byte(b[16:32]), Device: [16]byte(b[168:184]),
		Name:    string(bytes.TrimRight(b[32:32+nameSize], "\x00")),
		Created: time.Unix(int64(le.Uint64(b[64:])&(1<<40-1)), 0).UTC(), // the bits above are microseconds
		Level:   int32(le.Uint32(b[72:])), Members: int(le.Uint32(b[92:])), Role: -1, Events: le.Uint64(b[200:]),
	}
	if number := int64(le.Uint32(b[160:])); number < devices {
		if role := le.Uint16(b[headerSize+2*number:]); int(role) < s.Members {
			s.Role = int(role)
		}
	}
	for _, field := range []struct {
		at  int
		out *int64
	}{{128, &s.DataOffset}, {136, &s.DataBytes}, {144, &s.SuperOffset}, {208, &s.SyncedBytes}} {
		sectors := le.Uint64(b[field.at:])
		if field.out == &s.SyncedBytes {
			sectors = min(sectors, le.Uint64(b[136:]))
		}
		if sectors > math.MaxInt64/sector {
			return Superblock{}, fmt.Errorf("%w: offset %d exceeds any disk", ErrFormat, sectors)
		}
		*field.out = int64(sectors) * sector
	}
	return s, nil
}

// checksum adds the words of a superblock except the checksum itself, and folds the carry once
// (drivers/md/md.c, calc_sb_1_csum).
func checksum(b []byte) uint32 {
	le := binary.LittleEndian
	var sum uint64
	i := 0
	for ; i+4 <= len(b); i += 4 {
		if i != 216 {
			sum += uint64(le.Uint32(b[i:]))
		}
	}
	if i+2 <= len(b) {
		sum += uint64(le.Uint16(b[i:]))
	}
	return uint32(sum) + uint32(sum>>32)
}

// offset10 is the position of the superblock with metadata 1.0: a multiple of 4 KiB, 8 to 12
// KiB before the end.
func offset10(size int64) int64 { return (size/sector - 16) &^ 7 * sector }

// Find returns the superblocks of a disk or partition of the given size, with metadata 1.0,
// 1.1 and 1.2. Older ones may remain on a disk. A superblock at another position than it
// states is ignored.
func Find(disk io.ReaderAt, size int64) []Superblock {
	var found []Superblock
	for _, at := range []int64{offset10(size), 0, 4096} {
		if at < 0 || at+headerSize > size {
			continue
		}
		b := make([]byte, min(4096, size-at))
		if n, _ := disk.ReadAt(b, at); n < len(b) {
			continue
		}
		if s, err := Parse(b); err == nil && s.SuperOffset == at {
			found = append(found, s)
		}
	}
	return found
}
