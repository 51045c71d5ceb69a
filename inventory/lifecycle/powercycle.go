// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// This file is the power cycle of a provisioned host, which a remediation of its
// Machine asks for in the claim (package remediation). Each of its two switches is confirmed by
// the BMC before the ledger goes on, so that a crash at any line repeats at most what
// has not happened.

// cycleLadder switches the host off, then on. What runs on it is not asked: it is the
// reason of the cycle.
func cycleLadder() ladder {
	return ladder{
		{Name: "cycle/cut", When: when{(*input).cycleOff}, Rules: ladder{
			{Name: "cycle/lapsed", When: when{(*input).on, (*input).cycleLapsed}, Then: lapseCycle},
			{Name: "cycle/interrupted", When: when{(*input).on, (*input).cycleInterrupted}, Rules: ladder{
				{Name: "cycle/interrupted-interval", When: when{(*input).tooSoon}, Then: waitInterval},
				{Name: "cycle/undone", Then: undoCycle},
			}},
			{Name: "cycle/running", When: when{(*input).on}, Rules: forcedOff("cycle/off", sayCycle)},
			{Name: "cycle/doubted", When: when{(*input).offDoubted}, Then: waitDoubted},
			{Name: "cycle/unproven", When: when{(*input).offUnproven, (*input).cycleTimely}, Then: explain(sayCycle).proveOff},
			{Name: "cycle/confirmed", Then: confirmCycledOff},
		}},
		{Name: "cycle/dark", When: when{(*input).off}, Rules: ladder{
			{Name: "cycle/interval", When: when{(*input).tooSoon}, Then: waitInterval},
			{Name: "cycle/seen-off", When: when{(*input).cycleUnconfirmed}, Then: confirmCycledOff},
			{Name: "cycle/on", Then: cycleOn},
		}},
		{Name: "cycle/unsure", When: when{(*input).cycleDoubted}, Then: waitCycleDoubted},
		{Name: "cycle/none", When: when{(*input).cycleUnconfirmed}, Then: concludeNone},
		{Name: "cycle/done", Then: concludeCycle},
	}
}

// cycling: a power cycle is under way, and no person wants the host off (I19).
func (in *input) cycling() bool {
	return CycleUnderWay(in.claim) && !in.wantedOff()
}

// untouched: no person works on the server. Neither half of a power cycle is done under
// their hands: what was switched off for it stays off until they have finished (I19).
func (in *input) untouched() bool { return !in.maintenance() }

func (in *input) cycleOff() bool { return in.claim.PowerCycle.State == infrav1.PowerCycleOff }

// cycleLapses is how old the wish for a power cycle may be for the host to be switched off
// for it: no remediation waits longer (spec.timeoutSeconds, one day).
const cycleLapses = 24 * time.Hour

// cycleLapsed: nobody waits for this cycle any more. The host comes from a backup, or its
// BMC was dead while the remediation went; what runs on it may be well.
func (in *input) cycleLapsed() bool {
	return in.obs.Now.Sub(in.claim.PowerCycle.AskedAt.Time) > cycleLapses
}

// lapseCycle ends the cycle as its remediation would. If the host was switched off a
// moment ago it is on its way off, and is switched on again.
func lapseCycle(in *input) Decision {
	ledger := in.ledger()
	ledger.Claim.PowerCycle.State = infrav1.PowerCycleOn
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonPowerCycling,
		Message: fmt.Sprintf("power cycle %d was asked for at %s, longer ago than any remediation waits: the host is not switched off for it", in.claim.PowerCycle.Count, inventory.FormatTime(in.claim.PowerCycle.AskedAt.Time))}
}

// cycleInterrupted: nobody acted on the host for a while after this cycle was asked for.
// What was ill then may be well, or booting. Times in the ledger are of whole seconds.
func (in *input) cycleInterrupted() bool {
	return in.claim.PowerCycle.AskedAt.Time.Before(in.activeSince().Truncate(time.Second))
}

// activeSince is since when the caller looks at hosts, and this one is not paused.
func (in *input) activeSince() time.Time {
	if in.obs.UnpausedAt.After(in.obs.ListeningSince) {
		return in.obs.UnpausedAt
	}
	return in.obs.ListeningSince
}

// cycleTimely: this cycle was asked for just now. For another one no power is cut: a host of
// which the BMC says off is switched on.
func (in *input) cycleTimely() bool { return !in.cycleLapsed() && !in.cycleInterrupted() }

// undoCycle takes the wish back, and does not count it: the host was not switched off. Its
// remediation gives the Node time, then asks again.
func undoCycle(in *input) Decision {
	return Decision{Step: in.save(in.uncounted()), Event: "Normal", Reason: infrav1.ReasonPowerCycling,
		Message: fmt.Sprintf("power cycle %d was asked for at %s, and nobody acted on the host until %s: it may be well by now, and is not switched off; its remediation asks again if the Node is not healthy in time",
			in.claim.PowerCycle.Count, inventory.FormatTime(in.claim.PowerCycle.AskedAt.Time), inventory.FormatTime(in.activeSince()))}
}

// uncounted is the ledger without the power cycle that is under way.
func (in *input) uncounted() Ledger {
	ledger := in.ledger()
	cycle := ledger.Claim.PowerCycle
	if cycle.Count--; cycle.Count == 0 {
		ledger.Claim.PowerCycle = nil
	}
	cycle.State, cycle.DoneAt = infrav1.PowerCycleDone, in.now()
	return ledger
}

// concludeNone ends a power cycle that was ended before the host was off: it does not count,
// or a host might be put out of service without one.
func concludeNone(in *input) Decision {
	return Decision{Step: in.save(in.uncounted()), Event: "Normal", Reason: infrav1.ReasonProvisioned,
		Message: fmt.Sprintf("power cycle %d was ended before the host was off, and does not count", in.claim.PowerCycle.Count)}
}

// cycleDoubted: the remediation ended the cycle before the BMC had said off, and the host
// may have been switched off a moment ago; BMCs tell the old state for some seconds.
func (in *input) cycleDoubted() bool { return in.cycleUnconfirmed() && in.tooSoon() }

// cycleUnconfirmed: the host was not seen off in this power cycle.
func (in *input) cycleUnconfirmed() bool { return in.claim.PowerCycle.ConfirmedOff == nil }

func waitCycleDoubted(in *input) Decision {
	return Decision{Step: Wait{Until: in.switchableAt()}, Reason: infrav1.ReasonPowerCycling,
		Message: fmt.Sprintf("the BMC says on, but the host was switched a moment ago; Ingot asks again at %s and believes it then", inventory.FormatTime(in.switchableAt()))}
}

// CycleUnderWay says whether a power cycle of the claim's host is not done yet.
func CycleUnderWay(claim *infrav1.HostClaim) bool {
	return claim != nil && claim.PowerCycle != nil && claim.PowerCycle.State != infrav1.PowerCycleDone
}

func sayCycle(in *input) (string, string) {
	return infrav1.ReasonPowerCycling, fmt.Sprintf("the Machine of IngotMachine %s is unhealthy, and its remediation asks for power cycle %d of the host",
		in.claim.MachineRef.Name, in.claim.PowerCycle.Count)
}

func confirmCycledOff(in *input) Decision {
	ledger := in.ledger()
	ledger.Claim.PowerCycle.State = infrav1.PowerCycleOn
	ledger.Claim.PowerCycle.ConfirmedOff = new(true)
	if ledger.Claim.PowerCycle.WasOn == nil {
		ledger.Claim.PowerCycle.WasOn = new(in.obs.SeenOn)
	}
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonPowerCycling,
		Message: "the BMC confirmed that the host is off for its power cycle; Ingot switches it on again"}
}

func cycleOn(in *input) Decision {
	reason, message := sayCycle(in)
	return Decision{Step: PowerOn{}, Event: "Normal", Reason: reason, Message: message + "; Ingot switches it on now"}
}

func concludeCycle(in *input) Decision {
	ledger := in.ledger()
	ledger.Claim.PowerCycle.State = infrav1.PowerCycleDone
	ledger.Claim.PowerCycle.DoneAt = in.now()
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonProvisioned,
		Message: fmt.Sprintf("the BMC says that the host is on again after power cycle %d", in.claim.PowerCycle.Count)}
}

// keepQuarantine puts the host out of service for what its claim remembers, unless it
// is already.
func (l *Ledger) keepQuarantine(claim *infrav1.HostClaim) {
	if record := l.recorded(); claim != nil && record.Quarantine == nil {
		record.Quarantine = claim.Quarantine.DeepCopy()
	}
}

// standing is what a host that was released is now.
func (l *Ledger) standing() string {
	if q := l.Record.Quarantine; q != nil {
		return "it is out of service: " + q.Message
	}
	return "it is free again"
}
