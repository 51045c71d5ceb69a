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
	// ErrMembers reports disks that cannot form one mirror.
	ErrMembers = errors.New("the disks cannot form one mirror")
	// ErrDiffers reports that two members return different data.
	ErrDiffers = errors.New("the members of the mirror differ")
)

const (
	// ArrayName is the name of the array below /dev/md in the installed system. The host part
	// is "any", since mdadm would add a number to an array of another host.
	ArrayName = "any:ingot-root"
	// reserve is the minimum free space after the data: superblock, and room for a bitmap that
	// an operator may add (mdadm --grow --bitmap=internal, at most 128 KiB). The size of the
	// array is a multiple of it.
	reserve = 1 << 20
	step    = 4 << 20
)

// Member is an open disk and its name for errors.
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

// New makes a mirror of open disks with the size that fits on the smallest. It fails with
// ErrMembers and writes nothing.
func New(members []Member) (*Mirror, error) {
	if len(members) < 2 {
		return nil, fmt.Errorf("%w: %d disks, the minimum is 2", ErrMembers, len(members))
	}
	first := members[0]
	smallest := first.Size()
	for _, m := range members[1:] {
		smallest = min(smallest, m.Size())
		if a, b := block.SectorSize(first.Device), block.SectorSize(m.Device); a > 0 && b > 0 && a != b {
			return nil, fmt.Errorf("%w: %s has sectors of %d bytes, %s of %d; choose disks with equal sectors",
				ErrMembers, first.Name, a, m.Name, b)
		}
	}
	size := (smallest - reserve) / reserve * reserve
	if size <= 0 {
		return nil, fmt.Errorf("%w: the smallest disk has only %d bytes", ErrMembers, smallest)
	}
	return &Mirror{members: members, size: size}, nil
}

// each calls do for every member in parallel. Errors name the member.
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

// Size implements block.Device. It is the size of the array.
func (m *Mirror) Size() int64 { return m.size }

// SectorSize is the sector size of the members, which New has compared; 0: unknown.
func (m *Mirror) SectorSize() int {
	for _, member := range m.members {
		if n := block.SectorSize(member.Device); n > 0 {
			return n
		}
	}
	return 0
}

// within fails for a write behind the array's end, where members have their superblocks.
func (m *Mirror) within(off, n int64) error {
	if off < 0 || off+n > m.size {
		return fmt.Errorf("write %d bytes at %d: the array ends at %d", n, off, m.size)
	}
	return nil
}

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

// ReadAt implements block.Device. It reads all members and fails with ErrDiffers if their
// data differs.
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

func (m *Mirror) buffers(n int) [][]byte {
	out := make([][]byte, len(m.members))
	for i := range out {
		out[i] = make([]byte, n)
	}
	return out
}

// readAll reads the same range of each member.
func (m *Mirror) readAll(read [][]byte, off int64) error {
	return m.each(func(i int, member Member) error {
		_, err := member.ReadAt(read[i], off)
		return err
	})
}

// Zero implements block.Device. If one member does not support it, others may be zeroed.
func (m *Mirror) Zero(off, n int64) error {
	if err := m.within(off, n); err != nil {
		return err
	}
	err := m.each(func(_ int, member Member) error { return member.Zero(off, n) })
	if errors.Is(err, block.ErrNotSupported) {
		return block.ErrNotSupported // the caller then writes zeroes to all
	}
	return err
}

func (m *Mirror) Sync() error {
	return m.each(func(_ int, member Member) error { return member.Sync() })
}

// DropCache implements block.Device.
func (m *Mirror) DropCache() error {
	return m.each(func(_ int, member Member) error { return member.DropCache() })
}

func (m *Mirror) Close() error {
	return m.each(func(_ int, member Member) error { return member.Close() })
}

// ClearTails removes signatures behind the array at the end of each member: superblocks of old
// arrays, second partition tables.
func (m *Mirror) ClearTails(ctx context.Context) error {
	return m.each(func(_ int, member Member) error {
		off := max(m.size, member.Size()-2*reserve)
		return block.Zero(ctx, member, off, member.Size()-off)
	})
}

// Match copies differences in the first upTo bytes from the first member to the others, reads
// the copies back, and returns the number of bytes copied. onProgress, if not nil, gets the
// number of bytes compared. The context's end stops Match with its cause.
func (m *Mirror) Match(ctx context.Context, upTo int64, onProgress func(done int64)) (copied int64, err error) {
	// The disks' caches lack data that was written through mounted file systems.
	if err := block.Flush(m); err != nil {
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
		if onProgress != nil {
			onProgress(off + n)
		}
	}
	if err := block.Flush(m); err != nil {
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

// copyAt copies a range with the length of the buffers from the first member to those that
// differ, and reports whether one did.
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

// Identity identifies an array. Each attempt to install makes its own, so that a disk of an
// earlier attempt is never taken for a member.
type Identity struct {
	Instance string
	Attempt  int32
	// Created is shown by mdadm, without other effect.
	Created time.Time
}

// uuid returns a hash-based UUID (RFC 9562, section 5.8) of the array (0) or its n-th member.
func (id Identity) uuid(n uint32) [16]byte {
	h := sha256.New()
	h.Write([]byte("ingot software raid\x00" + id.Instance + "\x00"))
	h.Write(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(id.Attempt)), n))
	uuid := [16]byte(h.Sum(nil))
	uuid[6], uuid[8] = uuid[6]&0x0f|0x80, uuid[8]&0x3f|0x80
	return uuid
}

// Seal writes the superblocks, which declare the first synced bytes as equal on all members.
// It returns when they are durable and read back. It rounds synced down, so that the kernel's
// copy starts at a sector boundary of every disk.
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
		if err := block.Flush(member); err != nil {
			return err
		}
		got := make([]byte, len(want))
		if _, err := member.ReadAt(got, at); err != nil {
			return fmt.Errorf("read back the superblock: %w", err)
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%w: the superblock differs from what was written", ErrDiffers)
		}
		return nil
	})
}
