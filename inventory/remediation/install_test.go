// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// installingCases are those of a Machine whose system is being installed.
func installingCases() []decideCase {
	type r = infrav1.IngotRemediation
	type o = Observation
	type c = infrav1.HostClaim
	at := func(o *o, c *c, now int) {
		c.State, c.Attempt, o.Now = infrav1.ClaimProvisioning, 3, minutes(now).Time
		o.Host.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInstall, ID: "x", Attempt: 3, CreationTime: minutes(-5), AgentKey: "key"}
	}
	told := func(o *o, name string, status metav1.ConditionStatus, reason string, since int) {
		o.Host.Status.Conditions = append([]metav1.Condition{{Type: name, Status: status, Reason: reason, Message: "so it is", LastTransitionTime: minutes(since)}}, o.Host.Status.Conditions...)
	}
	// dead: the BMC does not answer since then.
	dead := func(o *o, c *c, since, now int) {
		at(o, c, now)
		told(o, infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCUnreachable, since)
	}
	heard := func(o *o, when int) {
		o.Host.Status.Operation = &infrav1.HostOperation{Kind: infrav1.OrderInstall, StartTime: o.Host.Spec.Order.CreationTime, LastContactTime: minutes(when)}
	}
	// failed: the last try has ended so.
	failed := func(o *o, c *c, reason string, now int) {
		at(o, c, now)
		o.Host.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderFailed, Reason: reason, Message: "it was so"}
	}
	// installed: the system is on it, and the host says so since then.
	installed := func(o *o, status metav1.ConditionStatus, since, now int) {
		o.Now = minutes(now).Time
		told(o, infrav1.HostProvisionedCondition, status, "x", since)
	}
	over := DelegateToOwner{}
	return []decideCase{
		{name: "installing", change: func(_ *r, o *o, c *c) { at(o, c, 60) }, rule: "installing/wait", step: Idle{}, says: "not installed yet"},
		{name: "released, with a BMC that is dead", change: func(_ *r, o *o, c *c) { dead(o, c, 0, 60); c.State = infrav1.ClaimReleasing }, rule: "no-host", step: Idle{}},
		{name: "installing without a BMC", change: func(_ *r, o *o, c *c) { at(o, c, 0); o.Host.Spec.BMC = nil }, rule: "unmanaged", step: over},

		{name: "installing, the BMC is dead for 11 minutes", change: func(_ *r, o *o, c *c) { dead(o, c, 0, 11) }, rule: "installing/bmc-overdue", step: over, says: "BMCUnreachable: so it is"},
		{name: "installing, the BMC is dead for 9 minutes", change: func(_ *r, o *o, c *c) { dead(o, c, 0, 9) }, rule: "installing/bmc-wait", step: Wait{Until: minutes(10).Time}, says: "then the owner replaces the Machine"},
		{name: "installing, the BMC is dead for a moment", change: func(_ *r, o *o, c *c) { dead(o, c, 60, 61) }, rule: "installing/bmc-wait", step: Wait{Until: minutes(70).Time}},
		{name: "installing, the BMC was dead before", change: func(_ *r, o *o, c *c) { dead(o, c, -60, 9) }, rule: "installing/bmc-wait", step: Wait{Until: minutes(10).Time}},
		{name: "installing, the BMC was dead during a pause", change: func(_ *r, o *o, c *c) { dead(o, c, 0, 51); o.ActiveSince = minutes(50).Time },
			rule: "installing/bmc-wait", step: Wait{Until: minutes(60).Time}},
		{name: "installing, the BMC refuses the password", change: func(_ *r, o *o, c *c) {
			at(o, c, 11)
			told(o, infrav1.HostCredentialsValidCondition, metav1.ConditionFalse, infrav1.ReasonCredentialsRejected, 0)
		}, rule: "installing/bmc-overdue", step: over, says: infrav1.ReasonCredentialsRejected},
		{name: "installing, the BMC takes no orders", change: func(_ *r, o *o, c *c) {
			at(o, c, 11)
			told(o, infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonPowerActionIgnored, 0)
		}, rule: "installing/bmc-overdue", step: over, says: infrav1.ReasonPowerActionIgnored},
		{name: "installing, the BMC's CA is missing", change: func(_ *r, o *o, c *c) {
			at(o, c, 11)
			told(o, infrav1.HostBMCReachableCondition, metav1.ConditionUnknown, infrav1.ReasonCABundleMissing, 0)
		}, rule: "installing/bmc-overdue", step: over},
		{name: "installing, the BMC is dead and its agent at work", change: func(_ *r, o *o, c *c) { dead(o, c, 0, 11); heard(o, 10) }, rule: "installing/agent", step: Idle{}},
		{name: "installing, the BMC is dead and its agent silent", change: func(_ *r, o *o, c *c) { dead(o, c, 0, 11); heard(o, 1) }, rule: "installing/bmc-overdue", step: over},
		{name: "installing, the BMC is dead and its agent was of another order", change: func(_ *r, o *o, c *c) {
			dead(o, c, 0, 11)
			heard(o, 10)
			o.Host.Spec.Order.CreationTime = minutes(9)
		}, rule: "installing/bmc-overdue", step: over},
		{name: "installing, the BMC is dead and its agent done", change: func(_ *r, o *o, c *c) {
			failed(o, c, agentapi.FailureDiskNotFound, 11)
			heard(o, 10)
			told(o, infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCUnreachable, 0)
		}, rule: "installing/bmc-overdue", step: over},
		{name: "installing, the BMC is dead, a person at work", change: func(_ *r, o *o, c *c) { dead(o, c, 0, 11); o.Host.Spec.Maintenance = new(true) }, rule: "person/wait", step: Idle{}},
		{name: "installing, the BMC is dead, the host paused", change: func(_ *r, o *o, c *c) {
			dead(o, c, 0, 11)
			o.Host.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, rule: "host-paused", step: Idle{}},
		{name: "installing, the BMC is dead, the cluster not reached", change: func(_ *r, o *o, c *c) { dead(o, c, 0, 11); o.Node = Node{Unreachable: true} }, rule: "installing/unreachable", step: Idle{}},
		{name: "installing the first control plane, the BMC is dead", change: func(_ *r, o *o, c *c) {
			dead(o, c, 0, 11)
			o.Node, o.Machine.ControlPlane = Node{Unreachable: true}, true
		}, rule: "installing/bmc-overdue", step: over},

		{name: "installed late, and booting", change: func(_ *r, o *o, _ *c) { installed(o, metav1.ConditionTrue, 50, 51) }, rule: "grace", step: Wait{Until: minutes(60).Time}, says: "may be booting"},
		{name: "installed late, just now", change: func(_ *r, o *o, _ *c) { installed(o, metav1.ConditionFalse, -20, 51) }, rule: "grace", step: Wait{Until: minutes(61).Time}},
		{name: "installed late, and did not boot", change: func(_ *r, o *o, _ *c) { installed(o, metav1.ConditionTrue, 50, 60) }, rule: "cycle",
			cycle: &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: minutes(60), BootID: "boot-1"}},
		{name: "installed before", change: func(_ *r, o *o, _ *c) { installed(o, metav1.ConditionTrue, -1, 0) }, rule: "cycle",
			cycle: &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: minutes(0), BootID: "boot-1"}},

		{name: "the image is bad", change: func(_ *r, o *o, c *c) { failed(o, c, agentapi.FailureChecksumMismatch, 10) }, rule: "installing/in-vain", step: over, says: "failed 3 times (not counted against it), last with ChecksumMismatch: it was so"},
		{name: "the live system is silent", change: func(_ *r, o *o, c *c) { failed(o, c, infrav1.ReasonLiveSystemUnresponsive, 10) }, rule: "installing/in-vain", step: over},
		{name: "the network is silent", change: func(_ *r, o *o, c *c) { failed(o, c, infrav1.ReasonNetworkUnresponsive, 10) }, rule: "installing/in-vain", step: over},
		{name: "the image is bad, and the agent not gone yet", change: func(_ *r, o *o, c *c) { failed(o, c, agentapi.FailureImageInvalid, 10); heard(o, 10) }, rule: "installing/in-vain", step: over},
		{name: "the image is bad, early", change: func(_ *r, o *o, c *c) { failed(o, c, agentapi.FailureChecksumMismatch, 9) }, rule: "installing/wait", step: Idle{}},
		{name: "the image was bad twice", change: func(_ *r, o *o, c *c) { failed(o, c, agentapi.FailureChecksumMismatch, 10); c.Attempt = 2 }, rule: "installing/wait", step: Idle{}},
		{name: "the image was bad twice, and more are not tried", change: func(_ *r, o *o, c *c) {
			failed(o, c, agentapi.FailureChecksumMismatch, 10)
			c.Attempt, o.MaxAttempts = 2, 2
		}, rule: "installing/in-vain", step: over},
		{name: "the image was bad once, the disk twice", change: func(_ *r, o *o, c *c) {
			failed(o, c, agentapi.FailureChecksumMismatch, 10)
			o.Host.Spec.Record = &infrav1.HostRecord{Failures: 2}
		}, rule: "installing/wait", step: Idle{}},
		{name: "the disk is bad, which is counted", change: func(_ *r, o *o, c *c) { failed(o, c, agentapi.FailureDiskNotFound, 10) }, rule: "installing/wait", step: Idle{}},
		{name: "a fourth try is under way", change: func(_ *r, o *o, c *c) { at(o, c, 60); c.Attempt = 4 }, rule: "installing/wait", step: Idle{}},
		{name: "no order is written", change: func(_ *r, o *o, c *c) { at(o, c, 60); o.Host.Spec.Order = nil }, rule: "installing/wait", step: Idle{}},
		{name: "the image is bad, the cluster not reached", change: func(_ *r, o *o, c *c) {
			failed(o, c, agentapi.FailureChecksumMismatch, 10)
			o.Node = Node{Unreachable: true}
		}, rule: "installing/unreachable", step: Idle{}},
	}
}
