// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// This file has the power cycle of a provisioned host, which the remediation of its Machine
// requests in the claim (package remediation). The BMC confirms power-off and power-on before
// the ledger advances, so that a crash repeats only what did not happen.

// cycleRules cut the power, then power the host on. They request no shutdown, because the
// system is unhealthy.
func cycleRules() ruleTable {
	return ruleTable{
		{Name: "cycle/cut", When: when{(*input).cycleOff}, Rules: ruleTable{
			{Name: "cycle/lapsed", When: when{(*input).on, (*input).cycleLapsed}, Then: lapseCycle},
			{Name: "cycle/interrupted", When: when{(*input).on, (*input).cycleInterrupted}, Rules: ruleTable{
				{Name: "cycle/interrupted-interval", When: when{(*input).tooSoon}, Then: waitInterval},
				{Name: "cycle/undone", Then: undoCycle},
			}},
			{Name: "cycle/running", When: when{(*input).on}, Rules: forcedOff("cycle/off", sayCycle)},
			{Name: "cycle/doubted", When: when{(*input).offDoubted}, Then: waitDoubted},
			{Name: "cycle/unproven", When: when{(*input).offUnproven, (*input).cycleTimely}, Then: explain(sayCycle).proveOff},
			{Name: "cycle/confirmed", Then: confirmCycledOff},
		}},
		{Name: "cycle/dark", When: when{(*input).off}, Rules: ruleTable{
			{Name: "cycle/interval", When: when{(*input).tooSoon}, Then: waitInterval},
			{Name: "cycle/seen-off", When: when{(*input).cycleUnconfirmed}, Then: confirmCycledOff},
			{Name: "cycle/on", Then: cycleOn},
		}},
		{Name: "cycle/unsure", When: when{(*input).cycleDoubted}, Then: waitCycleDoubted},
		{Name: "cycle/none", When: when{(*input).cycleUnconfirmed}, Then: concludeNone},
		{Name: "cycle/done", Then: concludeCycle},
	}
}

// cycling reports whether a power cycle is running and spec.power does not request off (I19).
func (in *input) cycling() bool {
	return IsPowerCycling(in.claim) && !in.wantedOff()
}

// untouched reports whether no operator works on the server. During maintenance a power cycle
// pauses: a host that it powered off stays off (I19).
func (in *input) untouched() bool { return !in.maintenance() }

func (in *input) cycleOff() bool { return in.claim.PowerCycle.State == infrav1.PowerCycleOff }

// cycleLapses is how old the request for a power cycle may be. No remediation waits longer
// (spec.timeoutSeconds, one day).
const cycleLapses = 24 * time.Hour

// cycleLapsed reports whether the request is too old: the host comes from a backup, or its BMC
// was unavailable until the remediation ended. The system may be healthy.
func (in *input) cycleLapsed() bool {
	return in.obs.Now.Sub(in.claim.PowerCycle.RequestTime.Time) > cycleLapses
}

// lapseCycle ends the cycle as its remediation would. If the host was just powered off, it is
// powered on again.
func lapseCycle(in *input) Decision {
	ledger := in.ledger()
	ledger.Claim.PowerCycle.State = infrav1.PowerCycleOn
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonPowerCycling,
		Message: fmt.Sprintf("Ingot skips power cycle %d: it was requested at %s, which is longer ago than any remediation waits.", in.claim.PowerCycle.Count, inventory.FormatTime(in.claim.PowerCycle.RequestTime.Time))}
}

// cycleInterrupted reports whether Ingot could not act on the host for a while after the
// request. The system may be healthy or booting now. Times in the ledger are whole seconds.
func (in *input) cycleInterrupted() bool {
	return in.claim.PowerCycle.RequestTime.Time.Before(in.activeSince().Truncate(time.Second))
}

// activeSince is since when the manager runs and the host is not paused.
func (in *input) activeSince() time.Time {
	if in.obs.UnpausedAt.After(in.obs.ListeningSince) {
		return in.obs.UnpausedAt
	}
	return in.obs.ListeningSince
}

// cycleTimely reports whether the request is recent. For an older one Ingot cuts no power, and
// powers a host on that is off.
func (in *input) cycleTimely() bool { return !in.cycleLapsed() && !in.cycleInterrupted() }

// undoCycle removes the request and does not count it, because the host was not powered off.
// The remediation gives the Node time, then requests a cycle again.
func undoCycle(in *input) Decision {
	return Decision{Step: in.save(in.uncounted()), Event: "Normal", Reason: infrav1.ReasonPowerCycling,
		Message: fmt.Sprintf("Ingot skips power cycle %d of %s: it did not act on the host until %s, and the Node may be healthy. If it is not, the remediation asks again.",
			in.claim.PowerCycle.Count, inventory.FormatTime(in.claim.PowerCycle.RequestTime.Time), inventory.FormatTime(in.activeSince()))}
}

// uncounted returns the ledger without the running power cycle.
func (in *input) uncounted() Ledger {
	ledger := in.ledger()
	cycle := ledger.Claim.PowerCycle
	if cycle.Count--; cycle.Count == 0 {
		ledger.Claim.PowerCycle = nil
	}
	cycle.State, cycle.CompletionTime = infrav1.PowerCycleDone, in.now()
	return ledger
}

// concludeNone ends a power cycle that the remediation ended before the host was off. It does
// not count: a host must not be quarantined without a real power cycle.
func concludeNone(in *input) Decision {
	return Decision{Step: in.save(in.uncounted()), Event: "Normal", Reason: infrav1.ReasonProvisioned,
		Message: fmt.Sprintf("The remediation ended power cycle %d before the host was off, so it does not count.", in.claim.PowerCycle.Count)}
}

// cycleDoubted reports whether the remediation ended the cycle before the BMC reported off, and
// the BMC may still report the state before the power-off.
func (in *input) cycleDoubted() bool { return in.cycleUnconfirmed() && in.tooSoon() }

// cycleUnconfirmed reports whether the host was not seen off in this power cycle.
func (in *input) cycleUnconfirmed() bool { return in.claim.PowerCycle.ConfirmedOff == nil }

func waitCycleDoubted(in *input) Decision {
	return Decision{Step: Wait{Until: in.switchableAt()}, Reason: infrav1.ReasonPowerCycling,
		Message: fmt.Sprintf("The BMC reports on, but Ingot changed the power a moment ago. It checks again at %s.", inventory.FormatTime(in.switchableAt()))}
}

// IsPowerCycling reports whether a power cycle of the claim's host is not complete.
func IsPowerCycling(claim *infrav1.HostClaim) bool {
	return claim != nil && claim.PowerCycle != nil && claim.PowerCycle.State != infrav1.PowerCycleDone
}

func sayCycle(in *input) (string, string) {
	return infrav1.ReasonPowerCycling, fmt.Sprintf("Remediation of IngotMachine %s: power cycle %d.",
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
		Message: "The BMC confirmed the power-off of the power cycle. Ingot powers the host on again."}
}

func cycleOn(in *input) Decision {
	reason, message := sayCycle(in)
	return Decision{Step: PowerOn{}, Event: "Normal", Reason: reason, Message: message + " Ingot powers the host on."}
}

func concludeCycle(in *input) Decision {
	ledger := in.ledger()
	ledger.Claim.PowerCycle.State = infrav1.PowerCycleDone
	ledger.Claim.PowerCycle.CompletionTime = in.now()
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonProvisioned,
		Message: fmt.Sprintf("The host is on again after power cycle %d.", in.claim.PowerCycle.Count)}
}

// keepQuarantine quarantines the host if its claim requests that and it is not yet quarantined.
func (l *Ledger) keepQuarantine(claim *infrav1.HostClaim) {
	if record := l.recorded(); claim != nil && record.Quarantine == nil {
		record.Quarantine = claim.Quarantine.DeepCopy()
	}
}

// withStanding appends whether a released host is free or out of service.
func (l *Ledger) withStanding(message string) string {
	if q := l.Record.Quarantine; q != nil {
		return inventory.WithDetail(message+" Out of service: ", q.Message, ".")
	}
	return message + " The host is free again."
}
