// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	"github.com/ingot-metal/ingot/internal/bmccredentials"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/ipam"
	"github.com/ingot-metal/ingot/internal/networkuse"
	"github.com/ingot-metal/ingot/internal/rotation"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// observation is the input of a decision and of its execution.
type observation struct {
	lifecycle.Observation
	hardware *infrav1.IngotHardware
	network  *infrav1.IngotNetwork
	// failureDomain is the one that the status shows.
	failureDomain string
	// addressLost: the pool assigns the host another address than the recorded one.
	addressLost bool
	target      bmc.Target
	// known is the state of the BMC after it was read.
	known bmcState
	// networkAllowed shows whether the network lets the host boot; nil: unknown.
	networkAllowed *metav1.Condition
	// rotated reports on a change of the BMC's password; nil: nothing to report.
	rotated *metav1.Condition
}

// factsGrace is how long after an IngotHost its IngotHardware may be restored from a backup.
const factsGrace = time.Minute

// maxConditionMessage is in characters.
const maxConditionMessage = 200

// observe gathers the input of the decision. Only failures of the API server are errors:
// faults of the host are part of the observation.
func (r *Reconciler) observe(ctx context.Context, host *infrav1.IngotHost) (*observation, error) {
	seen := &observation{Observation: lifecycle.Observation{
		Now:       r.Clock.Now(),
		NewID:     r.NewID(),
		LastReset: host.Status.LastResetTime.Time,
		SoftOffAt: host.Status.SoftPowerOffTime.Time,
		Deleting:  !host.DeletionTimestamp.IsZero(),

		ListeningSince:    r.memory.listeningSince(r.Clock.Now()),
		BootServerUnknown: r.Boot.URL == "",
	}}
	if paused := conditions.Get(host, infrav1.PausedCondition); paused != nil {
		seen.UnpausedAt = paused.LastTransitionTime.Time
	}
	// Duplicates are found before the BMC is read, since the password of a duplicate is not
	// changed (I8), and again afterwards: two addresses may lead to one BMC.
	for _, gather := range []func(context.Context, *infrav1.IngotHost, *observation) error{
		r.observeFailureDomain, r.observeHardware, r.observeDuplicates, r.observeMachine, r.observePush, r.observeBMC, r.observeDuplicates, r.observeFirmware,
	} {
		if err := gather(ctx, host, seen); err != nil {
			return nil, err
		}
	}
	seen.LastContact = lifecycle.LastContact(host)
	r.observeContinuity(ctx, host, seen)
	return seen, r.observeAgentSilence(ctx, host, seen)
}

// observeFailureDomain reads the clusters of the host's namespace for their failure domain labels.
func (r *Reconciler) observeFailureDomain(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	list := &infrav1.IngotClusterList{}
	if err := r.Client.List(ctx, list, client.InNamespace(host.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the IngotClusters of namespace %s: %w", host.Namespace, err)
	}
	slices.SortFunc(list.Items, func(a, b infrav1.IngotCluster) int { return strings.Compare(a.Name, b.Name) })
	seen.failureDomain = inventory.ShownFailureDomain(host, list.Items)
	return nil
}

// observeHardware reads the hardware facts, the network and the recorded address.
func (r *Reconciler) observeHardware(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	facts := &infrav1.IngotHardware{}
	err := r.Client.Get(ctx, keyOf(host), facts)
	switch {
	case err == nil && belongsToOther(host, facts):
		// It belongs to a deleted host of this name, and is about to be garbage-collected.
	case err == nil:
		if err := r.ownHardware(ctx, host, facts); err != nil {
			return err
		}
		seen.hardware, seen.StorageWithoutDriver = facts, facts.Spec.StorageWithoutDriver
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read hardware of the host: %w", err)
	}
	seen.FactsAwaitedUntil = host.CreationTimestamp.Add(factsGrace)
	seen.FactsMissing = seen.hardware == nil || !inventory.IsDescribed(seen.hardware.Spec)
	network := &infrav1.IngotNetwork{}
	err = r.Client.Get(ctx, client.ObjectKey{Name: host.Spec.NetworkRef.Name}, network)
	switch {
	case apierrors.IsNotFound(err):
		seen.NetworkMissing = true
		return nil
	case err != nil:
		return fmt.Errorf("read network %s: %w", host.Spec.NetworkRef.Name, err)
	}
	if err := r.observeNetworkUse(ctx, host, network, seen); err != nil || seen.NetworkRefused != "" {
		return err
	}
	assigned, err := r.addressAllocator().Observe(ctx, ipam.View{Host: host, Hardware: seen.hardware, Network: network})
	seen.hardware, seen.network, seen.addressLost, seen.AddressRecorded = assigned.Hardware, network, assigned.Lost, assigned.Recorded
	return err
}

// observeNetworkUse checks whether the network lets the host boot. A host that booted there
// before keeps working; its condition shows the missing permission.
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
		condition.Reason = infrav1.ReasonOutsideAllowedNamespaces
		condition.Message = inventory.Truncate(why.Message+". The host keeps working; "+why.Remedy, maxConditionMessage)
		return nil
	}
	condition.Reason = why.Reason
	condition.Message = inventory.Truncate(why.Message+". Ingot does not boot the host; "+why.Remedy, maxConditionMessage)
	seen.NetworkRefused, seen.RefusedReason = condition.Message, condition.Reason
	return nil
}

// addressAllocator returns the allocator of boot NIC addresses.
func (r *Reconciler) addressAllocator() *ipam.Allocator {
	return &ipam.Allocator{Client: r.Client, Clock: r.Clock, Warn: r.recordWarning, Memory: r.Addresses}
}

// belongsToOther reports whether hardware facts belong to a deleted host of the same name.
func belongsToOther(host *infrav1.IngotHost, facts *infrav1.IngotHardware) bool {
	owner := metav1.GetControllerOf(facts)
	return owner != nil && owner.UID != host.UID
}

// ownHardware restores the owner and finalizer of the hardware facts, which must exist as long
// as the host (I23). A backup or an operator may have removed them.
func (r *Reconciler) ownHardware(ctx context.Context, host *infrav1.IngotHost, facts *infrav1.IngotHardware) error {
	held := !facts.DeletionTimestamp.IsZero() || controllerutil.ContainsFinalizer(facts, infrav1.InUseFinalizer)
	if !host.DeletionTimestamp.IsZero() || held && hardware.IsOwner(host, facts) && metav1.IsControlledBy(facts, host) {
		return nil
	}
	base := facts.DeepCopy()
	if !held {
		controllerutil.AddFinalizer(facts, infrav1.InUseFinalizer)
	}
	err := controllerutil.SetControllerReference(host, facts, r.Client.Scheme())
	if err == nil {
		err = r.Client.Patch(ctx, facts, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil && !apierrors.IsConflict(err) { // after a conflict the next reconcile tries again
		return fmt.Errorf("set owner of the hardware: %w", err)
	}
	return nil
}

// observeDuplicates looks for other hosts that are the same server (I8).
func (r *Reconciler) observeDuplicates(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	duplicates, err := r.duplicates(ctx, host, seen.hardware)
	if err != nil {
		return err
	}
	var same []types.NamespacedName
	for _, other := range duplicates {
		// A host that is being deleted is no duplicate, unless its firmware is being written:
		// then no other host may power-cycle the server.
		if isDisabledBy(host, other) && (other.DeletionTimestamp.IsZero() || isUpdating(other)) {
			same = append(same, keyOf(other))
		}
	}
	byName, err := r.sameBMCByName(ctx, host)
	if err != nil {
		return err
	}
	for _, other := range byName {
		if other.DeletionTimestamp.IsZero() && precedes(other, host) {
			same = append(same, keyOf(other))
		}
	}
	seen.DuplicateOf = inventory.ListHosts(host.Namespace, same)
	return nil
}

// duplicates finds other hosts that are the same server: by boot MAC address, by the system at
// the BMC and, if hardware is known, by UUID and serial number.
func (r *Reconciler) duplicates(ctx context.Context, host *infrav1.IngotHost, hardware *infrav1.IngotHardware) ([]*infrav1.IngotHost, error) {
	var found []*infrav1.IngotHost
	for _, by := range []struct {
		field, value string
		isSame       func(*infrav1.IngotHost) bool
	}{
		{index.HostByMAC, host.Spec.BootMACAddress, func(*infrav1.IngotHost) bool { return true }},
		{index.HostByBMC, index.BMC(host), func(other *infrav1.IngotHost) bool { return index.SameBMC(host, other) }},
	} {
		if by.value == "" {
			continue
		}
		hosts := &infrav1.IngotHostList{}
		if err := r.Client.List(ctx, hosts, client.MatchingFields{by.field: by.value}); err != nil {
			return nil, fmt.Errorf("list hosts with the same %s: %w", by.field, err)
		}
		for i := range hosts.Items {
			if other := &hosts.Items[i]; keyOf(other) != keyOf(host) && by.isSame(other) && !hasMovedAway(other) {
				found = append(found, other)
			}
		}
	}
	if hardware == nil {
		return found, nil
	}
	more, err := r.sameSystem(ctx, hardware)
	return append(found, more...), err
}

// sameSystem finds other hosts whose firmware reports the same UUID and serial number.
func (r *Reconciler) sameSystem(ctx context.Context, hardware *infrav1.IngotHardware) ([]*infrav1.IngotHost, error) {
	system := index.System(hardware)
	if system == "" {
		return nil, nil
	}
	list := &infrav1.IngotHardwareList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{index.HardwareBySystem: system}); err != nil {
		return nil, fmt.Errorf("list hosts with the same UUID and serial number: %w", err)
	}
	var hosts []*infrav1.IngotHost
	for i := range list.Items {
		key := client.ObjectKeyFromObject(&list.Items[i])
		if key == client.ObjectKeyFromObject(hardware) {
			continue
		}
		host := &infrav1.IngotHost{}
		err := r.Client.Get(ctx, key, host)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read host of the same system: %w", err)
		}
		if err == nil && !belongsToOther(host, &list.Items[i]) && !hasMovedAway(host) {
			hosts = append(hosts, host)
		}
	}
	return hosts, nil
}

// sameBMCByName finds other hosts whose BMC addresses lead to the same system by a different
// name. The index finds those with the same name.
func (r *Reconciler) sameBMCByName(ctx context.Context, host *infrav1.IngotHost) ([]*infrav1.IngotHost, error) {
	where, known := r.memory.resolvedOf(host)
	if !known {
		return nil, nil
	}
	var found []*infrav1.IngotHost
	add := func(other *infrav1.IngotHost) {
		if there, known := r.memory.resolvedOf(other); known && keyOf(other) != keyOf(host) && where.SameSystem(there) && !hasMovedAway(other) && !index.SameBMC(host, other) {
			found = append(found, other)
		}
	}
	literal := &infrav1.IngotHostList{}
	if err := r.Client.List(ctx, literal, client.MatchingFields{index.HostByBMC: where.Key()}); err != nil {
		return nil, fmt.Errorf("list hosts with BMC %s: %w", where.Host, err)
	}
	for i := range literal.Items {
		add(&literal.Items[i])
	}
	for _, key := range r.memory.resolvedTo(where.Key(), keyOf(host)) {
		other := &infrav1.IngotHost{}
		err := r.Client.Get(ctx, key, other)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read host with BMC %s: %w", where.Host, err)
		}
		if err == nil && other.Spec.BMC != nil && index.BMC(other) != where.Key() { // listed above
			add(other)
		}
	}
	return found, nil
}

// precedes reports whether another host keeps the BMC that both hosts reach by different
// names. The order is: claimed hosts, approved hosts, older hosts. A DNS name alone must not
// take a server from its host.
func precedes(other, host *infrav1.IngotHost) bool {
	if (other.Spec.Claim != nil) != (host.Spec.Claim != nil) {
		return other.Spec.Claim != nil
	}
	if isEnrolled(other) != isEnrolled(host) {
		return isEnrolled(host)
	}
	if !other.CreationTimestamp.Equal(&host.CreationTimestamp) {
		return other.CreationTimestamp.Before(&host.CreationTimestamp)
	}
	return keyOf(other).String() < keyOf(host).String()
}

// isDisabledBy reports whether a duplicate keeps the host from being used. The self-report of
// an unknown client must not disable a registered server: until it is approved, an enrolled
// host is only shown as a duplicate.
func isDisabledBy(host, duplicate *infrav1.IngotHost) bool {
	return isEnrolled(host) || !isEnrolled(duplicate)
}

// isEnrolled reports whether the host waits for approval. A host with persistent state is
// approved whatever its labels.
func isEnrolled(host *infrav1.IngotHost) bool {
	_, enrolled := host.Labels[infrav1.EnrolledLabel]
	return enrolled && host.Spec.Claim == nil && host.Spec.Record == nil && host.Spec.Order == nil
}

func isUpdating(host *infrav1.IngotHost) bool {
	record := host.Spec.Record
	return record != nil && record.Preparation != nil && record.Preparation.Update != nil
}

// observeMachine looks for the machine of the claim. The machine's provider ID must name this
// host and instance: a machine that was recreated under the same name does not. Only a live
// read proves that there is none (I6).
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
			return fmt.Errorf("read machine %s of the claim: %w", key, err)
		}
		if err == nil && machine.Spec.ProviderID == id {
			seen.Machine = lifecycle.MachineExists
			return r.observeMachineDeletion(ctx, host, machine, seen)
		}
	}
	return nil
}

// observeMachineDeletion checks whether the machine of a host that an operator releases by
// force is being deleted. The Machine may be drained for hours before its IngotMachine is
// deleted. Reads are live, since operators delete and annotate at the same time.
func (r *Reconciler) observeMachineDeletion(ctx context.Context, host *infrav1.IngotHost, machine *infrav1.IngotMachine, seen *observation) error {
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
	ref := inventory.FindOwner(live, clusterv1.GroupVersion.WithKind("Machine").GroupKind())
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

// observeBMC reads power state, health and, at first contact, NICs. It does not change the
// server (I8). After a failure it makes no calls until the backoff is over, or spec.bmc,
// credentials or CA change.
func (r *Reconciler) observeBMC(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	if host.Spec.BMC == nil {
		return r.finder().Withdraw(ctx, host)
	}
	found, err := r.finder().Find(ctx, host, seen.hardware)
	if err != nil {
		return err
	}
	if seen.hardware, err = r.finder().Unpin(ctx, host, seen.hardware); err != nil {
		return err
	}
	seen.target = found.Target
	seen.target.Connecting = r.connecting(context.WithoutCancel(ctx), host)
	before := r.memory.bmcOf(host)
	known := before.withKey(accessKey(host, found.Version))
	if before.key != "" && before.key != known.key && found.Problem == lifecycle.BMCOK {
		r.forgive(seen.target)
	}
	pushed, pushing := r.memory.jobs.PushingTo(seen.target)
	same := found.Problem == lifecycle.BMCOK || (found.Problem == known.problem && found.Message == known.message)
	switch {
	case same && seen.Now.Before(known.retryAt):
	case found.Problem != lifecycle.BMCOK:
		known = known.failed(found.Problem, found.Message, seen.Now, r.timing())
	case pushing: // one call at a time
	default:
		known, err = r.contactBMC(ctx, host, seen, found, known)
		if ctx.Err() != nil { // the manager stops; this is not the BMC's failure
			return ctx.Err()
		}
	}
	known.liveOff, seen.OffUnconfirmed = known.liveOff.seen(host.Spec.Order, seen.Power, seen.Now, r.Policy.ResetInterval)
	known.offProof = known.offProof.Seen(host, seen.Power)
	seen.OffProven, seen.SeenOn = known.offProof.Holds(host), known.offProof.SeenOn(host)
	seen.ShutdownRefused = known.softOff.lasted(r.Policy.SoftPowerOff)
	r.memory.keepBMC(host, known)
	seen.setBMC(host, known)
	if pushing && seen.BMC == lifecycle.BMCOK {
		r.showPush(host, seen, pushed)
	}
	return err
}

// contactBMC pins the BMC's certificate at first use, finishes a change of its password, reads
// it, and starts a change of its password if an operator requested one. Failures of the BMC
// are in the returned state, not in the error.
func (r *Reconciler) contactBMC(ctx context.Context, host *infrav1.IngotHost, seen *observation, found bmccredentials.Access, known bmcState) (bmcState, error) {
	if found.Unpinned {
		refused, err := r.pin(ctx, host, seen)
		if err != nil {
			return known, err
		}
		if refused != nil {
			seen.Now = r.Clock.Now()
			return r.failed(host, known, refused, seen.Now), nil
		}
	}
	pending := rotation.IsPending(host, found.Secret)
	if pending {
		after, settled, err := r.rotate(ctx, host, seen, found.Secret, known)
		if err != nil || !settled {
			return after, err
		}
		known = after
	}
	known = r.readBMC(ctx, host, seen, known)
	// A BMC may demand a new password before it answers anything (docs/decisions/0121).
	demanded := known.problem == lifecycle.BMCPasswordChange && rotation.IsAsked(host, &seen.Observation, false)
	switch {
	case pending, known.problem != lifecycle.BMCOK && !demanded:
		return known, nil
	case !rotation.IsAsked(host, &seen.Observation, pending):
		seen.rotated = rotation.Last(host, found.Secret)
		return known, nil
	}
	seen.setBMC(host, known)
	known, _, err := r.rotate(ctx, host, seen, found.Secret, known)
	return known, err
}

// observeAgentSilence notes the last contact with the host's agent. Before Ingot gives up on
// the agent, it counts the other hosts of the network that wait for theirs.
func (r *Reconciler) observeAgentSilence(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	network := host.Spec.NetworkRef.Name
	if order := host.Spec.Order; order != nil && order.AgentKey != "" && !seen.LastContact.IsZero() {
		r.memory.agentHeard(network, seen.LastContact)
	}
	if !lifecycle.IsAgentSilent(host, seen.Observation, r.Policy) {
		return nil
	}
	hosts := &infrav1.IngotHostList{}
	if err := r.Client.List(ctx, hosts, client.MatchingFields{index.HostByNetwork: network}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list hosts on network %s: %w", network, err)
	}
	seen.SilentPeers = lifecycle.CountSilentPeers(host, hosts.Items, r.memory.lastAgent(network), seen.Now, r.Policy)
	return nil
}
