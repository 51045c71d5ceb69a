// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package raid

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/agent/block"
)

var (
	// ErrMembers: the disks cannot be members of one mirror.
	ErrMembers = errors.New("these disks cannot be one mirror")
	// ErrDiffers: two members do not return the same where the same was written.
	ErrDiffers = errors.New("the members of the mirror differ")
)

const (
	// ArrayName is what the installed system finds the array by below /dev/md, too: it
	// belongs to any host, or mdadm would take it for another's and add a number.
	ArrayName = "any:ingot-root"
	// reserve is kept free behind the data at least: superblock, and room for the bitmap
	// that an operator may add (mdadm --grow --bitmap=internal, 128 KiB at most). The
	// array is as long as a multiple of it.
	reserve = 1 << 20
	// step is how much is compared at a time.
	step = 4 << 20
)

// Member is an open disk and its name, which errors say.
type Member struct {
	Name string
	block.Device
}

// Mirror is a block.Device whose content is on each member.
type Mirror struct {
	members []Member
	size    int64
}

var _ block.Device = &Mirror{}

// New makes a mirror of open disks, as large as fits on the smallest. It fails with
// ErrMembers and changes nothing.
func New(members []Member) (*Mirror, error) {
	if len(members) < 2 {
		return nil, fmt.Errorf("%w: there are %d, two is the least", ErrMembers, len(members))
	}
	first := members[0]
	smallest := first.Size()
	for _, m := range members[1:] {
		smallest = min(smallest, m.Size())
		if a, b := block.SectorSize(first.Device), block.SectorSize(m.Device); a > 0 && b > 0 && a != b {
			return nil, fmt.Errorf("%w: %s has sectors of %d bytes, %s of %d, and an image is made for one of them; choose two of a kind",
				ErrMembers, first.Name, a, m.Name, b)
		}
	}
	size := (smallest - reserve) / reserve * reserve
	if size <= 0 {
		return nil, fmt.Errorf("%w: the smallest has %d bytes", ErrMembers, smallest)
	}
	return &Mirror{members: members, size: size}, nil
}

// each does something with every member at the same time, and names the one that fails.
func (m *Mirror) each(do func(i int, member Member) error) error {
	var group errgroup.Group
	errs := make([]error, len(m.members))
	for i, member := range m.members {
		group.Go(func() error {
			if err := do(i, member); err != nil {
				errs[i] = fmt.Errorf("%s: %w", member.Name, err)
			}
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

// Size implements block.Device: that of the array.
func (m *Mirror) Size() int64 { return m.size }

// SectorSize is that of the members which say it; those say the same.
func (m *Mirror) SectorSize() int {
	for _, member := range m.members {
		if n := block.SectorSize(member.Device); n > 0 {
			return n
		}
	}
	return 0
}

// within refuses a write behind the array's end, where a member has its superblock.
func (m *Mirror) within(off, n int64) error {
	if off < 0 || off+n > m.size {
		return fmt.Errorf("write %d bytes at %d: the array ends at %d", n, off, m.size)
	}
	return nil
}

// WriteAt implements block.Device.
func (m *Mirror) WriteAt(b []byte, off int64) (int, error) {
	if err := m.within(off, int64(len(b))); err != nil {
		return 0, err
	}
	err := m.each(func(_ int, member Member) error {
		_, err := member.WriteAt(b, off)
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// ReadAt implements block.Device. It reads all members, and fails with ErrDiffers where
// they do not say the same.
func (m *Mirror) ReadAt(b []byte, off int64) (int, error) {
	read := m.buffers(len(b))
	if err := m.readAll(read, off); err != nil {
		return 0, err
	}
	for i, got := range read[1:] {
		if !bytes.Equal(got, read[0]) {
			return 0, fmt.Errorf("%w: %s and %s, in %d bytes at %d", ErrDiffers, m.members[0].Name, m.members[i+1].Name, len(b), off)
		}
	}
	return copy(b, read[0]), nil
}

// buffers are one for each member.
func (m *Mirror) buffers(n int) [][]byte {
	out := make([][]byte, len(m.members))
	for i := range out {
		out[i] = make([]byte, n)
	}
	return out
}

// readAll fills buffers with the same range of each member.
func (m *Mirror) readAll(read [][]byte, off int64) error {
	return m.each(func(i int, member Member) error {
		_, err := member.ReadAt(read[i], off)
		return err
	})
}

// Zero implements block.Device. Where one member cannot, others may have done it.
func (m *Mirror) Zero(off, n int64) error {
	if err := m.within(off, n); err != nil {
		return err
	}
	err := m.each(func(_ int, member Member) error { return member.Zero(off, n) })
	if errors.Is(err, block.ErrNotSupported) {
		return block.ErrNotSupported // whoever asks then writes the zeroes, to all
	}
	return err
}

// Sync implements block.Device.
func (m *Mirror) Sync() error {
	return m.each(func(_ int, member Member) error { return member.Sync() })
}

// DropCache implements block.Device.
func (m *Mirror) DropCache() error {
	return m.each(func(_ int, member Member) error { return member.DropCache() })
}

// Close implements block.Device.
func (m *Mirror) Close() error {
	return m.each(func(_ int, member Member) error { return member.Close() })
}

// ClearTails removes what may lie behind the array at the end of a member and be
// recognised: superblocks of former arrays, second partition tables.
func (m *Mirror) ClearTails(ctx context.Context) error {
	return m.each(func(_ int, member Member) error {
		off := max(m.size, member.Size()-2*reserve)
		return block.Zero(ctx, member, off, member.Size()-off)
	})
}

// Match makes the first bytes of all members those of the first one, and reads back what
// it had to copy. tell, if it is set, is called with the bytes compared so far. It returns
// how many were copied. The context's end stops it, with its cause.
func (m *Mirror) Match(ctx context.Context, upTo int64, tell func(done int64)) (copied int64, err error) {
	// What was written through the kernel's file systems is not in a disk's own cache.
	if err := errors.Join(m.Sync(), m.DropCache()); err != nil {
		return 0, err
	}
	var differ []int64
	read := m.buffers(step)
	for off := int64(0); off < upTo; off += step {
		if ctx.Err() != nil {
			return copied, context.Cause(ctx)
		}
		n := min(step, upTo-off)
		for i := range read {
			read[i] = read[i][:n]
		}
		was, err := m.copyAt(read, off)
		if err != nil {
			return copied, err
		}
		if was {
			differ, copied = append(differ, off), copied+n
		}
		if tell != nil {
			tell(off + n)
		}
	}
	if err := errors.Join(m.Sync(), m.DropCache()); err != nil {
		return copied, err
	}
	for _, off := range differ {
		if ctx.Err() != nil {
			return copied, context.Cause(ctx)
		}
		if _, err := m.ReadAt(make([]byte, min(step, upTo-off)), off); err != nil {
			return copied, err
		}
	}
	return copied, nil
}

// copyAt copies a range, as long as the buffers, from the first member to those that
// differ, and says whether one did.
func (m *Mirror) copyAt(read [][]byte, off int64) (bool, error) {
	if err := m.readAll(read, off); err != nil {
		return false, err
	}
	differed := false
	for _, got := range read[1:] {
		differed = differed || !bytes.Equal(got, read[0])
	}
	if !differed {
		return false, nil
	}
	return true, m.each(func(i int, member Member) error {
		if bytes.Equal(read[i], read[0]) {
			return nil
		}
		_, err := member.WriteAt(read[0], off)
		return err
	})
}

// Identity tells one array from any other: each attempt to install makes its own, so that
// a disk left over from an earlier one is never taken for a member.
type Identity struct {
	Instance string
	Attempt  int32
	// Created is shown by mdadm; it decides nothing.
	Created time.Time
}

// uuid is that of the array, or of its n-th member, from 1: one that is made by a hash
// (RFC 9562, section 5.8).
func (id Identity) uuid(n uint32) [16]byte {
	h := sha256.New()
	h.Write([]byte("ingot software raid\x00" + id.Instance + "\x00"))
	h.Write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(id.Attempt)), n))
	uuid := [16]byte(h.Sum(nil))
	uuid[6], uuid[8] = uuid[6]&0x0f|0x80, uuid[8]&0x3f|0x80
	return uuid
}

// Seal writes the superblocks, which say that the first synced bytes of the array are the
// same on all members, and returns when they are durable and read back. What is said is
// rounded down, so that the kernel begins to copy where every disk has a sector begin.
func (m *Mirror) Seal(id Identity, synced int64) error {
	return m.each(func(i int, member Member) error {
		at := offset10(member.Size())
		s := Superblock{
			Array: id.uuid(0), Device: id.uuid(uint32(i) + 1), Name: ArrayName, Created: id.Created,
			Level: level1, Members: len(m.members), Role: i, Events: 1,
			DataBytes: m.size, SuperOffset: at, SyncedBytes: min(synced, m.size) / reserve * reserve,
		}
		want := s.encode()
		if _, err := member.WriteAt(want, at); err != nil {
			return fmt.Errorf("write the superblock: %w", err)
		}
		if err := errors.Join(member.Sync(), member.DropCache()); err != nil {
			return err
		}
		got := make([]byte, len(want))
		if _, err := member.ReadAt(got, at); err != nil {
			return fmt.Errorf("read back the superblock: %w", err)
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%w: the superblock is not what was written", ErrDiffers)
		}
		return nil
	})
}
