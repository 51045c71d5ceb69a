// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/allocation"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// stock is the inventory of one namespace, as the cache shows it.
type stock struct {
	hosts    []infrav1.IngotHost
	hardware []infrav1.IngotHardware
	machines []infrav1.IngotMachine
	// leaving holds the names of the Machines that are being deleted. Cluster API drains
	// a Machine before it deletes the IngotMachine, so the IngotMachine does not show it.
	leaving map[string]bool
	// reservations are of all Clusters, the machine's own among them.
	reservations []infrav1.IngotReservation
}

// gather reads what the choice is made from.
func (r *Reconciler) gather(ctx context.Context, namespace string) (stock, error) {
	hosts, facts, machines := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}, &infrav1.IngotMachineList{}
	reservations, owners := &infrav1.IngotReservationList{}, &clusterv1.MachineList{}
	for _, list := range []client.ObjectList{hosts, facts, machines, reservations, owners} {
		// Nothing of it is changed, and a copy of a large inventory is dear.
		if err := r.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return stock{}, fmt.Errorf("inventory of namespace %s: %w", namespace, err)
		}
	}
	leaving := map[string]bool{}
	for i := range owners.Items {
		if !owners.Items[i].DeletionTimestamp.IsZero() {
			leaving[owners.Items[i].Name] = true
		}
	}
	return stock{hosts: hardware.LookedAfter(hosts.Items, r.WatchFilterValue), hardware: facts.Items, machines: machines.Items,
		leaving: leaving, reservations: reservations.Items}, nil
}

// isLeaving reports whether an IngotMachine or its Machine is being deleted.
func (in stock) isLeaving(machine *infrav1.IngotMachine) bool {
	if !machine.DeletionTimestamp.IsZero() {
		return true
	}
	for _, owner := range machine.OwnerReferences {
		if owner.Kind == "Machine" && in.leaving[owner.Name] {
			return true
		}
	}
	return false
}

// pickMemory is how long a choice is remembered that the cache does not show yet.
const pickMemory = time.Minute

// picks remembers the choices of this process until the cache shows them, so that
// machines which choose at the same time see each other: they spread over racks
// and do not herd on one host. It may be lost, and may be wrong: the claim is what
// counts (I1). The zero value is ready.
type picks struct {
	mu     sync.Mutex
	recent map[types.UID]recentPick
}

type recentPick struct {
	providerID infrav1.ProviderID
	until      time.Time
}

// choose selects a host and remembers the choice. One machine chooses at a time: two that
// judge at once would not see each other's choice.
func (p *picks) choose(s *scope, in stock, now time.Time, newID func() string) (allocation.Selection, infrav1.ProviderID) {
	candidates := allocation.Candidates(in.hosts, in.hardware)
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, pick := range p.recent {
		if now.After(pick.until) || uid == s.machine.UID {
			delete(p.recent, uid)
		}
	}
	selection := allocation.Select(p.request(s, in, now), candidates)
	if selection.Host == nil {
		return selection, infrav1.ProviderID{}
	}
	id := infrav1.ProviderID{Namespace: selection.Host.Namespace, Host: selection.Host.Name, InstanceID: newID()}
	if p.recent == nil {
		p.recent = map[types.UID]recentPick{}
	}
	p.recent[s.machine.UID] = recentPick{providerID: id, until: now.Add(pickMemory)}
	return selection, id
}

// forget gives the choice of a machine up, for others.
func (p *picks) forget(machine types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.recent, machine)
}

// request returns what the machine asks for, the hosts that other machines have named,
// how its MachineSet and MachineDeployment are spread, and what Clusters were promised.
func (p *picks) request(s *scope, in stock, now time.Time) allocation.SelectionRequest {
	request := s.asks()
	request.Named = map[string]bool{}
	request.DomainUse, request.DeploymentUse = map[string]int{}, map[string]int{}
	request.Promises = p.promises(s, in, now)
	if s.around != nil {
		request.Around = *s.around
	}
	domains := map[string]string{}
	for i := range in.hosts {
		domains[in.hosts[i].Name] = allocation.FailureDomainOf(&in.hosts[i], inventory.FailureDomainLabel(s.ingotCluster), s.cluster.Name)
	}
	for i := range in.machines {
		other := &in.machines[i]
		id, ok := p.placeOf(other)
		if !ok || other.UID == s.machine.UID {
			continue
		}
		request.Named[id.Host] = true
		domain := domains[id.Host]
		if domain == "" || in.isLeaving(other) {
			continue
		}
		if shareLabel(s.machine.Labels, other.Labels, clusterv1.MachineSetNameLabel, clusterv1.MachineControlPlaneNameLabel) {
			request.DomainUse[domain]++
		}
		if shareLabel(s.machine.Labels, other.Labels, clusterv1.MachineDeploymentNameLabel) {
			request.DeploymentUse[domain]++
		}
	}
	return request
}

// asks is what the machine asks of a host, whatever else there is.
func (s *scope) asks() allocation.SelectionRequest {
	return allocation.SelectionRequest{
		Machine:       s.machine,
		Cluster:       s.ingotCluster,
		ClusterName:   s.cluster.Name,
		ControlPlane:  util.IsControlPlaneMachine(s.owner),
		FailureDomain: s.failureDomain(),
		Architecture:  s.architecture(),
		Checksums:     lifecycle.ChecksumsOf(&infrav1.HostClaim{Image: s.image(), Live: s.machine.Spec.Live}),
	}
}

// misfit judges a host that was chosen once more, as it is now: between the choice and the
// claim the manager may have been away, and hours have passed. Empty: it will do.
func (r *Reconciler) misfit(ctx context.Context, s *scope, host *infrav1.IngotHost) (string, error) {
	candidate := allocation.Candidate{Host: host, Hardware: &infrav1.IngotHardware{}}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(host), candidate.Hardware)
	if apierrors.IsNotFound(err) {
		candidate.Hardware = nil
	} else if err != nil {
		return "", fmt.Errorf("live read of the hardware of host %s: %w", host.Name, err)
	}
	why, err := allocation.Misfit(s.asks(), candidate)
	if errors.Is(err, allocation.ErrSelectorInvalid) {
		return err.Error(), nil
	}
	return why, err
}

// promises are those that are outstanding. The machine itself counts as one without a
// host: whether it may have one is the question.
func (p *picks) promises(s *scope, in stock, now time.Time) []allocation.Promise {
	return allocation.Outstanding(allocation.Stock{Machines: in.machines, Reservations: in.reservations, Now: now},
		func(machine *infrav1.IngotMachine) (string, bool) {
			id, ok := p.placeOf(machine)
			return id.Host, ok && machine.UID != s.machine.UID
		})
}

// placeOf is the host that a machine has named, by its object or by memory.
func (p *picks) placeOf(machine *infrav1.IngotMachine) (infrav1.ProviderID, bool) {
	if id, err := infrav1.ParseProviderID(machine.Spec.ProviderID); err == nil {
		return id, true
	}
	pick, ok := p.recent[machine.UID]
	return pick.providerID, ok
}

// shareLabel reports whether both sets have the same value of one of the labels.
func shareLabel(a, b map[string]string, names ...string) bool {
	for _, name := range names {
		if a[name] != "" && a[name] == b[name] {
			return true
		}
	}
	return false
}
