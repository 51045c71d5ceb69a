// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"reflect"
	"runtime"
	"slices"
	"strings"
)

// Mutant names what is removed from a Table: a rule, or one condition of a rule.
type Mutant struct {
	Rule      string
	Condition string // empty: the whole rule
	index     int
	Leaf      bool
}

func (m Mutant) String() string {
	if m.Condition == "" {
		return m.Rule
	}
	return m.Rule + " without " + m.Condition
}

// conditionName is the name of the method that is the condition.
func conditionName(condition any) string {
	full := runtime.FuncForPC(reflect.ValueOf(condition).Pointer()).Name()
	return full[strings.LastIndex(full, ".")+1:]
}

// Mutants returns one Mutant for each rule and each condition of a table.
func Mutants[In, Out any](l Table[In, Out]) []Mutant {
	seen := map[string]bool{}
	var list []Mutant
	var visit func(Table[In, Out])
	visit = func(l Table[In, Out]) {
		for _, r := range l {
			if seen[r.Name] {
				continue // a table that is used twice is mutated in both places
			}
			seen[r.Name] = true
			list = append(list, Mutant{Rule: r.Name, Leaf: r.Then != nil})
			for i, c := range r.When {
				list = append(list, Mutant{Rule: r.Name, Condition: conditionName(c), index: i})
			}
			visit(r.Rules)
		}
	}
	visit(l)
	return list
}

// Mutate returns the table without what the Mutant names.
func Mutate[In, Out any](m Mutant, l Table[In, Out]) Table[In, Out] {
	var out Table[In, Out]
	for _, r := range l {
		if r.Name == m.Rule && m.Condition == "" {
			continue
		}
		if r.Name == m.Rule {
			r.When = slices.Delete(slices.Clone(r.When), m.index, m.index+1)
		}
		r.Rules = Mutate(m, r.Rules)
		out = append(out, r)
	}
	return out
}
