// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// waitForOwner: an IngotMachine that is deleted by hand while its Machine lives
// waits, so that drain and etcd removal come first (I7).
func (r *Reconciler) waitForOwner(_ context.Context, s *scope) (outcome, error) {
	if s.owner == nil || !s.owner.DeletionTimestamp.IsZero() {
		return next, nil
	}
	if s.deletingBecause(infrav1.ReasonWaitingForMachineDeletion, fmt.Sprintf("Machine %s is not being deleted: Ingot waits, since releasing the host now would skip drain. Delete Machine %s", s.owner.Name, s.owner.Name)) {
		r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, infrav1.ReasonWaitingForMachineDeletion, action,
			"The IngotMachine is deleted while Machine %s lives: nothing happens until that is deleted too", s.owner.Name)
	}
	return stop(0), nil
}

// release asks for the release of the host and waits until it is fenced (I6, I7).
// Wiping goes on without the machine.
func (r *Reconciler) release(ctx context.Context, s *scope) (outcome, error) {
	id, err := infrav1.ParseProviderID(s.machine.Spec.ProviderID)
	if err != nil || id.Namespace != s.machine.Namespace {
		return next, nil // no host was ever chosen
	}
	// Only a live read may say that there is nothing to release.
	host := &infrav1.IngotHost{}
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Host}, host)
	if apierrors.IsNotFound(err) {
		return next, nil
	}
	if err != nil {
		return next, fmt.Errorf("host %s: %w", id.Host, err)
	}
	if !holds(host, s.machine, id) {
		return next, nil // released by force, quarantined, or never claimed
	}
	if host.Spec.Claim.State != infrav1.ClaimReleasing {
		before := host.DeepCopy()
		host.Spec.Claim.State = infrav1.ClaimReleasing
		err := r.Client.Patch(ctx, host, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			return stop(r.waits().Conflict), nil
		}
		if err != nil {
			return next, fmt.Errorf("releasing host %s: %w", id.Host, err)
		}
		r.Recorder.Eventf(s.machine, host, corev1.EventTypeNormal, infrav1.ReasonReleasing, action, "IngotHost %s is being released: it is powered off, then cleaned", id.Host)
	}
	s.host = host
	if host.Spec.Claim.FencedAt.IsZero() {
		s.deletingBecause(infrav1.ReasonWaitingForFence, waitingForFence(s.machine, id.Host))
		return stop(r.waits().Placement), nil
	}
	return next, nil
}

// waitingForFence says what keeps a machine, and what a person can do.
func waitingForFence(machine *infrav1.IngotMachine, host string) string {
	message := fmt.Sprintf("Waiting for the BMC of IngotHost %s to confirm that the server is off. If the BMC is dead and the server is known to be off, annotate the IngotHost with %s", host, infrav1.ForceReleaseAnnotation)
	if _, controlPlane := machine.Labels[clusterv1.MachineControlPlaneLabel]; controlPlane {
		message += ". Cluster API adds, upgrades and heals no other machine of the control plane meanwhile"
	}
	return message
}
