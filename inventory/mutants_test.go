// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// mutant is a ladder with one guard taken away: a whole rule, or one condition of
// a rule.
type mutant struct {
	rule      string
	condition string // empty: the whole rule
	index     int
	leaf      bool
}

func (m mutant) String() string {
	if m.condition == "" {
		return m.rule
	}
	return m.rule + " without " + m.condition
}

// conditionName is the name of the method that is the condition.
func conditionName(condition any) string {
	full := runtime.FuncForPC(reflect.ValueOf(condition).Pointer()).Name()
	return full[strings.LastIndex(full, ".")+1:]
}

// mutants are all guards of a ladder.
func mutants[In, Out any](l rules[In, Out]) []mutant {
	seen := map[string]bool{}
	var list []mutant
	var visit func(rules[In, Out])
	visit = func(l rules[In, Out]) {
		for _, r := range l {
			if seen[r.name] {
				continue // a ladder that is used twice is mutated in both places
			}
			seen[r.name] = true
			list = append(list, mutant{rule: r.name, leaf: r.then != nil})
			for i, c := range r.when {
				list = append(list, mutant{rule: r.name, condition: conditionName(c), index: i})
			}
			visit(r.rules)
		}
	}
	visit(l)
	return list
}

// mutate returns the ladder without the guard.
func mutate[In, Out any](m mutant, l rules[In, Out]) rules[In, Out] {
	var out rules[In, Out]
	for _, r := range l {
		if r.name == m.rule && m.condition == "" {
			continue
		}
		if r.name == m.rule {
			r.when = slices.Delete(slices.Clone(r.when), m.index, m.index+1)
		}
		r.rules = mutate(m, r.rules)
		out = append(out, r)
	}
	return out
}

// harmOf walks once. A condition may guard what the rules below it read: that they
// crash without it is harm too.
func harmOf(l ladder, seed uint64) (harm string) {
	defer func() {
		if crash := recover(); crash != nil {
			harm = fmt.Sprint("crash: ", crash)
		}
	}()
	_, harm = walk(l, seed, 120, nil)
	return harm
}

// full says whether all cases are run (make test-full, INGOT_FULL); otherwise it is a sample
// by fixed strides, the same each time: all of them take minutes under the race detector.
func full() bool { return os.Getenv("INGOT_FULL") != "" }

// mutantsApart is the stride through the guards in the order of the ladder: rules and
// conditions of each of its groups are among those that are left, and the guards that a
// run does not take away are taken away by the full one.
func mutantsApart() int {
	if full() {
		return 1
	}
	return 4
}

// mutantWalks look for the harm of one guard less. Most harms are found by the first
// hundred walks, the rarest by some ten thousand.
const mutantWalks = 32000

// TestMutants takes every guard of Next away in turn: the walk has to fail.
func TestMutants(t *testing.T) {
	list := mutants(hostLadder())
	every := mutantsApart()
	for at := 0; at < len(list); at += every {
		m := list[at]
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			l := mutate(m, hostLadder())
			for seed := range uint64(mutantWalks) {
				if harm := harmOf(l, seed); harm != "" {
					return
				}
			}
			t.Errorf("%d walks found no harm in the ladder without this guard: either the walk is blind to it, or the guard is not needed", mutantWalks)
		})
	}
	t.Logf("mutants: %d guards, each %d. taken away in turn", len(list), every)
}
