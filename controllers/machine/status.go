// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	capierrors "sigs.k8s.io/cluster-api/api/deprecated/errors"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/inventory"
)

// maxMessage is the maximum length of a condition message, in characters. The event has the full
// text. NoMatchingHost may be longer (allocation.MaxExplanation): it can last for days, longer
// than events, and is the only list of rejected hosts.
const maxMessage = 200

// set writes one condition and reports whether status or reason changed.
func (s *scope) set(kind string, status metav1.ConditionStatus, reason, message string) bool {
	if reason != infrav1.ReasonNoMatchingHost {
		message = inventory.Truncate(message, maxMessage)
	}
	was := conditions.Get(s.machine, kind)
	changed := was == nil || was.Status != status || was.Reason != reason
	conditions.Set(s.machine, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: s.machine.Generation,
	})
	if changed {
		s.hostLog().Info("Condition changed", "condition", kind, "status", status, "reason", reason, "message", message)
	}
	return changed
}

func (s *scope) hostLog() logr.Logger {
	if s.host == nil || s.host.Spec.Claim == nil {
		return s.log
	}
	claim := s.host.Spec.Claim
	return s.log.WithValues("host", client.ObjectKeyFromObject(s.host).String(), "instanceID", claim.InstanceID, "attempt", claim.Attempt)
}

// notClaimed shows why the machine has no host, and reports whether status or reason changed. It
// clears the status of an earlier host, unless the machine was provisioned there.
func (s *scope) notClaimed(reason, message string) bool {
	if !s.wasProvisioned() {
		s.machine.Status.HostRef, s.machine.Status.FailureDomain, s.machine.Status.Addresses = nil, "", nil
		conditions.Delete(s.machine, infrav1.MachineInstalledCondition)
		conditions.Delete(s.machine, infrav1.MachineBootedCondition)
	}
	conditions.Delete(s.machine, infrav1.MachineHostHealthyCondition)
	return s.set(infrav1.MachineHostClaimedCondition, metav1.ConditionFalse, reason, message)
}

// refuse shows why the machine has no host and records one warning event.
func (r *Reconciler) refuse(s *scope, reason, message string) {
	if s.notClaimed(reason, message) {
		r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, reason, action, "%s", message)
	}
}

// claimed shows host and failure domain of the claim (M18). lost lists addresses of the system
// that pools may assign to others; empty: none.
func (s *scope) claimed(lost string) {
	reason := infrav1.ReasonHostClaimed
	if lost != "" {
		reason = infrav1.ReasonAddressClaimLost
	}
	s.set(infrav1.MachineHostClaimedCondition, metav1.ConditionTrue, reason, lost)
	s.machine.Status.HostRef = &infrav1.LocalReference{Name: s.host.Name}
	s.machine.Status.FailureDomain = s.host.Spec.Claim.FailureDomain
}

// fail marks the machine as failed for readers of contract v1beta1 (M28, M29). Readers of
// v1beta2 see the reason of the condition.
func (s *scope) fail(message string) {
	if s.machine.Status.Deprecated == nil {
		s.machine.Status.Deprecated = &infrav1.IngotMachineDeprecatedStatus{}
	}
	if s.machine.Status.Deprecated.V1Beta1 == nil {
		s.machine.Status.Deprecated.V1Beta1 = &infrav1.IngotV1Beta1DeprecatedStatus{}
	}
	s.machine.Status.Deprecated.V1Beta1.FailureReason = ptr.To(string(capierrors.UpdateMachineError))
	s.machine.Status.Deprecated.V1Beta1.FailureMessage = ptr.To(message)
}

// failed reports whether the machine has failed permanently (M46).
func failed(machine *infrav1.IngotMachine) bool {
	deprecated := machine.Status.Deprecated
	return deprecated != nil && deprecated.V1Beta1 != nil &&
		(deprecated.V1Beta1.FailureReason != nil || deprecated.V1Beta1.FailureMessage != nil)
}

func (s *scope) setDeleting(reason, message string) bool {
	return s.set(infrav1.ReadyCondition, metav1.ConditionFalse, reason, message)
}

// deletionReasons are the reasons of Ready during a deletion.
var deletionReasons = []string{infrav1.ReasonDeleting, infrav1.ReasonWaitingForMachineDeletion, infrav1.ReasonWaitingForMachineHooks, infrav1.ReasonWaitingForFence}

// summarize sets Ready (M26, M27) and returns when it may change by time alone; 0: never.
func (s *scope) summarize(now time.Time, delays timing.Timing) time.Duration {
	machine := s.machine
	if machine.DeletionTimestamp.IsZero() {
		ready, after := readiness(machine, nodeOf(s.owner), now, delays)
		conditions.Set(machine, ready)
		return after
	}
	if !slices.Contains(deletionReasons, conditions.GetReason(machine, infrav1.ReadyCondition)) {
		conditions.Set(machine, metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse,
			Reason: infrav1.ReasonDeleting, Message: "The host is being released."})
	}
	return 0
}
