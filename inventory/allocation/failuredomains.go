// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// MaxFailureDomains is the limit of a Cluster (Cluster API v1.14: MaxItems of
// Cluster.status.failureDomains).
const MaxFailureDomains = 100

// ErrTooManyFailureDomains means that the label has more than MaxFailureDomains values.
var ErrTooManyFailureDomains = errors.New("too many failure domains")

// FailureDomainOf returns the failure domain of a host for a cluster: the one that the cluster's
// own claim fixes (I11), else the value of the label. Empty: none. It ignores other clusters'
// claims, which may be of another label.
func FailureDomainOf(host *infrav1.IngotHost, label, clusterName string) string {
	if claim := host.Spec.Claim; claim != nil && claim.ClusterName == clusterName && claim.FailureDomain != "" {
		return claim.FailureDomain
	}
	return host.Labels[label]
}

// DomainRequest is what the failure domains of a cluster depend on, in addition to the hosts.
type DomainRequest struct {
	Cluster *infrav1.IngotCluster
	// ClusterName is the name of the Cluster API Cluster.
	ClusterName string
	// ControlPlane has the IngotMachines of the cluster's control plane.
	ControlPlane []*infrav1.IngotMachine
	// Architecture of the image of the newest of them (see Newest). Empty: any.
	Architecture string
	// Networks by name. Unused if the newest machine has no networkData.
	Networks map[string]infrav1.IngotNetworkSpec
	// Reservations are the outstanding reservations.
	Reservations []OutstandingReservation
	// Named has the hosts that machines have selected.
	Named map[string]bool
}

// DomainsOf returns the request for a Cluster with the objects of its namespace.
func DomainsOf(cluster *infrav1.IngotCluster, clusterName string, snapshot Snapshot) DomainRequest {
	request := DomainRequest{Cluster: cluster, ClusterName: clusterName,
		Reservations: Outstanding(snapshot, HoldsHost), Named: named(snapshot.Machines, HoldsHost)}
	for i := range snapshot.Machines {
		machine := &snapshot.Machines[i]
		_, controlPlane := machine.Labels[clusterv1.MachineControlPlaneLabel]
		if controlPlane && machine.Namespace == cluster.Namespace && machine.Labels[clusterv1.ClusterNameLabel] == clusterName {
			request.ControlPlane = append(request.ControlPlane, machine)
		}
	}
	return request
}

// Newest returns the newest machine of the control plane, because the next one will have the same
// requirements. Nil: there is none.
func (r DomainRequest) Newest() *infrav1.IngotMachine {
	if len(r.ControlPlane) == 0 {
		return nil
	}
	return slices.MaxFunc(r.ControlPlane, func(a, b *infrav1.IngotMachine) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// FailureDomains lists the failure domains of the hosts that a cluster's hostSelector selects,
// sorted by name. A domain is for control planes if a control plane machine would get a host
// there, so that Cluster API sends none where it would wait forever. Such a host:
//   - matches controlPlaneSelector;
//   - meets the requirements of the newest control plane machine. Before the first one, those
//     of the cluster's reservation count;
//   - is free, or returns from this cluster. That is decided by its spec and by the selections
//     of other machines, not by conditions: a BMC that does not answer for a minute must not
//     move a control plane;
//   - is not reserved for other machines, including those of the same Cluster.
//
// It fails with ErrSelectorInvalid or, if there are more than MaxFailureDomains, with
// ErrTooManyFailureDomains. Then none are to be published.
func FailureDomains(candidates []Candidate, request DomainRequest) ([]clusterv1.FailureDomain, error) {
	admitted, err := parseSelector("hostSelector of the IngotCluster", request.Cluster.Spec.HostSelector)
	if err != nil {
		return nil, err
	}
	forControlPlane, err := parseSelector("controlPlaneSelector of the IngotCluster", request.Cluster.Spec.ControlPlaneSelector)
	if err != nil {
		return nil, err
	}
	label := inventory.FailureDomainLabel(request.Cluster)
	suits, guard := request.suitsNewest(), request.guard(candidates)
	serves := map[string]bool{}
	for i, candidate := range candidates {
		host := candidate.Host
		set := labels.Set(host.Labels)
		back := lifecycle.IsReturning(host, request.ClusterName)
		name := FailureDomainOf(host, label, request.ClusterName)
		if back {
			name = host.Labels[label] // the claim's failure domain ends with the claim (I11)
		}
		if name == "" || host.Namespace != request.Cluster.Namespace || !admitted.Matches(set) {
			continue
		}
		free := lifecycle.IsFreeBySpec(host) && !request.Named[host.Name] && !foreignData(host, request.ClusterName)
		serves[name] = serves[name] || forControlPlane.Matches(set) && (back || free) && suits(candidate) && guard.allows(i)
	}
	if len(serves) > MaxFailureDomains {
		return nil, fmt.Errorf("%w: label %s has %d values on the hosts of this cluster, a Cluster can hold %d; %s",
			ErrTooManyFailureDomains, label, len(serves), MaxFailureDomains, fewerDomains(request.Cluster))
	}
	return listDomains(serves), nil
}

// fewerDomains is what the operator can do about too many failure domains. The label of a
// provisioned cluster cannot change (I11).
func fewerDomains(cluster *infrav1.IngotCluster) string {
	if provisioned := cluster.Status.Initialization.Provisioned; provisioned != nil && *provisioned {
		return "narrow spec.hostSelector (spec.failureDomainLabel of a provisioned cluster cannot change)"
	}
	return "choose a coarser spec.failureDomainLabel, or narrow spec.hostSelector"
}

// suitsNewest returns whether a host meets the requirements of the newest control plane machine,
// including its network but not addresses of pools. Without a machine, those of the reservation
// count. Without a reservation, or with an invalid selector, which the machine reports, any host
// suits.
func (r DomainRequest) suitsNewest() func(Candidate) bool {
	whatever := func(Candidate) bool { return true }
	newest := r.Newest()
	if newest == nil {
		if reserved := r.reserved(); reserved != nil {
			return reserved.suits
		}
		return whatever
	}
	criteria, err := newCriteria(SelectionRequest{Machine: newest, Cluster: r.Cluster, ControlPlane: true, Architecture: r.Architecture})
	if err != nil {
		return whatever
	}
	data := newest.Spec.NetworkData
	return func(candidate Candidate) bool {
		return criteria.suits(candidate) && networkdata.FitHost(data, networkdata.SourcesOf(candidate.Host, candidate.Hardware, networkdata.Surroundings{Networks: r.Networks})) == nil
	}
}

// reserved returns the reserved group of the control plane that has no hosts yet. Nil: none.
func (r DomainRequest) reserved() *group {
	for _, p := range r.Reservations {
		if p.Namespace != r.Cluster.Namespace || p.ClusterName != r.ClusterName {
			continue
		}
		for _, g := range p.groups(asking{}) {
			if g.controlPlane() {
				return &g
			}
		}
	}
	return nil
}

// guard checks the next control plane machine's claim as Select will, except that returning hosts
// are free and conditions do not count.
func (r DomainRequest) guard(candidates []Candidate) *reservationGuard {
	next := &infrav1.IngotMachine{}
	next.Namespace, next.Labels = r.Cluster.Namespace, map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	c := &criteria{SelectionRequest: SelectionRequest{Machine: next, Cluster: r.Cluster, ClusterName: r.ClusterName, Reservations: r.Reservations}}
	return newReservationGuard(c, candidates, func(host *infrav1.IngotHost) bool {
		return lifecycle.IsReturning(host, r.ClusterName) || lifecycle.IsFreeBySpec(host) && !r.Named[host.Name]
	})
}

func listDomains(serves map[string]bool) []clusterv1.FailureDomain {
	domains := make([]clusterv1.FailureDomain, 0, len(serves))
	for _, name := range slices.Sorted(maps.Keys(serves)) {
		controlPlane := serves[name]
		domains = append(domains, clusterv1.FailureDomain{Name: name, ControlPlane: &controlPlane})
	}
	return domains
}
