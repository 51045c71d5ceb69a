// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ingot-metal/ingot/test/needs"
)

// TestBrokenReleases breaks each rule in a copy of what is shipped: the check of the rule fails. With
// INGOT_FULL it also demands that no other check fails, which takes minutes.
func TestBrokenReleases(t *testing.T) {
	shipped := shipOnce(t)
	today := breaches(shipped)
	for _, rule := range Rules() {
		if rule.Check == nil {
			continue
		}
		t.Run(rule.ID, func(t *testing.T) {
			broken := shipped.Clone()
			rule.Break(broken)
			if rule.Check(broken) == nil {
				t.Fatal("the check holds for a release that breaks the rule")
			}
			if !needs.IsFull() {
				return
			}
			got := breaches(broken)
			want := maps.Clone(today)
			want[rule.ID] = nil
			if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("rules that fail (-want +got):\n%s%v", diff, got)
			}
		})
	}
	if len(breaches(shipped)) != len(today) {
		t.Error("breaking a copy broke the original")
	}
	for id, err := range today {
		t.Errorf("%s: %v", id, err)
	}
}

func breaches(s *Shipped) map[string]error {
	failed := map[string]error{}
	for _, rule := range Rules() {
		if rule.Check == nil {
			continue
		}
		if err := rule.Check(s); err != nil {
			failed[rule.ID] = err
		}
	}
	return failed
}
