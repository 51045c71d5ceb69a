// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// numbers is a ladder about a number, with a rule below another and one that no number
// comes to.
func numbers() Table[int, string] {
	type when = []func(int) bool
	above := func(least int) func(int) bool { return func(n int) bool { return n > least } }
	even := func(n int) bool { return n%2 == 0 }
	say := func(what string) func(int) string { return func(int) string { return what } }
	return Table[int, string]{
		{Name: "large", When: when{above(99)}, Rules: Table[int, string]{
			{Name: "large/even", When: when{even}, Then: say("large and even")},
			{Name: "large/larger", When: when{above(999), above(9999)}, Then: say("larger")},
		}},
		{Name: "even", When: when{even}, Then: say("even")},
		{Name: "even again", When: when{even}, Then: say("never")},
		{Name: "some", When: when{above(9)}, Then: say("some")},
	}
}

// The first rule whose conditions all hold decides. If the rules below it decide nothing, the next rules
// are evaluated.
func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name    string
		n       int
		says    string
		by      string
		decided bool
	}{
		{"the first that applies", 4, "even", "even", true},
		{"one below another", 100, "large and even", "large/even", true},
		{"all conditions", 10001, "larger", "large/larger", true},
		{"one of two conditions, then on", 1001, "some", "some", true},
		{"no rule", 7, "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			says, by, decided := numbers().Decide(c.n)
			if says != c.says || by != c.by || decided != c.decided {
				t.Errorf("%q by %q, %v; want %q by %q, %v", says, by, decided, c.says, c.by, c.decided)
			}
		})
	}
}

// A mutant lacks one rule or condition, and leaves the table unchanged.
func TestMutate(t *testing.T) {
	list := Mutants(numbers())
	if len(list) != 6+7 {
		t.Fatalf("%d guards: %v", len(list), list)
	}
	without := func(rule string, index int) (string, string) {
		at := slices.IndexFunc(list, func(m Mutant) bool {
			return m.Rule == rule && (m.Condition == "") == (index < 0) && m.index == max(index, 0)
		})
		if at < 0 {
			t.Fatalf("no guard %s, %d", rule, index)
		}
		l := numbers()
		_, by, _ := Mutate(list[at], l).Decide(1001)
		_, still, _ := l.Decide(1001)
		return by, still
	}
	got := map[string]string{}
	for name, c := range map[string]struct {
		rule  string
		index int
	}{"a rule": {"some", -1}, "a condition": {"even", 0}, "the second condition of a rule below": {"large/larger", 1}} {
		by, still := without(c.rule, c.index)
		if got[name] = by; still != "some" {
			t.Errorf("%s: the ladder itself has changed: %q", name, still)
		}
	}
	want := map[string]string{"a rule": "", "a condition": "even", "the second condition of a rule below": "large/larger"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("who decides without (-want +got):\n%s", diff)
	}
}
