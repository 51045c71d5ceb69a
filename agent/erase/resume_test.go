// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agentapi"
)

// memory is a disk that records where it was written.
type memory struct {
	content []byte
	body    []int64
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) { return copy(p, m.content[off:]), nil }

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	if off >= bodyFrom && len(p) > canarySize {
		m.body = append(m.body, off)
	}
	return copy(m.content[off:], p), nil
}

func (m *memory) Zero(int64, int64) error { return block.ErrNotSupported }
func (m *memory) Sync() error             { return nil }
func (m *memory) DropCache() error        { return nil }
func (m *memory) Size() int64             { return int64(len(m.content)) }
func (m *memory) Close() error            { return nil }

func TestOverwriteResumes(t *testing.T) {
	const size, done = 16 << 20, 8 << 20
	for _, c := range []struct {
		name string
		key  agentapi.Sensitive
		// cleared: the disk is zero up to the journal's byte.
		cleared bool
		from    int64
		err     error
	}{
		{name: "the same key", key: "secret", cleared: true, from: done},
		{name: "another key", key: "other", cleared: true, from: bodyFrom},
		{name: "no key", cleared: true, from: bodyFrom},
		{name: "a false journal", key: "secret", from: done, err: ErrNotErased},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := &memory{content: bytes.Repeat([]byte{0xa5}, size)}
			before := &eraser{Target: Target{Device: disk, JournalKey: "secret"}, size: size}
			if err := before.writeJournal(done); err != nil {
				t.Fatal(err)
			}
			if c.cleared {
				clear(disk.content[bodyFrom:done])
			}
			result, err := Disk(t.Context(), Target{
				Device: disk, Commands: None{}, JournalKey: c.key, Disk: agentapi.Disk{Name: "/dev/sda", Rotational: true},
			}, Options{})
			if !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			if len(disk.body) == 0 || disk.body[0] != c.from {
				t.Errorf("written from %v on, want %d", disk.body, c.from)
			}
			if err != nil {
				return
			}
			if resumed := strings.Contains(result.Failed, "an earlier boot started to overwrite"); resumed != (c.from == done) {
				t.Errorf("%+v", result)
			}
			if !block.IsZero(disk.content[:reservedFrom]) || !block.IsZero(disk.content[reservedTo:]) {
				t.Error("the disk is not completely zero")
			}
			if c.key == "secret" && before.resumeFrom() != 0 {
				t.Error("the journal is still there")
			}
		})
	}
}

// The previously installed system knows the disk and may write a journal, but not the key.
func TestForgedJournalIsIgnored(t *testing.T) {
	const size = 16 << 20
	asked := Target{Commands: None{}, JournalKey: "secret", Disk: agentapi.Disk{Name: "/dev/sda", Serial: "S1", WWN: "0x1", Rotational: true}}
	for name, forge := range map[string]func(e *eraser) []byte{
		"a key of one's own":   func(e *eraser) []byte { e.JournalKey = "instance"; return e.journal(size) },
		"no key":               func(e *eraser) []byte { e.JournalKey = ""; return e.journal(size) },
		"that of another disk": func(e *eraser) []byte { e.Target.Disk.Serial = "S2"; return e.journal(size) },
		"a sum without a key": func(e *eraser) []byte {
			b := e.journal(size)
			sum := sha256.Sum256(b[:24])
			copy(b[24:], sum[:])
			return b
		},
		"the bytes before, further on": func(e *eraser) []byte {
			b := e.journal(8 << 20)
			binary.BigEndian.PutUint64(b[16:], size)
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := &memory{content: bytes.Repeat([]byte{0xa5}, size)}
			target := asked
			target.Device = disk
			tenant := &eraser{Target: target, size: size}
			for _, off := range tenant.places(0) { // where the verification reads
				clear(disk.content[off : off+canarySize])
			}
			copy(disk.content[JournalOffset:], forge(tenant))
			result, err := Disk(t.Context(), target, Options{})
			if err != nil || result.Method != Overwrite || result.Failed != "" {
				t.Fatalf("%+v, %v", result, err)
			}
			if !block.IsZero(disk.content[:reservedFrom]) || !block.IsZero(disk.content[reservedTo:]) {
				t.Error("the disk counts as erased but still has old content")
			}
		})
	}
}
