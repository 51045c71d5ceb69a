// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"github.com/ingot-metal/ingot/inventory/rules"
)

// table is a table of rules about a remediation; when shortens the tables.
type (
	table = rules.Table[*input, Decision]
	when  = []func(*input) bool
)

// allRules has the rules of a remediation in order of precedence.
func allRules() table {
	return table{
		{Name: "deleting", When: when{(*input).isDeleting}, Rules: table{
			{Name: "deleting/host-paused", When: when{(*input).inUse, (*input).claimOwed, (*input).hostPaused}, Then: sayEndHeld},
			{Name: "deleting/cycle", When: when{(*input).inUse, (*input).cycleCutting}, Then: endCycle},
			{Name: "deleting/clear-mark", When: when{(*input).inUse, (*input).marked, (*input).machineLives}, Then: clearQuarantineMark},
			{Name: "deleting/remove-finalizer", Then: removeFinalizer},
		}},
		{Name: "machine-missing", When: when{(*input).machineMissing}, Then: sayMachineMissing},
		{Name: "machine-deleting", When: when{(*input).machineDeleting}, Rules: unswitched("machine-deleting", sayMachineDeleting)},
		{Name: "healthy", When: when{(*input).healthy}, Rules: unswitched("healthy", sayHealthy)},
		{Name: "delegated", When: when{(*input).isDelegated}, Rules: unswitched("delegated", sayDelegated)},
		{Name: "skipped", When: when{(*input).leftAlone}, Rules: unswitched("skipped", sayLeftAlone)},
		{Name: "marked", When: when{(*input).inUse, (*input).marked}, Then: handOverMarked},
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
				{Name: "cycling/failed", Then: quarantineUncycled},
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
		{Name: "exhausted", Then: quarantineExhausted},
	}
}

// installingRules leave an install to its own attempts and to the host's quarantine, unless its
// failures are not counted, so that it would never end.
func installingRules() table {
	return table{
		{Name: "installing/unreachable", When: when{(*input).unreachable, (*input).worker}, Then: sayUnreachable},
		{Name: "installing/in-vain", When: when{(*input).installsFailed, (*input).installOverdue}, Then: handOverInVain},
		{Name: "installing/agent", When: when{(*input).agentAtWork}, Then: sayInstalling},
		{Name: "installing/bmc", When: when{(*input).bmcFails}, Rules: table{
			{Name: "installing/bmc-overdue", When: when{(*input).bmcOverdue}, Then: handOverBMC},
			{Name: "installing/bmc-wait", Then: awaitBMC},
		}},
		{Name: "installing/wait", Then: sayInstalling},
	}
}

// cutOffRules apply to an interrupted first boot.
func cutOffRules() table {
	return firstBootRules("cut-off", table{
		{Name: "cut-off/by-cycle", When: when{(*input).cutByCycle}, Then: quarantineCutOff},
		{Name: "cut-off/by-others", Then: handOverUnjoined},
	})
}

// firstBootRules apply to a failed first boot, which no power cycle repairs. late applies to a
// Node that did not join in time.
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

// unswitched leaves the Machine as it is and ends a power cycle. It does not write the claim of
// a paused host, which clusterctl move may have copied (I10).
func unswitched(name string, say func(*input) Decision) table {
	return table{
		{Name: name + "/host-paused", When: when{(*input).inUse, (*input).cycleCutting, (*input).hostPaused}, Then: sayEndHeld},
		{Name: name + "/cycle", When: when{(*input).inUse, (*input).cycleCutting}, Then: endCycle},
		{Name: name + "/wait", Then: say},
	}
}
