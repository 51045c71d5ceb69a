// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Nothing is missing from the list, nothing is there twice, and everything that a
// machine can check comes with a fixture that breaks it.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, rule := range Rules() {
		if seen[rule.ID] {
			t.Errorf("%s is there twice", rule.ID)
		}
		seen[rule.ID] = true
		if rule.Text == "" || rule.Source == "" || rule.Level == "" || rule.Tag == "" {
			t.Errorf("%s: text, source, level or tag is missing", rule.ID)
		}
		if (rule.Check == nil) != (rule.Break == nil) || (rule.Live == nil) != (rule.BreakRun == nil) {
			t.Errorf("%s: a check without a broken fixture, or a fixture without a check", rule.ID)
		}
		kept := rule.Check != nil || rule.Live != nil
		if ways := count(kept, rule.Document != ""); ways != 1 {
			t.Errorf("%s: is kept in %d ways", rule.ID, ways)
		}
	}
	for _, id := range wanted() {
		if !seen[id] {
			t.Errorf("%s is not in the list", id)
		}
		delete(seen, id)
	}
	for id := range seen {
		t.Errorf("%s is not a rule of any document", id)
	}
}

func count(facts ...bool) int {
	n := 0
	for _, fact := range facts {
		if fact {
			n++
		}
	}
	return n
}

// All checks of runs hold for the good run, and for a run that one rule is broken
// in exactly the check of that rule fails.
func TestBrokenRuns(t *testing.T) {
	good := goodRun()
	if failed := brokenBy(good); len(failed) > 0 {
		t.Fatalf("the good run breaks rules: %v", failed)
	}
	for _, rule := range Rules() {
		if rule.Live == nil {
			continue
		}
		t.Run(rule.ID, func(t *testing.T) {
			broken := good.Clone()
			rule.BreakRun(broken)
			failed := brokenBy(broken)
			ids := make([]string, 0, len(failed))
			for id := range failed {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			if diff := cmp.Diff([]string{rule.ID}, ids); diff != "" {
				t.Errorf("rules that fail (-want +got):\n%s%v", diff, failed)
			}
		})
	}
	if failed := brokenBy(good); len(failed) > 0 {
		t.Errorf("breaking a copy broke the original: %v", failed)
	}
}

// An empty run proves nothing: every check of a run fails on it.
func TestEmptyRun(t *testing.T) {
	for _, rule := range Rules() {
		if rule.Live != nil && rule.Live(&Run{}) == nil {
			t.Errorf("%s holds for a run in which nothing happened", rule.ID)
		}
	}
}

func brokenBy(r *Run) map[string]error {
	failed := map[string]error{}
	for _, rule := range Rules() {
		if rule.Live == nil {
			continue
		}
		if err := rule.Live(r); err != nil {
			failed[rule.ID] = err
		}
	}
	return failed
}
