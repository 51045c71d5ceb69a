// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// cutOffCases are those of a Machine whose first boot was cut off.
func cutOffCases() []decideCase {
	type r = infrav1.IngotRemediation
	type o = Observation
	type c = infrav1.HostClaim
	// told: its system says so from the next boot.
	told := func(o *o, c *c, since, now int) {
		c.InstanceID, o.Now = "instance", minutes(now).Time
		o.Host.Status.Booted = &infrav1.BootedStatus{InstanceID: "instance", ReportTime: minutes(since), Interrupted: new(true)}
	}
	first := func(now int) *infrav1.ClaimPowerCycle {
		return &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: minutes(now), BootID: "boot-1"}
	}
	reachable := func(o *o) *metav1.Condition {
		return meta.FindStatusCondition(o.Host.Status.Conditions, infrav1.HostBMCReachableCondition)
	}
	ran := func() *infrav1.ClaimPowerCycle {
		cycle := cycleAt(1, infrav1.PowerCycleDone, 0, 2)
		cycle.ConfirmedOff, cycle.WasOn = new(true), new(true)
		return cycle
	}
	// byCycle: it was a power cycle of a host that was on, and no Node joins.
	byCycle := func(o *o, c *c) {
		told(o, c, 3, 5)
		c.PowerCycle, reachable(o).LastTransitionTime = ran(), minutes(-60)
		o.Host.Status.Conditions = append(o.Host.Status.Conditions, metav1.Condition{Type: infrav1.HostProvisionedCondition, Status: metav1.ConditionTrue, LastTransitionTime: minutes(-30)})
	}
	over := DelegateToOwner{}
	return []decideCase{
		{name: "cut off in the first boot", change: func(_ *r, o *o, c *c) { told(o, c, -1, 0) }, rule: "cut-off/wait", step: Wait{Until: minutes(1).Time}, says: "to join, then the owner"},
		{name: "cut off in the first boot, and no Node joins", change: func(_ *r, o *o, c *c) { told(o, c, -1, 1) }, rule: "cut-off/by-others", step: over, says: "No Node joined"},
		{name: "cut off in the first boot, seen after a power cycle", change: func(_ *r, o *o, c *c) {
			told(o, c, 3, 4)
			c.PowerCycle = cycleAt(1, infrav1.PowerCycleDone, 0, 2)
		}, rule: "cut-off/wait", step: Wait{Until: minutes(5).Time}},
		{name: "cut off by a power cycle, and no Node joins", change: func(_ *r, o *o, c *c) { byCycle(o, c) }, rule: "cut-off/by-cycle", cycle: ran(),
			mark: infrav1.QuarantineHealthFailed, says: "had not ended at the power cycle"},
		{name: "cut off by a power cycle, on a host that is to be used again", change: func(r *r, o *o, c *c) {
			byCycle(o, c)
			r.Spec.FailedHost = infrav1.FailedHostReuse
		}, rule: "cut-off/by-cycle", step: over},
		{name: "cut off, and found off", change: func(_ *r, o *o, c *c) { byCycle(o, c); c.PowerCycle.WasOn = new(false) }, rule: "cut-off/by-others", step: over},
		{name: "cut off, nobody saw how the host was found", change: func(_ *r, o *o, c *c) { byCycle(o, c); c.PowerCycle.WasOn = nil }, rule: "cut-off/by-others", step: over},
		{name: "cut off, the power cycle was ended before it switched", change: func(_ *r, o *o, c *c) { byCycle(o, c); c.PowerCycle.ConfirmedOff = nil }, rule: "cut-off/by-others", step: over},
		{name: "cut off, told before the power cycle was done", change: func(_ *r, o *o, c *c) { byCycle(o, c); c.PowerCycle.CompletionTime = minutes(4) }, rule: "cut-off/by-others", step: over},
		{name: "cut off, the BMC was away since", change: func(_ *r, o *o, c *c) { byCycle(o, c); reachable(o).LastTransitionTime = minutes(1) }, rule: "cut-off/by-others", step: over},
		{name: "cut off, the BMC is away", change: func(_ *r, o *o, c *c) { byCycle(o, c); reachable(o).Status = metav1.ConditionFalse }, rule: "cut-off/by-others", step: over},
		{name: "cut off, and a status that was lost", change: func(_ *r, o *o, c *c) { byCycle(o, c); o.Host.Status.Conditions = nil }, rule: "cut-off/by-others", step: over},
		{name: "cut off in the first boot, a power cycle under way", change: func(_ *r, o *o, c *c) {
			told(o, c, -5, 4)
			c.PowerCycle = cycleAt(1, infrav1.PowerCycleOff, 0, 0)
		}, rule: "cycling/wait", step: Wait{Until: minutes(10).Time}},
		{name: "cut off in the first boot, nobody looked", change: func(_ *r, o *o, c *c) { told(o, c, -1, 51); o.ActiveSince = minutes(50).Time },
			rule: "cut-off/wait", step: Wait{Until: minutes(52).Time}},
		{name: "cut off in the first boot, and its Node joined", change: func(_ *r, o *o, c *c) { told(o, c, -5, 4); o.Machine.Joined = true },
			rule: "cut-off/joined", step: Wait{Until: minutes(5).Time}, says: "but the Node joined"},
		{name: "cut off in the first boot, its Node joined, and the host is off", change: func(_ *r, o *o, c *c) {
			told(o, c, -5, 4)
			o.Machine.Joined, o.Host.Status.Power = true, infrav1.PowerStateOff
		}, rule: "cycle", cycle: first(4)},
		{name: "cut off in the first boot, and its Node joined long ago", change: func(_ *r, o *o, c *c) { told(o, c, -5, 5); o.Machine.Joined = true }, rule: "cycle", cycle: first(5)},
		{name: "the first boot of an earlier claim was cut off", change: func(_ *r, o *o, c *c) { told(o, c, -5, 0); c.InstanceID = "another" }, rule: "cycle", cycle: first(0)},
		{name: "the first boot came to its end", change: func(_ *r, o *o, c *c) { told(o, c, -5, 0); o.Host.Status.Booted.Interrupted = nil }, rule: "cycle", cycle: first(0)},
		{name: "the first boot came to its end, it says", change: func(_ *r, o *o, c *c) { told(o, c, -5, 0); o.Host.Status.Booted.Interrupted = new(false) }, rule: "cycle", cycle: first(0)},
		{name: "cut off in the first boot, the cluster not reached", change: func(_ *r, o *o, c *c) { told(o, c, -5, 0); o.Node = Node{Unreachable: true} },
			rule: "cut-off/unreachable", step: Idle{}},
		{name: "the first boot of the first control plane was cut off", change: func(_ *r, o *o, c *c) {
			told(o, c, -5, 0)
			o.Node, o.Machine.ControlPlane = Node{Unreachable: true}, true
		}, rule: "cut-off/by-others", step: over},
		{name: "cut off in the first boot, with a late installation", change: func(_ *r, o *o, c *c) {
			told(o, c, 51, 52)
			o.Host.Status.Conditions = append(o.Host.Status.Conditions, metav1.Condition{Type: infrav1.HostProvisionedCondition, Status: metav1.ConditionTrue, LastTransitionTime: minutes(50)})
		}, rule: "cut-off/wait", step: Wait{Until: minutes(53).Time}},
	}
}

// bootstrapCases are those of a Machine whose bootstrap failed, as its system says.
func bootstrapCases() []decideCase {
	type r = infrav1.IngotRemediation
	type o = Observation
	type c = infrav1.HostClaim
	// told: cloud-init has ended without the sentinel file of the bootstrap provider.
	told := func(o *o, c *c, since, now int) {
		c.InstanceID, o.Now, o.Machine.LeavesSentinel = "instance", minutes(now).Time, true
		o.Host.Status.Booted = &infrav1.BootedStatus{InstanceID: "instance", ReportTime: minutes(since), Sentinel: infrav1.SentinelMissing}
	}
	first := func(now int) *infrav1.ClaimPowerCycle {
		return &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: minutes(now), BootID: "boot-1"}
	}
	over := DelegateToOwner{}
	return []decideCase{
		{name: "a failed bootstrap", change: func(_ *r, o *o, c *c) { told(o, c, -1, 0) }, rule: "bootstrap/wait", step: Wait{Until: minutes(1).Time}, says: "no sentinel file after cloud-init"},
		{name: "a failed bootstrap, and no Node joins", change: func(_ *r, o *o, c *c) { told(o, c, -1, 1) }, rule: "bootstrap/failed", step: over, says: "No Node joined"},
		{name: "a failed bootstrap, told after a power cycle that found the host on", change: func(_ *r, o *o, c *c) {
			told(o, c, 3, 5)
			c.PowerCycle = cycleAt(1, infrav1.PowerCycleDone, 0, 2)
			c.PowerCycle.ConfirmedOff, c.PowerCycle.WasOn = new(true), new(true)
		}, rule: "bootstrap/failed", step: over},
		{name: "a failed bootstrap, a power cycle under way", change: func(_ *r, o *o, c *c) {
			told(o, c, -5, 4)
			c.PowerCycle = cycleAt(1, infrav1.PowerCycleOff, 0, 0)
		}, rule: "cycling/wait", step: Wait{Until: minutes(10).Time}},
		{name: "a failed bootstrap, and its Node joined", change: func(_ *r, o *o, c *c) { told(o, c, -5, 4); o.Machine.Joined = true },
			rule: "bootstrap/joined", step: Wait{Until: minutes(5).Time}, says: "but the Node joined"},
		{name: "a failed bootstrap, its Node joined, and the host is off", change: func(_ *r, o *o, c *c) {
			told(o, c, -5, 4)
			o.Machine.Joined, o.Host.Status.Power = true, infrav1.PowerStateOff
		}, rule: "cycle", cycle: first(4)},
		{name: "a failed bootstrap, and its Node joined long ago", change: func(_ *r, o *o, c *c) { told(o, c, -5, 5); o.Machine.Joined = true }, rule: "cycle", cycle: first(5)},
		{name: "a failed bootstrap of an earlier claim", change: func(_ *r, o *o, c *c) { told(o, c, -5, 0); c.InstanceID = "another" }, rule: "cycle", cycle: first(0)},
		{name: "a bootstrap that succeeded", change: func(_ *r, o *o, c *c) { told(o, c, -5, 0); o.Host.Status.Booted.Sentinel = infrav1.SentinelPresent }, rule: "cycle", cycle: first(0)},
		{name: "a bootstrap of which nothing is known", change: func(_ *r, o *o, c *c) { told(o, c, -5, 0); o.Host.Status.Booted.Sentinel = "" }, rule: "cycle", cycle: first(0)},
		{name: "no sentinel file, and bootstrap data by hand", change: func(_ *r, o *o, c *c) { told(o, c, -5, 0); o.Machine.LeavesSentinel = false }, rule: "cycle", cycle: first(0)},
		{name: "no sentinel file of a live system", change: func(_ *r, o *o, c *c) { told(o, c, -5, 0); c.Live = &infrav1.LiveSystem{} }, rule: "cycle", cycle: first(0)},
		{name: "a failed bootstrap, the cluster not reached", change: func(_ *r, o *o, c *c) { told(o, c, -5, 0); o.Node = Node{Unreachable: true} },
			rule: "bootstrap/unreachable", step: Idle{}},
		{name: "a failed bootstrap of the first control plane", change: func(_ *r, o *o, c *c) {
			told(o, c, -5, 0)
			o.Node, o.Machine.ControlPlane = Node{Unreachable: true}, true
		}, rule: "bootstrap/failed", step: over},
	}
}

func TestLeavesSentinel(t *testing.T) {
	for name, tc := range map[string]struct {
		group, kind string
		want        bool
	}{
		"kubeadm":                {"bootstrap.cluster.x-k8s.io", "KubeadmConfig", true},
		"another provider":       {"bootstrap.cluster.x-k8s.io", "MicroK8sConfig", false},
		"another's of that name": {"bootstrap.example.com", "KubeadmConfig", false},
		"bootstrap data by hand": {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &clusterv1.Machine{}
			machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: tc.group, Kind: tc.kind}
			if got := LeavesSentinel(machine); got != tc.want {
				t.Errorf("%t, want %t", got, tc.want)
			}
		})
	}
}
