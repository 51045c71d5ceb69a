// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// event is a possible event of a walk. weight is its relative frequency. Faults do not happen while
// the host settles.
type event struct {
	name   string
	weight int
	fault  bool
	when   func(*world) bool
	do     func(*world)
}

func always(*world) bool { return true }

func events() []event {
	all := []event{
		{name: "reconcile", weight: 30, when: always, do: func(w *world) { w.reconcile(w.host, false) }},
		{name: "minute", weight: 14, when: always, do: func(w *world) { w.now = w.now.Add(time.Minute) }},
	}
	all = append(all, agentEvents()...)
	all = append(all, machineEvents()...)
	all = append(all, personEvents()...)
	all = append(all, faultEvents()...)
	all = append(all, bootMethodEvents()...)
	all = append(all, commandEvents()...)
	all = append(all, remedyEvents()...)
	all = append(all, silenceEvents()...)
	all = append(all, blindEvents()...)
	all = append(all, restoreEvents()...)
	return append(all, firmwareEvents()...)
}

func agentRuns(w *world) bool { return w.power && w.running == "agent" && !w.inPOST() }
func agentWorks(w *world) bool {
	return agentRuns(w) && w.started && w.order() != nil && w.order().Result == nil && w.order().Revoked == nil
}

func agentEvents() []event {
	return []event{
		{name: "agent: next step", weight: 16, when: agentRuns, do: func(w *world) { w.agentStep(infrav1.OrderSucceeded) }},
		{name: "agent: progress", weight: 6, when: agentWorks, do: func(w *world) { w.lastContact, w.spoke = w.now, w.now }},
		{name: "agent: fails", weight: 5, fault: true, when: agentWorks, do: func(w *world) { w.agentStep(infrav1.OrderFailed) }},
		{name: "agent: finds no image", weight: 3, fault: true, when: agentWorks, do: func(w *world) {
			w.imageBroken = true
			w.agentStep(infrav1.OrderFailed)
			w.imageBroken = false
		}},
		{name: "agent: finds the image too large", weight: 2, fault: true, when: agentWorks, do: func(w *world) {
			w.imageRefused = true
			w.agentStep(infrav1.OrderFailed)
			w.imageRefused = false
		}},
		{name: "agent: second key", weight: 1, fault: true, when: agentWorks, do: (*world).secondKey},
		{name: "live system: goes off", weight: 8, fault: true, when: func(w *world) bool {
			return agentWorks(w) && !w.order().LiveStartTime.IsZero()
		}, do: func(w *world) { w.switchTo(false, "") }},
		{name: "live system: hangs", weight: 8, fault: true, when: func(w *world) bool {
			return agentWorks(w) && !w.order().LiveStartTime.IsZero()
		}, do: func(w *world) { w.running, w.started = "unknown", false }},
		{name: "agent: dies", weight: 2, fault: true, when: agentRuns, do: func(w *world) { w.running, w.started = "unknown", false }},
		{name: "agent: restarts", weight: 1, fault: true, when: agentRuns, do: func(w *world) { w.started = false }},
		{name: "system shuts down", weight: 8, when: func(w *world) bool {
			return w.power && !w.softOffAt.IsZero() && w.running != "agent" && !w.osIgnoresSoftOff
		}, do: func(w *world) { w.switchTo(false, "") }},
	}
}

func machineEvents() []event {
	holds := func(w *world) bool { return w.claim() != nil }
	return []event{
		{name: "machine: claims", weight: 12, when: func(w *world) bool { return !holds(w) && !w.deleting && !w.machine }, do: func(w *world) { w.claimHost("a", infrav1.CleaningMetadata) }},
		{name: "machine: claims, no cleaning", weight: 4, when: func(w *world) bool { return !holds(w) && !w.deleting && !w.machine }, do: func(w *world) { w.claimHost("a", infrav1.CleaningNone) }},
		{name: "machine: of another cluster claims", weight: 3, when: func(w *world) bool { return !holds(w) && !w.deleting && !w.machine }, do: func(w *world) { w.claimHost("b", infrav1.CleaningMetadata) }},
		{name: "machine: deleted", weight: 4, when: func(w *world) bool { return held(w.host) && w.machine && w.order() == nil && !w.fw.stays }, do: (*world).deleteMachine},
		{name: "machine: deleted during its install", weight: 1, when: func(w *world) bool { return held(w.host) && w.machine && w.order() != nil }, do: (*world).deleteMachine},
		{name: "machine: leaves", weight: 6, when: func(w *world) bool {
			return w.machine && (!holds(w) || !w.claim().FencedTime.IsZero())
		}, do: (*world).machineLeaves},
		{name: "machine: vanishes", weight: 1, fault: true, when: func(w *world) bool { return w.machine }, do: (*world).machineLeaves},
	}
}

func (w *world) wantPower(intent infrav1.PowerIntent) {
	w.write(func(h *infrav1.IngotHost) { h.Spec.Power = intent })
}

func personEvents() []event {
	note := func(name string, arguments ...string) func(*world) {
		return func(w *world) { w.command(name, arguments...) }
	}
	return []event{
		{name: "person: approves", weight: 2, fault: true, when: always, do: note(infrav1.ApproveAnnotation)},
		{name: "person: forces release", weight: 1, fault: true, when: func(w *world) bool { return w.claim() != nil }, do: note(infrav1.ForceReleaseAnnotation)},
		{name: "person: releases dangling", weight: 2, fault: true, when: func(w *world) bool { return held(w.host) && !w.machine }, do: note(infrav1.ReleaseAnnotation)},
		{name: "person: clears quarantine", weight: 30, fault: true, when: func(w *world) bool { return quarantine(w.host) != "" }, do: note(infrav1.ClearQuarantineAnnotation)},
		{name: "person: asks for inspection", weight: 1, fault: true, when: always, do: note(infrav1.InspectAnnotation)},
		{name: "person: asks for a reboot", weight: 2, fault: true, when: always, do: note(infrav1.RebootAnnotation, "Graceful")},
		{name: "person: asks for a hard reboot", weight: 1, fault: true, when: always, do: note(infrav1.RebootAnnotation, "Forced")},
		{name: "person: wants on", weight: 2, fault: true, when: always, do: func(w *world) { w.wantPower(infrav1.PowerIntentOn) }},
		{name: "person: wants off", weight: 2, fault: true, when: always, do: func(w *world) { w.wantPower(infrav1.PowerIntentOff) }},
		{name: "person: wants off what does not shut down", weight: 2, fault: true, when: func(w *world) bool {
			return held(w.host) && w.claim().State == infrav1.ClaimProvisioned && w.power
		}, do: func(w *world) { w.osIgnoresSoftOff = true; w.wantPower(infrav1.PowerIntentOff) }},
		{name: "person: wants nothing", weight: 4, fault: true, when: always, do: func(w *world) { w.wantPower("") }},
		{name: "person: maintenance", weight: 1, fault: true, when: always, do: func(w *world) {
			w.write(func(h *infrav1.IngotHost) { yes := true; h.Spec.Maintenance = &yes })
		}},
		{name: "person: ends maintenance", weight: 3, fault: true, when: always, do: func(w *world) {
			w.write(func(h *infrav1.IngotHost) { h.Spec.Maintenance = nil })
		}},
		{name: "person: puts it on another network", weight: 4, fault: true, when: func(w *world) bool { return w.replugs && w.order() != nil }, do: func(w *world) {
			w.replug(func(s *infrav1.IngotHostSpec) { s.NetworkRef.Name = other(s.NetworkRef.Name, "net", "net2") })
		}},
		{name: "person: puts another boot NIC in", weight: 2, fault: true, when: func(w *world) bool { return w.replugs && w.order() != nil }, do: func(w *world) {
			w.replug(func(s *infrav1.IngotHostSpec) {
				s.BootMACAddress = other(s.BootMACAddress, "52:54:00:00:00:01", "52:54:00:00:00:02")
			})
		}},
		{name: "person: presses the button on", weight: 2, fault: true, when: func(w *world) bool { return !w.power }, do: func(w *world) { w.switchTo(true, "unknown"); w.lag = "" }},
		{name: "person: pulls the plug", weight: 1, fault: true, when: func(w *world) bool { return w.power }, do: func(w *world) { w.switchTo(false, ""); w.lag = "" }},
		{name: "person: deletes the host", weight: 1, fault: true, when: func(w *world) bool { return w.ids > 40 }, do: func(w *world) { w.deleting = true }},
		{name: "person: takes the BMC away", weight: 1, fault: true, when: func(w *world) bool { return w.ids > 40 }, do: func(w *world) {
			w.write(func(h *infrav1.IngotHost) { h.Spec.BMC = nil })
		}},
	}
}

// replug changes the boot network or NIC, for which no address is recorded.
func (w *world) replug(change func(*infrav1.IngotHostSpec)) {
	w.write(func(h *infrav1.IngotHost) { change(&h.Spec) })
	w.addressed = false
}

func other(is, a, b string) string {
	if is == a {
		return b
	}
	return a
}

func toggle(flag func(*world) *bool) func(*world) {
	return func(w *world) { *flag(w) = !*flag(w) }
}

func faultEvents() []event {
	problem := func(p BMCProblem) func(*world) { return func(w *world) { w.bmc = p } }
	list := []event{
		{name: "manager: stale read", weight: 4, fault: true, when: always, do: func(w *world) { w.reconcile(w.previous, false) }},
		{name: "manager: dies after saving", weight: 3, fault: true, when: always, do: func(w *world) { w.reconcile(w.host, true) }},
		{name: "status lost", weight: 2, fault: true, when: always, do: (*world).loseStatus},
		{name: "moved to another management cluster", weight: 1, fault: true, when: func(w *world) bool { return w.order() != nil || w.ids > 60 }, do: (*world).move},
		{name: "session leaves the order of a committed install", weight: 2, fault: true, when: func(w *world) bool {
			return held(w.host) && w.claim().State == infrav1.ClaimProvisioned && w.order() == nil
		}, do: (*world).leaveOrder},
		{name: "session reports an install without its commit", weight: 2, fault: true, when: func(w *world) bool {
			return agentWorks(w) && w.order().Kind == infrav1.OrderInstall && w.orderFits(w.host)
		}, do: (*world).reportUncommitted},
		{name: "BMC lies", weight: 2, fault: true, when: func(w *world) bool {
			return agentWorks(w) && w.now.Before(w.lastContact.Add(walkPolicy().ResetInterval))
		}, do: (*world).lieOnce},
		{name: "BMC lies of a live system", weight: 64, fault: true, when: liveForLong, do: (*world).lieOnce},
		{name: "BMC back", weight: 20, when: func(w *world) bool { return w.bmc != BMCOK || w.powerUnknown }, do: func(w *world) { w.bmc, w.powerUnknown = BMCOK, false }},
		{name: "BMC tells no power", weight: 1, fault: true, when: always, do: toggle(func(w *world) *bool { return &w.powerUnknown })},
		{name: "duplicate", weight: 1, fault: true, when: always, do: toggle(func(w *world) *bool { return &w.duplicate })},
		{name: "BMC of another server", weight: 1, fault: true, when: always, do: toggle(func(w *world) *bool { return &w.wrongServer })},
		{name: "boot NIC missing", weight: 1, fault: true, when: always, do: toggle(func(w *world) *bool { return &w.mac })},
		{name: "network missing", weight: 1, fault: true, when: always, do: toggle(func(w *world) *bool { return &w.network })},
		{name: "address lost", weight: 1, fault: true, when: always, do: func(w *world) { w.addressed = false }},
		{name: "addresses exhausted", weight: 1, fault: true, when: always, do: toggle(func(w *world) *bool { return &w.exhausted })},
		{name: "API silent about the machine", weight: 2, fault: true, when: always, do: toggle(func(w *world) *bool { return &w.apiSilent })},
		{name: "boots fail", weight: 2, fault: true, when: always, do: toggle(func(w *world) *bool { return &w.bootBroken })},
		{name: "BMC refuses to ask for a shutdown", weight: 2, fault: true, when: func(w *world) bool { return w.refusals }, do: toggle(func(w *world) *bool { return &w.refusing })},
		{name: "system ignores soft off", weight: 2, fault: true, when: always, do: toggle(func(w *world) *bool { return &w.osIgnoresSoftOff })},
	}
	for _, p := range bmcProblems() {
		list = append(list, event{name: "BMC: " + string(p), weight: 1, fault: true, when: always, do: problem(p)})
	}
	return list
}

func bmcProblems() []BMCProblem {
	return []BMCProblem{BMCUnreachable, BMCTimeout, BMCBusy, BMCRateLimited, BMCSlow, BMCUnauthorized, BMCPasswordChange, BMCCertificateInvalid, BMCCertificateChanged,
		BMCCredentialsMissing, BMCCAMissing, BMCUnsupported, BMCError, BMCIgnoresPower}
}

// liveForLong reports whether a live system was started so long ago that the agent's last message
// does not contradict a report of off.
func liveForLong(w *world) bool {
	return agentWorks(w) && !w.order().LiveStartTime.IsZero() && !w.now.Before(w.lastContact.Add(walkPolicy().ResetInterval))
}

// lieOnce lets the manager see one wrong report of the BMC.
func (w *world) lieOnce() {
	w.lie = true
	w.reconcile(w.host, false)
	w.lie = false
}

// leaveOrder simulates a session that crashed between the commit and the removal of the order.
func (w *world) leaveOrder() {
	w.write(func(h *infrav1.IngotHost) {
		h.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInstall, ID: w.id(), Attempt: h.Spec.Claim.Attempt, AgentKey: "key"}
	})
}

// reportUncommitted simulates a reported success without its commit (I4).
func (w *world) reportUncommitted() {
	w.disk = w.claim().InstanceID
	w.write(func(h *infrav1.IngotHost) {
		h.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded, CompletionTime: metav1.Time{Time: w.now}}
	})
}

// loseStatus clears all status (I2, I3). It also ends the BMC's lag, which no remaining state could
// reveal.
func (w *world) loseStatus() {
	w.lastReset, w.softOffAt, w.lastContact = time.Time{}, time.Time{}, time.Time{}
	w.host = w.host.DeepCopy()
	w.host.Status = infrav1.IngotHostStatus{}
	w.lag = ""
}
