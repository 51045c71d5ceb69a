// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"encoding/json"
	"fmt"
	"slices"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// group is a number of equal machines of a demand or a reservation that need hosts.
type group struct {
	reserved infrav1.ReservedGroup
	criteria *criteria
	need     int
	// upgrade: the hosts are reserved for an upgrade.
	upgrade bool
	// class is the text of all requirements. Groups of one class suit the same hosts, except
	// hosts with the data of a Cluster.
	class string
}

// asking caches parsed criteria by class.
type asking map[string]*criteria

// group returns the group of a Cluster with need machines without a host.
func (a asking) group(clusterName string, spec *infrav1.IngotReservationSpec, reserved infrav1.ReservedGroup, need int) (group, error) {
	g := group{reserved: reserved, need: need, upgrade: spec.Purpose == infrav1.ReservationUpgrade}
	asked := reserved
	asked.Name, asked.Count = "", 0
	class, err := json.Marshal(struct {
		Cluster infrav1.IngotClusterSpec
		Group   infrav1.ReservedGroup
	}{clusterOf(spec), asked})
	if err != nil {
		return g, fmt.Errorf("encode requirements of group %s: %w", reserved.Name, err)
	}
	g.class = string(class)
	parsed := a[g.class]
	if parsed == nil {
		parsed, err = newCriteria(SelectionRequest{
			Machine:      &infrav1.IngotMachine{Spec: machineOf(reserved)},
			Cluster:      &infrav1.IngotCluster{Spec: clusterOf(spec)},
			ControlPlane: g.controlPlane(), Architecture: reserved.Architecture,
		})
		if err != nil {
			return g, err
		}
		a[g.class] = parsed
	}
	own := *parsed
	own.ClusterName = clusterName
	g.criteria = &own
	return g, nil
}

// clusterOf returns the fields of the IngotCluster in a reservation: those that select hosts.
func clusterOf(spec *infrav1.IngotReservationSpec) infrav1.IngotClusterSpec {
	return infrav1.IngotClusterSpec{
		HostSelector: spec.HostSelector, ControlPlaneSelector: spec.ControlPlaneSelector,
		FailureDomainLabel: spec.FailureDomainLabel, BootTrust: spec.BootTrust,
	}
}

// machineOf returns the fields of the machines in a reserved group.
func machineOf(reserved infrav1.ReservedGroup) infrav1.IngotMachineSpec {
	spec := infrav1.IngotMachineSpec{HostSelector: reserved.HostSelector, RootDeviceHints: reserved.RootDeviceHints,
		SoftwareRAID: reserved.SoftwareRAID}
	if len(reserved.Ethernets) > 0 {
		spec.NetworkData = &infrav1.NetworkData{}
	}
	for _, ethernet := range reserved.Ethernets {
		spec.NetworkData.Ethernets = append(spec.NetworkData.Ethernets, infrav1.NetworkEthernet{Name: ethernet.Name, NIC: ethernet.NIC})
	}
	return spec
}

// reservedGroup returns the reservation of a group of a demand.
func reservedGroup(g DemandGroup) infrav1.ReservedGroup {
	reserved := infrav1.ReservedGroup{
		Name: g.Name, Count: int32(min(g.Count, 1<<30)), FailureDomains: slices.Compact(slices.Sorted(slices.Values(g.FailureDomains))),
		HostSelector: saidOf(g.Template.HostSelector), Architecture: g.Architecture,
		RootDeviceHints: g.Template.RootDeviceHints.DeepCopy(), SoftwareRAID: g.Template.SoftwareRAID.DeepCopy(),
	}
	if g.ControlPlane {
		reserved.ControlPlane = new(true)
	}
	if g.Template.NetworkData == nil {
		return reserved
	}
	for i := range g.Template.NetworkData.Ethernets {
		ethernet := &g.Template.NetworkData.Ethernets[i]
		reserved.Ethernets = append(reserved.Ethernets, infrav1.ReservedEthernet{Name: ethernet.Name, NIC: *ethernet.NIC.DeepCopy()})
	}
	return reserved
}

// saidOf returns a copy without empty parts, such as the empty matchLabels of a class's variable. The
// schema requires that a selector has content.
func saidOf(selector *infrav1.HostSelector) *infrav1.HostSelector {
	said := selector.DeepCopy()
	switch {
	case said == nil:
		return nil
	case said.Minimum != nil && *said.Minimum == infrav1.HardwareMinimum{}:
		said.Minimum = nil
	}
	if len(said.MatchLabels)+len(said.MatchExpressions) == 0 && said.Minimum == nil && said.Architecture == "" {
		return nil
	}
	return said
}

// groups returns the groups of a reservation that need hosts. It omits groups with invalid selectors,
// which select no host.
func (p OutstandingReservation) groups(a asking) []group {
	var groups []group
	for i, reserved := range p.Spec.Groups {
		if p.Needs[i] == 0 {
			continue
		}
		if g, err := a.group(p.ClusterName, p.Spec, reserved, p.Needs[i]); err == nil {
			groups = append(groups, g)
		}
	}
	return groups
}

func (g *group) controlPlane() bool {
	return g.reserved.ControlPlane != nil && *g.reserved.ControlPlane
}

// suits reports whether the host suits the group, even if it is in use.
func (g *group) suits(candidate Candidate) bool {
	return g.asksFor(candidate) && !foreignData(candidate.Host, g.criteria.ClusterName)
}

// asksFor is suits without the check of data on the host. It is equal for groups of one class.
func (g *group) asksFor(candidate Candidate) bool {
	return (len(g.reserved.FailureDomains) == 0 || slices.Contains(g.reserved.FailureDomains, g.criteria.domain(candidate.Host))) &&
		g.criteria.suits(candidate)
}

// kind is a set of hosts that suit the same groups.
type kind struct {
	// suits has the result for each group.
	suits []bool
	// total is the number of hosts; free, of those that can be claimed now.
	total, free int
}

// sorted has groups and kinds of hosts: the two sides of a matching.
type sorted struct {
	groups []group
	// at has the index of each original group in groups.
	at    []int
	kinds []kind
	// of has the kind of each profile.
	of []int
}

// joinProfiles groups hosts into kinds by their profiles, and joins groups that suit the same hosts,
// except those for which apart is true. So the size of the matching does not depend on the number
// of Clusters.
func joinProfiles(groups []group, profiles []profileHosts, apart func(group int) bool) sorted {
	holding := map[string]bool{} // Clusters whose data is on some hosts
	for i := range profiles {
		if record := profiles[i].Host.Spec.Record; record != nil && record.LastClusterName != "" {
			holding[record.LastClusterName] = true
		}
	}
	s := sorted{}
	joined := map[string]int{}
	for i := range groups {
		key := groups[i].class
		if name := groups[i].criteria.ClusterName; holding[name] {
			key += "\x00" + name
		}
		at, known := joined[key]
		if known && !apart(i) {
			s.groups[at].need += groups[i].need
			s.at = append(s.at, at)
			continue
		}
		if !apart(i) {
			joined[key] = len(s.groups)
		}
		s.at = append(s.at, len(s.groups))
		s.groups = append(s.groups, groups[i])
	}
	bySuits := map[string]int{}
	for i := range profiles {
		k := s.add(profiles[i].Candidate, bySuits)
		s.of = append(s.of, k)
		s.kinds[k].total += profiles[i].total
		s.kinds[k].free += profiles[i].free
	}
	return s
}

// add returns the kind of the candidate.
func (s *sorted) add(candidate Candidate, bySuits map[string]int) int {
	suits, signature := make([]bool, len(s.groups)), make([]byte, len(s.groups))
	asks := map[string]bool{}
	for g := range s.groups {
		class := s.groups[g].class
		ask, known := asks[class]
		if !known {
			ask = s.groups[g].asksFor(candidate)
			asks[class] = ask
		}
		if suits[g] = ask && !foreignData(candidate.Host, s.groups[g].criteria.ClusterName); suits[g] {
			signature[g] = 1
		}
	}
	k, ok := bySuits[string(signature)]
	if !ok {
		k = len(s.kinds)
		s.kinds = append(s.kinds, kind{suits: suits})
		bySuits[string(signature)] = k
	}
	return k
}
