// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Promise is what is outstanding of one reservation.
type Promise struct {
	Namespace, ClusterName string
	Spec                   *infrav1.IngotReservationSpec
	// Needs counts, for each group of the spec, the machines that have no host yet.
	Needs []int
}

// Left counts the hosts that the promise still keeps for its Cluster.
func (p Promise) Left() int {
	left := 0
	for _, need := range p.Needs {
		left += need
	}
	return left
}

// HoldsHost says whether a machine has chosen its host: from then on it counts as the
// machine's, and as part of what its Cluster was promised.
func HoldsHost(machine *infrav1.IngotMachine) (host string, ok bool) {
	id, err := infrav1.ParseProviderID(machine.Spec.ProviderID)
	return id.Host, err == nil
}

// ClaimedHost says of machines whether they have their host for good: it carries their
// claim. What a machine has only chosen it may have to give back (see HoldsHost), so that
// a promise may not end by it.
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

// Outstanding derives from the machines what is left of each reservation, so that
// nothing has to be counted when a claim is made. What has expired, or is met, or is
// being deleted, is left out. holds says which machines have their host. The promises
// are in the order of their namespaces and Clusters.
func Outstanding(snapshot Snapshot, holds func(*infrav1.IngotMachine) (string, bool)) []Promise {
	var promises []Promise
	clusterMachines := clusterMachines(snapshot.Machines)
	for i := range snapshot.Reservations {
		r := &snapshot.Reservations[i]
		if !Stands(r, snapshot.Now) {
			continue
		}
		p := Promise{Namespace: r.Namespace, ClusterName: r.Name, Spec: &r.Spec,
			Needs: outstanding(&r.Spec, clusterMachines[clusterKey{r.Namespace, r.Name}], holds)}
		if p.Left() > 0 {
			promises = append(promises, p)
		}
	}
	slices.SortFunc(promises, func(a, b Promise) int {
		if by := strings.Compare(a.Namespace, b.Namespace); by != 0 {
			return by
		}
		return strings.Compare(a.ClusterName, b.ClusterName)
	})
	return promises
}

// Stands says whether a reservation still binds: it is not being deleted and has not
// expired.
func Stands(r *infrav1.IngotReservation, now time.Time) bool {
	return r.DeletionTimestamp.IsZero() && (r.Spec.ExpiresAt.IsZero() || now.Before(r.Spec.ExpiresAt.Time))
}

// Left counts the machines of a reservation that have no host yet, whether it still
// binds or not. holds says which have one.
func Left(r *infrav1.IngotReservation, machines []infrav1.IngotMachine, holds func(*infrav1.IngotMachine) (string, bool)) int {
	return Promise{Needs: outstanding(&r.Spec, clusterMachines(machines)[clusterKey{r.Namespace, r.Name}], holds)}.Left()
}

// clusterKey names the machines of one Cluster.
type clusterKey struct{ namespace, clusterName string }

// clusterMachines sorts machines by their Clusters, so that many promises are counted in one pass.
// Those that are being deleted are left out: the host of one is another's soon.
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

// outstanding counts what is left for the machines of one Cluster.
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

// Holding counts, for each group of a demand, the machines of the Cluster that have chosen
// their host and are not being deleted; those too of a group that asks for none, which an
// autoscaler may have made.
func Holding(namespace, clusterName string, demand Demand, machines []infrav1.IngotMachine) []int {
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

// groupOf finds the group that a machine of the reservation's Cluster belongs to, by the
// labels that Cluster API gives it; -1: none.
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

// named holds the hosts that machines have chosen.
func named(machines []infrav1.IngotMachine, holds func(*infrav1.IngotMachine) (string, bool)) map[string]bool {
	names := map[string]bool{}
	for i := range machines {
		if host, ok := holds(&machines[i]); ok {
			names[host] = true
		}
	}
	return names
}

// RequestOf asks for what a reservation promises, so that PlanPromise says whether the
// hosts for it are still there.
func RequestOf(r *infrav1.IngotReservation) PromiseRequest {
	request := PromiseRequest{Namespace: r.Namespace, ClusterName: r.Name, Cluster: clusterOf(&r.Spec), Purpose: r.Spec.Purpose}
	for _, g := range r.Spec.Groups {
		request.Demand.Groups = append(request.Demand.Groups, DemandGroup{
			Name: g.Name, ControlPlane: g.ControlPlane != nil && *g.ControlPlane, Count: int(g.Count), FailureDomains: g.FailureDomains,
			Template: machineOf(g), Architecture: g.Architecture,
		})
	}
	return request
}

// Lowered returns the groups of a reservation as far as a topology asks for them still:
// without MachineDeployments that are gone, and with no more machines than it says. It
// never raises a count, and leaves one alone where the topology does not say how many:
// then an autoscaler does. An upgrade has one machine more than that for its surge.
func Lowered(spec infrav1.IngotReservationSpec, topology clusterv1.Topology) []infrav1.ReservedGroup {
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
