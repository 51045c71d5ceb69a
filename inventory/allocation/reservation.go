// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// Snapshot is the inventory of one namespace at one moment. Objects of other namespaces are ignored.
type Snapshot struct {
	Candidates []Candidate
	// Index of the Candidates, which several plans share. Nil: each plan creates one.
	Index        *HostIndex
	Machines     []infrav1.IngotMachine
	Reservations []infrav1.IngotReservation
	// Now decides which reservations are expired.
	Now time.Time
}

// Demand has the machines of one Cluster, as groups of equal machines.
type Demand struct{ Groups []DemandGroup }

// DemandGroup is a number of equal machines.
type DemandGroup struct {
	// Name of the MachineDeployment in the topology. For a control plane, any.
	Name         string
	ControlPlane bool
	// Count of machines, including those with a host.
	Count int
	// FailureDomains in which a machine may be placed. Empty: any.
	FailureDomains []string
	// Template of the machines. Only hostSelector, rootDeviceHints, softwareRAID and the
	// interfaces of networkData count.
	Template infrav1.IngotMachineSpec
	// Architecture of the template's image. Empty: any.
	Architecture string
}

// PlanRequest is a request for the hosts of one Cluster.
type PlanRequest struct {
	// Namespace and ClusterName of the Cluster. The demand replaces the Cluster's reservation,
	// and includes its machines that have hosts.
	Namespace, ClusterName string
	// Cluster is the future spec of the IngotCluster: selectors, failure domains.
	Cluster infrav1.IngotClusterSpec
	Demand  Demand
	// Surge: the demand is in addition to the Cluster's machines and reservation.
	Surge bool
	// Purpose of the reservation. Empty: Creation.
	Purpose infrav1.ReservationPurpose
}

// Shortfall has the number of machines of a group without a host, and why.
type Shortfall struct {
	// Group has the name of the group.
	Group          string
	ControlPlane   bool
	FailureDomains []string
	// Needed is the number of hosts that the group still needs; Missing, of those it cannot get.
	Needed, Missing int
	// Suitable is the number of suitable hosts; Free, of those among them that are free.
	Suitable, Free int
	// Message explains the shortfall. It is the same for the same inventory.
	Message string
}

// ReservationPlan is the result of a PlanRequest.
type ReservationPlan struct {
	// Satisfied: there is a host for every machine without harm to other reservations.
	Satisfied bool
	// Missing has the shortfalls in the order of the demand.
	Missing []Shortfall
	// Message sums up the shortfalls in at most MaxExplanation characters. Empty: none. It names
	// no other Cluster.
	Message string
	// Reservation is the spec for the demand.
	Reservation infrav1.IngotReservationSpec
}

// PlanReservation reports whether every machine of a demand can have a suitable host without harm to the
// reservations of other Clusters. It is pure, and the order of the objects does not matter.
//
// It computes a matching in a bipartite graph: machines on one side, free hosts on the other. Equal
// machines are one node, and so are hosts that suit the same groups, so that its size depends on
// the number of kinds, not of hosts.
//
// It fails with ErrSelectorInvalid.
func PlanReservation(request PlanRequest, snapshot Snapshot) (ReservationPlan, error) {
	plan := ReservationPlan{Reservation: request.reservation()}
	reservations := Outstanding(snapshot, HoldsHost)
	asks := asking{}
	var groups []group
	for _, p := range reservations {
		if p.Namespace != request.Namespace || p.ClusterName == request.ClusterName && !request.Surge {
			continue
		}
		groups = append(groups, p.groups(asks)...)
	}
	others := len(groups)
	needs := request.needs(snapshot)
	for i, g := range plan.Reservation.Groups {
		own, err := asks.group(request.ClusterName, &plan.Reservation, g, needs[i])
		if err != nil {
			return ReservationPlan{}, err
		}
		groups = append(groups, own)
	}
	index := snapshot.Index
	if index == nil {
		index = NewHostIndex(request.Namespace, snapshot.Candidates)
	}
	profiles := index.sort(groups, named(snapshot.Machines, HoldsHost))
	sides := joinProfiles(groups, profiles, func(group int) bool { return group >= others })
	m := newMatching(sides.groups, sides.kinds)
	m.fill()
	for _, own := range sides.at[others:] {
		if m.unmet(own) > 0 {
			plan.Missing = append(plan.Missing, sides.groups[own].shortfall(m, own))
		}
	}
	plan.Satisfied = len(plan.Missing) == 0
	plan.Message = sumUp(plan.Missing)
	return plan, nil
}

// ClaimedBy returns the hosts of a namespace with a claim of the Cluster, sorted by name.
func (s Snapshot) ClaimedBy(namespace, clusterName string) []*infrav1.IngotHost {
	var hosts []*infrav1.IngotHost
	for _, c := range s.Candidates {
		if claim := c.Host.Spec.Claim; c.Host.Namespace == namespace && claim != nil && claim.ClusterName == clusterName {
			hosts = append(hosts, c.Host)
		}
	}
	slices.SortFunc(hosts, func(a, b *infrav1.IngotHost) int { return strings.Compare(a.Name, b.Name) })
	return hosts
}

// reservation returns the spec for the demand.
func (r PlanRequest) reservation() infrav1.IngotReservationSpec {
	spec := infrav1.IngotReservationSpec{
		HostSelector:         r.Cluster.HostSelector.DeepCopy(),
		ControlPlaneSelector: r.Cluster.ControlPlaneSelector.DeepCopy(),
		FailureDomainLabel:   r.Cluster.FailureDomainLabel,
		BootTrust:            r.Cluster.BootTrust,
		Purpose:              r.Purpose,
	}
	for _, g := range r.Demand.Groups {
		if g.Count <= 0 {
			continue
		}
		spec.Groups = append(spec.Groups, reservedGroup(g))
	}
	return spec
}

// needs returns the number of machines without a host for each group of the reservation.
func (r PlanRequest) needs(snapshot Snapshot) []int {
	spec := r.reservation()
	if r.Surge {
		needs := make([]int, len(spec.Groups))
		for i, g := range spec.Groups {
			needs[i] = int(g.Count)
		}
		return needs
	}
	return outstanding(&spec, clusterMachines(snapshot.Machines)[clusterKey{r.Namespace, r.ClusterName}], HoldsHost)
}

func (g *group) shortfall(m *matching, i int) Shortfall {
	s := Shortfall{
		Group: g.reserved.Name, ControlPlane: g.controlPlane(), FailureDomains: g.reserved.FailureDomains,
		Needed: g.need, Missing: m.unmet(i),
	}
	for _, k := range m.fits[i] {
		s.Suitable += m.kinds[k].total
		s.Free += m.kinds[k].free
	}
	s.Message = g.explainShort(s)
	return s
}

// explainShort describes a shortfall.
func (g *group) explainShort(s Shortfall) string {
	var b strings.Builder
	if s.ControlPlane {
		b.WriteString("the control plane")
	} else {
		fmt.Fprintf(&b, "machine deployment %s", s.Group)
	}
	fmt.Fprintf(&b, " lacks %d of %d hosts", s.Missing, s.Needed)
	if len(s.FailureDomains) > 0 {
		fmt.Fprintf(&b, " in failure domain %s (label %s)", inventory.Truncate(strings.Join(s.FailureDomains, ", "), 120), g.criteria.label)
	}
	if asked := g.criteria.asked(); asked != "" {
		b.WriteString("; asked for " + inventory.Truncate(asked, 240))
	}
	switch kept := s.Free - (s.Needed - s.Missing); {
	case s.Suitable == 0:
		b.WriteString("; no host suits")
	case kept > 0:
		fmt.Fprintf(&b, "; of %d hosts that suit %d are free, but %d of these are reserved for other Clusters or needed by other machines of this one", s.Suitable, s.Free, kept)
	default:
		fmt.Fprintf(&b, "; of %d hosts that suit %d are free", s.Suitable, s.Free)
	}
	return inventory.Truncate(b.String(), maxShortfall)
}

// maxShortfall is the maximum length of Shortfall.Message, in characters.
const maxShortfall = 500

// sumUp joins the messages of all shortfalls, and counts those that do not fit.
func sumUp(missing []Shortfall) string {
	if len(missing) == 0 {
		return ""
	}
	total := 0
	for _, s := range missing {
		total += s.Missing
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d hosts are missing: ", total)
	if total == 1 {
		b.Reset()
		b.WriteString("1 host is missing: ")
	}
	length := 0
	for i, s := range missing {
		length += len([]rune(s.Message)) + 2
		if left := len(missing) - i; i > 0 && length > MaxExplanation-100 {
			fmt.Fprintf(&b, "; and %d more groups lack hosts", left)
			break
		}
		if i > 0 {
			b.WriteString(". ")
		}
		b.WriteString(s.Message)
	}
	return inventory.Truncate(b.String(), MaxExplanation)
}
