// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// This file has the remediation of a Machine whose system is being installed. It does nothing
// unless the install cannot end: failures of the BMC, and failures that would be the same on any
// host, are not counted, so that no quarantine ends such an install.

// tries is the number of failed installs of this claim that did not count against the host. It
// may be too low, because counted failures may be of an earlier claim.
func (in *input) tries() int32 {
	failed := in.claim.Attempt
	if record := in.obs.Host.Spec.Record; record != nil {
		failed -= record.Failures
	}
	return failed
}

// installsFailed reports whether the last install failed for a reason that does not count, as
// often as would quarantine a host. A running install may still succeed.
func (in *input) installsFailed() bool {
	host := in.obs.Host
	order := host.Spec.Order
	if order == nil || order.Result == nil || in.tries() < cmp.Or(in.obs.MaxAttempts, lifecycle.DefaultPolicy().MaxAttempts) {
		return false
	}
	return lifecycle.IsNotHostFailure(host)
}

// installOverdue reports whether the install has had the remediation's timeout.
func (in *input) installOverdue() bool {
	return !in.obs.Now.Before(in.from(in.created).Add(in.timeout()))
}

// agentAtWork reports whether the agent of the present order reported recently. It works without
// the BMC.
func (in *input) agentAtWork() bool {
	order, operation := in.obs.Host.Spec.Order, in.obs.Host.Status.Operation
	return order != nil && order.Result == nil && operation != nil && operation.StartTime.Equal(&order.CreationTime) &&
		in.obs.Now.Before(operation.LastContactTime.Add(in.timeout()))
}

// bmcTrouble returns the host's condition about a failing BMC. Nil: the BMC works.
func (in *input) bmcTrouble() *metav1.Condition {
	told := in.obs.Host.Status.Conditions
	if c := meta.FindStatusCondition(told, infrav1.HostBMCReachableCondition); c != nil && c.Status != metav1.ConditionTrue {
		return c
	}
	if c := meta.FindStatusCondition(told, infrav1.HostCredentialsValidCondition); c != nil && c.Status == metav1.ConditionFalse {
		return c
	}
	return nil
}
func (in *input) bmcFails() bool { return in.bmcTrouble() != nil }

// bmcDue is until when the BMC has time to recover. The time starts with the remediation at the
// earliest.
func (in *input) bmcDue() time.Time {
	since := in.bmcTrouble().LastTransitionTime.Time
	if since.Before(in.created) {
		since = in.created
	}
	return in.from(since).Add(in.timeout())
}
func (in *input) bmcOverdue() bool { return !in.obs.Now.Before(in.bmcDue()) }

// idleUntilInstalled starts the deadlines at the end of the install, when the server boots its
// system for the first time. The MachineHealthCheck restarts its timeout then, but keeps an
// earlier remediation until the Node exists.
func (in *input) idleUntilInstalled() {
	told := meta.FindStatusCondition(in.obs.Host.Status.Conditions, infrav1.HostProvisionedCondition)
	if !in.inUse() || told == nil {
		return
	}
	since := in.obs.Now // the claim is written before the condition
	if told.Status == metav1.ConditionTrue {
		since = told.LastTransitionTime.Time
	}
	if since.After(in.obs.ActiveSince) {
		in.obs.ActiveSince = since
	}
}

func sayInstalling(*input) Decision {
	return Decision{Step: Idle{}, Reason: infrav1.ReasonProvisioning,
		Message: "The system is not installed yet, so there is nothing to restart. Ingot continues the install, see the IngotMachine."}
}

func awaitBMC(in *input) Decision {
	return Decision{Step: Wait{Until: in.bmcDue()}, Reason: infrav1.ReasonProvisioning,
		Message: fmt.Sprintf("The install waits: the BMC of %s fails (%s). It has until %s to recover, then the owner replaces the Machine.",
			in.host(), in.bmcTrouble().Reason, inventory.FormatTime(in.bmcDue()))}
}

func handOverBMC(in *input) Decision {
	trouble := in.bmcTrouble()
	return delegateToOwner(infrav1.ReasonOwnerRemediationRequested, fmt.Sprintf("The BMC of %s has failed for %s during the install (%s: %s)",
		in.host(), in.timeout(), trouble.Reason, trouble.Message))
}

func handOverInVain(in *input) Decision {
	result := in.obs.Host.Spec.Order.Result
	return delegateToOwner(infrav1.ReasonOwnerRemediationRequested, fmt.Sprintf("The install on %s failed %d times (not counted against it), last with %s: %s",
		in.host(), in.tries(), result.Reason, result.Message))
}
