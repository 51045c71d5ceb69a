// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
)

func TestEraseLimit(t *testing.T) {
	const week = 7 * 24 * time.Hour
	for _, c := range []struct {
		name       string
		word       uint16
		size       int64
		rotational bool
		want       time.Duration
	}{
		{"flash without estimate", 0, 4e12, false, 2 * time.Hour},
		{"flash, two minutes", 1, 4e12, false, 2 * time.Hour},
		{"rotating, ten hours", 1<<15 | 300, 1e12, true, 20 * time.Hour},
		{"rotating, without estimate", 0, 8e12, true, 400000 * time.Second},
		{"rotating, more than 508 minutes", 255, 8e12, true, 400000 * time.Second},
		{"rotating, more than 65,532 minutes", 0xffff, 8e12, true, week},
		{"very large", 0, 1e15, true, week},
		{"small, without estimate", 0, 1e9, true, 2 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := eraseLimit(eraseTime(c.word), c.size, c.rotational); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// slow is a disk whose large writes take time.
type slow struct {
	memory
	now  time.Time
	each time.Duration
}

func (s *slow) WriteAt(p []byte, off int64) (int, error) {
	if len(p) > canarySize {
		s.now = s.now.Add(s.each)
	}
	return s.memory.WriteAt(p, off)
}

// A dying disk fails instead of occupying its host for years.
func TestSlowDiskIsGivenUp(t *testing.T) {
	for _, c := range []struct {
		name string
		each time.Duration
		err  error
	}{
		{"slow at first", 29 * time.Minute, nil},
		{"dying", time.Hour, ErrNotErased},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := &slow{memory: memory{content: bytes.Repeat([]byte{0xa5}, 16<<20)}, each: c.each}
			_, err := Disk(t.Context(), Target{Device: disk, Commands: None{}, Disk: agentapi.Disk{Name: "/dev/sda", Rotational: true}},
				Options{Now: func() time.Time { return disk.now }})
			if !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), "MB/s") {
				t.Errorf("error %v, want %v", err, c.err)
			}
		})
	}
}

func TestRateCheck(t *testing.T) {
	for _, c := range []struct {
		took time.Duration
		done int64
		ok   bool
	}{
		{2 * time.Hour, 0, true},
		{2*time.Hour + time.Second, 0, false},
		{3 * time.Hour, 36e9, true},
		{3*time.Hour + time.Second, 36e9, false},
		{30 * 24 * time.Hour, 30e12, true},
	} {
		began := time.Unix(0, 0)
		p := rate{start: began, now: func() time.Time { return began.Add(c.took) }}
		if err := p.check(c.done); (err == nil) != c.ok {
			t.Errorf("%d bytes in %s: %v", c.done, c.took, err)
		}
	}
}
