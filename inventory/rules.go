// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

// rule is one rung of a ladder: when every condition holds it decides, either by
// itself (then) or by the rules below it. The first rule that decides wins, so
// each rule guards all that follow it; a test takes every rule, and every
// condition of every rule, away in turn and expects to see the harm.
type rule[In, Out any] struct {
	name  string
	when  []func(In) bool
	then  func(In) Out
	rules rules[In, Out]
}

// rules is a ladder: of a host's life (ladder.go), or of a remediation's
// (ladder_remedy.go).
type rules[In, Out any] []rule[In, Out]

// decide returns what the first rule that decides says, and the name of that rule;
// false: none decides.
func (l rules[In, Out]) decide(in In) (out Out, by string, decided bool) {
	for i := range l {
		r := &l[i]
		if !r.applies(in) {
			continue
		}
		if r.then != nil {
			return r.then(in), r.name, true
		}
		if out, by, decided = r.rules.decide(in); decided {
			return out, by, true
		}
	}
	return out, "", false
}

func (r *rule[In, Out]) applies(in In) bool {
	for _, holds := range r.when {
		if !holds(in) {
			return false
		}
	}
	return true
}
