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
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/inventory"
)

// waitForOwner waits until the Machine is being deleted and has no deletion hooks (I7). Once
// the IngotMachine is being deleted, Cluster API skips the drain. The hooks of other
// controllers still run and need the server: KubeadmControlPlane removes the etcd member.
func (r *Reconciler) waitForOwner(_ context.Context, s *scope) (outcome, error) {
	if s.owner == nil {
		return next, nil
	}
	if s.owner.DeletionTimestamp.IsZero() {
		if s.setDeleting(infrav1.ReasonWaitingForMachineDeletion, waitingForMachine(s.owner.Name)) {
			r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, infrav1.ReasonWaitingForMachineDeletion, action,
				"The IngotMachine was deleted before Machine %s. Ingot keeps the host until the Machine is deleted too. Cluster API will not drain its Node.", s.owner.Name)
		}
		return stop(0), nil
	}
	if hooks := deleteHooks(s.owner); len(hooks) > 0 {
		s.setDeleting(infrav1.ReasonWaitingForMachineHooks, waitingForHooks(s.owner.Name, hooks))
		return stop(0), nil // a change of the Machine triggers a reconcile
	}
	return next, nil
}

func waitingForMachine(owner string) string {
	return fmt.Sprintf("Ingot waits until Machine %[1]s is deleted too. Cluster API will not drain its Node: drain it yourself (kubectl drain), then delete Machine %[1]s.", owner)
}

// deleteHooks lists the deletion hooks of a Machine, sorted. Cluster API deletes an
// InfraMachine only without them (cluster-api/core/reconcilers/machine, reconcileDelete).
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

func waitingForHooks(owner string, hooks []string) string {
	return fmt.Sprintf("The server stays on while Machine %s has deletion hooks: %s. Cluster API will not drain its Node: drain it yourself (kubectl drain).",
		owner, strings.Join(hooks, ", "))
}

// release requests the release of the host and waits until it is fenced (I6, I7). The host is
// cleaned without the machine.
func (r *Reconciler) release(ctx context.Context, s *scope) (outcome, error) {
	id, err := infrav1.ParseProviderID(s.machine.Spec.ProviderID)
	if err != nil || id.Namespace != s.machine.Namespace {
		return next, nil // no host was selected
	}
	// Only a live read proves that there is nothing to release.
	host, err := kubeutil.Find[infrav1.IngotHost](ctx, r.Live, id.Namespace, id.Host)
	if err != nil || !isClaimedBy(host, s.machine, id) {
		return next, err // released by force, quarantined, or never claimed
	}
	if host.Spec.Claim.State != infrav1.ClaimReleasing {
		before := host.DeepCopy()
		host.Spec.Claim.State = infrav1.ClaimReleasing
		err := r.Client.Patch(ctx, host, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			return stop(r.timing().Conflict), nil
		}
		if err != nil {
			return next, fmt.Errorf("release host %s: %w", id.Host, err)
		}
		s.host = host
		s.hostLog().Info("Releasing the host")
		r.Recorder.Eventf(s.machine, host, corev1.EventTypeNormal, infrav1.ReasonReleasing, action, "Releasing IngotHost %s. Ingot powers it off, then cleans it.", id.Host)
	}
	s.host = host
	if host.Spec.Claim.FencedTime.IsZero() {
		s.setDeleting(infrav1.ReasonWaitingForFence, waitingForFence(s.machine, host))
		return stop(r.timing().Placement), nil
	}
	return next, nil
}

// waitingForFence explains what the release waits for and what the operator can do.
func waitingForFence(machine *infrav1.IngotMachine, host *infrav1.IngotHost) string {
	message := fmt.Sprintf("Waiting for the BMC of IngotHost %s to confirm power-off. If the BMC is dead and the server off, annotate the host with %s.", host.Name, inventory.CommandText(infrav1.ForceReleaseAnnotation))
	if annotations.HasPaused(host) {
		message = fmt.Sprintf("IngotHost %s is paused, so Ingot does not power it off. Remove the annotation %s.", host.Name, clusterv1.PausedAnnotation)
	}
	if _, controlPlane := machine.Labels[clusterv1.MachineControlPlaneLabel]; controlPlane {
		message += " The control plane waits."
	}
	if cause := releaseBlockedBy(host); cause != "" && !annotations.HasPaused(host) {
		message += " " + cause
	}
	return message
}

// releaseBlockedBy returns the message of the host's Ready condition, unless it is about the
// fencing itself or older than the release.
func releaseBlockedBy(host *infrav1.IngotHost) string {
	ready := conditions.Get(host, infrav1.ReadyCondition)
	if ready == nil || ready.ObservedGeneration != host.Generation || ready.Status != metav1.ConditionFalse || ready.Reason == infrav1.ReasonFencing || ready.Reason == infrav1.ReasonWaiting {
		return ""
	}
	return ready.Message
}
