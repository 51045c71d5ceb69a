// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/needs"
)

// Plans with a shared index equal plans from the list, and the index is bounded.
func TestHostIndexPlansLikeTheList(t *testing.T) {
	satisfied, blocked := 0, 0
	for seed := range needs.Sample(400) {
		r := rand.New(rand.NewPCG(seed, 9))
		l := randomLot(r)
		index := NewHostIndex("metal", l.snapshot.Candidates)
		for step := range 12 {
			other := randomLot(r)
			l.request, l.snapshot.Reservations = other.request, other.snapshot.Reservations
			if r.IntN(3) == 0 {
				l.snapshot.Machines = []infrav1.IngotMachine{worker("mine", "a", fmt.Sprintf("h%d", r.IntN(8)))}
			}
			shared := l.snapshot
			shared.Index = index
			for range 2 {
				want, err := PlanReservation(l.request, l.snapshot)
				got, indexErr := PlanReservation(l.request, shared)
				if err != nil || indexErr != nil {
					t.Fatalf("seed %d: %v, %v", seed, err, indexErr)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("seed %d, step %d (-list +index):\n%s", seed, step, diff)
				}
				if want.Satisfied {
					satisfied++
				} else {
					blocked++
				}
			}
		}
		if n := len(index.sorted); n > maxSorted {
			t.Fatalf("seed %d: the index keeps %d sets of groups", seed, n)
		}
	}
	if satisfied < 500 || blocked < 500 {
		t.Errorf("%d satisfied, %d blocked: the lots are one-sided", satisfied, blocked)
	}
}
