// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/ingot-metal/ingot/inventory/rules"
	"github.com/ingot-metal/ingot/test/needs"
)

var update = flag.Bool("update", false, "write the seeds of the walks that find mutants")

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

// mutantWalks is the maximum number of walks per mutant. Most fail within a hundred walks, the
// rarest within some ten thousand.
const mutantWalks = 32000

// seedsFile records for each mutant the first walk that fails, so that most runs need one walk per
// mutant. A change of the rules or of the walk outdates some lines.
const seedsFile = "testdata/mutants.txt"

func recordedSeeds(t *testing.T) map[string]uint64 {
	t.Helper()
	seeds := map[string]uint64{}
	data, err := os.ReadFile(seedsFile)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(strings.NewReader(string(data)))
	for lines.Scan() {
		var seed uint64
		before, name, ok := strings.Cut(lines.Text(), " ")
		if _, err := fmt.Sscan(before, &seed); err != nil || !ok {
			t.Fatalf("%s: line %q is not a seed and a name", seedsFile, lines.Text())
		}
		seeds[name] = seed
	}
	return seeds
}

// firstHarm returns the first seed whose walk fails, or mutantWalks.
func firstHarm(l ruleTable) uint64 {
	for seed := range uint64(mutantWalks) {
		if harmOf(l, seed) != "" {
			return seed
		}
	}
	return mutantWalks
}

// TestMutants removes each rule and each condition of Next in turn. A walk must then fail. The walk
// with the recorded seed comes first; with INGOT_FULL all walks run in order, as if none was recorded.
func TestMutants(t *testing.T) {
	list := rules.Mutants(hostRules())
	recorded := map[string]uint64{}
	if !*update && !needs.IsFull() {
		recorded = recordedSeeds(t)
	}
	var mu sync.Mutex
	found, outdated := map[string]uint64{}, 0
	t.Run("each", func(t *testing.T) {
		for _, m := range list {
			t.Run(m.String(), func(t *testing.T) {
				t.Parallel()
				l := rules.Mutate(m, hostRules())
				seed, known := recorded[m.String()]
				if known && harmOf(l, seed) != "" {
					return
				}
				seed = firstHarm(l)
				if seed == mutantWalks {
					t.Errorf("%d walks pass without this rule or condition: either the walks do not test it, or it is not needed", mutantWalks)
				}
				mu.Lock()
				defer mu.Unlock()
				found[m.String()] = seed
				outdated++
			})
		}
	})
	t.Logf("mutants: %d rules and conditions removed, %d without a recorded walk", len(list), outdated)
	switch {
	case *update:
		var lines strings.Builder
		for _, m := range list {
			fmt.Fprintf(&lines, "%d %s\n", found[m.String()], m)
		}
		if err := os.WriteFile(seedsFile, []byte(lines.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	case !needs.IsFull() && outdated > len(list)/4:
		t.Errorf("%d of %d recorded walks no longer fail: run go test ./inventory/lifecycle -run TestMutants -update", outdated, len(list))
	}
}
