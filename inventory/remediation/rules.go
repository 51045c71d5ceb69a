// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"github.com/ingot-metal/ingot/inventory/rules"
)

// This file is the life of a remediation, top to bottom: what is done about an unhealthy
// Machine. It branches by rules only, like the rules of a host.

// table is the life of a remediation as rules; when shortens its tables.
type (
	table = rules.Table[*input, Decision]
	when  = []func(*input) bool
)

// allRules is the life of a remediation, top to bottom.
func allRules() table {
	return table{
		{Name: "deleting", When: when{(*input).isDeleting}, Rules: table{
			{Name: "deleting/host-paused", When: when{(*input).inUse, (*input).claimOwed, (*input).hostPaused}, Then: sayEndHeld},
			{Name: "deleting/cycle", When: when{(*input).inUse, (*input).cycleCutting}, Then: endCycle},
			{Name: "deleting/pardon", When: when{(*input).inUse, (*input).marked, (*input).machineLives}, Then: pardonHost},
			{Name: "deleting/let-go", Then: letRemedyGo},
		}},
		{Name: "machine-missing", When: when{(*input).machineMissing}, Then: sayMachineMissing},
		{Name: "machine-deleting", When: when{(*input).machineDeleting}, Rules: unswitched("machine-deleting", sayMachineDeleting)},
		{Name: "healthy", When: when{(*input).healthy}, Rules: unswitched("healthy", sayHealthy)},
		{Name: "handed-over", When: when{(*input).handedOver}, Rules: unswitched("handed-over", sayHandedOver)},
		{Name: "left-alone", When: when{(*input).leftAlone}, Rules: unswitched("left-alone", sayLeftAlone)},
		{Name: "condemned", When: when{(*input).inUse, (*input).marked}, Then: handOverMarked},
		{Name: "asked", When: when{(*input).askedFor}, Then: handOverAsked},
		{Name: "foreign", When: when{(*input).foreign}, Then: handOverForeign},
		{Name: "host-lost", When: when{(*input).hostLost}, Then: handOverLost},
		{Name: "no-host", When: when{(*input).notHeld}, Then: sayNotInUse},
		{Name: "host-paused", When: when{(*input).hostPaused}, Then: sayHostPaused},
		{Name: "unmanaged", When: when{(*input).unmanaged}, Then: handOverUnmanaged},
		{Name: "person", When: when{(*input).personAtWork}, Rules: table{
			{Name: "person/cycle", When: when{(*input).cycleCutting}, Then: endCycle},
			{Name: "person/wait", Then: sayPersonAtWork},
		}},
		{Name: "installing", When: when{(*input).installing}, Rules: installingRules()},
		{Name: "unreachable", When: when{(*input).nodeAwaited, (*input).unreachable, (*input).worker}, Then: sayUnreachable},
		{Name: "cycling", When: when{(*input).cycling}, Rules: table{
			{Name: "cycling/overdue", When: when{(*input).cycleOverdue}, Rules: table{
				{Name: "cycling/untried", When: when{(*input).untried}, Then: handOverUncycled},
				{Name: "cycling/failed", Then: condemnUncycled},
			}},
			{Name: "cycling/wait", Then: waitCycle},
		}},
		{Name: "cut-off", When: when{(*input).firstBootCutOff}, Rules: cutOffRules()},
		{Name: "bootstrap", When: when{(*input).bootstrapFailed}, Rules: firstBootRules("bootstrap", table{{Name: "bootstrap/failed", Then: handOverUnjoined}})},
		{Name: "restarted", When: when{(*input).cycled, (*input).nodeHasTime}, Then: waitNode},
		{Name: "back", When: when{(*input).cycled, (*input).nodeBack}, Then: sayNodeBack},
		{Name: "grace", When: when{(*input).interrupted, (*input).graceLeft, (*input).notSeenOff}, Then: waitGrace},
		{Name: "cycle", When: when{(*input).cyclesLeft}, Then: askCycle},
		{Name: "none-wanted", When: when{(*input).noneWanted}, Then: handOverAtOnce},
		{Name: "exhausted", Then: condemnExhausted},
	}
}

// installingRules leave an installation to its own tries and to the host's quarantine,
// but where these come to nothing: what is never counted, and so never ends.
func installingRules() table {
	return table{
		{Name: "installing/unreachable", When: when{(*input).unreachable, (*input).worker}, Then: sayUnreachable},
		{Name: "installing/in-vain", When: when{(*input).triedInVain, (*input).installOverdue}, Then: handOverInVain},
		{Name: "installing/agent", When: when{(*input).agentAtWork}, Then: sayInstalling},
		{Name: "installing/bmc", When: when{(*input).bmcFails}, Rules: table{
			{Name: "installing/bmc-overdue", When: when{(*input).bmcOverdue}, Then: handOverBMC},
			{Name: "installing/bmc-wait", Then: awaitBMC},
		}},
		{Name: "installing/wait", Then: sayInstalling},
	}
}

// cutOffRules are of a first boot that was cut off.
func cutOffRules() table {
	return firstBootRules("cut-off", table{
		{Name: "cut-off/by-cycle", When: when{(*input).cutByCycle}, Then: condemnCutOff},
		{Name: "cut-off/by-others", Then: handOverUnjoined},
	})
}

// firstBootRules are of a first boot that came to nothing, which no power cycle helps; late
// are those of a Node that has not joined in time.
func firstBootRules(name string, late table) table {
	return table{
		{Name: name + "/joined", When: when{(*input).joined, (*input).nodeYoung, (*input).notSeenOff}, Then: waitYoung},
		{Name: name + "/not-joined", When: when{(*input).notJoined}, Rules: table{
			{Name: name + "/unreachable", When: when{(*input).unreachable, (*input).worker}, Then: sayUnreachable},
			{Name: name + "/late", When: when{(*input).joinOverdue}, Rules: late},
			{Name: name + "/wait", Then: waitJoin},
		}},
	}
}

// unswitched leaves the Machine as it is, and has its host not switched off any more. The
// claim of a host that is paused is not written: clusterctl move may have copied it (I10).
func unswitched(name string, say func(*input) Decision) table {
	return table{
		{Name: name + "/host-paused", When: when{(*input).inUse, (*input).cycleCutting, (*input).hostPaused}, Then: sayEndHeld},
		{Name: name + "/cycle", When: when{(*input).inUse, (*input).cycleCutting}, Then: endCycle},
		{Name: name + "/wait", Then: say},
	}
}
