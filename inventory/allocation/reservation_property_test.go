// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/test/needs"
)

// lot is a small random inventory with promises and a demand.
type lot struct {
	snapshot Snapshot
	request  PlanRequest
}

func randomLot(r *rand.Rand) lot {
	racks := []string{"r1", "r2", "r3"}
	var l lot
	l.snapshot.Now = promisedAt
	for i := range 1 + r.IntN(7) {
		c := candidate(fmt.Sprintf("h%d", i), racks[r.IntN(3)])
		c.Hardware.Spec.MemoryBytes = int64(64<<r.IntN(2)) << 30
		if r.IntN(2) == 0 {
			c.Host.Spec.BootMethod, c.Host.Spec.BMC = verified("").Host.Spec.BootMethod, verified("").Host.Spec.BMC
		}
		switch r.IntN(8) {
		case 0:
			c.Host.Spec.Claim = claimOf(infrav1.ClaimProvisioned)
		case 1:
			c.Host.Spec.Record.LastClusterName = "mine"
		}
		l.snapshot.Candidates = append(l.snapshot.Candidates, c)
	}
	group := func(name string) infrav1.ReservedGroup {
		g := infrav1.ReservedGroup{Name: name, Count: int32(1 + r.IntN(3))}
		for _, rack := range racks {
			if r.IntN(3) == 0 {
				g.FailureDomains = append(g.FailureDomains, rack)
			}
		}
		if r.IntN(3) == 0 {
			g.HostSelector = &infrav1.HostSelector{Minimum: &infrav1.HardwareMinimum{Memory: new(resource.MustParse("128Gi"))}}
		}
		return g
	}
	for c := range r.IntN(3) {
		l.snapshot.Reservations = append(l.snapshot.Reservations, reservation(fmt.Sprintf("other%d", c), group("a"), group("b")))
	}
	for i := range l.snapshot.Reservations {
		l.snapshot.Reservations[i].Spec.BootTrust = someTrust(r)
		if r.IntN(3) == 0 {
			l.snapshot.Reservations[i].Spec.Purpose = infrav1.ReservationUpgrade
		}
	}
	for i := range 1 + r.IntN(2) {
		g := group(string(rune('a' + i)))
		l.request = demand(append(l.request.Demand.Groups, DemandGroup{
			Name: g.Name, Count: int(g.Count), FailureDomains: g.FailureDomains, Template: infrav1.IngotMachineSpec{HostSelector: g.HostSelector},
		})...)
	}
	l.request.Cluster.BootTrust = someTrust(r)
	return l
}

func someTrust(r *rand.Rand) infrav1.BootTrust {
	return []infrav1.BootTrust{"", infrav1.BootTrustNetwork, infrav1.BootTrustVerified}[r.IntN(3)]
}

// unit is one machine that needs a host; suits holds the hosts that would do.
type unit struct{ suits []bool }

// units lists the machines of groups, one by one, and what suits them by the slow way.
func units(groups []group, candidates []Candidate) []unit {
	var list []unit
	for i := range groups {
		suits := make([]bool, len(candidates))
		for h, c := range candidates {
			ok, _ := lifecycle.IsClaimable(c.Host)
			suits[h] = ok && groups[i].suits(c)
		}
		for range groups[i].need {
			list = append(list, unit{suits: suits})
		}
	}
	return list
}

// most is the greatest number of machines that can have a host, found by trying all.
func most(list []unit, taken []bool) int {
	if len(list) == 0 {
		return 0
	}
	best := most(list[1:], taken) // the first goes without
	for h := range taken {
		if list[0].suits[h] && !taken[h] {
			taken[h] = true
			best = max(best, 1+most(list[1:], taken))
			taken[h] = false
		}
		if best == len(list) {
			break
		}
	}
	return best
}

func allGroups(t *testing.T, l lot, needs []int, spec *infrav1.IngotReservationSpec) (others, own []group) {
	t.Helper()
	for _, p := range Outstanding(l.snapshot, HoldsHost) {
		others = append(others, p.groups(asking{})...)
	}
	for i, g := range spec.Groups {
		made, err := asking{}.group("mine", spec, g, needs[i])
		if err != nil {
			t.Fatal(err)
		}
		own = append(own, made)
	}
	return others, own
}

// The plan equals that of a brute-force search, in any order of the hosts.
func TestPlanPromiseAgainstBruteForce(t *testing.T) {
	satisfied, blocked := 0, 0
	for seed := range needs.Sample(1500) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := randomLot(r)
		plan, err := PlanReservation(l.request, l.snapshot)
		if err != nil {
			t.Fatal(err)
		}
		others, own := allGroups(t, l, l.request.needs(l.snapshot), &plan.Reservation)
		free := make([]bool, len(l.snapshot.Candidates))
		kept := most(units(others, l.snapshot.Candidates), free)
		all := append(units(others, l.snapshot.Candidates), units(own, l.snapshot.Candidates)...)
		missing := len(units(own, l.snapshot.Candidates)) - (most(all, free) - kept)
		got := 0
		for _, s := range plan.Missing {
			got += s.Missing
		}
		if got != missing || plan.Satisfied != (missing == 0) {
			t.Fatalf("seed %d: %d hosts are missing, satisfied %v; trying all finds %d", seed, got, plan.Satisfied, missing)
		}
		r.Shuffle(len(l.snapshot.Candidates), func(i, j int) {
			l.snapshot.Candidates[i], l.snapshot.Candidates[j] = l.snapshot.Candidates[j], l.snapshot.Candidates[i]
		})
		again, err := PlanReservation(l.request, l.snapshot)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plan, again); diff != "" {
			t.Fatalf("seed %d: the plan depends on the order of the hosts:\n%s", seed, diff)
		}
		if plan.Satisfied {
			satisfied++
		} else {
			blocked++
		}
	}
	if least := int(needs.Sample(100)); satisfied < least || blocked < least {
		t.Errorf("%d satisfied, %d blocked: the lots are one-sided", satisfied, blocked)
	}
}

// goWithout counts, by trying all, the machines of groups that go without a host: now, and
// once the machine of the group own has the host h.
func goWithout(groups []group, own, h int, candidates []Candidate) (before, after int) {
	taken := make([]bool, len(candidates))
	all := units(groups, candidates)
	before = len(all) - most(all, taken)
	then := slices.Clone(groups)
	if own >= 0 {
		then[own].need--
	}
	taken[h] = true
	rest := units(then, candidates)
	return before, len(rest) - most(rest, taken)
}

// The guard refuses a host exactly if more reserved machines lack a host without it: of all
// reservations, or of those for upgrades.
func TestReservationGuardAgainstBruteForce(t *testing.T) {
	allowed, refused, forUpgrades := 0, 0, 0
	for seed := range needs.Sample(1500) {
		r := rand.New(rand.NewPCG(seed, 2))
		l := randomLot(r)
		machine := worker("other0", []string{"a", "b", "elsewhere"}[r.IntN(3)], "")
		if r.IntN(2) == 0 {
			machine = worker("mine", "a", "")
		}
		selection := SelectionRequest{Machine: &machine, Cluster: &infrav1.IngotCluster{}, ClusterName: machine.Labels["cluster.x-k8s.io/cluster-name"],
			Reservations: Outstanding(l.snapshot, HoldsHost)}
		criteria, err := newCriteria(selection)
		if err != nil {
			t.Fatal(err)
		}
		all, own := criteria.reserved()
		var first []group
		ownFirst := -1
		for i, g := range all {
			if g.upgrade {
				if i == own {
					ownFirst = len(first)
				}
				first = append(first, g)
			}
		}
		can, has := false, false
		for h, c := range l.snapshot.Candidates {
			if ok, _ := lifecycle.IsClaimable(c.Host); !ok {
				continue
			}
			without, then := goWithout(all, own, h, l.snapshot.Candidates)
			withoutFirst, thenFirst := goWithout(first, ownFirst, h, l.snapshot.Candidates)
			got, err := KeepsReservations(selection, l.snapshot.Candidates, c.Host.Name)
			if err != nil {
				t.Fatal(err)
			}
			if want := then <= without && thenFirst <= withoutFirst; got != want {
				t.Fatalf("seed %d, host %s: allowed %v; %d machines go without before, %d after; of upgrades %d and %d", seed, c.Host.Name, got, without, then, withoutFirst, thenFirst)
			}
			if then <= without && thenFirst > withoutFirst {
				forUpgrades++
			}
			if ownFirst >= 0 && all[own].suits(c) {
				can, has = true, has || got
			}
			if got {
				allowed++
			} else {
				refused++
			}
		}
		if without, _ := goWithoutAny(first, l.snapshot.Candidates); can && without == 0 && !has {
			t.Fatalf("seed %d: all upgrades can have their hosts, and the machine of one may have none", seed)
		}
	}
	if least := int(needs.Sample(500)); allowed < least || refused < least || forUpgrades < int(needs.Sample(20)) {
		t.Errorf("%d allowed, %d refused, %d for upgrades only: the lots are one-sided", allowed, refused, forUpgrades)
	}
}

func goWithoutAny(groups []group, candidates []Candidate) (without, of int) {
	all := units(groups, candidates)
	return len(all) - most(all, make([]bool, len(candidates))), len(all)
}

func TestHostsOfOneKindSuitTheSameGroups(t *testing.T) {
	for seed := range needs.Sample(500) {
		l := randomLot(rand.New(rand.NewPCG(seed, 3)))
		l.snapshot.Candidates[0].Host.Spec.RootDeviceHints = &infrav1.RootDeviceHints{Model: "absent"}
		spec := l.request.reservation()
		spec.Groups[0].RootDeviceHints = &infrav1.RootDeviceHints{MinSize: new(resource.MustParse("1G"))}
		l.snapshot.Candidates[len(l.snapshot.Candidates)-1].Hardware.Spec.Disks = []infrav1.HardwareDisk{disk("/dev/sda", 480, "A"), disk("/dev/sdb", 480, "B")}
		if seed%2 == 0 {
			spec.Groups[len(spec.Groups)-1].SoftwareRAID = mirror()
		}
		others, own := allGroups(t, l, l.request.needs(l.snapshot), &spec)
		groups := append(others, own...)
		profiles, at := groupByProfile("metal", l.snapshot.Candidates, claimableBut(nil), groups)
		sides := joinProfiles(groups, profiles, func(g int) bool { return g >= len(others) })
		for h, c := range l.snapshot.Candidates {
			for g := range groups {
				if want, got := groups[g].suits(c), sides.kinds[sides.of[at[h]]].suits[sides.at[g]]; got != want {
					t.Fatalf("seed %d: host %s and group %d: kind says %v, judged alone %v", seed, c.Host.Name, g, got, want)
				}
			}
		}
	}
}
