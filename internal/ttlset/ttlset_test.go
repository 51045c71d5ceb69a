// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ttlset

import (
	"slices"
	"testing"
	"time"
)

func TestSet(t *testing.T) {
	var s Set[int]
	now := time.Unix(0, 0)
	if _, there := s.Has(1, now); there || s.Len() != 0 {
		t.Error("the zero value has a member")
	}
	s.Delete(1)
	for i := range DefaultMax + 10 {
		s.Add(i, now, time.Minute)
	}
	if s.Len() != DefaultMax {
		t.Errorf("%d members, want at most %d", s.Len(), DefaultMax)
	}
	if s.Add(0, now, time.Minute) {
		t.Error("a member was taken in twice")
	}
	if until, there := s.Has(0, now.Add(time.Second)); !there || !until.Equal(now.Add(time.Minute)) {
		t.Errorf("the first member is there: %t, until %s", there, until)
	}
	if _, there := s.Has(DefaultMax+1, now); there {
		t.Error("a full set took somebody in")
	}
	s.Delete(1)
	if _, there := s.Has(1, now); there || s.Len() != DefaultMax-1 {
		t.Error("a member stayed that was taken out")
	}
	s.Add(1, now, time.Minute)
	// Once its members have left there is room again.
	now = now.Add(time.Minute)
	if !s.Add(DefaultMax+1, now, time.Minute) || s.Len() != 1 {
		t.Errorf("%d members after all have left", s.Len())
	}
	if _, there := s.Has(0, now); there {
		t.Error("a member stayed over its time")
	}
	if _, there := s.Has(DefaultMax+1, now.Add(time.Minute)); there || s.Len() != 0 {
		t.Error("a member stayed over its time that was looked for")
	}
}

// TestMapReplacesAndIsBounded: a Map keeps the last value of a key, and takes no more keys
// than its bound until some expire.
func TestMapReplacesAndIsBounded(t *testing.T) {
	m := Map[string, int]{Max: 2}
	now := time.Unix(0, 0)
	got := []bool{
		m.Put("a", 1, now, time.Minute), m.Put("b", 2, now, time.Hour), m.Put("c", 3, now, time.Hour),
		m.Put("a", 4, now, time.Minute), m.Add("a", 5, now, time.Hour), m.Add("c", 6, now, time.Hour),
	}
	if want := []bool{true, true, false, true, false, true}; !slices.Equal(got, want) {
		t.Errorf("stored %t, want %t", got, want)
	}
	if value, until, ok := m.Get("a", now); !ok || value != 4 || !until.Equal(now.Add(time.Minute)) {
		t.Errorf("got %d until %s, %t, want 4", value, until, ok)
	}
	if _, _, ok := m.Get("c", now); ok {
		t.Error("a full map stored a value")
	}
	now = now.Add(time.Minute)
	if value, _, ok := m.Get("a", now); ok || value != 0 {
		t.Errorf("got %d after it expired", value)
	}
	if !m.Put("c", 7, now, time.Hour) || m.Len() != 2 {
		t.Errorf("%d entries, want 2", m.Len())
	}
}
