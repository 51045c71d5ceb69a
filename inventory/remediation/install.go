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

// This file is what a remediation does about a Machine whose system is being installed:
// nothing, unless that cannot end by itself. Neither a BMC that cannot be used nor a
// failure that would be the same on any host is ever counted, so that no quarantine takes
// such a Machine from its host.

// tries are the installations that failed for this claim, and were not held against the
// host. What was counted may be of an earlier claim, so that these are too few at most.
func (in *input) tries() int32 {
	failed := in.claim.Attempt
	if record := in.obs.Host.Spec.Record; record != nil {
		failed -= record.Failures
	}
	return failed
}

// triedInVain: the last try has failed as well, for what is not counted, and so often that
// the host would be out of service if it were. A try that is under way may be the good one.
func (in *input) triedInVain() bool {
	host := in.obs.Host
	order := host.Spec.Order
	if order == nil || order.Result == nil || in.tries() < cmp.Or(in.obs.MaxAttempts, lifecycle.DefaultPolicy().MaxAttempts) {
		return false
	}
	return lifecycle.BlamesNoHost(host)
}

// installOverdue: the remediation has given the installation its time.
func (in *input) installOverdue() bool {
	return !in.obs.Now.Before(in.from(in.created).Add(in.timeout()))
}

// agentAtWork: the agent of the present order was heard not long ago. It needs no BMC for
// what it does.
func (in *input) agentAtWork() bool {
	order, operation := in.obs.Host.Spec.Order, in.obs.Host.Status.Operation
	return order != nil && order.Result == nil && operation != nil && operation.StartedAt.Equal(&order.CreatedAt) &&
		in.obs.Now.Before(operation.LastContactTime.Add(in.timeout()))
}

// bmcTrouble is what the host says of a BMC that cannot be used, or does not do as it is
// ordered; nil: nothing.
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

// bmcDue is until when the BMC has time to be used again. What it failed before the
// remediation was made is not held against it.
func (in *input) bmcDue() time.Time {
	since := in.bmcTrouble().LastTransitionTime.Time
	if since.Before(in.created) {
		since = in.created
	}
	return in.from(since).Add(in.timeout())
}
func (in *input) bmcOverdue() bool { return !in.obs.Now.Before(in.bmcDue()) }

// idleUntilInstalled: nothing is done about an installation, and at its end the server
// boots its system for the first time. MachineHealthCheck counts anew from then on, but
// the remediation that it made before stays until the Node is there.
func (in *input) idleUntilInstalled() {
	told := meta.FindStatusCondition(in.obs.Host.Status.Conditions, infrav1.HostProvisionedCondition)
	if !in.inUse() || told == nil {
		return
	}
	since := in.obs.Now // the claim says so before the host does
	if told.Status == metav1.ConditionTrue {
		since = told.LastTransitionTime.Time
	}
	if since.After(in.obs.ActiveSince) {
		in.obs.ActiveSince = since
	}
}

func sayInstalling(*input) Decision {
	return Decision{Step: Idle{}, Reason: infrav1.ReasonProvisioning,
		Message: "the Machine's system is not installed yet, so that there is nothing to restart: Ingot's own tries at it go on; see the IngotMachine"}
}

func awaitBMC(in *input) Decision {
	return Decision{Step: Wait{Until: in.bmcDue()}, Reason: infrav1.ReasonProvisioning,
		Message: inventory.ClipMessage(fmt.Sprintf("the Machine's system cannot be installed for now: the BMC of %s fails (%s); it has until %s to be used again, then the Machine is handed over",
			in.host(), in.bmcTrouble().Reason, inventory.FormatTime(in.bmcDue())))}
}

func handOverBMC(in *input) Decision {
	trouble := in.bmcTrouble()
	return handOver(infrav1.ReasonHandedOver, fmt.Sprintf("the Machine's system cannot be installed: the BMC of %s has failed for %s (%s: %s)",
		in.host(), in.timeout(), trouble.Reason, trouble.Message))
}

func handOverInVain(in *input) Decision {
	result := in.obs.Host.Spec.Order.Result
	return handOver(infrav1.ReasonHandedOver, fmt.Sprintf("the Machine's system was not installed on %s in %d tries, the last time with %s: %s; that is not held against the host",
		in.host(), in.tries(), result.Reason, result.Message))
}
