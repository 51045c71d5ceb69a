// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/allocation"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// selectHost selects a host and writes the intent.
func (r *Reconciler) selectHost(ctx context.Context, s *scope) (outcome, error) {
	if own := s.machine.Spec.FailureDomain; own != "" && own != s.failureDomain() {
		message := fmt.Sprintf("Machine %[1]s requests failure domain %[2]q, this IngotMachine %[3]q. Ingot selects no host. Set spec.failureDomain of Machine %[1]s to %[3]q, or delete the Machine.", s.owner.Name, s.failureDomain(), own)
		r.refuse(s, infrav1.ReasonFailureDomainConflict, message)
		return stop(0), nil
	}
	if out, err := r.findImage(ctx, s); err != nil || out.stop {
		return out, err
	}
	if s.exposesLiveData() {
		return r.refuseLive(s), nil
	}
	if out, err := r.checkFormat(ctx, s); err != nil || out.stop {
		return out, err
	}
	if out, err := r.findNetwork(ctx, s); err != nil || out.stop {
		return out, err
	}
	in, err := r.gather(ctx, s.machine.Namespace)
	if err != nil {
		return next, err
	}
	selection, id := r.selections.selectHost(s, in, r.Clock.Now(), r.NewID)
	if selection.Host == nil {
		if s.notClaimed(selection.Reason, selection.Message) {
			s.log.Info("No host matches the machine", "reason", selection.Counts)
			r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, selection.Reason, action, "%s", inventory.Truncate(selection.Message+" "+selection.Counts, allocation.MaxExplanation))
		}
		return r.retryLater(), nil
	}
	if out, err := r.checkBootstrapData(ctx, s); err != nil || out.stop {
		return out, err
	}
	return r.writeIntent(ctx, s, id.String())
}

// inventorySnapshot is the cached inventory of one namespace.
type inventorySnapshot struct {
	hosts    []infrav1.IngotHost
	hardware []infrav1.IngotHardware
	machines []infrav1.IngotMachine
	// leaving has the names of Machines that are being deleted. Cluster API drains a Machine
	// before it deletes the IngotMachine.
	leaving map[string]bool
	// reservations are those of all Clusters, including the machine's own.
	reservations []infrav1.IngotReservation
}

// gather reads the inventory for a selection.
func (r *Reconciler) gather(ctx context.Context, namespace string) (inventorySnapshot, error) {
	hosts, facts, machines := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}, &infrav1.IngotMachineList{}
	reservations, owners := &infrav1.IngotReservationList{}, &clusterv1.MachineList{}
	for _, list := range []client.ObjectList{hosts, facts, machines, reservations, owners} {
		// Read-only: copying a large inventory is expensive.
		if err := r.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return inventorySnapshot{}, fmt.Errorf("list inventory of namespace %s: %w", namespace, err)
		}
	}
	leaving := map[string]bool{}
	for i := range owners.Items {
		if !owners.Items[i].DeletionTimestamp.IsZero() {
			leaving[owners.Items[i].Name] = true
		}
	}
	return inventorySnapshot{hosts: hardware.FilterByWatchLabel(hosts.Items, r.WatchFilterValue), hardware: facts.Items, machines: machines.Items,
		leaving: leaving, reservations: reservations.Items}, nil
}

func (in inventorySnapshot) isLeaving(machine *infrav1.IngotMachine) bool {
	return !machine.DeletionTimestamp.IsZero() || slices.ContainsFunc(machine.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.Kind == "Machine" && in.leaving[owner.Name]
	})
}

// selectionMemory is how long a selection is remembered that the cache does not show yet.
const selectionMemory = time.Minute

// recentSelections remembers the selections of this process until the cache shows them.
// Machines that select at the same time then spread over racks and avoid the same host. It
// may be lost or wrong: only the claim binds a host (I1). The zero value is ready to use.
type recentSelections struct {
	mu     sync.Mutex
	recent map[types.UID]recentSelection
}

type recentSelection struct {
	providerID infrav1.ProviderID
	until      time.Time
}

// selectHost selects a host and remembers the selection. The lock ensures that two machines see
// each other's selection.
func (p *recentSelections) selectHost(s *scope, in inventorySnapshot, now time.Time, newID func() string) (allocation.Selection, infrav1.ProviderID) {
	candidates := allocation.Candidates(in.hosts, in.hardware)
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.recent, func(uid types.UID, recent recentSelection) bool {
		return now.After(recent.until) || uid == s.machine.UID
	})
	selection := allocation.Select(p.request(s, in, now), candidates)
	if selection.Host == nil {
		return selection, infrav1.ProviderID{}
	}
	id := infrav1.ProviderID{Namespace: selection.Host.Namespace, Host: selection.Host.Name, InstanceID: newID()}
	if p.recent == nil {
		p.recent = map[types.UID]recentSelection{}
	}
	p.recent[s.machine.UID] = recentSelection{providerID: id, until: now.Add(selectionMemory)}
	return selection, id
}

func (p *recentSelections) forget(machine types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.recent, machine)
}

// request returns the machine's requirements, the hosts that other machines selected, the spread
// of its MachineSet and MachineDeployment over failure domains, and the reservations. The
// lock is held.
func (p *recentSelections) request(s *scope, in inventorySnapshot, now time.Time) allocation.SelectionRequest {
	request := s.requirements()
	request.Named = map[string]bool{}
	request.DomainUse, request.DeploymentUse = map[string]int{}, map[string]int{}
	// The machine itself counts as one without a host.
	request.Reservations = allocation.Outstanding(allocation.Snapshot{Machines: in.machines, Reservations: in.reservations, Now: now},
		func(machine *infrav1.IngotMachine) (string, bool) {
			id, ok := p.selectionOf(machine)
			return id.Host, ok && machine.UID != s.machine.UID
		})
	if s.around != nil {
		request.Around = *s.around
	}
	domains := map[string]string{}
	for i := range in.hosts {
		domains[in.hosts[i].Name] = allocation.FailureDomainOf(&in.hosts[i], inventory.FailureDomainLabel(s.ingotCluster), s.cluster.Name)
	}
	for i := range in.machines {
		other := &in.machines[i]
		id, ok := p.selectionOf(other)
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

// requirements returns the machine's own requirements on a host.
func (s *scope) requirements() allocation.SelectionRequest {
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

// misfit returns why the selected host no longer fits the machine; empty: it fits. The manager
// may have been down between selection and claim.
func (r *Reconciler) misfit(ctx context.Context, s *scope, host *infrav1.IngotHost) (string, error) {
	hardware, err := kubeutil.Find[infrav1.IngotHardware](ctx, r.Live, host.Namespace, host.Name)
	if err != nil {
		return "", err
	}
	why, err := allocation.Misfit(s.requirements(), allocation.Candidate{Host: host, Hardware: hardware})
	if errors.Is(err, allocation.ErrSelectorInvalid) {
		return err.Error(), nil
	}
	return why, err
}

// selectionOf returns the host that a machine selected, by its provider ID or by memory. The
// lock is held.
func (p *recentSelections) selectionOf(machine *infrav1.IngotMachine) (infrav1.ProviderID, bool) {
	if id, err := infrav1.ParseProviderID(machine.Spec.ProviderID); err == nil {
		return id, true
	}
	recent, ok := p.recent[machine.UID]
	return recent.providerID, ok
}

func shareLabel(a, b map[string]string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return a[name] != "" && a[name] == b[name] })
}

// verdict is the effect of a claim on the reservations of Clusters.
type verdict int

const (
	// respected: all reservations can still be met.
	respected verdict = iota
	// violated: a Cluster would lose a reserved host.
	violated
	// unsure: the cache is too old.
	unsure
)

// checkReservations reports whether reservations allow the claim. A planner writes its request
// before it reads the intents of machines. The machine wrote its intent before this call. So at
// least one of the two sees the other, without a lock. Without reservations the only cost is
// one empty list.
func (r *Reconciler) checkReservations(ctx context.Context, s *scope, id infrav1.ProviderID) (verdict, error) {
	reservations := &infrav1.IngotReservationList{}
	if err := r.Live.List(ctx, reservations, client.InNamespace(s.machine.Namespace)); err != nil {
		return unsure, fmt.Errorf("list reservations live: %w", err)
	}
	if len(reservations.Items) == 0 {
		return respected, nil
	}
	in, err := r.gather(ctx, s.machine.Namespace)
	if err != nil {
		return unsure, err
	}
	in.reservations = reservations.Items
	return r.selections.check(s, in, r.Clock.Now(), id)
}

// check implements checkReservations by the cached intents of other machines. It is unsure until
// the cache shows the machine's own intent: then it also shows all earlier ones, so that of
// two intents the later one sees the earlier, whichever process wrote it.
func (p *recentSelections) check(s *scope, in inventorySnapshot, now time.Time, id infrav1.ProviderID) (verdict, error) {
	candidates := allocation.Candidates(in.hosts, in.hardware)
	p.mu.Lock()
	defer p.mu.Unlock()
	request := p.request(s, in, now)
	if len(request.Reservations) == 0 {
		return respected, nil
	}
	shown := false
	for i := range in.machines {
		shown = shown || in.machines[i].UID == s.machine.UID && in.machines[i].Spec.ProviderID == id.String()
	}
	if !shown {
		return unsure, nil
	}
	ok, err := allocation.KeepsReservations(request, candidates, id.Host)
	switch {
	case err != nil:
		return unsure, fmt.Errorf("check reservations: %w", err)
	case !ok:
		return violated, nil
	}
	return respected, nil
}
