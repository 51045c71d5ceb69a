// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agentapi"
)

// memory is a disk that remembers where it was written.
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

func TestOverwriteGoesOn(t *testing.T) {
	const size, done = 16 << 20, 8 << 20
	for _, c := range []struct {
		name  string
		owner string
		// cleared: what the journal says is true.
		cleared bool
		from    int64
		err     error
	}{
		{name: "the same owner", owner: "instance", cleared: true, from: done},
		{name: "another owner", owner: "other", cleared: true, from: bodyFrom},
		{name: "no owner", owner: "", cleared: true, from: bodyFrom},
		{name: "a journal that is not true", owner: "instance", from: done, err: ErrNotErased},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := &memory{content: bytes.Repeat([]byte{0xa5}, size)}
			before := &eraser{Target: Target{Device: disk, Owner: "instance"}, size: size}
			if err := before.note(done); err != nil {
				t.Fatal(err)
			}
			if c.cleared {
				clear(disk.content[bodyFrom:done])
			}
			result, err := Disk(t.Context(), Target{
				Device: disk, Commands: None{}, Owner: c.owner, Disk: agentapi.Disk{Name: "/dev/sda", Rotational: true},
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
			if wentOn := strings.Contains(result.Failed, "before this boot"); wentOn != (c.from == done) {
				t.Errorf("%+v", result)
			}
			if !block.IsZero(disk.content[:reservedFrom]) || !block.IsZero(disk.content[reservedTo:]) {
				t.Error("not all of it is zero")
			}
			if c.owner == "instance" && before.resumeFrom() != 0 {
				t.Error("the journal is still there")
			}
		})
	}
}
