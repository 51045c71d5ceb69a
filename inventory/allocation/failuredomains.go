// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// MaxFailureDomains is how many a Cluster's status can hold (Cluster API v1.14:
// MaxItems of Cluster.status.failureDomains).
const MaxFailureDomains = 100

// ErrTooManyFailureDomains: the label has more values than a Cluster can hold.
var ErrTooManyFailureDomains = errors.New("too many failure domains")

// FailureDomainOf returns the failure domain of a host in the eyes of a cluster: the
// one frozen with the cluster's own claim (I11), else the value of the label; empty:
// none. Another cluster's claim may have frozen the value of another label.
func FailureDomainOf(host *infrav1.IngotHost, label, clusterName string) string {
	if claim := host.Spec.Claim; claim != nil && claim.ClusterName == clusterName && claim.FailureDomain != "" {
		return claim.FailureDomain
	}
	return host.Labels[label]
}

// DomainRequest is what the failure domains of a cluster depend on, beside the hosts.
type DomainRequest struct {
	Cluster *infrav1.IngotCluster
	// ClusterName is the name of the Cluster API Cluster.
	ClusterName string
	// ControlPlane holds the IngotMachines of the cluster's control plane.
	ControlPlane []*infrav1.IngotMachine
	// Architecture of the image that the newest of them names (see Newest); empty: any.
	Architecture string
	// Networks by their names. They are not looked at where the newest has no networkData.
	Networks map[string]infrav1.IngotNetworkSpec
	// Promises to Clusters that are outstanding.
	Promises []Promise
	// Named holds the hosts that machines have chosen.
	Named map[string]bool
}

// DomainsOf asks for the failure domains of a Cluster by what there is in its namespace.
func DomainsOf(cluster *infrav1.IngotCluster, clusterName string, snapshot Snapshot) DomainRequest {
	request := DomainRequest{Cluster: cluster, ClusterName: clusterName,
		Promises: Outstanding(snapshot, HoldsHost), Named: named(snapshot.Machines, HoldsHost)}
	for i := range snapshot.Machines {
		machine := &snapshot.Machines[i]
		_, controlPlane := machine.Labels[clusterv1.MachineControlPlaneLabel]
		if controlPlane && machine.Namespace == cluster.Namespace && machine.Labels[clusterv1.ClusterNameLabel] == clusterName {
			request.ControlPlane = append(request.ControlPlane, machine)
		}
	}
	return request
}

// Newest is the machine of the control plane that was made last: the next one will ask
// for the same. nil: there is none.
func (r DomainRequest) Newest() *infrav1.IngotMachine {
	if len(r.ControlPlane) == 0 {
		return nil
	}
	return slices.MaxFunc(r.ControlPlane, func(a, b *infrav1.IngotMachine) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// FailureDomains lists the failure domains of a cluster by name: those of the hosts
// that its hostSelector admits. A domain is for control planes while a machine of the
// control plane sent there would get a host: one that controlPlaneSelector admits too,
// that has what the newest machine of the control plane asks for, and that is free or
// on its way back from this cluster; so that no control plane is sent to where it
// cannot be served, and waits there for ever (decision 0095). "Free" goes by
// the ledger, what people asked for and what other machines have chosen, not by conditions: a BMC that is away for a
// minute must not move a control plane. A host that the machine would not be given for
// the sake of a promise, of another group of its own Cluster even, serves no better
// than one in use. Before the first machine of a control plane nothing but
// controlPlaneSelector, and what its Cluster was promised, says what it will ask for.
//
// It fails with ErrSelectorInvalid, or with ErrTooManyFailureDomains when there are
// more than MaxFailureDomains; then none are to be published.
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
		back := lifecycle.Returning(host, request.ClusterName)
		name := FailureDomainOf(host, label, request.ClusterName)
		if back {
			name = host.Labels[label] // what it was frozen as ends with the claim (I11)
		}
		if name == "" || host.Namespace != request.Cluster.Namespace || !admitted.Matches(set) {
			continue
		}
		free := lifecycle.FreeBySpec(host) && !request.Named[host.Name] && !foreignData(host, request.ClusterName)
		serves[name] = serves[name] || forControlPlane.Matches(set) && (back || free) && suits(candidate) && guard.allows(i)
	}
	if len(serves) > MaxFailureDomains {
		return nil, fmt.Errorf("%w: label %s has %d values on the hosts of this cluster, a Cluster can hold %d; %s",
			ErrTooManyFailureDomains, label, len(serves), MaxFailureDomains, fewerDomains(request.Cluster))
	}
	return listDomains(serves), nil
}

// fewerDomains says what a person can do against too many failure domains: the label of
// a cluster that is provisioned cannot be changed any more (I11).
func fewerDomains(cluster *infrav1.IngotCluster) string {
	if provisioned := cluster.Status.Initialization.Provisioned; provisioned != nil && *provisioned {
		return "narrow spec.hostSelector; spec.failureDomainLabel stays, now that the cluster is provisioned"
	}
	return "choose a coarser spec.failureDomainLabel, or narrow spec.hostSelector"
}

// suitsNewest says of a host whether the newest machine of the control plane could
// be on it: the next one will ask for the same. That counts what the host and networks
// have for it to be reached by, not what pools may give. While there is none, what was promised
// to the control plane tells. Any host will do while that is not known either, or while
// the selector is wrong, which the machine itself says.
func (r DomainRequest) suitsNewest() func(Candidate) bool {
	whatever := func(Candidate) bool { return true }
	newest := r.Newest()
	if newest == nil {
		if promised := r.promised(); promised != nil {
			return promised.suits
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

// promised is what the control plane was promised and does not have yet; nil: nothing.
func (r DomainRequest) promised() *group {
	for _, p := range r.Promises {
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

// guard looks at the claim of the next machine of the control plane as Select will,
// but for what "free" means: what is on its way back counts, and conditions do not.
func (r DomainRequest) guard(candidates []Candidate) *reservationGuard {
	next := &infrav1.IngotMachine{}
	next.Namespace, next.Labels = r.Cluster.Namespace, map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	c := &criteria{SelectionRequest: SelectionRequest{Machine: next, Cluster: r.Cluster, ClusterName: r.ClusterName, Promises: r.Promises}}
	return newReservationGuard(c, candidates, func(host *infrav1.IngotHost) bool {
		return lifecycle.Returning(host, r.ClusterName) || lifecycle.FreeBySpec(host) && !r.Named[host.Name]
	})
}

func listDomains(serves map[string]bool) []clusterv1.FailureDomain {
	names := make([]string, 0, len(serves))
	for name := range serves {
		names = append(names, name)
	}
	slices.Sort(names)
	domains := make([]clusterv1.FailureDomain, 0, len(names))
	for _, name := range names {
		controlPlane := serves[name]
		domains = append(domains, clusterv1.FailureDomain{Name: name, ControlPlane: &controlPlane})
	}
	return domains
}
