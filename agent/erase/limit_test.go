// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase

import (
	"testing"
	"time"
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
		{"flash that says nothing", 0, 4e12, false, 2 * time.Hour},
		{"flash that says two minutes", 1, 4e12, false, 2 * time.Hour},
		{"spinning, that says ten hours", 1<<15 | 300, 1e12, true, 20 * time.Hour},
		{"spinning, that says nothing", 0, 8e12, true, 400000 * time.Second},
		{"spinning, that says more than 508 minutes", 255, 8e12, true, 400000 * time.Second},
		{"spinning, that says more than 65,532 minutes", 0xffff, 8e12, true, week},
		{"larger than any", 0, 1e15, true, week},
		{"small and silent", 0, 1e9, true, 2 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := eraseLimit(eraseTime(c.word), c.size, c.rotational); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
