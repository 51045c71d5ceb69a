// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

// Rule is one row of a Table. If all its conditions hold, either Then decides or the rules
// below it do. The first rule that decides wins, so each rule guards those that follow it.
type Rule[In, Out any] struct {
	Name  string
	When  []func(In) bool
	Then  func(In) Out
	Rules Table[In, Out]
}

// Table is an ordered list of rules.
type Table[In, Out any] []Rule[In, Out]

// Decide returns the decision of the first rule that decides, and the name of that rule.
// If no rule decides, decided is false.
func (l Table[In, Out]) Decide(in In) (out Out, by string, decided bool) {
	for i := range l {
		r := &l[i]
		if !r.Applies(in) {
			continue
		}
		if r.Then != nil {
			return r.Then(in), r.Name, true
		}
		if out, by, decided = r.Rules.Decide(in); decided {
			return out, by, true
		}
	}
	return out, "", false
}

// Applies reports whether all conditions of the rule hold.
func (r *Rule[In, Out]) Applies(in In) bool {
	for _, holds := range r.When {
		if !holds(in) {
			return false
		}
	}
	return true
}
