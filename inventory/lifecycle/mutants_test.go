// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"testing"

	"github.com/ingot-metal/ingot/inventory/rules"
	"github.com/ingot-metal/ingot/test/needs"
)

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

// mutantsApart is the stride through the guards in the order of the ladder: rules and
// conditions of each of its groups are among those that are left, and the guards that a
// run does not take away are taken away by the full one.
func mutantsApart() int {
	if needs.IsFull() {
		return 1
	}
	return 24
}

// mutantWalks look for the harm of one guard less. Most harms are found by the first
// hundred walks, the rarest by some ten thousand.
const mutantWalks = 32000

// TestMutants takes every guard of Next away in turn: the walk has to fail.
func TestMutants(t *testing.T) {
	list := rules.Mutants(hostLadder())
	every := mutantsApart()
	for at := 0; at < len(list); at += every {
		m := list[at]
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			l := rules.Mutate(m, hostLadder())
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
