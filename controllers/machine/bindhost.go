// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// bindHost writes the claim on the version that was just read live, if the host is
// still free for it; else the intent is cleared, and the next reconcile selects again.
func (r *Reconciler) bindHost(ctx context.Context, s *scope, host *infrav1.IngotHost, id infrav1.ProviderID) (outcome, error) {
	if s.ingotCluster == nil && host != nil && s.ending() == "" {
		return r.waitForCluster(s), nil // it says which label is the failure domain
	}
	why, err := r.whyNot(ctx, s, host)
	var network *infrav1.ClaimedNetwork
	if err == nil && why == "" {
		network, why, err = r.networkOn(ctx, s, host)
	}
	switch {
	case err != nil:
		return next, err
	case why != "":
		return r.clearIntent(ctx, s, id, why)
	}
	switch kept, err := r.keepsPromises(ctx, s, id); {
	case err != nil:
		return next, err
	case kept == unsure:
		return stop(r.timing().Conflict), nil
	case kept == broken:
		return r.clearIntent(ctx, s, id, "it is kept for a Cluster that was promised hosts in the meantime")
	}
	if current, err := r.stillMeans(ctx, s.machine, id); err != nil || !current {
		return stop(r.timing().Conflict), err
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
	s.hostLog().Info("Claimed the host", "duration", r.Clock.Since(s.machine.CreationTimestamp.Time).Round(time.Second).String())
	r.Recorder.Eventf(s.machine, claimed, corev1.EventTypeNormal, infrav1.ReasonHostClaimed, action,
		"IngotHost %s is claimed, failure domain %q; Ingot now installs it", host.Name, claimed.Spec.Claim.FailureDomain)
	return next, nil
}

// whyNot returns why the machine cannot have the host that it chose, by the state of both
// now: the choice was made from the cache, some time ago. Empty: it can.
func (r *Reconciler) whyNot(ctx context.Context, s *scope, host *infrav1.IngotHost) (string, error) {
	if host == nil {
		return "the host does not exist any more", nil
	}
	if what := s.ending(); what != "" {
		return what, nil
	}
	if s.liveOverheard() {
		return "its cluster demands a verified boot now, and the live system's data would be sent in clear", nil
	}
	if ok, why := lifecycle.Claimable(host); !ok {
		return why, nil
	}
	if r.WatchFilterValue != "" && !labels.HasWatchLabel(host, r.WatchFilterValue) {
		return "this manager does not look after it: it has not the label of --watch-filter", nil
	}
	label := inventory.FailureDomainLabel(s.ingotCluster) // it may have changed since (I11)
	if asked := s.failureDomain(); asked != "" && host.Labels[label] != asked {
		return fmt.Sprintf("its label %s says %q now, and %q was asked for", label, host.Labels[label], asked), nil
	}
	if out, err := r.findImage(ctx, s); err != nil || out.stop {
		return fmt.Sprintf("IngotImage %s does not exist any more", s.machine.Spec.ImageRef.Name), err
	}
	return r.misfit(ctx, s, host)
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

// writeIntent sets or clears spec.providerID on the version that was read. A
// conflict means that somebody else acted for this machine: start over.
func (r *Reconciler) writeIntent(ctx context.Context, s *scope, providerID string) (outcome, error) {
	changed := s.machine.DeepCopy()
	changed.Spec.ProviderID = providerID
	before := s.machine.DeepCopy()
	before.Status = changed.Status
	err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return stop(r.timing().Conflict), nil
	}
	if err != nil {
		return next, fmt.Errorf("recording the choice of a host: %w", err)
	}
	s.log.Info("Recorded the choice of a host", "providerID", providerID)
	s.machine.Spec.ProviderID = providerID
	s.machine.ResourceVersion = changed.ResourceVersion
	return next, nil
}

// clearIntent gives the choice back.
func (r *Reconciler) clearIntent(ctx context.Context, s *scope, id infrav1.ProviderID, why string) (outcome, error) {
	r.memory().Unreserve(s.machine.UID)
	message := fmt.Sprintf("IngotHost %s could not be claimed: %s. Ingot chooses again", id.Host, why)
	s.notClaimed(infrav1.ReasonNotClaimed, message)
	s.log.Info("Gave back the choice of a host", "host", id.Namespace+"/"+id.Host, "instanceID", id.InstanceID, "reason", why)
	r.Recorder.Eventf(s.machine, nil, corev1.EventTypeNormal, infrav1.ReasonNotClaimed, action, "%s", message)
	out, err := r.writeIntent(ctx, s, "")
	if err != nil || out.stop {
		return out, err
	}
	return stop(wait.Jitter(r.timing().Conflict, retryJitter)), nil
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
