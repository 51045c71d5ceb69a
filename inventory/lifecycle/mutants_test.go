// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"testing"

	"github.com/ingot-metal/ingot/inventory/rules"
	"github.com/ingot-metal/ingot/test/needs"
)

// harmOf runs one walk. A crash is a violation too, because a condition may protect the rules
// below it.
func harmOf(l ruleTable, seed uint64) (harm string) {
	defer func() {
		if crash := recover(); crash != nil {
			harm = fmt.Sprint("crash: ", crash)
		}
	}()
	_, harm = walk(l, seed, 120, nil)
	return harm
}

// mutantsApart is the stride through the rules and conditions. A sample has some of each group.
func mutantsApart() int {
	if needs.IsFull() {
		return 1
	}
	return 24
}

// mutantWalks is the maximum number of walks per mutant. Most fail within a hundred walks, the
// rarest within some ten thousand.
const mutantWalks = 32000

// TestMutants removes each rule and each condition of Next in turn. A walk must then fail.
func TestMutants(t *testing.T) {
	list := rules.Mutants(hostRules())
	every := mutantsApart()
	for at := 0; at < len(list); at += every {
		m := list[at]
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			l := rules.Mutate(m, hostRules())
			for seed := range uint64(mutantWalks) {
				if harm := harmOf(l, seed); harm != "" {
					return
				}
			}
			t.Errorf("%d walks pass without this rule or condition: either the walks do not test it, or it is not needed", mutantWalks)
		})
	}
	t.Logf("mutants: %d rules and conditions, every %dth removed", len(list), every)
}
