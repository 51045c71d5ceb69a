// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"strings"
	"sync"
	"testing"
)

// TestConsoleOutput covers repeated, extended, late and lost packets.
func TestConsoleOutput(t *testing.T) {
	type packet struct {
		sequence byte
		text     string
	}
	for _, tc := range []struct {
		name    string
		packets []packet
		want    string
	}{
		{"in order, with wraparound", []packet{{14, "a"}, {15, "b"}, {1, "c"}}, "abc"},
		{"repeated", []packet{{1, "a"}, {1, "a"}, {2, "b"}, {2, "b"}}, "ab"},
		{"repeated with more", []packet{{1, "a"}, {1, "abc"}, {2, "d"}}, "abcd"},
		{"older one repeated", []packet{{15, "a"}, {1, "b"}, {15, "a"}, {2, "c"}}, "abc"},
		{"gap", []packet{{1, "a"}, {4, "b"}}, "ab"},
		{"starts in the middle", []packet{{9, "a"}, {10, "b"}}, "ab"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &terminal{}
			c.changed = sync.NewCond(&c.mu)
			for _, p := range tc.packets {
				if took, room := c.take(p.sequence, []byte(p.text)); int(took) != len(p.text) || !room {
					t.Errorf("%d: took %d, room %v", p.sequence, took, room)
				}
			}
			if string(c.output) != tc.want {
				t.Errorf("%q, want %q", c.output, tc.want)
			}
		})
	}
	t.Run("no room", func(t *testing.T) {
		c := &terminal{output: []byte(strings.Repeat("x", maxOutput-1))}
		c.changed = sync.NewCond(&c.mu)
		if took, room := c.take(1, []byte("ab")); took != 0 || room || len(c.output) != maxOutput-1 {
			t.Errorf("took %d, room %v, %d bytes", took, room, len(c.output))
		}
	})
}
