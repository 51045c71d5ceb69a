// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// How soon a machine without a host looks again, should no host event bring it up;
// and how soon after it lost one to another machine.
const (
	retryPlacement = 30 * time.Second
	retryConflict  = time.Second
	retryJitter    = 0.5
	// restingLooks is for how many such waits the message of why stays as it is.
	restingLooks = 4
)

// waitForReference: the Machine that is named as the owner means this IngotMachine.
// The one by whose name another was copied does not, and nothing is done for the copy.
func (r *Reconciler) waitForReference(_ context.Context, s *scope) (outcome, error) {
	if inventory.RefersTo(s.owner, s.machine) {
		return next, nil
	}
	ref := s.owner.Spec.InfrastructureRef
	message := fmt.Sprintf("Machine %[1]s refers to %[2]s %[3]s, not this IngotMachine, which gets no host and no bootstrap data. Delete it: kubectl delete ingotmachine -n %[4]s %[5]s",
		s.owner.Name, cmp.Or(ref.Kind, "an object"), cmp.Or(ref.Name, "without a name"), s.machine.Namespace, s.machine.Name)
	if s.notClaimed(infrav1.ReasonNotTheMachines, message) {
		r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, infrav1.ReasonNotTheMachines, action, "%s", message)
	}
	return stop(0), nil
}

// waitForPrerequisites: the cluster's infrastructure is there (M49), and so is the
// bootstrap data (M50). A machine that has a host already is past this.
func (r *Reconciler) waitForPrerequisites(ctx context.Context, s *scope) (outcome, error) {
	ingotCluster := &infrav1.IngotCluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.machine.Namespace, Name: s.cluster.Spec.InfrastructureRef.Name}, ingotCluster)
	if client.IgnoreNotFound(err) != nil {
		return next, fmt.Errorf("infrastructure of the cluster: %w", err)
	}
	if err == nil {
		s.ingotCluster = ingotCluster
	}
	if s.machine.Spec.ProviderID != "" {
		return next, nil
	}
	if what := s.ending(); what != "" {
		s.notClaimed(infrav1.ReasonDeleting, what+", and this IngotMachine will be with it: no host is chosen for it any more")
		return stop(0), nil
	}
	if s.ingotCluster == nil || !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false) {
		return r.waitForCluster(s), nil
	}
	if s.owner.Spec.Bootstrap.DataSecretName == nil {
		s.notClaimed(infrav1.ReasonWaitingForBootstrapData, "The bootstrap data of Machine "+s.owner.Name+" is not there yet; a host is chosen as soon as it is")
		return stop(0), nil
	}
	return next, nil
}

// claim makes sure that exactly one host is claimed by this machine (I1): first
// the intent, in the machine's own object by optimistic lock; then the claim, on
// the version of a live read. While an intent exists no other host is picked.
func (r *Reconciler) claim(ctx context.Context, s *scope) (outcome, error) {
	if s.machine.Spec.ProviderID == "" {
		if out, err := r.pick(ctx, s); err != nil || out.stop {
			return out, err
		}
	}
	id, err := infrav1.ParseProviderID(s.machine.Spec.ProviderID)
	if err != nil || id.Namespace != s.machine.Namespace {
		return r.invalidProviderID(s), nil
	}
	host, err := r.hostOf(ctx, s.machine, id)
	if err != nil {
		return next, err
	}
	switch {
	case holds(host, s.machine, id) && host.Spec.Claim.State == infrav1.ClaimReleasing:
		return r.released(ctx, s, host, id)
	case holds(host, s.machine, id):
		s.host = host
		return r.keepAddresses(ctx, s)
	case s.settled():
		if current, err := r.stillMeans(ctx, s.machine, id); err != nil || !current {
			return stop(r.waits().Conflict), err
		}
		what := fmt.Sprintf("IngotHost %s does not carry this machine's claim any more", id.Host)
		if host == nil {
			what = fmt.Sprintf("IngotHost %s does not exist", id.Host)
		}
		return r.lost(s, loss{what: what, seen: host != nil && s.machine.Status.HostRef != nil}), nil
	}
	return r.bond(ctx, s, host, id)
}

// invalidProviderID: the provider ID names no host of the machine's namespace, as after a
// restore into another namespace. That is terminal (M28): the webhook lets nobody change the
// field, and the Node keeps the ID for its life.
func (r *Reconciler) invalidProviderID(s *scope) outcome {
	message := fmt.Sprintf("spec.providerID names no host of namespace %s, and the field cannot be changed. Ingot no longer manages this machine. Delete the Machine to replace it.", s.machine.Namespace)
	s.fail(message)
	if s.notClaimed(infrav1.ReasonProviderIDInvalid, message) {
		r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, infrav1.ReasonProviderIDInvalid, action, "spec.providerID is %q. %s", s.machine.Spec.ProviderID, message)
	}
	return stop(0)
}

// loss is how a machine comes to have no host.
type loss struct {
	// what happened, for people.
	what string
	// seen: the bond was seen here, in this management cluster, and the host is there without
	// it. A host that does not exist may be restored with its claim: a person, a move or
	// a GitOps tool may have deleted only the object, while the server runs on.
	seen bool
}

// released: the machine was away, and a person released its claim (I6). One that was
// not provisioned yet gives its choice back once the server is known to be off (I1, I7): the
// instance ends with the claim, and another host may be free before this one is clean.
func (r *Reconciler) released(ctx context.Context, s *scope, host *infrav1.IngotHost, id infrav1.ProviderID) (outcome, error) {
	if current, err := r.stillMeans(ctx, s.machine, id); err != nil || !current {
		return stop(r.waits().Conflict), err
	}
	what := fmt.Sprintf("IngotHost %s is being released, as a person asked: it is powered off and cleaned", id.Host)
	if s.settled() {
		return r.lost(s, loss{what: what, seen: true}), nil
	}
	message := what + ". Ingot chooses another host as soon as it is known to be off"
	if s.notClaimed(infrav1.ReasonReleasing, message) {
		r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, infrav1.ReasonReleasing, action, "%s", message)
	}
	if host.Spec.Claim.FencedAt.IsZero() {
		return stop(r.waits().Placement), nil
	}
	out, err := r.writeIntent(ctx, s, "")
	if err != nil || out.stop {
		return out, err
	}
	return stop(wait.Jitter(r.waits().Conflict, retryJitter)), nil
}

// lost says that the host of a machine that was provisioned is not, or soon no longer, its
// own. That is terminal (M28), when it is sure to be for ever (M29).
func (r *Reconciler) lost(s *scope, l loss) outcome {
	s.machine.Status.Initialization.Provisioned = ptr.To(true) // it was, and that never goes back (M22)
	reason, message := infrav1.ReasonClaimLost, l.what+". A machine that was installed gets no other host: restore the IngotHost with its claim, or delete the Machine to replace it."
	if l.seen {
		reason, message = infrav1.ReasonHostLost, l.what+". A machine that was installed gets no other host, and Ingot has given this one up: delete the Machine to replace it."
		s.fail(message)
	}
	if s.notClaimed(reason, message) {
		r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, reason, action, "%s", message)
	}
	return stop(0)
}

// hostOf reads the host that the intent names: from the cache where that already
// shows the bond, else live. nil: it does not exist.
func (r *Reconciler) hostOf(ctx context.Context, machine *infrav1.IngotMachine, id infrav1.ProviderID) (*infrav1.IngotHost, error) {
	key := client.ObjectKey{Namespace: id.Namespace, Name: id.Host}
	host := &infrav1.IngotHost{}
	if err := r.Client.Get(ctx, key, host); err == nil && holds(host, machine, id) {
		return host, nil
	}
	live := &infrav1.IngotHost{}
	if err := r.Live.Get(ctx, key, live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("host %s: %w", key, err)
	}
	return live, nil
}

// holds says whether the host's claim is the one that the machine means.
func holds(host *infrav1.IngotHost, machine *infrav1.IngotMachine, id infrav1.ProviderID) bool {
	return host != nil && host.Spec.Claim != nil &&
		host.Spec.Claim.MachineRef.Name == machine.Name && host.Spec.Claim.InstanceID == id.InstanceID
}

// settled says whether the machine has been provisioned before: then its host is
// its host for ever. Cluster API's own copy counts too, so that a lost status does
// not lead to a second host (I2).
func (s *scope) settled() bool {
	return ptr.Deref(s.machine.Status.Initialization.Provisioned, false) || s.owner.Spec.ProviderID != ""
}

// failureDomain is the one asked for: the Machine's, else the IngotMachine's own,
// which only the older way of contract v1beta1 sets (M17, M18).
func (s *scope) failureDomain() string {
	if s.owner.Spec.FailureDomain != "" {
		return s.owner.Spec.FailureDomain
	}
	return s.machine.Spec.FailureDomain
}

// pick chooses a host and records the intent.
func (r *Reconciler) pick(ctx context.Context, s *scope) (outcome, error) {
	if own := s.machine.Spec.FailureDomain; own != "" && own != s.failureDomain() {
		message := fmt.Sprintf("Machine %[1]s asks for failure domain %[2]q, this IngotMachine for %[3]q. Ingot chooses no host. Set spec.failureDomain of Machine %[1]s to %[3]q, or delete the Machine.", s.owner.Name, s.failureDomain(), own)
		if s.notClaimed(infrav1.ReasonFailureDomainConflict, message) {
			r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, infrav1.ReasonFailureDomainConflict, action, "%s", message)
		}
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
	selection, id := r.picks.choose(s, in, r.Clock.Now(), r.NewID)
	if selection.Host == nil {
		message := r.words.choose(s.machine, selection.Reason, selection.Message, r.Clock.Now(), restingLooks*r.waits().Placement)
		if s.notClaimed(selection.Reason, message) {
			r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, selection.Reason, action, "%s", selection.Message)
		}
		return stop(wait.Jitter(r.waits().Placement, retryJitter)), nil
	}
	if out, err := r.bootstrapIsRead(ctx, s); err != nil || out.stop {
		return out, err
	}
	return r.writeIntent(ctx, s, id.String())
}

// writeIntent sets or clears spec.providerID on the version that was read. A
// conflict means that somebody else acted for this machine: start over.
func (r *Reconciler) writeIntent(ctx context.Context, s *scope, providerID string) (outcome, error) {
	changed := s.machine.DeepCopy()
	changed.Spec.ProviderID = providerID
	before := s.machine.DeepCopy()
	before.Status = changed.Status
	err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return stop(r.waits().Conflict), nil
	}
	if err != nil {
		return next, fmt.Errorf("recording the choice of a host: %w", err)
	}
	s.machine.Spec.ProviderID = providerID
	s.machine.ResourceVersion = changed.ResourceVersion
	return next, nil
}

// ending says what above the machine is being deleted, before Cluster API has come to the
// IngotMachine: hooks hold that up, and a Cluster takes its workers down first. A host that
// comes free meanwhile would be installed, fenced and cleaned for nothing.
func (s *scope) ending() string {
	switch {
	case !s.owner.DeletionTimestamp.IsZero():
		return "Machine " + s.owner.Name + " is being deleted"
	case !s.cluster.DeletionTimestamp.IsZero():
		return "Cluster " + s.cluster.Name + " is being deleted"
	}
	return ""
}

// bond writes the claim on the version that was just read live, if the host is
// still free for it; else the intent is cleared, and the next reconcile picks again.
func (r *Reconciler) bond(ctx context.Context, s *scope, host *infrav1.IngotHost, id infrav1.ProviderID) (outcome, error) {
	if host == nil {
		return r.clearIntent(ctx, s, id, "the host does not exist any more")
	}
	if what := s.ending(); what != "" {
		return r.clearIntent(ctx, s, id, what)
	}
	if s.ingotCluster == nil {
		return r.waitForCluster(s), nil // it says which label is the failure domain
	}
	if s.liveOverheard() {
		return r.clearIntent(ctx, s, id, "its cluster demands a verified boot now, and the live system's data would be sent in clear")
	}
	if ok, why := lifecycle.Claimable(host); !ok {
		return r.clearIntent(ctx, s, id, why)
	}
	if r.WatchFilterValue != "" && !labels.HasWatchLabel(host, r.WatchFilterValue) {
		return r.clearIntent(ctx, s, id, "this manager does not look after it: it has not the label of --watch-filter")
	}
	// The choice was made from the cache, and the label may have changed since (I11).
	label := inventory.FailureDomainLabel(s.ingotCluster)
	if asked := s.failureDomain(); asked != "" && host.Labels[label] != asked {
		return r.clearIntent(ctx, s, id, fmt.Sprintf("its label %s says %q now, and %q was asked for", label, host.Labels[label], asked))
	}
	if out, err := r.findImage(ctx, s); err != nil || out.stop {
		if err != nil {
			return next, err
		}
		return r.clearIntent(ctx, s, id, "IngotImage "+s.machine.Spec.ImageRef.Name+" does not exist any more")
	}
	if misfit, err := r.misfit(ctx, s, host); err != nil || misfit != "" {
		return r.clearUnless(ctx, s, id, misfit, err)
	}
	network, misfit, err := r.networkOn(ctx, s, host)
	if err != nil || misfit != "" {
		return r.clearUnless(ctx, s, id, misfit, err)
	}
	switch kept, err := r.keepsPromises(ctx, s, id); {
	case err != nil:
		return next, err
	case kept == unsure:
		return stop(r.waits().Conflict), nil
	case kept == broken:
		return r.clearIntent(ctx, s, id, "it is kept for a Cluster that was promised hosts in the meantime")
	}
	if current, err := r.stillMeans(ctx, s.machine, id); err != nil || !current {
		return stop(r.waits().Conflict), err
	}
	claimed := host.DeepCopy()
	claimed.Spec.Claim = claimOf(s, host, id)
	claimed.Spec.Claim.Network = network
	err = r.Client.Patch(ctx, claimed, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return r.clearIntent(ctx, s, id, "the host changed while it was being claimed")
	}
	if err != nil {
		return next, fmt.Errorf("claiming host %s: %w", id.Host, err)
	}
	s.host = claimed
	s.claimed("")
	r.Recorder.Eventf(s.machine, claimed, corev1.EventTypeNormal, infrav1.ReasonHostClaimed, action,
		"IngotHost %s is claimed, failure domain %q; Ingot now installs it", host.Name, claimed.Spec.Claim.FailureDomain)
	return next, nil
}

// stillMeans reads the machine live: an intent that only a stale cache shows must
// not become a second claim (I1), nor a loss, which is for ever (M28).
func (r *Reconciler) stillMeans(ctx context.Context, machine *infrav1.IngotMachine, id infrav1.ProviderID) (bool, error) {
	live := &infrav1.IngotMachine{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(machine), live)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("live read of the machine: %w", err)
	}
	return live.UID == machine.UID && live.DeletionTimestamp.IsZero() && live.Spec.ProviderID == id.String(), nil
}

// clearUnless gives the choice back, unless why could not be found out.
func (r *Reconciler) clearUnless(ctx context.Context, s *scope, id infrav1.ProviderID, why string, err error) (outcome, error) {
	if err != nil {
		return next, err
	}
	return r.clearIntent(ctx, s, id, why)
}

// clearIntent gives the choice back.
func (r *Reconciler) clearIntent(ctx context.Context, s *scope, id infrav1.ProviderID, why string) (outcome, error) {
	r.memory().Unbond(s.machine.UID)
	s.notClaimed(infrav1.ReasonNotClaimed, fmt.Sprintf("IngotHost %s could not be claimed: %s. Ingot chooses again", id.Host, why))
	r.Recorder.Eventf(s.machine, nil, corev1.EventTypeNormal, infrav1.ReasonNotClaimed, action, "IngotHost %s could not be claimed: %s. Ingot chooses again", id.Host, why)
	out, err := r.writeIntent(ctx, s, "")
	if err != nil || out.stop {
		return out, err
	}
	return stop(wait.Jitter(r.waits().Conflict, retryJitter)), nil
}

// claimOf freezes in the claim what the machine's life on the host needs (I3).
func claimOf(s *scope, host *infrav1.IngotHost, id infrav1.ProviderID) *infrav1.HostClaim {
	spec := s.machine.Spec
	claim := &infrav1.HostClaim{
		MachineRef:      infrav1.LocalReference{Name: s.machine.Name},
		ClusterName:     s.cluster.Name,
		InstanceID:      id.InstanceID,
		State:           infrav1.ClaimProvisioning,
		Image:           s.image(),
		Live:            spec.Live,
		RootDeviceHints: spec.RootDeviceHints,
		SoftwareRAID:    spec.SoftwareRAID,
		FailureDomain:   host.Labels[inventory.FailureDomainLabel(s.ingotCluster)],
		BootTrust:       s.ingotCluster.Spec.BootTrust,
		Cleaning:        spec.Cleaning,
		Hostname:        hostname(s.machine, s.owner),
	}
	if claim.RootDeviceHints == nil {
		claim.RootDeviceHints = host.Spec.RootDeviceHints
	}
	if claim.Cleaning == "" {
		claim.Cleaning = host.Spec.Cleaning
	}
	if claim.Cleaning == "" {
		claim.Cleaning = infrav1.CleaningMetadata
	}
	return claim
}

// maxHostname is the longest host name label (RFC 1123 §2.1).
const maxHostname = 63

// hostname is the Machine's name where none is asked for. Of one that is too long it is the
// beginning, made a label, and a hash that tells apart what begins alike.
func hostname(machine *infrav1.IngotMachine, owner *clusterv1.Machine) string {
	if machine.Spec.Hostname != "" {
		return machine.Spec.Hostname
	}
	if len(owner.Name) <= maxHostname {
		return owner.Name
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(owner.Name)) // it never fails
	suffix := fmt.Sprintf("-%08x", sum.Sum32())
	// Without dots: what follows the first is taken for the domain.
	begin := strings.ReplaceAll(owner.Name[:maxHostname-len(suffix)], ".", "-")
	return strings.TrimRight(begin, "-") + suffix
}
