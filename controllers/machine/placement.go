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
	"github.com/ingot-metal/ingot/controllers/hardware"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// stock is the inventory of one namespace, as the cache shows it.
type stock struct {
	hosts    []infrav1.IngotHost
	hardware []infrav1.IngotHardware
	machines []infrav1.IngotMachine
	// reservations are of all Clusters, the machine's own among them.
	reservations []infrav1.IngotReservation
}

// gather reads what the choice is made from.
func (r *Reconciler) gather(ctx context.Context, namespace string) (stock, error) {
	hosts, facts, machines := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}, &infrav1.IngotMachineList{}
	reservations := &infrav1.IngotReservationList{}
	for _, list := range []client.ObjectList{hosts, facts, machines, reservations} {
		// Nothing of it is changed, and a copy of a large inventory is dear.
		if err := r.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return stock{}, fmt.Errorf("inventory of namespace %s: %w", namespace, err)
		}
	}
	return stock{hosts: hardware.LookedAfter(hosts.Items, r.WatchFilterValue), hardware: facts.Items, machines: machines.Items, reservations: reservations.Items}, nil
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

// request says what the machine asks for, which hosts others have named, and how
// the machines of its owner set are spread, and what Clusters were promised.
func (p *picks) request(s *scope, in stock, now time.Time) allocation.SelectionRequest {
	request := s.asks()
	request.Named, request.DomainUse = map[string]bool{}, map[string]int{}
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
		if domain := domains[id.Host]; domain != "" && sameOwnerSet(s.machine.Labels, other.Labels) {
			request.DomainUse[domain]++
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
		Checksums:     inventory.ChecksumsOf(&infrav1.HostClaim{Image: s.image(), Live: s.machine.Spec.Live}),
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

// sameOwnerSet says whether two machines come from the same MachineDeployment,
// MachineSet or control plane.
func sameOwnerSet(a, b map[string]string) bool {
	for _, label := range []string{clusterv1.MachineDeploymentNameLabel, clusterv1.MachineControlPlaneNameLabel, clusterv1.MachineSetNameLabel} {
		if a[label] != "" {
			return a[label] == b[label]
		}
	}
	return false
}
