// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/needs"
)

// rollout is one MachineDeployment on racks with one spare host each. It selects with the
// reconciler and follows Cluster API: a new machine first (maxSurge 1), then the deletion of an old
// one, which drains before its IngotMachine is deleted.
type rollout struct {
	t          *testing.T
	random     *rand.Rand
	selections recentSelections
	in         inventorySnapshot
	now        time.Time
	made       int
}

// newRollout has hostsPerRack hosts in each rack. smallRack, unless empty, has hosts with less
// memory, which fit best.
func newRollout(t *testing.T, seed uint64, racks []string, hostsPerRack int, smallRack string) *rollout {
	r := &rollout{t: t, random: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1000, 0)}
	r.in.leaving = map[string]bool{}
	for _, rack := range racks {
		for i := range hostsPerRack {
			name := fmt.Sprintf("%s-h%d", rack, i)
			host := infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Labels: map[string]string{infrav1.RackLabel: rack}}}
			host.Spec.BMC = &infrav1.BMC{Address: "redfish://" + name}
			host.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.NewTime(r.now)}
			conditions.Set(&host, metav1.Condition{Type: infrav1.HostAvailableCondition, Status: isTrue, Reason: "x"})
			r.in.hosts = append(r.in.hosts, host)
			memory := int64(64 << 30)
			if rack == smallRack {
				memory /= 2
			}
			r.in.hardware = append(r.in.hardware, infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Spec: infrav1.IngotHardwareSpec{
				MemoryBytes: memory,
				Disks:       []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: name, SizeBytes: ptr.To[int64](500e9)}}}})
		}
	}
	return r
}

// add creates a machine of a MachineSet and selects its host.
func (r *rollout) add(set string) {
	r.t.Helper()
	r.made++
	name := fmt.Sprintf("%s-%d", set, r.made)
	r.in.machines = append(r.in.machines, infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name),
		Labels:          map[string]string{clusterv1.MachineDeploymentNameLabel: "workers", clusterv1.MachineSetNameLabel: set},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name}}}})
	machine := &r.in.machines[len(r.in.machines)-1]
	s := &scope{machine: machine, owner: &clusterv1.Machine{}, cluster: &clusterv1.Cluster{}, ingotCluster: &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}}}
	selection, id := r.selections.selectHost(s, r.in, r.now, func() string { return "id" })
	if selection.Host == nil {
		r.t.Fatalf("machine %s gets no host: %s", name, selection.Message)
	}
	machine.Spec.ProviderID = id.String()
}

// leave starts the deletion of a random machine of a set: its Machine drains.
func (r *rollout) leave(set string) {
	r.t.Helper()
	var of []string
	for i := range r.in.machines {
		if m := &r.in.machines[i]; m.Labels[clusterv1.MachineSetNameLabel] == set && !r.in.leaving[m.Name] {
			of = append(of, m.Name)
		}
	}
	r.in.leaving[of[r.random.IntN(len(of))]] = true
}

// finish completes the deletions: their hosts are free again.
func (r *rollout) finish() {
	var stay []infrav1.IngotMachine
	for _, m := range r.in.machines {
		if !r.in.leaving[m.Name] {
			stay = append(stay, m)
		}
	}
	r.in.machines, r.in.leaving = stay, map[string]bool{}
}

// checkSpread fails if the racks' numbers of machines differ by more than one.
func (r *rollout) checkSpread(racks []string, when string) {
	r.t.Helper()
	use := map[string]int{}
	for i := range r.in.machines {
		id, err := infrav1.ParseProviderID(r.in.machines[i].Spec.ProviderID)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, host := range r.in.hosts {
			if host.Name == id.Host {
				use[host.Labels[infrav1.RackLabel]]++
			}
		}
	}
	least, most := len(r.in.machines), 0
	for _, rack := range racks {
		least, most = min(least, use[rack]), max(most, use[rack])
	}
	if most-least > 1 {
		r.t.Errorf("%s: machines per rack are %v; want numbers that differ by at most one", when, use)
	}
}

func TestRolloutKeepsTheSpreadOverRacks(t *testing.T) {
	racks := []string{"r1", "r2", "r3"}
	for name, test := range map[string]struct {
		replicas  int
		smallRack string
	}{
		"equal hosts":                      {replicas: 3},
		"one rack with smaller hosts":      {replicas: 3, smallRack: "r2"},
		"more machines than racks":         {replicas: 5},
		"more machines, one smaller rack":  {replicas: 5, smallRack: "r3"},
		"twice the racks, one smaller one": {replicas: 6, smallRack: "r1"},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range needs.Sample(50) {
				r := newRollout(t, seed, racks, (test.replicas+2)/3+1, test.smallRack)
				for range test.replicas {
					r.add("old")
				}
				r.checkSpread(racks, "after the first machines")
				for range test.replicas {
					r.add("new")
					r.leave("old")
					r.finish()
				}
				r.checkSpread(racks, fmt.Sprintf("rollout %d", seed))
			}
		})
	}
}

func TestReplacementTakesTheRackOfTheMachineThatLeaves(t *testing.T) {
	racks := []string{"r1", "r2", "r3"}
	for seed := range needs.Sample(60) {
		r := newRollout(t, seed, racks, 2, "r2")
		for range 3 {
			r.add("set")
		}
		r.leave("set")
		r.add("set") // Cluster API makes the replacement while the old machine still drains
		r.finish()
		r.checkSpread(racks, fmt.Sprintf("replacement %d", seed))
	}
}
