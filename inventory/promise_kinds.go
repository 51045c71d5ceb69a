// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/binary"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// group is a number of equal machines that need hosts: of a demand, or of what is
// outstanding of a promise.
type group struct {
	reserved infrav1.ReservedGroup
	criteria *criteria
	need     int
	// upgrade: the hosts are promised for an upgrade.
	upgrade bool
}

func newGroup(clusterName string, spec *infrav1.IngotReservationSpec, reserved infrav1.ReservedGroup, need int) (group, error) {
	g := group{reserved: reserved, need: need, upgrade: spec.Purpose == infrav1.ReservationUpgrade}
	var err error
	g.criteria, err = newCriteria(SelectionRequest{
		Machine:     &infrav1.IngotMachine{Spec: infrav1.IngotMachineSpec{HostSelector: reserved.HostSelector, RootDeviceHints: reserved.RootDeviceHints}},
		Cluster:     &infrav1.IngotCluster{Spec: clusterOf(spec)},
		ClusterName: clusterName, ControlPlane: g.controlPlane(), Architecture: reserved.Architecture,
	})
	return g, err
}

// clusterOf is what a reservation has of the IngotCluster: all of it that says which
// hosts machines may have.
func clusterOf(spec *infrav1.IngotReservationSpec) infrav1.IngotClusterSpec {
	return infrav1.IngotClusterSpec{
		HostSelector: spec.HostSelector, ControlPlaneSelector: spec.ControlPlaneSelector,
		FailureDomainLabel: spec.FailureDomainLabel, BootTrust: spec.BootTrust,
	}
}

// groups of a promise that need hosts. Selectors that do not parse select no host, and
// nothing is kept for them.
func (p Promise) groups() []group {
	var groups []group
	for i, reserved := range p.Spec.Groups {
		if p.Needs[i] == 0 {
			continue
		}
		if g, err := newGroup(p.ClusterName, p.Spec, reserved, p.Needs[i]); err == nil {
			groups = append(groups, g)
		}
	}
	return groups
}

func (g *group) controlPlane() bool {
	return g.reserved.ControlPlane != nil && *g.reserved.ControlPlane
}

// suits says whether a machine of the group could be on the host, were it free.
func (g *group) suits(candidate Candidate) bool {
	return g.criteria.suits(candidate) && !foreignData(candidate.Host, g.criteria.ClusterName) &&
		(len(g.reserved.FailureDomains) == 0 || slices.Contains(g.reserved.FailureDomains, g.criteria.domain(candidate.Host)))
}

// kind is a number of hosts that suit the same groups.
type kind struct {
	// suits says so of each group.
	suits []bool
	// total counts the hosts, free those that can be claimed now.
	total, free int
}

// hostKinds are the kinds of the hosts of a namespace.
type hostKinds struct {
	list []kind
	// of is the kind of each candidate, by its place; -1: of another namespace.
	of []int
}

// sortHosts sorts candidates into kinds. Hosts that look the same to every selector are
// judged once, which is what makes it fast for thousands of hosts. free says which can
// be claimed.
func sortHosts(namespace string, candidates []Candidate, free func(*infrav1.IngotHost) bool, groups []group) hostKinds {
	look := newLook(groups)
	byLook, bySuits := map[string]int{}, map[string]int{}
	sorted := hostKinds{of: make([]int, len(candidates))}
	for i, candidate := range candidates {
		if candidate.Host.Namespace != namespace {
			sorted.of[i] = -1
			continue
		}
		seen := look.at(candidate)
		k, ok := byLook[string(seen)]
		if !ok {
			k = sorted.add(candidate, groups, bySuits)
			byLook[string(seen)] = k
		}
		sorted.of[i] = k
		sorted.list[k].total++
		if free(candidate.Host) {
			sorted.list[k].free++
		}
	}
	return sorted
}

// claimableBut says of a host whether it can be claimed now, and no machine has chosen
// it.
func claimableBut(named map[string]bool) func(*infrav1.IngotHost) bool {
	return func(host *infrav1.IngotHost) bool {
		ok, _ := Claimable(host)
		return ok && !named[host.Name]
	}
}

// add returns the kind of a host that looks like none before.
func (s *hostKinds) add(candidate Candidate, groups []group, bySuits map[string]int) int {
	suits, signature := make([]bool, len(groups)), make([]byte, len(groups))
	for g := range groups {
		if suits[g] = groups[g].suits(candidate); suits[g] {
			signature[g] = 1
		}
	}
	k, ok := bySuits[string(signature)]
	if !ok {
		k = len(s.list)
		s.list = append(s.list, kind{suits: suits})
		bySuits[string(signature)] = k
	}
	return k
}

// look is all that groups see of a host: what they do not ask for is not in it.
type look struct {
	keys  []string
	hints []*infrav1.RootDeviceHints
	// trust: a group demands verified boots.
	trust bool
	text  []byte
}

func newLook(groups []group) *look {
	l := &look{hints: []*infrav1.RootDeviceHints{nil}}
	for i := range groups {
		c := groups[i].criteria
		l.keys = append(l.keys, c.label)
		l.trust = l.trust || c.Cluster.Spec.BootTrust == infrav1.BootTrustVerified
		for _, selector := range []labels.Selector{c.cluster, c.controlPlane, c.machine} {
			requirements, _ := selector.Requirements()
			for _, r := range requirements {
				l.keys = append(l.keys, r.Key())
			}
		}
		hints := c.Machine.Spec.RootDeviceHints
		if !slices.ContainsFunc(l.hints, func(h *infrav1.RootDeviceHints) bool { return equality.Semantic.DeepEqual(h, hints) }) {
			l.hints = append(l.hints, hints)
		}
	}
	slices.Sort(l.keys)
	l.keys = slices.Compact(l.keys)
	return l
}

// at writes down what is seen of a host; the text is good until the next.
func (l *look) at(candidate Candidate) []byte {
	l.text = l.text[:0]
	for _, key := range l.keys {
		value, ok := candidate.Host.Labels[key]
		if !ok {
			l.text = append(l.text, 0)
		}
		l.word(value)
	}
	if l.trust {
		trust, _, _ := BootTrustOf(candidate.Host)
		l.word(string(trust))
	}
	if record := candidate.Host.Spec.Record; record != nil {
		l.text = append(l.text, record.LastClusterName...)
	}
	l.text = append(l.text, 0)
	if candidate.Hardware == nil {
		return l.text
	}
	spec := &candidate.Hardware.Spec
	l.word(spec.Architecture)
	l.number(int64(spec.CPU.Cores))
	l.number(MemoryGiB(spec.MemoryBytes))
	for _, hints := range l.hints {
		if hints == nil {
			hints = candidate.Host.Spec.RootDeviceHints
		}
		disk, err := SelectRootDisk(spec.Disks, hints)
		if err != nil {
			l.number(-1)
			continue
		}
		l.number(diskSize(disk))
	}
	return l.text
}

func (l *look) word(text string) { l.text = append(append(l.text, text...), 1) }

func (l *look) number(n int64) { l.text = binary.LittleEndian.AppendUint64(l.text, uint64(n)) }
