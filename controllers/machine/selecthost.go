// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// selectHost chooses a host and records the intent.
func (r *Reconciler) selectHost(ctx context.Context, s *scope) (outcome, error) {
	if own := s.machine.Spec.FailureDomain; own != "" && own != s.failureDomain() {
		message := fmt.Sprintf("Machine %[1]s asks for failure domain %[2]q, this IngotMachine for %[3]q. Ingot chooses no host. Set spec.failureDomain of Machine %[1]s to %[3]q, or delete the Machine.", s.owner.Name, s.failureDomain(), own)
		r.refuse(s, infrav1.ReasonFailureDomainConflict, message)
		return stop(0), nil
	}
	if out, err := r.findImage(ctx, s); err != nil || out.stop {
		return out, err
	}
	if s.liveOverheard() {
		return r.refuseLive(s), nil
	}
	if out, err := r.formatFits(ctx, s); err != nil || out.stop {
		return out, err
	}
	if out, err := r.findNetwork(ctx, s); err != nil || out.stop {
		return out, err
	}
	in, err := r.gather(ctx, s.machine.Namespace)
	if err != nil {
		return next, err
	}
	selection, id := r.selections.choose(s, in, r.Clock.Now(), r.NewID)
	if selection.Host == nil {
		if s.notClaimed(selection.Reason, selection.Message) {
			s.log.Info("No host matches the machine", "reason", selection.Counts)
			r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, selection.Reason, action, "%s", inventory.Truncate(selection.Message+" "+selection.Counts, allocation.MaxExplanation))
		}
		return r.retryLater(), nil
	}
	if out, err := r.bootstrapIsRead(ctx, s); err != nil || out.stop {
		return out, err
	}
	return r.writeIntent(ctx, s, id.String())
}

// inventorySnapshot is the inventory of one namespace, as the cache shows it.
type inventorySnapshot struct {
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
func (r *Reconciler) gather(ctx context.Context, namespace string) (inventorySnapshot, error) {
	hosts, facts, machines := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}, &infrav1.IngotMachineList{}
	reservations, owners := &infrav1.IngotReservationList{}, &clusterv1.MachineList{}
	for _, list := range []client.ObjectList{hosts, facts, machines, reservations, owners} {
		// Nothing of it is changed, and a copy of a large inventory is dear.
		if err := r.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return inventorySnapshot{}, fmt.Errorf("inventory of namespace %s: %w", namespace, err)
		}
	}
	leaving := map[string]bool{}
	for i := range owners.Items {
		if !owners.Items[i].DeletionTimestamp.IsZero() {
			leaving[owners.Items[i].Name] = true
		}
	}
	return inventorySnapshot{hosts: hardware.LookedAfter(hosts.Items, r.WatchFilterValue), hardware: facts.Items, machines: machines.Items,
		leaving: leaving, reservations: reservations.Items}, nil
}

// isLeaving reports whether an IngotMachine or its Machine is being deleted.
func (in inventorySnapshot) isLeaving(machine *infrav1.IngotMachine) bool {
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

// selectionMemory is how long a choice is remembered that the cache does not show yet.
const selectionMemory = time.Minute

// recentSelections remembers the choices of this process until the cache shows them, so that
// machines which choose at the same time see each other: they spread over racks
// and do not herd on one host. It may be lost, and may be wrong: the claim is what
// counts (I1). The zero value is ready.
type recentSelections struct {
	mu     sync.Mutex
	recent map[types.UID]recentSelection
}

type recentSelection struct {
	providerID infrav1.ProviderID
	until      time.Time
}

// choose selects a host and remembers the choice. One machine chooses at a time: two that
// judge at once would not see each other's choice.
func (p *recentSelections) choose(s *scope, in inventorySnapshot, now time.Time, newID func() string) (allocation.Selection, infrav1.ProviderID) {
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
		p.recent = map[types.UID]recentSelection{}
	}
	p.recent[s.machine.UID] = recentSelection{providerID: id, until: now.Add(selectionMemory)}
	return selection, id
}

// forget gives the choice of a machine up, for others.
func (p *recentSelections) forget(machine types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.recent, machine)
}

// request returns what the machine asks for, the hosts that other machines have named,
// how its MachineSet and MachineDeployment are spread, and what Clusters were promised.
func (p *recentSelections) request(s *scope, in inventorySnapshot, now time.Time) allocation.SelectionRequest {
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
func (p *recentSelections) promises(s *scope, in inventorySnapshot, now time.Time) []allocation.Promise {
	return allocation.Outstanding(allocation.Snapshot{Machines: in.machines, Reservations: in.reservations, Now: now},
		func(machine *infrav1.IngotMachine) (string, bool) {
			id, ok := p.placeOf(machine)
			return id.Host, ok && machine.UID != s.machine.UID
		})
}

// placeOf is the host that a machine has named, by its object or by memory.
func (p *recentSelections) placeOf(machine *infrav1.IngotMachine) (infrav1.ProviderID, bool) {
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

// promise is what a claim would do to what Clusters were promised.
type promise int

const (
	// kept: nobody is worse off.
	kept promise = iota
	// broken: a Cluster would go without a host that it was promised.
	broken
	// unsure: the cache is too old to tell.
	unsure
)

// keepsPromises says whether the claim that the machine is about to make is one that
// promises allow. Whoever promises hosts writes down what is asked for before it looks
// at the intents of machines; the machine has written its intent, and looks now: so that
// at least one sees the other. There is no lock, and where nothing is promised all it
// costs is one empty list (decision 0163).
func (r *Reconciler) keepsPromises(ctx context.Context, s *scope, id infrav1.ProviderID) (promise, error) {
	reservations := &infrav1.IngotReservationList{}
	if err := r.Live.List(ctx, reservations, client.InNamespace(s.machine.Namespace)); err != nil {
		return unsure, fmt.Errorf("live read of the reservations: %w", err)
	}
	if len(reservations.Items) == 0 {
		return kept, nil
	}
	in, err := r.gather(ctx, s.machine.Namespace)
	if err != nil {
		return unsure, err
	}
	in.reservations = reservations.Items
	return r.selections.keeps(s, in, r.Clock.Now(), id)
}

// keeps judges by what the cache shows of the intents of other machines, once it shows
// the machine's own: then it shows all that were written before. So of two intents the
// later one sees the earlier, whichever process wrote it.
func (p *recentSelections) keeps(s *scope, in inventorySnapshot, now time.Time, id infrav1.ProviderID) (promise, error) {
	candidates := allocation.Candidates(in.hosts, in.hardware)
	p.mu.Lock()
	defer p.mu.Unlock()
	request := p.request(s, in, now)
	if len(request.Promises) == 0 {
		return kept, nil
	}
	shown := false
	for i := range in.machines {
		shown = shown || in.machines[i].UID == s.machine.UID && in.machines[i].Spec.ProviderID == id.String()
	}
	if !shown {
		return unsure, nil
	}
	ok, err := allocation.KeepsPromises(request, candidates, id.Host)
	switch {
	case err != nil:
		return unsure, fmt.Errorf("promises of hosts: %w", err)
	case !ok:
		return broken, nil
	}
	return kept, nil
}
