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
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// bindHost writes the claim to the live version of the host if the machine may still have it.
// Otherwise it clears the intent, and the next reconcile selects another host.
func (r *Reconciler) bindHost(ctx context.Context, s *scope, host *infrav1.IngotHost, id infrav1.ProviderID) (outcome, error) {
	if s.ingotCluster == nil && host != nil && s.deletedOwner() == "" {
		return r.waitForCluster(s), nil // it defines the label of the failure domain
	}
	why, err := r.whyNotBindable(ctx, s, host)
	var network *infrav1.ClaimedNetwork
	if err == nil && why == "" {
		network, why, err = r.resolveNetwork(ctx, s, host)
	}
	switch {
	case err != nil:
		return next, err
	case why != "":
		return r.clearIntent(ctx, s, id, why)
	}
	switch verdict, err := r.checkReservations(ctx, s, id); {
	case err != nil:
		return next, err
	case verdict == unsure:
		return stop(r.timing().Conflict), nil
	case verdict == violated:
		return r.clearIntent(ctx, s, id, "it is now reserved for another Cluster")
	}
	if current, err := r.isIntentCurrent(ctx, s.machine, id); err != nil || !current {
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
		return next, fmt.Errorf("claim host %s: %w", id.Host, err)
	}
	s.host = claimed
	s.claimed("")
	s.hostLog().Info("Claimed the host", "duration", r.Clock.Since(s.machine.CreationTimestamp.Time).Round(time.Second).String())
	r.Recorder.Eventf(s.machine, claimed, corev1.EventTypeNormal, infrav1.ReasonHostClaimed, action,
		"Claimed IngotHost %s in failure domain %q. Ingot installs it now.", host.Name, claimed.Spec.Claim.FailureDomain)
	return next, nil
}

// whyNotBindable returns why the machine cannot have the host that it selected earlier from the
// cache; empty: it can.
func (r *Reconciler) whyNotBindable(ctx context.Context, s *scope, host *infrav1.IngotHost) (string, error) {
	if host == nil {
		return "the host no longer exists", nil
	}
	if deletion := s.deletedOwner(); deletion != "" {
		return deletion, nil
	}
	if s.exposesLiveData() {
		return "its IngotCluster now has bootTrust Verified, and the live system would get its data unencrypted", nil
	}
	if ok, why := lifecycle.IsClaimable(host); !ok {
		return why, nil
	}
	if r.WatchFilterValue != "" && !labels.HasWatchLabel(host, r.WatchFilterValue) {
		return "it does not have the label of --watch-filter", nil
	}
	label := inventory.FailureDomainLabel(s.ingotCluster) // it may have changed (I11)
	if want := s.failureDomain(); want != "" && host.Labels[label] != want {
		return fmt.Sprintf("its label %s is now %q instead of %q", label, host.Labels[label], want), nil
	}
	if out, err := r.findImage(ctx, s); err != nil || out.stop {
		return fmt.Sprintf("IngotImage %s no longer exists", s.machine.Spec.ImageRef.Name), err
	}
	return r.misfit(ctx, s, host)
}

// isIntentCurrent reports whether a live read of the machine shows the intent. A stale cache
// must not lead to a second claim (I1), nor to a permanent failure (M28).
func (r *Reconciler) isIntentCurrent(ctx context.Context, machine *infrav1.IngotMachine, id infrav1.ProviderID) (bool, error) {
	live, err := kubeutil.Find[infrav1.IngotMachine](ctx, r.Live, machine.Namespace, machine.Name)
	if err != nil || live == nil {
		return false, err
	}
	return live.UID == machine.UID && live.DeletionTimestamp.IsZero() && live.Spec.ProviderID == id.String(), nil
}

// writeIntent sets or clears spec.providerID by optimistic lock. After a conflict the reconcile
// starts over.
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
		return next, fmt.Errorf("write spec.providerID: %w", err)
	}
	s.log.Info("Wrote spec.providerID", "providerID", providerID)
	s.machine.Spec.ProviderID = providerID
	s.machine.ResourceVersion = changed.ResourceVersion
	return next, nil
}

// clearIntent clears the intent after the claim of the host failed.
func (r *Reconciler) clearIntent(ctx context.Context, s *scope, id infrav1.ProviderID, why string) (outcome, error) {
	r.memory().Unreserve(s.machine.UID)
	message := fmt.Sprintf("IngotHost %s could not be claimed: %s. Ingot selects again.", id.Host, why)
	s.notClaimed(infrav1.ReasonNotClaimed, message)
	s.log.Info("Could not claim the selected host", "host", id.Namespace+"/"+id.Host, "instanceID", id.InstanceID, "reason", why)
	r.Recorder.Eventf(s.machine, nil, corev1.EventTypeNormal, infrav1.ReasonNotClaimed, action, "%s", message)
	out, err := r.writeIntent(ctx, s, "")
	if err != nil || out.stop {
		return out, err
	}
	return stop(wait.Jitter(r.timing().Conflict, retryJitter)), nil
}

// claimOf returns the claim with a copy of all settings that the host needs from the machine
// (I3).
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
	claim.Cleaning = cmp.Or(claim.Cleaning, host.Spec.Cleaning, infrav1.CleaningMetadata)
	return claim
}

// maxHostname is the maximum length of a host name label (RFC 1123 section 2.1).
const maxHostname = 63

// hostname returns spec.hostname or the Machine's name. A name that is too long is cut and gets
// a hash, which keeps names with the same beginning unique.
func hostname(machine *infrav1.IngotMachine, owner *clusterv1.Machine) string {
	if machine.Spec.Hostname != "" {
		return machine.Spec.Hostname
	}
	if len(owner.Name) <= maxHostname {
		return owner.Name
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(owner.Name)) // never fails
	suffix := fmt.Sprintf("-%08x", sum.Sum32())
	// Systems take the part after the first dot for the domain.
	begin := strings.ReplaceAll(owner.Name[:maxHostname-len(suffix)], ".", "-")
	return strings.TrimRight(begin, "-") + suffix
}
