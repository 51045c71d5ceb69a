// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/kubeutil"
)

// claim ensures that the machine claims exactly one host (I1). It first writes the intent to
// the machine (spec.providerID) by optimistic lock, then the claim to the live version of the
// host. While an intent exists, no other host is selected.
func (r *Reconciler) claim(ctx context.Context, s *scope) (outcome, error) {
	if s.machine.Spec.ProviderID == "" {
		if out, err := r.selectHost(ctx, s); err != nil || out.stop {
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
	case isClaimedBy(host, s.machine, id) && host.Spec.Claim.State == infrav1.ClaimReleasing:
		return r.followForcedRelease(ctx, s, host, id)
	case isClaimedBy(host, s.machine, id):
		s.host = host
		return r.keepAddresses(ctx, s)
	case s.wasProvisioned():
		if current, err := r.isIntentCurrent(ctx, s.machine, id); err != nil || !current {
			return stop(r.timing().Conflict), err
		}
		cause := fmt.Sprintf("IngotHost %s no longer has this machine's claim", id.Host)
		if host == nil {
			cause = fmt.Sprintf("IngotHost %s does not exist", id.Host)
		}
		return r.failWithoutHost(s, cause, host != nil && s.machine.Status.HostRef != nil), nil
	}
	return r.bindHost(ctx, s, host, id)
}

// invalidProviderID handles a provider ID that names no host of the machine's namespace, as
// after a restore into another namespace. This is terminal (M28): the field is immutable, and
// the Node keeps the ID.
func (r *Reconciler) invalidProviderID(s *scope) outcome {
	message := fmt.Sprintf("spec.providerID names no host of namespace %s and is immutable. Ingot no longer manages this machine. Delete the Machine to replace it.", s.machine.Namespace)
	s.fail(message)
	if s.notClaimed(infrav1.ReasonProviderIDInvalid, message) {
		r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, infrav1.ReasonProviderIDInvalid, action, "spec.providerID is %q. %s", s.machine.Spec.ProviderID, message)
	}
	return stop(0)
}

// followForcedRelease handles a claim that an operator released while the machine was missing
// (I6). A machine that was not provisioned clears its intent once the server is off (I1, I7),
// since another host may be free before this one is clean.
func (r *Reconciler) followForcedRelease(ctx context.Context, s *scope, host *infrav1.IngotHost, id infrav1.ProviderID) (outcome, error) {
	if current, err := r.isIntentCurrent(ctx, s.machine, id); err != nil || !current {
		return stop(r.timing().Conflict), err
	}
	cause := fmt.Sprintf("An operator released IngotHost %s: Ingot powers it off and cleans it", id.Host)
	if s.wasProvisioned() {
		return r.failWithoutHost(s, cause, true), nil
	}
	r.refuse(s, infrav1.ReasonReleasing, cause+". Ingot selects another host once this one is off.")
	if host.Spec.Claim.FencedTime.IsZero() {
		return stop(r.timing().Placement), nil
	}
	out, err := r.writeIntent(ctx, s, "")
	if err != nil || out.stop {
		return out, err
	}
	return stop(wait.Jitter(r.timing().Conflict, retryJitter)), nil
}

// failWithoutHost shows that a provisioned machine lost its host. With permanent it is terminal
// (M28, M29): the claim was seen in this management cluster, and the host now exists without it.
// A missing IngotHost may be restored with its claim: the server may keep running after only
// the object was deleted, by an operator, a move or a GitOps tool.
func (r *Reconciler) failWithoutHost(s *scope, cause string, permanent bool) outcome {
	s.machine.Status.Initialization.Provisioned = ptr.To(true) // never goes back to false (M22)
	reason, message := infrav1.ReasonClaimLost, cause+". An installed machine gets no other host. Restore the IngotHost with its claim, or delete the Machine to replace it."
	if permanent {
		reason, message = infrav1.ReasonHostLost, cause+". An installed machine gets no other host. Delete the Machine to replace it."
		s.fail(message)
	}
	r.refuse(s, reason, message)
	return stop(0)
}

// hostOf reads the host of the intent: from the cache if it shows the claim, else live. nil: it
// does not exist.
func (r *Reconciler) hostOf(ctx context.Context, machine *infrav1.IngotMachine, id infrav1.ProviderID) (*infrav1.IngotHost, error) {
	host := &infrav1.IngotHost{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Host}, host); err == nil && isClaimedBy(host, machine, id) {
		return host, nil
	}
	return kubeutil.Find[infrav1.IngotHost](ctx, r.Live, id.Namespace, id.Host)
}

func isClaimedBy(host *infrav1.IngotHost, machine *infrav1.IngotMachine, id infrav1.ProviderID) bool {
	return host != nil && host.Spec.Claim != nil &&
		host.Spec.Claim.MachineRef.Name == machine.Name && host.Spec.Claim.InstanceID == id.InstanceID
}

// wasProvisioned reports whether the machine has been provisioned: then its host never changes.
// Cluster API's copy of the provider ID counts too, so that a lost status does not lead to a
// second host (I2).
func (s *scope) wasProvisioned() bool {
	return ptr.Deref(s.machine.Status.Initialization.Provisioned, false) || s.owner.Spec.ProviderID != ""
}
