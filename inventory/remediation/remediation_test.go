// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/inventory/rules"
)

var remediationStart = time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)

// minutes after the remediation was made.
func minutes(n int) metav1.Time {
	return metav1.Time{Time: remediationStart.Add(time.Duration(n) * time.Minute)}
}

// decideCase is a Machine in use that is unhealthy, and what differs from that.
type decideCase struct {
	name   string
	change func(*infrav1.IngotRemediation, *Observation, *infrav1.HostClaim)
	rule   string
	step   Step
	// cycle and mark are what a SaveLedger leaves in the claim.
	cycle *infrav1.ClaimPowerCycle
	mark  infrav1.QuarantineReason
	says  string
}

func newRemediation() (*infrav1.IngotRemediation, Observation) {
	remediation := &infrav1.IngotRemediation{ObjectMeta: metav1.ObjectMeta{Name: "m", CreationTimestamp: minutes(0)}}
	remediation.Spec = infrav1.IngotRemediationSpec{RetryLimit: new(int32(2)), TimeoutSeconds: 600, CooldownSeconds: 3600, FailedHost: infrav1.FailedHostQuarantine}
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "h1"}}
	host.Spec.BMC = &infrav1.BMC{Address: "redfish://bmc"}
	host.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "im"}, State: infrav1.ClaimProvisioned, Attempt: 1}
	host.Status.Conditions = []metav1.Condition{{Type: infrav1.HostBMCReachableCondition, Status: metav1.ConditionTrue}}
	return remediation, Observation{Now: minutes(0).Time, ActiveSince: minutes(0).Time, Host: host, Node: Node{BootID: "boot-1"}}
}

func cycleAt(count int32, state infrav1.PowerCycleState, asked, done int) *infrav1.ClaimPowerCycle {
	cycle := &infrav1.ClaimPowerCycle{Count: count, State: state, RequestTime: minutes(asked), BootID: "boot-1"}
	if state == infrav1.PowerCycleDone {
		cycle.CompletionTime = minutes(done)
	}
	return cycle
}

// checkMessages checks that all messages are sentences of at most inventory.MaxText characters,
// also with names of 63 characters and long texts of others.
func checkMessages(t *testing.T, remediation *infrav1.IngotRemediation, obs Observation) {
	t.Helper()
	for _, long := range []bool{false, true} {
		if long && obs.Host != nil {
			obs.Host = obs.Host.DeepCopy()
			obs.Host.Name = strings.Repeat("n", 63)
			if claim := obs.Host.Spec.Claim; claim != nil {
				claim.MachineRef.Name = strings.Repeat("m", 63)
				if claim.Quarantine != nil {
					claim.Quarantine.Message = strings.Repeat("The host failed. ", 30)
				}
			}
			if order := obs.Host.Spec.Order; order != nil && order.Result != nil {
				order.Result.Message = strings.Repeat("It failed. ", 30)
			}
			for i := range obs.Host.Status.Conditions {
				obs.Host.Status.Conditions[i].Message = strings.Repeat("The BMC failed. ", 12)
			}
		}
		for _, text := range []string{Decide(remediation, obs).Message, Restarted(obs).Message} {
			n, first := utf8.RuneCountInString(text), []rune(text)[0]
			if n > inventory.MaxText || !unicode.IsUpper(first) || !strings.HasSuffix(text, ".") || strings.Contains(text, "..") {
				t.Errorf("the message has %d characters, or is no sentence: %s", n, text)
			}
		}
	}
}

func TestDecide(t *testing.T) {
	for _, c := range decideCases() {
		t.Run(c.name, func(t *testing.T) {
			remediation, obs := newRemediation()
			c.change(remediation, &obs, obs.Host.Spec.Claim)
			got := Decide(remediation, obs)
			if got.Rule != c.rule || got.Reason == "" || !strings.Contains(got.Message, c.says) {
				t.Fatalf("rule %q, reason %q, says %q; want %q and %q", got.Rule, got.Reason, got.Message, c.rule, c.says)
			}
			checkMessages(t, remediation, obs)
			save, saves := got.Step.(SaveLedger)
			if !saves {
				if diff := cmp.Diff(c.step, got.Step); diff != "" {
					t.Errorf("step (-want +got):\n%s", diff)
				}
				return
			}
			if c.step != nil {
				t.Fatalf("the ledger is written, want %T", c.step)
			}
			if diff := cmp.Diff(c.cycle, save.Ledger.Claim.PowerCycle); diff != "" {
				t.Errorf("power cycle (-want +got):\n%s", diff)
			}
			var mark infrav1.QuarantineReason
			if q := save.Ledger.Claim.Quarantine; q != nil {
				mark = q.Reason
			}
			if mark != c.mark {
				t.Errorf("the claim is marked %q, want %q", mark, c.mark)
			}
			if cmp.Equal(save.Ledger, lifecycle.LedgerOf(obs.Host)) {
				t.Error("a write that changes nothing")
			}
		})
	}
}

func decideCases() []decideCase {
	type r = infrav1.IngotRemediation
	type o = Observation
	type c = infrav1.HostClaim
	return append(slices.Concat(handoverCases(), heldCases(), installingCases(), cutOffCases(), bootstrapCases()), []decideCase{
		{name: "first cycle", change: func(*r, *o, *c) {}, rule: "cycle", says: "1 of 2",
			cycle: &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: minutes(0), BootID: "boot-1"}},
		{name: "the Node cannot be read", change: func(_ *r, o *o, _ *c) { o.Node = Node{} }, rule: "cycle",
			cycle: &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: minutes(0)}},
		{name: "under way", change: func(_ *r, o *o, c *c) { c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleOff, 0, 0), minutes(9).Time },
			rule: "cycling/wait", step: Wait{Until: minutes(10).Time}, says: "powering off"},
		{name: "off, on next", change: func(_ *r, o *o, c *c) { c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleOn, 0, 0), minutes(9).Time },
			rule: "cycling/wait", step: Wait{Until: minutes(10).Time}, says: "powering on"},
		{name: "one of an earlier remediation is under way", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleOn, -300, 0), minutes(9).Time
			o.Host.Status.Conditions = []metav1.Condition{{Type: infrav1.HostBMCReachableCondition, Status: metav1.ConditionFalse}}
		}, rule: "cycling/wait", step: Wait{Until: minutes(10).Time}},
		{name: "one of an earlier remediation is not done in this one's time either", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleOn, -300, 0), minutes(10).Time
			o.Host.Status.Conditions = []metav1.Condition{{Type: infrav1.HostBMCReachableCondition, Status: metav1.ConditionFalse}}
		}, rule: "cycling/untried", step: DelegateToOwner{}, says: "within 10m0s"},
		{name: "restarted", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleDone, 0, 2), minutes(3).Time
		},
			rule: "restarted", step: Wait{Until: minutes(12).Time}, says: "is canceled"},
		{name: "restarted, as the BMC said", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleDone, 0, 2), minutes(3).Time
			c.PowerCycle.ConfirmedOff = new(true)
		}, rule: "restarted", step: Wait{Until: minutes(12).Time}, says: "is done. The Node has until"},
		{name: "restarted for the last time", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(2, infrav1.PowerCycleDone, 0, 2), minutes(3).Time
		},
			rule: "restarted", step: Wait{Until: minutes(12).Time}, says: "owner"},
		{name: "the first did not help", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleDone, 0, 2), minutes(12).Time
		},
			rule: "cycle", says: "2 of 2", cycle: &infrav1.ClaimPowerCycle{Count: 2, State: infrav1.PowerCycleOff, RequestTime: minutes(12), BootID: "boot-1"}},
		{name: "the first did not help, and found the host off", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleDone, 0, 2), minutes(12).Time
			c.PowerCycle.WasOn = new(false)
		},
			rule: "cycle", says: "2 of 2", cycle: &infrav1.ClaimPowerCycle{Count: 2, State: infrav1.PowerCycleOff, RequestTime: minutes(12), WasOn: new(false), BootID: "boot-1"}},
		{name: "unhealthy again within the cooldown", change: func(_ *r, _ *o, c *c) { c.PowerCycle = cycleAt(1, infrav1.PowerCycleDone, -30, -28) },
			rule: "cycle", says: "2 of 2", cycle: &infrav1.ClaimPowerCycle{Count: 2, State: infrav1.PowerCycleOff, RequestTime: minutes(0), BootID: "boot-1"}},
		{name: "unhealthy again after the cooldown", change: func(_ *r, _ *o, c *c) { c.PowerCycle = cycleAt(2, infrav1.PowerCycleDone, -60, -58) },
			rule: "cycle", says: "1 of 2", cycle: &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: minutes(0), BootID: "boot-1"}},
		{name: "a remediation that lasts longer than the cooldown counts on", change: func(r *r, o *o, c *c) {
			r.Spec.CooldownSeconds = 600
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleDone, 5, 7), minutes(60).Time
		}, rule: "cycle", says: "2 of 2", cycle: &infrav1.ClaimPowerCycle{Count: 2, State: infrav1.PowerCycleOff, RequestTime: minutes(60), BootID: "boot-1"}},
		{name: "a pause counts for nothing", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.ActiveSince, o.Now = cycleAt(1, infrav1.PowerCycleOff, 0, 0), minutes(50).Time, minutes(51).Time
		}, rule: "cycling/wait", step: Wait{Until: minutes(60).Time}},
		{name: "a person has finished, and the server may be booting", change: func(_ *r, o *o, _ *c) { o.ActiveSince, o.Now = minutes(50).Time, minutes(51).Time },
			rule: "grace", step: Wait{Until: minutes(60).Time}, says: "then Ingot cycles the power"},
		{name: "and no cycle is wanted", change: func(r *r, o *o, _ *c) {
			r.Spec.RetryLimit, o.ActiveSince, o.Now = new(int32(0)), minutes(50).Time, minutes(51).Time
		}, rule: "grace", step: Wait{Until: minutes(60).Time}, says: "owner"},
		{name: "and is off", change: func(_ *r, o *o, _ *c) {
			o.ActiveSince, o.Now, o.Host.Status.Power = minutes(50).Time, minutes(51).Time, infrav1.PowerStateOff
		}, rule: "cycle", cycle: &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: minutes(51), BootID: "boot-1"}},
		{name: "and did not help", change: func(_ *r, o *o, _ *c) { o.ActiveSince, o.Now = minutes(50).Time, minutes(60).Time },
			rule: "cycle", cycle: &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: minutes(60), BootID: "boot-1"}},
		{name: "found healthy", change: func(_ *r, o *o, _ *c) { o.Machine.HealthySince = minutes(1).Time }, rule: "healthy/wait", step: Idle{}},
		{name: "healthy long ago", change: func(_ *r, o *o, _ *c) { o.Machine.HealthySince = minutes(-1).Time }, rule: "cycle",
			cycle: &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: minutes(0), BootID: "boot-1"}},
		{name: "no host yet", change: func(_ *r, o *o, _ *c) { o.Host = nil }, rule: "no-host", step: Idle{}},
		{name: "a person keeps it off", change: func(_ *r, o *o, _ *c) { o.Host.Spec.Power = infrav1.PowerIntentOff }, rule: "person/wait", step: Idle{}, says: "spec.power Off"},
		{name: "a person works on it", change: func(_ *r, o *o, _ *c) { o.Host.Spec.Maintenance = new(true) }, rule: "person/wait", step: Idle{}, says: "spec.maintenance"},
		{name: "a person takes it out of a power cycle", change: func(_ *r, o *o, c *c) {
			o.Host.Spec.Maintenance, c.PowerCycle = new(true), cycleAt(1, infrav1.PowerCycleOff, 0, 0)
		}, rule: "person/cycle", cycle: cycleAt(1, infrav1.PowerCycleOn, 0, 0)},
		{name: "no Machine", change: func(_ *r, o *o, _ *c) { o.Machine.Missing = true }, rule: "machine-missing", step: Idle{}},
		{name: "the Machine is deleted", change: func(_ *r, o *o, _ *c) { o.Machine.Deleting = true }, rule: "machine-deleting/wait", step: Idle{}},
	}...)
}

// heldCases are those in which nothing is switched.
func heldCases() []decideCase {
	type r = infrav1.IngotRemediation
	type o = Observation
	type c = infrav1.HostClaim
	healthy := func(o *o) { o.Machine.HealthySince = minutes(1).Time }
	deleted := func(o *o) { o.Machine.Deleting = true }
	handed := func(o *o) { o.Machine.Delegated = true }
	alone := func(o *o) { o.Machine.PausedBy = "paused of the Machine" }
	// tried and failed, and the deadline is over.
	late := func(o *o, c *c) {
		c.PowerCycle, o.Now = cycleAt(2, infrav1.PowerCycleDone, 0, 2), minutes(30).Time
	}
	back := func(o *o, c *c) { late(o, c); o.Node = Node{BootID: "boot-2", Ready: true} }
	list := []decideCase{
		{name: "left alone", change: func(_ *r, o *o, _ *c) { alone(o) }, rule: "skipped/wait", step: Idle{}, says: "The Machine has the annotation"},
		{name: "left alone though marked", change: func(_ *r, o *o, c *c) {
			alone(o)
			c.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineHealthFailed}
		}, rule: "skipped/wait", step: Idle{}},
		{name: "host paused", change: func(_ *r, o *o, _ *c) { o.Host.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }, rule: "host-paused", step: Idle{}, says: clusterv1.PausedAnnotation},
		{name: "host resting after a move", change: func(_ *r, o *o, c *c) {
			late(o, c)
			o.Host.Annotations = map[string]string{infrav1.MovePausedAnnotation: "2026-01-02T03:04:05Z"}
		}, rule: "host-paused", step: Idle{}, says: infrav1.MovePausedAnnotation},
		{name: "the cluster is not reached", change: func(_ *r, o *o, c *c) { late(o, c); o.Node = Node{Unreachable: true} }, rule: "unreachable", step: Idle{}},
		{name: "the cluster is not reached, nor the BMC", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now, o.Node = cycleAt(1, infrav1.PowerCycleOff, 0, 0), minutes(30).Time, Node{Unreachable: true}
		}, rule: "unreachable", step: Idle{}},
		{name: "the cluster is not reached after a pause", change: func(_ *r, o *o, _ *c) {
			o.ActiveSince, o.Now, o.Node = minutes(50).Time, minutes(60).Time, Node{Unreachable: true}
		}, rule: "unreachable", step: Idle{}},
		{name: "the cluster is not reached yet", change: func(_ *r, o *o, _ *c) { o.Node = Node{Unreachable: true} }, rule: "cycle",
			cycle: &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: minutes(0)}},
		{name: "a control plane is not reached", change: func(_ *r, o *o, c *c) {
			late(o, c)
			o.Node, o.Machine.ControlPlane = Node{Unreachable: true}, true
		}, rule: "exhausted", cycle: cycleAt(2, infrav1.PowerCycleDone, 0, 2), mark: infrav1.QuarantineHealthFailed},
		{name: "the Node is back without a report", change: func(_ *r, o *o, c *c) { back(o, c) }, rule: "back", step: Idle{}, says: "is it deleted or paused"},
		{name: "back and ill otherwise", change: func(_ *r, o *o, c *c) { back(o, c); o.Node.HasProblem = true }, rule: "exhausted", cycle: cycleAt(2, infrav1.PowerCycleDone, 0, 2), mark: infrav1.QuarantineHealthFailed},
		{name: "back and not Ready", change: func(_ *r, o *o, c *c) { back(o, c); o.Node.Ready = false }, rule: "exhausted", cycle: cycleAt(2, infrav1.PowerCycleDone, 0, 2), mark: infrav1.QuarantineHealthFailed},
		{name: "Ready and never gone", change: func(_ *r, o *o, c *c) { back(o, c); o.Node.BootID = "boot-1" }, rule: "exhausted", cycle: cycleAt(2, infrav1.PowerCycleDone, 0, 2), mark: infrav1.QuarantineHealthFailed},
	}
	for rule, so := range map[string]func(*o){"healthy": healthy, "machine-deleting": deleted, "delegated": handed, "skipped": alone} {
		list = append(list,
			decideCase{name: rule + " before the host is off", change: func(_ *r, o *o, c *c) { so(o); c.PowerCycle = cycleAt(1, infrav1.PowerCycleOff, 0, 0) },
				rule: rule + "/cycle", cycle: cycleAt(1, infrav1.PowerCycleOn, 0, 0)},
			decideCase{name: rule + " while the host is off", change: func(_ *r, o *o, c *c) { so(o); c.PowerCycle = cycleAt(1, infrav1.PowerCycleOn, 0, 0) },
				rule: rule + "/wait", step: Idle{}},
			decideCase{name: rule + " while the host is released", change: func(_ *r, o *o, c *c) {
				so(o)
				c.State, c.PowerCycle = infrav1.ClaimReleasing, cycleAt(1, infrav1.PowerCycleOff, 0, 0)
			}, rule: rule + "/wait", step: Idle{}},
			decideCase{name: rule + " before the host is off, which is paused", change: func(_ *r, o *o, c *c) {
				so(o)
				pause(o)
				c.PowerCycle = cycleAt(1, infrav1.PowerCycleOff, 0, 0)
			}, rule: rule + "/host-paused", step: Idle{}, says: infrav1.MovePausedAnnotation},
			decideCase{name: rule + ", and the host is paused", change: func(_ *r, o *o, _ *c) { so(o); pause(o) }, rule: rule + "/wait", step: Idle{}},
			decideCase{name: rule + " while a paused host is released", change: func(_ *r, o *o, c *c) {
				so(o)
				pause(o)
				c.State, c.PowerCycle = infrav1.ClaimReleasing, cycleAt(1, infrav1.PowerCycleOff, 0, 0)
			}, rule: rule + "/wait", step: Idle{}})
	}
	return list
}

// pause is that of clusterctl move, or of a person.
func pause(o *Observation) {
	o.Host.Annotations = map[string]string{infrav1.MovePausedAnnotation: "2026-01-02T03:04:05Z"}
}

func handoverCases() []decideCase {
	type r = infrav1.IngotRemediation
	type o = Observation
	type c = infrav1.HostClaim
	spent := func(_ *r, o *o, c *c) {
		c.PowerCycle, o.Now = cycleAt(2, infrav1.PowerCycleDone, 0, 2), minutes(12).Time
	}
	deleted := func(r *r) { r.DeletionTimestamp = new(minutes(1)) }
	mark := &infrav1.Quarantine{Reason: infrav1.QuarantineHealthFailed, Message: "It stayed unhealthy."}
	return []decideCase{
		{name: "nothing helped", change: spent, rule: "exhausted", cycle: cycleAt(2, infrav1.PowerCycleDone, 0, 2), mark: infrav1.QuarantineHealthFailed},
		{name: "nothing helped, the host is used again", change: func(r *r, o *o, c *c) { spent(r, o, c); r.Spec.FailedHost = infrav1.FailedHostReuse },
			rule: "exhausted", step: DelegateToOwner{}, says: "after 2 power cycles"},
		{name: "marked, not handed over", change: func(_ *r, _ *o, c *c) { c.Quarantine = mark }, rule: "marked", step: DelegateToOwner{}, says: "stayed unhealthy"},
		{name: "handed over", change: func(_ *r, o *o, c *c) { c.Quarantine, o.Machine.Delegated = mark, true }, rule: "delegated/wait", step: Idle{}, says: "stayed unhealthy"},
		{name: "handed over without a mark", change: func(_ *r, o *o, _ *c) { o.Machine.Delegated = true }, rule: "delegated/wait", step: Idle{}, says: "OwnerRemediated"},
		{name: "the BMC does not switch", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleOff, 0, 0), minutes(10).Time
			o.Host.Status.Conditions = append(o.Host.Status.Conditions, metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: "PowerOnFailed", Message: "no supply"})
		}, rule: "cycling/failed", cycle: cycleAt(1, infrav1.PowerCycleOn, 0, 0), mark: infrav1.QuarantineHealthFailed, says: "PowerOnFailed: no supply"},
		{name: "the BMC does not answer", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleOff, 0, 0), minutes(10).Time
			o.Host.Status.Conditions = []metav1.Condition{{Type: infrav1.HostBMCReachableCondition, Status: metav1.ConditionFalse}}
		}, rule: "cycling/untried", cycle: cycleAt(1, infrav1.PowerCycleOn, 0, 0), says: "did not cycle its power"},
		{name: "the BMC does not answer, and then", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleOn, 0, 0), minutes(10).Time
			o.Host.Status.Conditions = nil
		}, rule: "cycling/untried", step: DelegateToOwner{}, says: "did not cycle its power"},
		{name: "the BMC refuses the password", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleOn, 0, 0), minutes(10).Time
			o.Host.Status.Conditions = append(o.Host.Status.Conditions, metav1.Condition{Type: infrav1.HostCredentialsValidCondition, Status: metav1.ConditionFalse})
		}, rule: "cycling/untried", step: DelegateToOwner{}},
		{name: "the BMC may be another server's", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleOn, 0, 0), minutes(10).Time
			o.Host.Status.Conditions = append(o.Host.Status.Conditions, metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonWrongServer, Message: "the BMC manages another server"})
		}, rule: "cycling/untried", step: DelegateToOwner{}, says: "Ingot did not cycle"},
		{name: "the host is registered twice", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleOn, 0, 0), minutes(10).Time
			o.Host.Status.Conditions = append(o.Host.Status.Conditions, metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonDuplicate, Message: "the same server as n7"})
		}, rule: "cycling/untried", step: DelegateToOwner{}, says: "the same server as n7"},
		{name: "the BMC does not answer yet", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleOff, 0, 0), minutes(9).Time
			o.Host.Status.Conditions = nil
		}, rule: "cycling/wait", step: Wait{Until: minutes(10).Time}},
		{name: "a person asked for it", change: func(_ *r, o *o, _ *c) { o.Machine.RemediationRequested = true }, rule: "asked", step: DelegateToOwner{}, says: "remediate-machine"},
		{name: "a person asked for it, and it is left alone", change: func(_ *r, o *o, _ *c) { o.Machine.RemediationRequested, o.Machine.PausedBy = true, "paused" }, rule: "skipped/wait", step: Idle{}},
		{name: "of another provider", change: func(_ *r, o *o, _ *c) { o.Machine.Foreign, o.Host = "MetalMachine", nil }, rule: "foreign", step: DelegateToOwner{}, says: "MetalMachine"},
		{name: "the BMC does not switch on", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleOn, 0, 0), minutes(10).Time
		}, rule: "cycling/failed", cycle: cycleAt(1, infrav1.PowerCycleOn, 0, 0), mark: infrav1.QuarantineHealthFailed},
		{name: "the BMC does not switch on, and is said to fail", change: func(_ *r, o *o, c *c) {
			c.PowerCycle, o.Now = cycleAt(1, infrav1.PowerCycleOn, 0, 0), minutes(10).Time
			o.Host.Status.Conditions = []metav1.Condition{{Type: infrav1.HostBMCReachableCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonPowerActionIgnored}}
		}, rule: "cycling/failed", cycle: cycleAt(1, infrav1.PowerCycleOn, 0, 0), mark: infrav1.QuarantineHealthFailed},
		{name: "the BMC does not switch a host that is used again", change: func(r *r, o *o, c *c) {
			r.Spec.FailedHost, c.PowerCycle, o.Now = infrav1.FailedHostReuse, cycleAt(1, infrav1.PowerCycleOff, 0, 0), minutes(10).Time
		}, rule: "cycling/failed", cycle: cycleAt(1, infrav1.PowerCycleOn, 0, 0)},
		{name: "and then", change: func(r *r, o *o, c *c) {
			r.Spec.FailedHost, c.PowerCycle, o.Now = infrav1.FailedHostReuse, cycleAt(1, infrav1.PowerCycleOn, 0, 0), minutes(10).Time
		}, rule: "cycling/failed", step: DelegateToOwner{}},
		{name: "no cycle wanted", change: func(r *r, _ *o, _ *c) { r.Spec.RetryLimit = new(int32(0)) }, rule: "none-wanted", step: DelegateToOwner{}, says: "retryLimit is 0"},
		{name: "no BMC", change: func(_ *r, o *o, _ *c) { o.Host.Spec.BMC = nil }, rule: "unmanaged", step: DelegateToOwner{}, says: "no BMC"},
		{name: "host lost", change: func(_ *r, o *o, _ *c) { o.Host, o.HostLost = nil, true }, rule: "host-lost", step: DelegateToOwner{}},
		{name: "over", change: func(r *r, _ *o, _ *c) { deleted(r) }, rule: "deleting/remove-finalizer", step: RemoveFinalizer{}},
		{name: "over while no machine has the host", change: func(r *r, o *o, _ *c) { deleted(r); o.Host = nil }, rule: "deleting/remove-finalizer", step: RemoveFinalizer{}},
		{name: "over before the host is off", change: func(r *r, _ *o, c *c) { deleted(r); c.PowerCycle = cycleAt(1, infrav1.PowerCycleOff, 0, 0) },
			rule: "deleting/cycle", cycle: cycleAt(1, infrav1.PowerCycleOn, 0, 0)},
		{name: "over while the host is off", change: func(r *r, _ *o, c *c) { deleted(r); c.PowerCycle = cycleAt(1, infrav1.PowerCycleOn, 0, 0) },
			rule: "deleting/remove-finalizer", step: RemoveFinalizer{}},
		{name: "over since it helped itself", change: func(r *r, o *o, c *c) { deleted(r); c.Quarantine, o.Machine.Delegated = mark, true }, rule: "deleting/clear-mark"},
		{name: "over since the Machine goes", change: func(r *r, o *o, c *c) { deleted(r); c.Quarantine, o.Machine.Deleting = mark, true }, rule: "deleting/remove-finalizer", step: RemoveFinalizer{}},
		{name: "over before the host is off, which is paused", change: func(r *r, o *o, c *c) {
			deleted(r)
			pause(o)
			c.PowerCycle = cycleAt(1, infrav1.PowerCycleOff, 0, 0)
		}, rule: "deleting/host-paused", step: Idle{}, says: "cancels its power cycle"},
		{name: "over since it helped itself, and the host is paused", change: func(r *r, o *o, c *c) {
			deleted(r)
			pause(o)
			c.Quarantine, o.Machine.Delegated = mark, true
		}, rule: "deleting/host-paused", step: Idle{}},
		{name: "over since the Machine goes, and the host is paused", change: func(r *r, o *o, c *c) {
			deleted(r)
			pause(o)
			c.Quarantine, o.Machine.Deleting = mark, true
		}, rule: "deleting/remove-finalizer", step: RemoveFinalizer{}},
		{name: "over while a paused host is released", change: func(r *r, o *o, c *c) {
			deleted(r)
			pause(o)
			c.State, c.PowerCycle = infrav1.ClaimReleasing, cycleAt(1, infrav1.PowerCycleOff, 0, 0)
		}, rule: "deleting/remove-finalizer", step: RemoveFinalizer{}},
		{name: "over while the host is released", change: func(r *r, _ *o, c *c) {
			deleted(r)
			c.State, c.Quarantine, c.PowerCycle = infrav1.ClaimReleasing, mark, cycleAt(1, infrav1.PowerCycleOff, 0, 0)
		}, rule: "deleting/remove-finalizer", step: RemoveFinalizer{}},
	}
}

func TestRestarted(t *testing.T) {
	off := func(c *infrav1.ClaimPowerCycle) *infrav1.ClaimPowerCycle { c.ConfirmedOff = new(true); return c }
	for _, c := range []struct {
		name   string
		cycle  *infrav1.ClaimPowerCycle
		node   Node
		reason string
		status metav1.ConditionStatus
	}{
		{"nothing asked for", nil, Node{BootID: "boot-2"}, infrav1.ReasonWaiting, metav1.ConditionFalse},
		{"another boot", off(cycleAt(1, infrav1.PowerCycleDone, 0, 1)), Node{BootID: "boot-2"}, infrav1.ReasonBootIDChanged, metav1.ConditionTrue},
		{"another boot before the BMC was read", off(cycleAt(1, infrav1.PowerCycleOn, 0, 1)), Node{BootID: "boot-2"}, infrav1.ReasonBootIDChanged, metav1.ConditionTrue},
		{"under way", cycleAt(1, infrav1.PowerCycleOff, 0, 1), Node{BootID: "boot-1", Ready: true}, infrav1.ReasonPowerCycling, metav1.ConditionFalse},
		{"not back yet", off(cycleAt(1, infrav1.PowerCycleDone, 0, 1)), Node{BootID: "boot-1"}, infrav1.ReasonPowerStateConfirmed, metav1.ConditionTrue},
		{"cluster not reached", off(cycleAt(1, infrav1.PowerCycleDone, 0, 1)), Node{}, infrav1.ReasonPowerStateConfirmed, metav1.ConditionTrue},
		{"the same boot, ready", off(cycleAt(1, infrav1.PowerCycleDone, 0, 1)), Node{BootID: "boot-1", Ready: true}, infrav1.ReasonBootIDUnchanged, metav1.ConditionFalse},
		{"ended before it was off", cycleAt(1, infrav1.PowerCycleDone, 0, 1), Node{}, infrav1.ReasonWaiting, metav1.ConditionFalse},
		{"ended before it was off, and ready", cycleAt(1, infrav1.PowerCycleDone, 0, 1), Node{BootID: "boot-1", Ready: true}, infrav1.ReasonWaiting, metav1.ConditionFalse},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, obs := newRemediation()
			obs.Host.Spec.Claim.PowerCycle, obs.Node = c.cycle, c.node
			got := Restarted(obs)
			if got.Reason != c.reason || got.Status != c.status || got.Message == "" {
				t.Errorf("%s %s: %s; want %s %s", got.Status, got.Reason, got.Message, c.status, c.reason)
			}
		})
	}
	if got := Restarted(Observation{}); got.Reason != infrav1.ReasonWaiting {
		t.Errorf("without a host: %s", got.Reason)
	}
}

// Each rule and each condition is removed in turn. A case above must then fail or crash.
func TestDecideMutants(t *testing.T) {
	for _, m := range rules.Mutants(allRules()) {
		t.Run(m.String(), func(t *testing.T) {
			l := rules.Mutate(m, allRules())
			for _, c := range decideCases() {
				if differs(l, c) {
					return
				}
			}
			t.Error("no case needs this guard")
		})
	}
}

func differs(l table, c decideCase) (so bool) {
	defer func() {
		if recover() != nil {
			so = true
		}
	}()
	remediation, obs := newRemediation()
	c.change(remediation, &obs, obs.Host.Spec.Claim)
	return decideBy(l, remediation, obs).Rule != c.rule
}
