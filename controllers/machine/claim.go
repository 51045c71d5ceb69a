// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// claim makes sure that exactly one host is claimed by this machine (I1): first
// the intent, in the machine's own object by optimistic lock; then the claim, on
// the version of a live read. While an intent exists no other host is picked.
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
	case holds(host, s.machine, id) && host.Spec.Claim.State == infrav1.ClaimReleasing:
		return r.released(ctx, s, host, id)
	case holds(host, s.machine, id):
		s.host = host
		return r.keepAddresses(ctx, s)
	case s.settled():
		if current, err := r.stillMeans(ctx, s.machine, id); err != nil || !current {
			return stop(r.timing().Conflict), err
		}
		what := fmt.Sprintf("IngotHost %s does not carry this machine's claim any more", id.Host)
		if host == nil {
			what = fmt.Sprintf("IngotHost %s does not exist", id.Host)
		}
		return r.lost(s, loss{what: what, seen: host != nil && s.machine.Status.HostRef != nil}), nil
	}
	return r.bindHost(ctx, s, host, id)
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
	// seen: the claim was seen here, in this management cluster, and the host is there without
	// it. A host that does not exist may be restored with its claim: a person, a move or
	// a GitOps tool may have deleted only the object, while the server runs on.
	seen bool
}

// released: the machine was away, and a person released its claim (I6). One that was
// not provisioned yet gives its choice back once the server is known to be off (I1, I7): the
// instance ends with the claim, and another host may be free before this one is clean.
func (r *Reconciler) released(ctx context.Context, s *scope, host *infrav1.IngotHost, id infrav1.ProviderID) (outcome, error) {
	if current, err := r.stillMeans(ctx, s.machine, id); err != nil || !current {
		return stop(r.timing().Conflict), err
	}
	what := fmt.Sprintf("IngotHost %s is being released, as a person asked: it is powered off and cleaned", id.Host)
	if s.settled() {
		return r.lost(s, loss{what: what, seen: true}), nil
	}
	message := what + ". Ingot chooses another host as soon as it is known to be off"
	r.refuse(s, infrav1.ReasonReleasing, message)
	if host.Spec.Claim.FencedAt.IsZero() {
		return stop(r.timing().Placement), nil
	}
	out, err := r.writeIntent(ctx, s, "")
	if err != nil || out.stop {
		return out, err
	}
	return stop(wait.Jitter(r.timing().Conflict, retryJitter)), nil
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
	r.refuse(s, reason, message)
	return stop(0)
}

// hostOf reads the host that the intent names: from the cache where that already
// shows the claim, else live. nil: it does not exist.
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
