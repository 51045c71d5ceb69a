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

// maxMessage bounds the message of a condition, in characters. What is cut stands in the
// event. NoMatchingHost alone may be longer (allocation.MaxExplanation): it lasts for days,
// events do not, and nothing else tells which hosts were refused, and why.
const maxMessage = 200

// set writes one condition; it says whether that is news: messages change with the
// inventory, and are no reason for an event.
func (s *scope) set(kind string, status metav1.ConditionStatus, reason, message string) bool {
	if reason != infrav1.ReasonNoMatchingHost {
		message = inventory.Truncate(message, maxMessage)
	}
	was := conditions.Get(s.machine, kind)
	news := was == nil || was.Status != status || was.Reason != reason
	conditions.Set(s.machine, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: s.machine.Generation,
	})
	if news {
		s.hostLog().Info("The machine's condition "+kind+" is "+string(status), "reason", reason, "message", message)
	}
	return news
}

// hostLog adds the machine's host, if it has one, to the lines of the log.
func (s *scope) hostLog() logr.Logger {
	if s.host == nil || s.host.Spec.Claim == nil {
		return s.log
	}
	claim := s.host.Spec.Claim
	return s.log.WithValues("host", client.ObjectKeyFromObject(s.host).String(), "instanceID", claim.InstanceID, "attempt", claim.Attempt)
}

// notClaimed says why the machine has no host. What it showed of an earlier one
// goes, unless it was provisioned there.
func (s *scope) notClaimed(reason, message string) bool {
	if !s.settled() {
		s.machine.Status.HostRef, s.machine.Status.FailureDomain, s.machine.Status.Addresses = nil, "", nil
		conditions.Delete(s.machine, infrav1.MachineInstalledCondition)
		conditions.Delete(s.machine, infrav1.MachineBootedCondition)
	}
	conditions.Delete(s.machine, infrav1.MachineHostHealthyCondition)
	return s.set(infrav1.MachineHostClaimedCondition, metav1.ConditionFalse, reason, message)
}

// refuse says why the machine has no host, and tells people of it once.
func (r *Reconciler) refuse(s *scope, reason, message string) {
	if s.notClaimed(reason, message) {
		r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, reason, action, "%s", message)
	}
}

// claimed shows the claim: host and failure domain (M18). lost says which addresses of the
// system its pools may give to others; empty: none. The claim holds all the same.
func (s *scope) claimed(lost string) {
	reason := infrav1.ReasonHostClaimed
	if lost != "" {
		reason = infrav1.ReasonAddressClaimLost
	}
	s.set(infrav1.MachineHostClaimedCondition, metav1.ConditionTrue, reason, lost)
	s.machine.Status.HostRef = &infrav1.LocalReference{Name: s.host.Name}
	s.machine.Status.FailureDomain = s.host.Spec.Claim.FailureDomain
}

// fail says that the machine cannot be recovered (M28, M29): for readers of contract
// v1beta1 here, for those of v1beta2 by the condition's reason.
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

// failed says whether the machine has failed for good (M46).
func failed(machine *infrav1.IngotMachine) bool {
	deprecated := machine.Status.Deprecated
	return deprecated != nil && deprecated.V1Beta1 != nil &&
		(deprecated.V1Beta1.FailureReason != nil || deprecated.V1Beta1.FailureMessage != nil)
}

// deletingBecause shows what a deletion waits for.
func (s *scope) deletingBecause(reason, message string) bool {
	return s.set(infrav1.ReadyCondition, metav1.ConditionFalse, reason, message)
}

// deletion holds the reasons of Ready that say what a deletion waits for.
var deletion = []string{infrav1.ReasonDeleting, infrav1.ReasonWaitingForMachineDeletion, infrav1.ReasonWaitingForMachineHooks, infrav1.ReasonWaitingForFence}

// summarize sets Ready (M26, M27), and returns how soon it may change by time alone; 0: it
// does not.
func (s *scope) summarize(now time.Time, delays timing.Timing) time.Duration {
	machine := s.machine
	if machine.DeletionTimestamp.IsZero() {
		ready, again := readiness(machine, nodeOf(s.owner), now, delays)
		conditions.Set(machine, ready)
		return again
	}
	if !slices.Contains(deletion, conditions.GetReason(machine, infrav1.ReadyCondition)) {
		conditions.Set(machine, metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse,
			Reason: infrav1.ReasonDeleting, Message: "The host is being released"})
	}
	return 0
}
