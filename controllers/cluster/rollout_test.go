// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/collections"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/failuredomains"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// planes simulates KubeadmControlPlane v1.14: it picks the failure domain with Cluster API's
// function, pins the machine to it, and changes no other machine until that one has its host.
type planes struct {
	t          *testing.T
	cluster    *infrav1.IngotCluster
	candidates []allocation.Candidate
	members    []*member
	made       int
	// reservations are of this Cluster and of others.
	reservations []infrav1.IngotReservation
}

type member struct {
	machine *clusterv1.Machine
	infra   *infrav1.IngotMachine
	host    *infrav1.IngotHost
	old     bool
}

func newPlanes(t *testing.T, racks map[string]int) *planes {
	p := &planes{t: t, cluster: &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}}
	for rack, hosts := range racks {
		for i := range hosts {
			p.register(fmt.Sprintf("%s-%d", rack, i), rack, 64)
		}
	}
	return p
}

func (p *planes) register(name, rack string, memoryGiB int64) {
	h := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Labels: map[string]string{infrav1.RackLabel: rack}}}
	h.Spec.BMC = &infrav1.BMC{Address: "redfish://" + name}
	h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Unix(1, 0)}
	conditions.Set(h, metav1.Condition{Type: infrav1.HostAvailableCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonAvailable})
	facts := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
	facts.Spec.MemoryBytes = memoryGiB << 30
	facts.Spec.Disks = []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: name, SizeBytes: ptr.To[int64](500e9)}}
	p.candidates = append(p.candidates, allocation.Candidate{Host: h, Hardware: facts})
}

// offered returns the failure domains that KCP can use.
func (p *planes) offered() []clusterv1.FailureDomain {
	p.t.Helper()
	request := allocation.DomainRequest{Cluster: p.cluster, ClusterName: "c", Reservations: p.promises()}
	for _, m := range p.members {
		request.ControlPlane = append(request.ControlPlane, m.infra)
	}
	domains, err := allocation.FailureDomains(p.candidates, request)
	if err != nil {
		p.t.Fatal(err)
	}
	return slices.DeleteFunc(domains, func(d clusterv1.FailureDomain) bool { return !ptr.Deref(d.ControlPlane, false) })
}

// add creates a machine. If the machine waits for a host, cleaning ends in that time.
func (p *planes) add() {
	p.t.Helper()
	all, upToDate := collections.New(), collections.New()
	for _, m := range p.members {
		all.Insert(m.machine)
		if !m.old {
			upToDate.Insert(m.machine)
		}
	}
	domain := ""
	if offered := p.offered(); len(offered) > 0 {
		domain = failuredomains.PickFewest(p.t.Context(), offered, all, upToDate)
	}
	p.made++
	name := fmt.Sprintf("cp-%d", p.made)
	m := &member{
		machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Spec: clusterv1.MachineSpec{FailureDomain: domain}},
		infra:   &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, CreationTimestamp: metav1.Unix(int64(p.made), 0)}},
	}
	if domain == "" {
		p.t.Errorf("%s is pinned to no rack: Cluster API does not count it where it is", name)
	}
	m.infra.Labels = map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachineControlPlaneLabel: ""}
	m.infra.Spec.HostSelector = &infrav1.HostSelector{Minimum: &infrav1.HardwareMinimum{Memory: new(resource.MustParse("64Gi"))}}
	p.members = append(p.members, m)
	selection := p.place(m)
	if m.host == nil {
		p.cleaned()
		selection = p.place(m)
	}
	if m.host == nil {
		p.t.Fatalf("%s waits forever: %s", name, selection.Message)
	}
}

// promise reserves hosts for the control plane and for a worker in a rack, of this Cluster or of
// another.
func (p *planes) promise(controlPlanes int32, cluster, rack string) {
	worker := infrav1.ReservedGroup{Name: "md", Count: 1, FailureDomains: []string{rack}}
	own := infrav1.IngotReservation{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}
	own.Spec.Groups = []infrav1.ReservedGroup{{Name: "cp", ControlPlane: ptr.To(true), Count: controlPlanes}}
	other := infrav1.IngotReservation{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: cluster}}
	if cluster == own.Name {
		own.Spec.Groups = append(own.Spec.Groups, worker)
	} else {
		other.Spec.Groups = []infrav1.ReservedGroup{worker}
		p.reservations = append(p.reservations, other)
	}
	p.reservations = append(p.reservations, own)
}

func (p *planes) promises() []allocation.OutstandingReservation {
	stock := allocation.Snapshot{Reservations: p.reservations}
	for _, m := range p.members {
		stock.Machines = append(stock.Machines, *m.infra)
	}
	return allocation.Outstanding(stock, allocation.HoldsHost)
}

func (p *planes) place(m *member) allocation.Selection {
	selection := allocation.Select(allocation.SelectionRequest{Machine: m.infra, Cluster: p.cluster, ClusterName: "c", ControlPlane: true,
		FailureDomain: m.machine.Spec.FailureDomain, Reservations: p.promises()}, p.candidates)
	if m.host = selection.Host; m.host != nil {
		m.host.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: m.infra.Name}, ClusterName: "c",
			State: infrav1.ClaimProvisioned, FailureDomain: selection.FailureDomain}
		m.infra.Spec.ProviderID = infrav1.ProviderID{Namespace: "n", Host: m.host.Name, InstanceID: "1b0e5e0c-9c3e-4b59-9a6c-6a1f0c3f6f11"}.String()
	}
	return selection
}

// remove deletes the oldest machine: its host is fenced and being cleaned.
func (p *planes) remove() {
	p.members[0].host.Spec.Claim.State = infrav1.ClaimReleasing
	p.members = p.members[1:]
}

func (p *planes) cleaned() {
	for _, c := range p.candidates {
		if c.Host.Spec.Claim != nil && c.Host.Spec.Claim.State == infrav1.ClaimReleasing {
			c.Host.Spec.Claim = nil
		}
	}
}

// rollOut replaces every machine, with or without a spare host.
func (p *planes) rollOut(surge bool) {
	p.t.Helper()
	for _, m := range p.members {
		m.old = true
	}
	for range len(p.members) {
		if surge {
			p.add()
			p.remove()
			continue
		}
		p.remove()
		p.add()
	}
}

func (p *planes) scaleTo(n int) {
	p.t.Helper()
	for len(p.members) < n {
		p.add()
	}
}

// spread counts the machines by rack.
func (p *planes) spread() map[string]int {
	out := map[string]int{}
	for _, m := range p.members {
		out[m.host.Labels[infrav1.RackLabel]]++
	}
	return out
}

// I11: racks that cannot hold another machine never block a control plane, which is spread over the
// others. Cluster API picks at random among equal domains, so the test repeats.
func TestControlPlaneIsNeverStuck(t *testing.T) {
	three := map[string]int{"a": 1, "b": 1, "c": 1}
	for name, tc := range map[string]struct {
		racks  map[string]int
		do     func(p *planes)
		widest int // the most machines that a rack may hold in the end
	}{
		"no spare host, one by one": {three, func(p *planes) { p.scaleTo(3); p.rollOut(false); p.rollOut(false) }, 1},
		"one spare host, surge":     {map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, func(p *planes) { p.scaleTo(3); p.rollOut(true); p.rollOut(true) }, 1},
		"scaled into what is left":  {map[string]int{"a": 1, "b": 1, "c": 1, "d": 2}, func(p *planes) { p.scaleTo(5) }, 2},
		"room everywhere, surge":    {map[string]int{"a": 2, "b": 2, "c": 2}, func(p *planes) { p.scaleTo(3); p.rollOut(true) }, 2},
		"a rack that is too small": {three, func(p *planes) {
			p.add()
			p.register("d-0", "d", 8)
			p.scaleTo(3)
			p.rollOut(false)
		}, 1},
		"a rack that its own worker needs":       {map[string]int{"a": 3, "b": 1}, func(p *planes) { p.promise(3, "c", "b"); p.scaleTo(3) }, 3},
		"a rack that another's worker needs":     {map[string]int{"a": 3, "b": 1}, func(p *planes) { p.promise(3, "d", "b"); p.scaleTo(3) }, 3},
		"room for all, next to a reservation":    {map[string]int{"a": 3, "b": 2}, func(p *planes) { p.promise(3, "c", "b"); p.scaleTo(3) }, 2},
		"after the promise, with another's left": {map[string]int{"a": 4, "b": 1}, func(p *planes) { p.promise(3, "d", "b"); p.scaleTo(3); p.rollOut(true) }, 3},
		"a host that comes late": {three, func(p *planes) {
			p.scaleTo(3)
			p.register("d-0", "d", 64)
			p.scaleTo(4)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for range 50 {
				p := newPlanes(t, tc.racks)
				tc.do(p)
				for rack, n := range p.spread() {
					if n > tc.widest {
						t.Fatalf("%d machines in rack %s: %v", n, rack, p.spread())
					}
				}
			}
		})
	}
}
