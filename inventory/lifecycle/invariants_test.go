// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// check verifies a decision against the invariants and the real state of the world. host is what was
// read, and may be stale.
func (w *world) check(host *infrav1.IngotHost, obs Observation, d Decision) {
	if w.restored {
		w.checkRestored(host, d)
		return
	}
	w.checkCommon(host, obs, d)
	w.checkCommands(host, obs, d)
	w.checkFirmware(host, obs, d)
	w.checkBootMethod(host, obs, d)
	switch step := d.Step.(type) {
	case Wait:
		if !step.Until.After(w.now) || step.Until.After(w.now.Add(walkPolicy().AgentDeadline)) {
			w.violate("I13: %s waits until %s at %s", d.Rule, step.Until, w.now)
		}
	case SaveLedger:
		if host == w.host {
			w.checkAnnotations(step)
			w.checkLedger(obs, step.Ledger)
		}
	case PowerOff, PowerOn, Restart, BootAgent:
		w.checkSwitch(host, obs, d)
	case EjectMedia:
		w.checkEject(host)
	case RecordAddress:
		if w.network || w.mac || obs.AddressRecorded || obs.AddressProblem != "" {
			w.violate("an address is recorded without need or network")
		}
	case RemoveFinalizer:
		agent := w.order() != nil && w.running == "agent" && !w.duplicate && host.Spec.BMC != nil
		if !w.deleting || !w.asked(host, infrav1.ForceReleaseAnnotation) && (host.Spec.Claim != nil || agent && host == w.host) {
			w.violate("I9: the object is let go, claim %v, agent on %v", host.Spec.Claim != nil, agent)
		}
		if w.leftUnclean(host) && !w.duplicate && host.Spec.BMC != nil {
			w.violate("I7: the object is let go though its cleaning has failed")
		}
		if host == w.host && w.atWork(host, obs) && host.Spec.BMC != nil && !w.asked(host, infrav1.ForceReleaseAnnotation) {
			w.violate("the object is let go while the BMC writes firmware")
		}
	}
}

// asked reports whether an operator gave the command, and it is neither carried out nor expired.
func (w *world) asked(host *infrav1.IngotHost, annotation string) bool {
	c, pending := inventory.PendingCommand(host, annotation)
	return pending && w.now.Sub(c.Time) < time.Hour && c.Time.Sub(w.now) <= 5*time.Minute
}

func inMaintenance(host *infrav1.IngotHost) bool {
	return host.Spec.Claim == nil && host.Spec.Maintenance != nil && *host.Spec.Maintenance
}

func quarantine(host *infrav1.IngotHost) infrav1.QuarantineReason {
	if r := host.Spec.Record; host.Spec.Claim == nil && r != nil && r.Quarantine != nil {
		return r.Quarantine.Reason
	}
	return ""
}

func held(host *infrav1.IngotHost) bool {
	return host.Spec.Claim != nil && host.Spec.Claim.State != infrav1.ClaimReleasing
}

// checkCommon verifies that Ingot may act on the host at all.
func (w *world) checkCommon(host *infrav1.IngotHost, obs Observation, d Decision) {
	if d.Reason == "" || d.Message == "" || d.Rule == "" || d.Phase == "" {
		w.violate("nothing is told: %+v", d)
	}
	_, idle := d.Step.(Idle)
	_, wait := d.Step.(Wait)
	save, saves := d.Step.(SaveLedger)
	_, forgets := d.Step.(RemoveFinalizer)
	_, looks := d.Step.(ReadFirmware)
	_, ejects := d.Step.(EjectMedia)
	passive := idle || wait || forgets || looks || saves && notesCutOff(host, save.Ledger) || d.KeepsConditions && onlyAnnotations(host, save, saves)
	force := w.asked(host, infrav1.ForceReleaseAnnotation)
	releasing := host.Spec.Claim != nil && !held(host)
	if w.deleting && !releasing && !passive && !ejects && !isForcedOff(d.Step) {
		w.violate("a host that is being deleted is put to work: %T", d.Step)
	}
	if c := host.Spec.Claim; force && c != nil && c.State == infrav1.ClaimReleasing && c.FencedTime.IsZero() && !w.deleting &&
		(!saves || save.Ledger.Claim != nil) {
		w.violate("I7: a person's force is not heard but answered by %s", d.Rule)
	}
	if d.Reason == infrav1.ReasonStateUnconfirmed && nothingAsked(host) {
		w.violate("%s holds a host in use to which nothing is due", d.Rule)
	}
	if w.bmcTold(host, obs) && wait && d.Reason != bmcReason(obs.BMC) {
		w.violate("the problem with the BMC is told as %s", d.Reason)
	}
	if obs.BMC == BMCOK && wait && d.Reason == bmcReason(BMCOK) {
		w.violate("%s tells of a problem with a BMC that has none", d.Rule)
	}
	if w.mustGoOff(host, obs) && wait && d.Reason != infrav1.ReasonUpdatingFirmware && !obs.Now.Before(obs.LastReset.Add(walkPolicy().ResetInterval)) {
		w.violate("an agent whose order is over is waited for by %s", d.Rule)
	}
	if w.duplicate && !passive && !force {
		w.violate("I8: a duplicate is acted on by %s", d.Rule)
	}
	if host.Spec.BMC == nil && !passive && !force {
		w.violate("an unmanaged host is acted on by %s", d.Rule)
	}
	if host.Spec.BMC == nil && !forgets && !w.deleting && !w.duplicate && !saves && d.Reason != infrav1.ReasonUnmanaged {
		w.violate("an unmanaged host is told to be %s", d.Reason)
	}
	if held(host) && obs.Machine == MachineMissing && !passive && !w.asked(host, infrav1.ReleaseAnnotation) {
		w.violate("I6: a dangling claim is acted on by %s", d.Rule)
	}
	if (obs.BMC != BMCOK || obs.Power == infrav1.PowerStateUnknown || w.wrongServer) && !passive && !force &&
		!(held(host) && obs.Machine == MachineMissing) {
		w.violate("acted by %s though the BMC tells nothing", d.Rule)
	}
	if inMaintenance(host) && host.Spec.Order == nil && !passive && !ejects && !onlyAnnotations(host, save, saves) {
		w.violate("a host in maintenance is acted on by %s", d.Rule)
	}
	w.checkMaintenance(host, d, passive || ejects || onlyAnnotations(host, save, saves))
	if q := quarantine(host); q != "" && q != infrav1.QuarantineNotFenced && !passive && !ejects &&
		!w.asked(host, infrav1.ClearQuarantineAnnotation) && host.Spec.Order == nil && !onlyAnnotations(host, save, saves) {
		w.violate("a quarantined host is acted on by %s", d.Rule)
	}
	if d.Reason == infrav1.ReasonAvailable {
		w.checkAvailable(host, obs)
		w.checkPreparedAvailable(host, obs)
	}
}

// mustGoOff reports whether the server is on for an order that has ended or no longer fits.
func (w *world) mustGoOff(host *infrav1.IngotHost, obs Observation) bool {
	o, c := host.Spec.Order, host.Spec.Claim
	if o == nil || obs.Power != infrav1.PowerStateOn || c != nil && c.State == infrav1.ClaimProvisioned {
		return false
	}
	return o.Result != nil || o.Revoked != nil || !w.orderFits(host)
}

// bmcTold reports whether a problem with the BMC is shown.
func (w *world) bmcTold(host *infrav1.IngotHost, obs Observation) bool {
	return obs.BMC != BMCOK && !w.duplicate && host.Spec.BMC != nil
}

func isForcedOff(step Step) bool {
	off, ok := step.(PowerOff)
	return ok && !off.Graceful
}

// onlyAnnotations reports whether the write only removes annotations and records their commands.
func onlyAnnotations(host *infrav1.IngotHost, save SaveLedger, saves bool) bool {
	before, after := LedgerOf(host), save.Ledger
	before.Commands, after.Commands = nil, nil
	return saves && sameLedger(before, after)
}

// checkAvailable verifies that no unknown, uncleaned, busy or unreachable host is Available (I3, I7,
// I12).
func (w *world) checkAvailable(host *infrav1.IngotHost, obs Observation) {
	r := host.Spec.Record
	switch {
	case host.Spec.Claim != nil, host.Spec.Order != nil, r == nil, r != nil && r.InspectedTime.IsZero(),
		quarantine(host) != "", inMaintenance(host), host.Spec.Power == infrav1.PowerIntentOff,
		w.asked(host, infrav1.InspectAnnotation), w.duplicate, w.deleting, w.mac, w.network, !w.addressed, obs.BMC != BMCOK:
		w.violate("I3: Available though it is not: %+v", host.Spec)
	case host == w.host && r.CleaningDue != "":
		w.violate("I7: Available with a cleaning due")
	case obs.Power == infrav1.PowerStateOn && host.Spec.Power != infrav1.PowerIntentOn:
		w.violate("I8: Available though it is unexpectedly on")
	case host == w.host && w.disk != "" && w.disk != "old" && r.LastClusterName == "":
		w.violate("I12: Available with the data of %s on its disk", w.disk)
	}
}

func (w *world) checkClaim(cluster string) {
	r := w.host.Spec.Record
	if w.host.Spec.Claim != nil || r == nil || r.InspectedTime.IsZero() || r.CleaningDue != "" || w.host.Spec.Order != nil ||
		quarantine(w.host) != "" || inMaintenance(w.host) || w.host.Spec.Power == infrav1.PowerIntentOff ||
		DesiredDigest(w.host) != "" && outcomeOf(w.host) != infrav1.PreparationApplied || UpdateOf(w.host) != nil {
		w.violate("I1: claimed though it is not free: %+v", w.host.Spec)
	}
	if w.disk != "" && w.disk != "old" && r.LastClusterName != cluster {
		w.violate("I12: cluster %s gets a host with data of %q", cluster, r.LastClusterName)
	}
}

// checkSwitch verifies power actions: on which host, how, and how soon again.
func (w *world) checkSwitch(host *infrav1.IngotHost, obs Observation, d Decision) {
	if obs.Now.Before(obs.LastReset.Add(walkPolicy().ResetInterval)) {
		w.violate("I13: %s switches again after %s", d.Rule, obs.Now.Sub(obs.LastReset))
	}
	if host != w.host && host.Spec.Order == nil && w.host.Spec.Order != nil && w.running == "agent" {
		return // a stale read can disturb an agent, never the ledger
	}
	switch step := d.Step.(type) {
	case PowerOff:
		w.checkPowerOff(host, obs, step, d.Rule)
	case PowerOn:
		cycled := cycleIs(host, infrav1.PowerCycleOn) && host.Spec.Power != infrav1.PowerIntentOff && !worksOn(host)
		if host.Spec.Power != infrav1.PowerIntentOn && !cycled || worksOn(host) || cycleIs(host, infrav1.PowerCycleOff) || obs.Power != infrav1.PowerStateOff || host.Spec.Order != nil {
			w.violate("I19: %s switches on a host that nobody wants on, or that is on", d.Rule)
		}
	case Restart:
		if !w.asked(host, infrav1.RebootAnnotation) || obs.Power != infrav1.PowerStateOn || host.Spec.Power == infrav1.PowerIntentOff ||
			host.Spec.Claim == nil || host.Spec.Claim.State != infrav1.ClaimProvisioned {
			w.violate("I2: a reboot that nobody asked for, or of nothing")
		}
	case BootAgent:
		w.checkBoot(host, obs)
	}
}

func (w *world) checkBoot(host *infrav1.IngotHost, obs Observation) {
	o := host.Spec.Order
	switch {
	case o == nil || o.Result != nil || o.Revoked != nil:
		w.violate("the agent is booted without an order")
	case misplacedBoot(host):
		w.violate("the agent is booted for an order of another network or NIC")
	case obs.Power != infrav1.PowerStateOff:
		w.violate("the agent is booted on a host that is on")
	case !w.addressed || w.network || w.mac:
		w.violate("booted without an address, a network or the right NIC")
	case host.Spec.Power == infrav1.PowerIntentOff || worksOn(host):
		w.violate("I19: a host that a person turned off, or works on, is booted")
	case held(host) && host.Spec.Claim.State == infrav1.ClaimProvisioned:
		w.violate("I2: the agent is booted on a provisioned host")
	case held(host) && obs.Machine != MachineExists:
		w.violate("an install is booted for a machine that is not known to exist")
	}
}

func (w *world) checkPowerOff(host *infrav1.IngotHost, obs Observation, step PowerOff, rule string) {
	c, o := host.Spec.Claim, host.Spec.Order
	wantedOff := host.Spec.Power == infrav1.PowerIntentOff
	proving := obs.Power == infrav1.PowerStateOff && offPurpose(host) != "" && !w.believed(host, obs)
	if obs.Power != infrav1.PowerStateOn && !w.deleting && !proving {
		w.violate("%s switches off a host that is off", rule)
	}
	cycled := cycleIs(host, infrav1.PowerCycleOff) && !worksOn(host)
	if c != nil && c.State == infrav1.ClaimProvisioned && !wantedOff && (!cycled || lapsed(obs.Now, c.PowerCycle) || w.interrupted(c.PowerCycle)) {
		w.violate("I2: %s switches a provisioned host off", rule)
	}
	ours := o != nil || c != nil || quarantine(host) == infrav1.QuarantineNotFenced
	person := wantedOff || w.takeoverApproved(host) || host.Spec.Record != nil && host.Spec.Power == infrav1.PowerIntentOn
	if !ours && !person {
		w.violate("I8: %s switches off an unknown client", rule)
	}
	if o != nil && o.Result == nil && o.Revoked == nil && host == w.host && w.orderFits(host) && !w.deleting {
		w.violate("%s cuts off an agent at work", rule)
	}
	soft := o == nil && !proving && (wantedOff || !cycled) && !(c != nil && (c.State == infrav1.ClaimProvisioning || !c.FencedTime.IsZero()))
	if soft && !step.Graceful && !w.refusedLong() && (obs.SoftOffAt.IsZero() || obs.Now.Before(obs.SoftOffAt.Add(walkPolicy().SoftPowerOff))) {
		w.violate("I7: %s cuts the power without having asked, or too early", rule)
	}
	if soft && step.Graceful && !obs.SoftOffAt.IsZero() && obs.Now.Before(obs.SoftOffAt.Add(walkPolicy().SoftPowerOff)) {
		w.violate("%s asks to shut down twice", rule)
	}
	if o != nil && step.Graceful {
		w.violate("%s asks an agent to shut down", rule)
	}
}

// misplacedBoot reports whether the order's boot used another network or NIC, and no agent took it.
func misplacedBoot(host *infrav1.IngotHost) bool {
	o := host.Spec.Order
	if o == nil || o.NetworkName == "" || o.AgentKey != "" || o.Result != nil || o.Revoked != nil {
		return false
	}
	return o.NetworkName+" "+o.BootMACAddress != host.Spec.NetworkRef.Name+" "+host.Spec.BootMACAddress
}

// orderFits restates when an order fits the ledger.
func (w *world) orderFits(host *infrav1.IngotHost) bool {
	c, r, o := host.Spec.Claim, host.Spec.Record, host.Spec.Order
	if o.Result == nil && o.Revoked == nil && o.HostUID != "" && o.HostUID != string(host.UID) {
		return false // I10: of another management cluster
	}
	if misplacedBoot(host) {
		return false
	}
	switch o.Kind {
	case infrav1.OrderInstall:
		return c != nil && c.State == infrav1.ClaimProvisioning
	case infrav1.OrderClean:
		if c == nil {
			return r != nil && r.CleaningDue != "" && r.Quarantine == nil
		}
		return c.State == infrav1.ClaimReleasing && !c.FencedTime.IsZero()
	default:
		return c == nil && quarantine(host) == ""
	}
}

func (w *world) checkAnnotations(step SaveLedger) {
	for _, name := range step.RemoveAnnotations {
		if _, there := w.host.Annotations[name]; !there {
			w.violate("an annotation is removed that is not there: %s", name)
		}
	}
	if len(step.RemoveAnnotations) == 0 && sameLedger(LedgerOf(w.host), step.Ledger) {
		w.violate("a write that changes nothing")
	}
	if slices.Contains(step.RemoveAnnotations, infrav1.RebootAnnotation) && w.asked(w.host, infrav1.RebootAnnotation) && w.claim() != nil &&
		w.claim().State == infrav1.ClaimProvisioned && w.power && w.running == "os" && w.lag == "" && !w.blind {
		w.violate("a reboot is refused to a system that runs")
	}
}

// checkLedger verifies a write against the ledger that it replaces.
func (w *world) checkLedger(obs Observation, next Ledger) {
	before := LedgerOf(w.host)
	w.checkClaimChange(obs, before, next)
	w.checkOrderChange(obs, before, next)
	w.checkPreparation(obs, before, next)
	w.checkCycle(obs, before, next)
	w.checkKept(before, next)
	w.checkProof(obs, next)
	if w.media && (next.Record == nil || next.Record.VirtualMediaTime.IsZero()) {
		w.violate("an image stays in the drive that nothing remembers")
	}
	if next.Claim == nil && next.Record == nil && (before.Claim != nil || before.Record != nil) {
		w.violate("I3: the ledger forgets the host")
	}
	if r := next.Record; r != nil && (r.Failures > walkPolicy().MaxAttempts || r.Failures == walkPolicy().MaxAttempts && r.Quarantine == nil) {
		w.violate("a host that failed %d times in a row is not quarantined", r.Failures)
	}
	was, is := before.Record, next.Record
	if was != nil && was.Quarantine != nil && (is == nil || is.Quarantine == nil) {
		notFenced := was.Quarantine.Reason == infrav1.QuarantineNotFenced
		if notFenced && w.power {
			w.violate("I7: the quarantine of a host that is not fenced is lifted while it is on")
		}
		if !notFenced && !w.asked(w.host, infrav1.ClearQuarantineAnnotation) {
			w.violate("a quarantine is lifted that no person cleared")
		}
	}
	if is != nil && is.Quarantine != nil && (was == nil || was.Quarantine == nil) {
		w.checkQuarantine(before, is)
	}
	dirty := w.disk != "" && w.disk != "old"
	if next.Claim == nil && is != nil && dirty && is.CleaningDue == "" && is.LastClusterName == "" {
		w.violate("I12: the data of %s is forgotten", w.disk)
	}
}

// checkQuarantine verifies that a host is quarantined only by a forced release or after
// Policy.MaxAttempts failures.
func (w *world) checkQuarantine(before Ledger, is *infrav1.HostRecord) {
	tooEarly := is.Failures < walkPolicy().MaxAttempts
	if before.Order != nil && before.Order.Kind == infrav1.OrderClean {
		tooEarly = before.Order.Attempt < walkPolicy().MaxAttempts
	}
	if handedOver := before.Claim != nil && before.Claim.Quarantine != nil; is.Quarantine.Reason == infrav1.QuarantineHealthFailed && handedOver {
		return
	}
	if is.Quarantine.Reason != infrav1.QuarantineNotFenced && tooEarly {
		w.violate("quarantined after %d failures", is.Failures)
	}
}

func (w *world) checkClaimChange(obs Observation, before, next Ledger) {
	was, is := before.Claim, next.Claim
	switch {
	case was == nil && is != nil:
		w.violate("I6: the host's controller makes a claim")
	case was == nil:
	case is == nil:
		w.checkClaimEnd(was, before.Order)
	case was.State != is.State && (obs.Machine != MachineMissing || is.State != infrav1.ClaimReleasing || !w.asked(w.host, infrav1.ReleaseAnnotation)):
		w.violate("I6: the host's controller changes the claim to %s", is.State)
	case was.FencedTime.IsZero() && !is.FencedTime.IsZero() && w.power:
		w.violate("I7: fenced while the server is on")
	}
}

func (w *world) checkClaimEnd(was *infrav1.HostClaim, order *infrav1.HostOrder) {
	forced := w.asked(w.host, infrav1.ForceReleaseAnnotation)
	releasing := was.State == infrav1.ClaimReleasing
	if releasing && forced && was.FencedTime.IsZero() {
		return
	}
	if w.power {
		w.violate("I7: the claim ends while the server is on")
	}
	if releasing && was.FencedTime.IsZero() {
		w.violate("I7: a claim ends that was not fenced")
	}
	if was.State == infrav1.ClaimProvisioned {
		w.violate("I2: a provisioned host loses its claim")
	}
	uncleaned := was.Attempt == 0 || was.Cleaning == infrav1.CleaningNone
	if order == nil && !uncleaned {
		w.violate("I7: the claim ends without the cleaning asked for")
	}
}

func (w *world) checkOrderChange(obs Observation, before, next Ledger) {
	was, is := before.Order, next.Order
	minted := is != nil && (was == nil || was.ID != is.ID)
	committed := before.Claim != nil && before.Claim.State == infrav1.ClaimProvisioned
	forced := w.asked(w.host, infrav1.ForceReleaseAnnotation)
	if was != nil && (is == nil || minted) && w.power && !committed && !forced && !w.blind {
		w.violate("an order ends while the server is on")
	}
	if was != nil && was.Result == nil && is != nil && !minted && is.Result != nil {
		fresh := w.now.Before(w.spoke.Add(walkPolicy().AgentDeadline))
		booting := w.now.Before(w.lastReset.Add(walkPolicy().AgentDeadline))
		if w.running == "agent" && (w.started && fresh || booting) {
			w.violate("I13: an agent is given up that spoke %s ago", w.now.Sub(w.spoke))
		}
	}
	if !minted && is != nil {
		checkLiveResult(w, was, is)
		w.checkSilentResult(was, is)
		return
	}
	w.checkImageFailure(before, next)
	w.checkLiveFailure(before, next)
	w.checkSilentFailure(before, next)
	if !minted {
		return
	}
	fits := &world{}
	host := &infrav1.IngotHost{ObjectMeta: w.host.ObjectMeta, Spec: infrav1.IngotHostSpec{Claim: next.Claim, Record: next.Record, Order: is,
		NetworkRef: w.host.Spec.NetworkRef, BootMACAddress: w.host.Spec.BootMACAddress}}
	switch {
	case w.power:
		w.violate("an order is written while the server is on")
	case !fits.orderFits(host):
		w.violate("an order to %s that the ledger does not ask for", is.Kind)
	case is.ID != obs.NewID || !is.CreationTime.Time.Equal(w.now) || is.AgentKey != "" || is.Result != nil || is.Revoked != nil:
		w.violate("an order that is not new")
	case is.Kind == infrav1.OrderClean && before.Claim != nil && (before.Claim.Attempt == 0 || before.Claim.Cleaning == infrav1.CleaningNone):
		w.violate("I12: a wipe that nobody asked for")
	case is.Kind == infrav1.OrderClean && is.Attempt > walkPolicy().MaxAttempts:
		w.violate("I7: attempt %d to wipe", is.Attempt)
	case is.Kind == infrav1.OrderInstall && (is.Attempt != before.Claim.Attempt+1 || next.Claim.Attempt != is.Attempt):
		w.violate("attempts are miscounted")
	case was == nil && (w.network || w.mac || !w.addressed || w.host.Spec.Power == infrav1.PowerIntentOff):
		w.violate("an order is written that cannot be started")
	case was == nil && held(w.host) && obs.Machine != MachineExists:
		w.violate("an install is ordered for a machine that is not known to exist")
	case was == nil && obs.LastReset.Add(time.Minute).After(w.now):
		w.violate("an order is written on a power state that is not settled")
	}
}

// checkImageFailure verifies that a missing image does not count against the host, and is retried
// slowly.
func (w *world) checkImageFailure(before, next Ledger) {
	was := before.Order
	if was == nil || was.Revoked != nil || was.Result == nil ||
		was.Result.Reason != agentapi.FailureImageUnavailable && was.Result.Reason != agentapi.FailureDiskTooSmall || !w.orderFits(w.host) {
		return
	}
	if failuresOf(next) > failuresOf(before) || next.Record != nil && next.Record.Quarantine != nil {
		w.violate("a host is blamed for an image that is not there, or too large for its disk")
	}
	if due := was.Result.CompletionTime.Add(min(walkPolicy().ResetInterval<<min(was.Attempt-1, 8), walkPolicy().RetryMax)); w.now.Before(due) {
		w.violate("I13: an image is tried again %s too soon", due.Sub(w.now))
	}
}

func failuresOf(l Ledger) int32 {
	if l.Record == nil {
		return 0
	}
	return l.Record.Failures
}
