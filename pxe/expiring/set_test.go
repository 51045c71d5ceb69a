// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package expiring

import (
	"testing"
	"time"
)

func TestSet(t *testing.T) {
	var s Set[int]
	now := time.Unix(0, 0)
	if _, there := s.Has(1, now); there || s.Len() != 0 {
		t.Error("the zero value has a member")
	}
	s.Remove(1)
	for i := range Max + 10 {
		s.Add(i, now, time.Minute)
	}
	if s.Len() != Max {
		t.Errorf("%d members, want at most %d", s.Len(), Max)
	}
	if s.Add(0, now, time.Minute) {
		t.Error("a member was taken in twice")
	}
	if until, there := s.Has(0, now.Add(time.Second)); !there || !until.Equal(now.Add(time.Minute)) {
		t.Errorf("the first member is there: %t, until %s", there, until)
	}
	if _, there := s.Has(Max+1, now); there {
		t.Error("a full set took somebody in")
	}
	s.Remove(1)
	if _, there := s.Has(1, now); there || s.Len() != Max-1 {
		t.Error("a member stayed that was taken out")
	}
	s.Add(1, now, time.Minute)
	// Once its members have left there is room again.
	now = now.Add(time.Minute)
	if !s.Add(Max+1, now, time.Minute) || s.Len() != 1 {
		t.Errorf("%d members after all have left", s.Len())
	}
	if _, there := s.Has(0, now); there {
		t.Error("a member stayed over its time")
	}
	if _, there := s.Has(Max+1, now.Add(time.Minute)); there || s.Len() != 0 {
		t.Error("a member stayed over its time that was looked for")
	}
}
