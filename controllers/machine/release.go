// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// waitForOwner lets go on only when Cluster API is done with the Machine (I7). An
// IngotMachine that is deleted by hand waits for its Machine, and then for the hooks of
// that: drain itself Cluster API leaves out once the IngotMachine is being deleted, while
// what others hang into the deletion, as KubeadmControlPlane takes the member out of etcd,
// still comes, and needs the server.
func (r *Reconciler) waitForOwner(_ context.Context, s *scope) (outcome, error) {
	if s.owner == nil {
		return next, nil
	}
	if s.owner.DeletionTimestamp.IsZero() {
		if s.deletingBecause(infrav1.ReasonWaitingForMachineDeletion, waitingForMachine(s.owner.Name)) {
			r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, infrav1.ReasonWaitingForMachineDeletion, action,
				"The IngotMachine is deleted while Machine %s lives: nothing happens until that is deleted too, and Cluster API will not drain its Node", s.owner.Name)
		}
		return stop(0), nil
	}
	if hooks := deleteHooks(s.owner); len(hooks) > 0 {
		s.deletingBecause(infrav1.ReasonWaitingForMachineHooks, waitingForHooks(s.owner.Name, hooks))
		return stop(0), nil // the Machine brings us here again
	}
	return next, nil
}

// waitingForMachine says what Cluster API will leave out, and who can make up for it.
func waitingForMachine(owner string) string {
	return fmt.Sprintf("Ingot waits until Machine %[1]s is deleted too. Cluster API does not drain its Node any more: drain it yourself (kubectl drain), then delete Machine %[1]s.", owner)
}

// deleteHooks lists the annotations by which somebody holds up the deletion of a Machine,
// in the order of their names. Cluster API deletes an InfraMachine only without them
// (cluster-api/core/reconcilers/machine, reconcileDelete).
func deleteHooks(owner *clusterv1.Machine) []string {
	var hooks []string
	for key := range owner.Annotations {
		if strings.HasPrefix(key, clusterv1.PreDrainDeleteHookAnnotationPrefix) ||
			strings.HasPrefix(key, clusterv1.PreTerminateDeleteHookAnnotationPrefix) {
			hooks = append(hooks, key)
		}
	}
	slices.Sort(hooks)
	return hooks
}

// waitingForHooks says who holds up the deletion, and what is lost meanwhile.
func waitingForHooks(owner string, hooks []string) string {
	return fmt.Sprintf("The server stays on while Machine %s has deletion hooks: %s. Cluster API does not drain its Node any more: drain it yourself (kubectl drain).",
		owner, strings.Join(hooks, ", "))
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
			return stop(r.timing().Conflict), nil
		}
		if err != nil {
			return next, fmt.Errorf("releasing host %s: %w", id.Host, err)
		}
		s.host = host
		s.hostLog().Info("Releasing the host")
		r.Recorder.Eventf(s.machine, host, corev1.EventTypeNormal, infrav1.ReasonReleasing, action, "IngotHost %s is being released: it is powered off, then cleaned", id.Host)
	}
	s.host = host
	if host.Spec.Claim.FencedAt.IsZero() {
		s.deletingBecause(infrav1.ReasonWaitingForFence, waitingForFence(s.machine, host))
		return stop(r.timing().Placement), nil
	}
	return next, nil
}

// waitingForFence says what keeps a machine, and what a person can do. Where the host is
// kept from being switched off at all the BMC is not to blame.
func waitingForFence(machine *infrav1.IngotMachine, host *infrav1.IngotHost) string {
	message := fmt.Sprintf("Waiting for the BMC of IngotHost %s to confirm power-off. If the BMC is dead and the server off, annotate the host with %s.", host.Name, inventory.CommandText(infrav1.ForceReleaseAnnotation))
	if annotations.HasPaused(host) {
		message = fmt.Sprintf("IngotHost %s is paused: Ingot does not power it off. Remove the annotation %s.", host.Name, clusterv1.PausedAnnotation)
	}
	if _, controlPlane := machine.Labels[clusterv1.MachineControlPlaneLabel]; controlPlane {
		message += " The control plane waits."
	}
	if held := heldUp(host); held != "" && !annotations.HasPaused(host) {
		message += " " + held
	}
	return message
}

// heldUp is what the host says that keeps it, where that is not the fencing itself, nor
// from before the release.
func heldUp(host *infrav1.IngotHost) string {
	ready := conditions.Get(host, infrav1.ReadyCondition)
	if ready == nil || ready.ObservedGeneration != host.Generation || ready.Status != metav1.ConditionFalse || ready.Reason == infrav1.ReasonFencing || ready.Reason == infrav1.ReasonWaiting {
		return ""
	}
	return ready.Message
}
