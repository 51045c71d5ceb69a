// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// onShelf is a stock with its hosts on a shelf.
func onShelf(stock Stock) (Stock, *Shelf) {
	shelf := &Shelf{}
	for _, c := range stock.Candidates {
		shelf.Put(c.Host)
		if c.Hardware != nil {
			c.Hardware.Name = c.Host.Name
			shelf.PutHardware(c.Hardware)
		}
	}
	stock.Candidates, stock.Shelf = nil, shelf.Freeze()
	return stock, shelf
}

// Whatever happened to the hosts, a shelf that saw it all gives the plan that a list of
// them gives, for a request that it knows and for one that it does not.
func TestShelfPlansAsAList(t *testing.T) {
	satisfied, blocked := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 9))
		l := randomLot(r)
		stock, shelf := onShelf(l.stock)
		former := l.request
		for step := range 12 {
			l.change(r, shelf)
			stock.Shelf = shelf.Freeze()
			if step%4 == 3 {
				other := randomLot(r)
				l.request, l.stock.Reservations = other.request, other.stock.Reservations
			}
			if r.IntN(3) == 0 {
				l.stock.Machines = []infrav1.IngotMachine{worker("mine", "a", fmt.Sprintf("h%d", r.IntN(8)))}
			}
			stock.Reservations, stock.Machines = l.stock.Reservations, l.stock.Machines
			for _, request := range []PromiseRequest{l.request, former} {
				want, err := PlanPromise(request, l.stock)
				got, shelfErr := PlanPromise(request, stock)
				if err != nil || shelfErr != nil {
					t.Fatalf("seed %d: %v, %v", seed, err, shelfErr)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("seed %d, step %d: the shelf plans otherwise:\n%s", seed, step, diff)
				}
				if want.Satisfied {
					satisfied++
				} else {
					blocked++
				}
			}
			if diff := cmp.Diff(l.stock.ClaimedBy("metal", "mine"), stock.ClaimedBy("metal", "mine")); diff != "" {
				t.Fatalf("seed %d, step %d: claimed by the Cluster:\n%s", seed, step, diff)
			}
		}
		if n := len(shelf.views); n > maxViews {
			t.Fatalf("seed %d: %d views are kept", seed, n)
		}
	}
	if satisfied < 500 || blocked < 500 {
		t.Errorf("%d satisfied, %d blocked: the lots are one-sided", satisfied, blocked)
	}
}

// change does something to one host, and tells the shelf: as an informer would, with a new
// object.
func (l *lot) change(r *rand.Rand, shelf *Shelf) {
	list := l.stock.Candidates
	at := r.IntN(len(list))
	host, facts := list[at].Host.DeepCopy(), list[at].Hardware.DeepCopy()
	switch r.IntN(7) {
	case 0:
		host.Spec.Claim = claimOf(infrav1.ClaimProvisioned)
		host.Spec.Claim.ClusterName = "mine"
	case 1:
		host.Spec.Claim = nil
	case 2:
		host.Labels = map[string]string{infrav1.RackLabel: fmt.Sprintf("r%d", 1+r.IntN(3))}
	case 3:
		host.Spec.Record.LastClusterName = []string{"", "mine", "other0"}[r.IntN(3)]
	case 4:
		if facts != nil {
			facts.Spec.MemoryBytes = int64(64<<r.IntN(2)) << 30
		}
	case 5:
		facts = nil
	default:
		facts = candidate(host.Name, "").Hardware
	}
	if facts == nil {
		shelf.RemoveHardware(host.Name)
	} else {
		facts.Name = host.Name
		shelf.PutHardware(facts)
	}
	if r.IntN(5) == 0 {
		shelf.Remove(host.Name)
	}
	shelf.Put(host)
	list[at] = Candidate{Host: host, Hardware: facts}
}

// A host that has gone counts no more, and one without facts suits nobody.
func TestShelfForgets(t *testing.T) {
	stock, shelf := onShelf(Stock{Candidates: hostsIn("r1", "r1")})
	request := demand(DemandGroup{Name: "md", Count: 2})
	missing := func() int {
		t.Helper()
		stock.Shelf = shelf.Freeze()
		plan, err := PlanPromise(request, stock)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, s := range plan.Missing {
			n += s.Missing
		}
		return n
	}
	steps := []struct {
		name string
		do   func()
		want int
	}{
		{"both are there", func() {}, 0},
		{"one has gone", func() { shelf.Remove("h1") }, 1},
		{"one that was never there goes", func() { shelf.Remove("h9"); shelf.RemoveHardware("h9") }, 1},
		{"the other's facts are gone", func() { shelf.RemoveHardware("h2") }, 2},
		{"facts before the host", func() {
			c := candidate("h3", "r1")
			c.Hardware.Name = "h3"
			shelf.PutHardware(c.Hardware)
			shelf.Put(c.Host)
		}, 1},
	}
	for _, step := range steps {
		step.do()
		if got := missing(); got != step.want {
			t.Errorf("%s: %d are missing, want %d", step.name, got, step.want)
		}
	}
}

// Hosts change while plans are made, by many at once: each plan is one of a moment at which
// all hosts were there.
func TestShelfIsShared(t *testing.T) {
	stock, shelf := onShelf(Stock{Candidates: hostsIn("r1", "r1", "r2", "r2"), Now: promisedAt})
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 200 {
				c := candidate(fmt.Sprintf("h%d", 1+(i+worker)%4), fmt.Sprintf("r%d", 1+i%2))
				c.Hardware.Name = c.Host.Name
				shelf.Put(c.Host)
				shelf.PutHardware(c.Hardware)
				plan, err := PlanPromise(demand(DemandGroup{Name: "md", Count: 4 + i%3}), Stock{Shelf: shelf.Freeze(), Now: promisedAt})
				if err != nil || plan.Satisfied != (i%3 == 0) {
					t.Errorf("%+v, %v", plan, err)
					return
				}
				if hosts := stock.ClaimedBy("metal", "mine"); len(hosts) > 0 {
					t.Errorf("claimed: %v", hosts)
				}
			}
		})
	}
	all.Wait()
}

// A host that is claimed after the shelf was frozen, and before the machines are read or
// after, is counted once: as free while its machine was seen without it, as the machine's
// where that was seen with it.
func TestShelfFrozenBeforeMachinesAreRead(t *testing.T) {
	promised := reservation("mine", workers("md", 1))
	for name, machine := range map[string]infrav1.IngotMachine{
		"its machine seen without it": worker("mine", "md", ""),
		"its machine seen with it":    worker("mine", "md", "h1"),
	} {
		t.Run(name, func(t *testing.T) {
			stock, shelf := onShelf(Stock{Candidates: hostsIn("r1", "r1"), Reservations: []infrav1.IngotReservation{promised}, Now: promisedAt})
			stock.Machines = []infrav1.IngotMachine{machine}
			claimed := candidate("h1", "r1").Host
			claimed.Spec.Claim = claimOf(infrav1.ClaimProvisioning)
			shelf.Put(claimed)
			one := demand(DemandGroup{Name: "md", Count: 1})
			one.ClusterName = "rival"
			if plan, err := PlanPromise(one, stock); err != nil || !plan.Satisfied {
				t.Errorf("another Cluster, for the second host, hears %+v, %v", plan, err)
			}
			one.Demand.Groups[0].Count = 2
			if plan, err := PlanPromise(one, stock); err != nil || plan.Satisfied {
				t.Errorf("another Cluster, for both, hears %+v, %v", plan, err)
			}
		})
	}
}

// Whoever asks first, the same questions are one view.
func TestLookIsTheSameInAnyOrder(t *testing.T) {
	ask := func(class, serial, mac string) group {
		c := &criteria{SelectionRequest: SelectionRequest{Cluster: &infrav1.IngotCluster{}, Machine: &infrav1.IngotMachine{}},
			label: "row", cluster: labels.Everything(), controlPlane: labels.Everything(), machine: labels.Everything()}
		c.Machine.Spec.RootDeviceHints = &infrav1.RootDeviceHints{SerialNumber: serial}
		c.Machine.Spec.NetworkData = &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{{NIC: infrav1.NICSelector{MAC: mac}}}}
		return group{criteria: c, class: class}
	}
	a, b, c := ask("a", "S1", "52:54:00:00:00:01"), ask("b", "S2", "52:54:00:00:00:02"), ask("c", "S3", "52:54:00:00:00:03")
	want, err := newLook([]group{a, b, c}).name()
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range [][]group{{a, c, b}, {b, a, c}, {b, c, a}, {c, a, b}, {c, b, a, a}} {
		if got, err := newLook(order).name(); err != nil || got != want {
			t.Errorf("%v\n%q\n%q", err, got, want)
		}
	}
	if got, _ := newLook([]group{a, b}).name(); got == want {
		t.Error("fewer questions are the same view")
	}
}
