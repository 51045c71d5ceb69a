// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/internal/ipam"
	"github.com/ingot-metal/ingot/internal/networkuse"
	"github.com/ingot-metal/ingot/internal/owner"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// observation is what the decision is made from, and what its execution needs.
type observation struct {
	lifecycle.Observation
	hardware *infrav1.IngotHardware
	network  *infrav1.IngotNetwork
	// addressLost: the pool gives the host another address than the recorded one.
	addressLost bool
	target      bmc.Target
	// known is what is remembered of the BMC after it was asked.
	known contact
	// networkAllowed shows whether the network lets the host boot on it; nil: not known.
	networkAllowed *metav1.Condition
	// rotated is what there is to tell of a change of the BMC's password; nil: nothing.
	rotated *metav1.Condition
}

// factsLater is how long after a host its IngotHardware may be restored from a backup.
const factsLater = time.Minute

// observe gathers what there is to know. Only the API server's failure is an
// error: what is wrong with the host is part of the observation.
func (r *Reconciler) observe(ctx context.Context, host *infrav1.IngotHost) (*observation, error) {
	seen := &observation{Observation: lifecycle.Observation{
		Now:       r.Clock.Now(),
		NewID:     r.NewID(),
		LastReset: host.Status.LastResetTime.Time,
		SoftOffAt: host.Status.SoftPowerOffTime.Time,
		Deleting:  !host.DeletionTimestamp.IsZero(),

		ListeningSince:    r.began.of(r.Clock.Now()),
		BootServerUnknown: r.Boot.URL == "",
	}}
	if paused := conditions.Get(host, infrav1.PausedCondition); paused != nil {
		seen.UnpausedAt = paused.LastTransitionTime.Time
	}
	// Duplicates come before the BMC, whose password is not changed for one (I8), and again
	// after it: two addresses may lead to one BMC.
	for _, gather := range []func(context.Context, *infrav1.IngotHost, *observation) error{
		r.observeHardware, r.observeDuplicates, r.observeMachine, r.observePush, r.observeBMC, r.observeDuplicates, r.observeFirmware,
	} {
		if err := gather(ctx, host, seen); err != nil {
			return nil, err
		}
	}
	seen.LastContact = lifecycle.LastContact(host)
	r.observeContinuity(ctx, host, seen)
	return seen, r.observeSilence(ctx, host, seen)
}

// observeHardware reads the facts, the network and the recorded address.
func (r *Reconciler) observeHardware(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	facts := &infrav1.IngotHardware{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(host), facts)
	switch {
	case err == nil && ofAnother(host, facts):
		// What a deleted host of this name left behind is about to be collected.
	case err == nil:
		if err := r.ownHardware(ctx, host, facts); err != nil {
			return err
		}
		seen.hardware, seen.StorageWithoutDriver = facts, facts.Spec.StorageWithoutDriver
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("hardware of the host: %w", err)
	}
	seen.FactsAwaitedUntil = host.CreationTimestamp.Add(factsLater)
	seen.FactsMissing = seen.hardware == nil || !inventory.IsDescribed(seen.hardware.Spec)
	network := &infrav1.IngotNetwork{}
	err = r.Client.Get(ctx, client.ObjectKey{Name: host.Spec.NetworkRef.Name}, network)
	switch {
	case apierrors.IsNotFound(err):
		seen.NetworkMissing = true
		return nil
	case err != nil:
		return fmt.Errorf("network %s: %w", host.Spec.NetworkRef.Name, err)
	}
	if err := r.observeNetworkUse(ctx, host, network, seen); err != nil || seen.NetworkRefused != "" {
		return err
	}
	held, err := r.book().Observe(ctx, ipam.View{Host: host, Hardware: seen.hardware, Network: network})
	seen.hardware, seen.network, seen.addressLost, seen.AddressRecorded = held.Hardware, network, held.Lost, held.Recorded
	return err
}

// observeNetworkUse finds out whether the network lets the host boot on it. A host that was
// there before goes on, and its condition says what is missing.
func (r *Reconciler) observeNetworkUse(ctx context.Context, host *infrav1.IngotHost, network *infrav1.IngotNetwork, seen *observation) error {
	why, err := networkuse.Check(ctx, r.Client, host, network)
	if err != nil {
		return err
	}
	condition := metav1.Condition{Type: infrav1.HostNetworkAllowedCondition, Status: metav1.ConditionTrue,
		Reason: infrav1.HostNetworkAllowedCondition, ObservedGeneration: host.Generation}
	seen.networkAllowed = &condition
	if why == nil {
		return nil
	}
	condition.Status = metav1.ConditionFalse
	if networkuse.Established(host, seen.hardware) {
		condition.Reason = infrav1.ReasonOutsideAllowed
		condition.Message = inventory.Truncate(why.Message+". The host continues to work; "+why.Remedy, maxConditionMessage)
		return nil
	}
	condition.Reason = why.Reason
	condition.Message = inventory.Truncate(why.Message+". Ingot boots nothing; "+why.Remedy, maxConditionMessage)
	seen.NetworkRefused, seen.RefusedReason = condition.Message, condition.Reason
	return nil
}

// maxConditionMessage is how long such a message may be, in characters.
const maxConditionMessage = 200

// book is where the addresses of hosts stand.
func (r *Reconciler) book() *ipam.Book {
	memory := r.Addresses
	if memory == nil {
		memory = &r.addresses
	}
	return &ipam.Book{Client: r.Client, Clock: r.Clock, Warn: r.event, Memory: memory}
}

// ofAnother says whether an object belongs to another host, one of the same name
// that was deleted.
func ofAnother(host *infrav1.IngotHost, facts *infrav1.IngotHardware) bool {
	owner := metav1.GetControllerOf(facts)
	return owner != nil && owner.UID != host.UID
}

// ownHardware puts back that the facts belong to the host and are kept as long as the host
// (I23), which a backup or a person may have removed.
func (r *Reconciler) ownHardware(ctx context.Context, host *infrav1.IngotHost, facts *infrav1.IngotHardware) error {
	held := !facts.DeletionTimestamp.IsZero() || controllerutil.ContainsFinalizer(facts, infrav1.InUseFinalizer)
	if !host.DeletionTimestamp.IsZero() || held && hardware.IsOwner(host, facts) && metav1.IsControlledBy(facts, host) {
		return nil
	}
	base := facts.DeepCopy()
	if !held {
		controllerutil.AddFinalizer(facts, infrav1.InUseFinalizer)
	}
	if err := controllerutil.SetControllerReference(host, facts, r.Client.Scheme()); err != nil {
		return fmt.Errorf("owner of the hardware: %w", err)
	}
	err := r.Client.Patch(ctx, facts, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return nil // the facts are what was read; the next reconcile tries again
	}
	if err != nil {
		return fmt.Errorf("owner of the hardware: %w", err)
	}
	return nil
}

// observeDuplicates looks for another host that is the same server (I8).
func (r *Reconciler) observeDuplicates(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	twins, err := r.twins(ctx, host, seen.hardware)
	if err != nil {
		return err
	}
	var same []types.NamespacedName
	for _, twin := range twins {
		// One that is let go is nobody's twin any more, but while its firmware is written
		// nobody else switches the server.
		if counts(host, twin) && (twin.DeletionTimestamp.IsZero() || isUpdating(twin)) {
			same = append(same, keyOf(twin))
		}
	}
	byName, err := r.samePeer(ctx, host)
	if err != nil {
		return err
	}
	for _, twin := range byName {
		if twin.DeletionTimestamp.IsZero() && precedes(twin, host) {
			same = append(same, keyOf(twin))
		}
	}
	seen.DuplicateOf = inventory.ListHosts(host.Namespace, same)
	return nil
}

// isUpdating says whether an update of the host's firmware is under way.
func isUpdating(host *infrav1.IngotHost) bool {
	record := host.Spec.Record
	return record != nil && record.Preparation != nil && record.Preparation.Update != nil
}

// observeMachine looks for the machine that the claim names. It must name this host
// and this instance in turn: one that does not, since it was made anew under its
// old name for example, is not the claim's. Only a live read may say so (I6).
func (r *Reconciler) observeMachine(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	claim := host.Spec.Claim
	if claim == nil {
		return nil
	}
	key := client.ObjectKey{Namespace: host.Namespace, Name: claim.MachineRef.Name}
	id := infrav1.ProviderID{Namespace: host.Namespace, Host: host.Name, InstanceID: claim.InstanceID}.String()
	seen.Machine = lifecycle.MachineMissing
	for _, reader := range []client.Reader{r.Client, r.Live} {
		machine := &infrav1.IngotMachine{}
		err := reader.Get(ctx, key, machine)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("machine %s of the claim: %w", key, err)
		}
		if err == nil && machine.Spec.ProviderID == id {
			seen.Machine = lifecycle.MachineExists
			return r.observeMachineEnd(ctx, host, machine, seen)
		}
	}
	return nil
}

// observeMachineEnd looks whether the machine of a host that is to be released by force is
// on its way out: the Machine may be drained for hours before its IngotMachine is deleted.
// It reads live, since people delete the one and annotate the other in one breath.
func (r *Reconciler) observeMachineEnd(ctx context.Context, host *infrav1.IngotHost, machine *infrav1.IngotMachine, seen *observation) error {
	if _, forced := inventory.PendingCommand(host, infrav1.ForceReleaseAnnotation); !forced {
		return nil
	}
	live := &infrav1.IngotMachine{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(machine), live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("live read of machine %s: %w", machine.Name, err)
	}
	if seen.MachineDeleting = err != nil || !live.DeletionTimestamp.IsZero(); seen.MachineDeleting {
		return nil
	}
	ref := owner.Find(live, clusterv1.GroupVersion.WithKind("Machine").GroupKind())
	if ref == nil {
		return nil
	}
	above := &clusterv1.Machine{}
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: live.Namespace, Name: ref.Name}, above)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("live read of Machine %s: %w", ref.Name, err)
	}
	seen.MachineDeleting = err != nil || !above.DeletionTimestamp.IsZero()
	return nil
}
