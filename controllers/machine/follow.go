// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/remediation"
)

// followCleaning copies spec.cleaning to the claim, the only setting that may change on a running
// server (M64). A claim that is being released stays unchanged.
func (r *Reconciler) followCleaning(ctx context.Context, s *scope) (outcome, error) {
	wanted, claim := s.machine.Spec.Cleaning, s.host.Spec.Claim
	if wanted == "" || wanted == claim.Cleaning || claim.State == infrav1.ClaimReleasing {
		return next, nil
	}
	changed := s.host.DeepCopy()
	changed.Spec.Claim.Cleaning = wanted
	err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(s.host, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return stop(r.timing().Conflict), nil
	}
	if err != nil {
		return next, fmt.Errorf("change cleaning in the claim of host %s: %w", s.host.Name, err)
	}
	s.host = changed
	s.hostLog().Info("Changed the cleaning of the claim", "cleaning", wanted)
	return next, nil
}

// followInstall shows the progress of the install. From the commit point on, the machine is
// provisioned permanently (I4, M21, M22).
func (r *Reconciler) followInstall(_ context.Context, s *scope) (outcome, error) {
	if s.host.Spec.Claim.State == infrav1.ClaimProvisioning {
		s.set(infrav1.MachineInstalledCondition, metav1.ConditionFalse, infrav1.ReasonProvisioning, installMessage(s.host))
		return stop(0), nil
	}
	if s.set(infrav1.MachineInstalledCondition, metav1.ConditionTrue, infrav1.ReasonInstalled, "") {
		s.hostLog().Info("The machine is provisioned", "duration", r.Clock.Since(s.machine.CreationTimestamp.Time).Round(time.Second).String())
	}
	s.machine.Status.Initialization.Provisioned = ptr.To(true)
	return next, nil
}

// installMessage describes the install without percentages, which change all the time and are in
// the host's own status.
func installMessage(host *infrav1.IngotHost) string {
	message := fmt.Sprintf("Installing IngotHost %s, attempt %d", host.Name, max(host.Spec.Claim.Attempt, 1))
	if operation := host.Status.Operation; operation != nil && operation.Step != "" {
		message += ": " + operation.Step
	}
	if ready := conditions.Get(host, infrav1.ReadyCondition); ready != nil && ready.Status == metav1.ConditionFalse && ready.Message != "" {
		message += ". " + ready.Message
	}
	return message
}

// followBoot shows the first boot and the addresses of the installed system.
func (r *Reconciler) followBoot(ctx context.Context, s *scope) (outcome, error) {
	hardware := &infrav1.IngotHardware{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(s.host), hardware); client.IgnoreNotFound(err) != nil {
		return next, fmt.Errorf("read hardware of host %s: %w", s.host.Name, err)
	}
	report, reported := reportOf(s.host, hardware)
	s.machine.Status.Addresses = addressesOf(s, hardware, ownAddresses(s.cluster, s.host, hardware, reported))
	if report == nil {
		s.set(infrav1.MachineBootedCondition, metav1.ConditionUnknown, infrav1.ReasonWaitingForBoot,
			"The installed system has not reported its first boot. Images without cloud-init or curl never report; the machine works anyway.")
		return next, nil
	}
	reason, message := infrav1.ReasonBooted, ""
	if !s.owner.Status.NodeRef.IsDefined() {
		reason, message = firstBootOf(report, s.host.Spec.Claim, s.owner)
	}
	status := metav1.ConditionTrue
	if reason != infrav1.ReasonBooted {
		status = metav1.ConditionFalse
	}
	if s.set(infrav1.MachineBootedCondition, status, reason, message) && reason == infrav1.ReasonBootstrapFailed {
		r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeWarning, reason, action, "The bootstrap of %s %s failed. %s", s.owner.Spec.Bootstrap.ConfigRef.Kind, s.owner.Spec.Bootstrap.ConfigRef.Name, message)
	}
	return next, nil
}

// firstBootOf returns reason and message for the first boot of a machine without a Node. If it
// failed, a MachineHealthCheck can replace the Machine.
func firstBootOf(report *infrav1.BootedStatus, claim *infrav1.HostClaim, owner *clusterv1.Machine) (reason, message string) {
	switch {
	case ptr.Deref(report.Interrupted, false):
		return infrav1.ReasonFirstBootInterrupted, fmt.Sprintf(
			"The first boot was interrupted before cloud-init ended, and no Node has joined. cloud-init does not repeat it. Delete Machine %s to replace it.", owner.Name)
	case remediation.BootstrapFailed(report, claim, remediation.LeavesSentinel(owner)):
		return infrav1.ReasonBootstrapFailed, fmt.Sprintf(
			"cloud-init ended without the bootstrap sentinel file, and no Node has joined. See /var/log/cloud-init-output.log. Delete Machine %s to replace it.", owner.Name)
	}
	return infrav1.ReasonBooted, ""
}

// reportOf returns the first-boot report of the system that the claim installed, nil if there is
// none yet, and its addresses. A system reports once: the copy in IngotHardware survives a lost
// status and a move, and has priority.
func reportOf(host *infrav1.IngotHost, hardware *infrav1.IngotHardware) (report *infrav1.BootedStatus, addresses []string) {
	instance := host.Spec.Claim.InstanceID
	if kept := hardware.Spec.Booted; kept != nil && kept.InstanceID == instance {
		return inventory.SummarizeBooted(*kept), kept.Addresses
	}
	if shown := host.Status.Booted; shown != nil && shown.InstanceID == instance {
		return shown, host.Status.Addresses
	}
	return nil, host.Status.Addresses
}
