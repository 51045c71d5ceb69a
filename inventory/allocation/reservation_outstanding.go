// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"cmp"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// OutstandingReservation is the outstanding part of a reservation.
type OutstandingReservation struct {
	Namespace, ClusterName string
	Spec                   *infrav1.IngotReservationSpec
	// Needs has the number of machines without a host for each group of the spec.
	Needs []int
}

// Left returns the number of hosts that are still reserved.
func (p OutstandingReservation) Left() int {
	left := 0
	for _, need := range p.Needs {
		left += need
	}
	return left
}

// HoldsHost returns the host that a machine has selected. The host then counts as the machine's, and
// towards the reservation of its Cluster.
func HoldsHost(machine *infrav1.IngotMachine) (host string, ok bool) {
	id, err := infrav1.ParseProviderID(machine.Spec.ProviderID)
	return id.Host, err == nil
}

// ClaimedHost returns a function that returns the host with a machine's claim. A machine may lose a
// host that it has only selected (see HoldsHost), so that a reservation must not end with it.
func ClaimedHost(candidates []Candidate) func(*infrav1.IngotMachine) (host string, ok bool) {
	claims := map[string]*infrav1.HostClaim{}
	for _, c := range candidates {
		if c.Host.Spec.Claim != nil {
			claims[c.Host.Namespace+"/"+c.Host.Name] = c.Host.Spec.Claim
		}
	}
	return func(machine *infrav1.IngotMachine) (string, bool) {
		id, err := infrav1.ParseProviderID(machine.Spec.ProviderID)
		if err != nil {
			return "", false
		}
		claim := claims[id.Namespace+"/"+id.Host]
		return id.Host, claim != nil && claim.MachineRef.Name == machine.Name && claim.InstanceID == id.InstanceID
	}
}

// Outstanding derives the outstanding part of each reservation from the machines, so that a claim
// needs no counter. It omits reservations that are expired, satisfied or being deleted. holds
// reports which machines have a host. The result is sorted by namespace and Cluster.
func Outstanding(snapshot Snapshot, holds func(*infrav1.IngotMachine) (string, bool)) []OutstandingReservation {
	var reservations []OutstandingReservation
	clusterMachines := clusterMachines(snapshot.Machines)
	for i := range snapshot.Reservations {
		r := &snapshot.Reservations[i]
		if !IsInForce(r, snapshot.Now) {
			continue
		}
		p := OutstandingReservation{Namespace: r.Namespace, ClusterName: r.Name, Spec: &r.Spec,
			Needs: outstanding(&r.Spec, clusterMachines[clusterKey{r.Namespace, r.Name}], holds)}
		if p.Left() > 0 {
			reservations = append(reservations, p)
		}
	}
	slices.SortFunc(reservations, func(a, b OutstandingReservation) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.ClusterName, b.ClusterName))
	})
	return reservations
}

// IsInForce reports whether a reservation is in force: neither expired nor being deleted.
func IsInForce(r *infrav1.IngotReservation, now time.Time) bool {
	return r.DeletionTimestamp.IsZero() && (r.Spec.ExpirationTime.IsZero() || now.Before(r.Spec.ExpirationTime.Time))
}

// Left returns the number of machines of a reservation without a host, even if it is not in force.
// holds reports which machines have one.
func Left(r *infrav1.IngotReservation, machines []infrav1.IngotMachine, holds func(*infrav1.IngotMachine) (string, bool)) int {
	return OutstandingReservation{Needs: outstanding(&r.Spec, clusterMachines(machines)[clusterKey{r.Namespace, r.Name}], holds)}.Left()
}

// clusterKey identifies a Cluster.
type clusterKey struct{ namespace, clusterName string }

// clusterMachines groups machines by Cluster. It omits those that are being deleted, whose hosts other
// machines will get.
func clusterMachines(machines []infrav1.IngotMachine) map[clusterKey][]*infrav1.IngotMachine {
	clusterMachines := map[clusterKey][]*infrav1.IngotMachine{}
	for i := range machines {
		machine := &machines[i]
		if machine.DeletionTimestamp.IsZero() {
			of := clusterKey{machine.Namespace, machine.Labels[clusterv1.ClusterNameLabel]}
			clusterMachines[of] = append(clusterMachines[of], machine)
		}
	}
	return clusterMachines
}

// outstanding returns the number of machines without a host for each group of one Cluster.
func outstanding(spec *infrav1.IngotReservationSpec, machines []*infrav1.IngotMachine, holds func(*infrav1.IngotMachine) (string, bool)) []int {
	needs := make([]int, len(spec.Groups))
	for i, g := range spec.Groups {
		needs[i] = int(g.Count)
	}
	for _, machine := range machines {
		if at := groupOf(spec, machine.Labels); at >= 0 && needs[at] > 0 {
			if _, ok := holds(machine); ok {
				needs[at]--
			}
		}
	}
	return needs
}

// CountSelected returns, for each group of a demand, the number of the Cluster's machines that have selected a
// host and are not being deleted. It includes groups with count 0, to which an autoscaler may add
// machines.
func CountSelected(namespace, clusterName string, demand Demand, machines []infrav1.IngotMachine) []int {
	spec := infrav1.IngotReservationSpec{}
	for _, g := range demand.Groups {
		spec.Groups = append(spec.Groups, reservedGroup(g))
	}
	holding := make([]int, len(demand.Groups))
	for _, machine := range clusterMachines(machines)[clusterKey{namespace, clusterName}] {
		if at := groupOf(&spec, machine.Labels); at >= 0 {
			if _, ok := HoldsHost(machine); ok {
				holding[at]++
			}
		}
	}
	return holding
}

// groupOf returns the index of a machine's group by the labels of Cluster API. -1: none.
func groupOf(spec *infrav1.IngotReservationSpec, labels map[string]string) int {
	_, controlPlane := labels[clusterv1.MachineControlPlaneLabel]
	topology, deployment := labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel], labels[clusterv1.MachineDeploymentNameLabel]
	return slices.IndexFunc(spec.Groups, func(g infrav1.ReservedGroup) bool {
		isControlPlane := g.ControlPlane != nil && *g.ControlPlane
		if controlPlane || isControlPlane {
			return controlPlane && isControlPlane
		}
		return g.Name == topology || topology == "" && g.Name == deployment
	})
}

// named returns the hosts that machines have selected.
func named(machines []infrav1.IngotMachine, holds func(*infrav1.IngotMachine) (string, bool)) map[string]bool {
	names := map[string]bool{}
	for i := range machines {
		if host, ok := holds(&machines[i]); ok {
			names[host] = true
		}
	}
	return names
}

// RequestOf returns the request for the hosts of a reservation, so that PlanReservation reports whether they
// still exist.
func RequestOf(r *infrav1.IngotReservation) PlanRequest {
	request := PlanRequest{Namespace: r.Namespace, ClusterName: r.Name, Cluster: clusterOf(&r.Spec), Purpose: r.Spec.Purpose}
	for _, g := range r.Spec.Groups {
		request.Demand.Groups = append(request.Demand.Groups, DemandGroup{
			Name: g.Name, ControlPlane: g.ControlPlane != nil && *g.ControlPlane, Count: int(g.Count), FailureDomains: g.FailureDomains,
			Template: machineOf(g), Architecture: g.Architecture,
		})
	}
	return request
}

// LowerToTopology returns the groups of a reservation that a topology still needs: without removed
// MachineDeployments, and with at most the replicas of the topology. It never raises a count, and
// keeps one whose replicas an autoscaler sets. An upgrade has one more machine for its surge.
func LowerToTopology(spec infrav1.IngotReservationSpec, topology clusterv1.Topology) []infrav1.ReservedGroup {
	most := map[string]*int32{}
	for i := range topology.Workers.MachineDeployments {
		most[topology.Workers.MachineDeployments[i].Name] = topology.Workers.MachineDeployments[i].Replicas
	}
	surge := int32(0)
	if spec.Purpose == infrav1.ReservationUpgrade {
		surge = 1
	}
	var left []infrav1.ReservedGroup
	for _, g := range spec.Groups {
		asked, known := most[g.Name]
		if g.ControlPlane != nil && *g.ControlPlane {
			asked, known = topology.ControlPlane.Replicas, true
		}
		if !known || asked != nil && *asked == 0 {
			continue
		}
		if asked != nil {
			g.Count = min(g.Count, *asked+surge)
		}
		left = append(left, g)
	}
	return left
}
