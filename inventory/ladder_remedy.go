// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

// This file is the life of a remediation, top to bottom: what is done about an unhealthy
// Machine. It branches by rules only, like ladder.go.

// remedyRules is the life of a remediation as rules; asFar shortens its tables.
type (
	remedyRules = rules[*remedyInput, RemedyDecision]
	asFar       = []func(*remedyInput) bool
)

// remedyLadder is the life of a remediation, top to bottom.
func remedyLadder() remedyRules {
	return remedyRules{
		{name: "deleting", when: asFar{(*remedyInput).isDeleting}, rules: remedyRules{
			{name: "deleting/host-paused", when: asFar{(*remedyInput).inUse, (*remedyInput).claimOwed, (*remedyInput).hostPaused}, then: sayEndHeld},
			{name: "deleting/cycle", when: asFar{(*remedyInput).inUse, (*remedyInput).cycleCutting}, then: endCycle},
			{name: "deleting/pardon", when: asFar{(*remedyInput).inUse, (*remedyInput).marked, (*remedyInput).machineLives}, then: pardonHost},
			{name: "deleting/let-go", then: letRemedyGo},
		}},
		{name: "machine-missing", when: asFar{(*remedyInput).machineMissing}, then: sayMachineMissing},
		{name: "machine-deleting", when: asFar{(*remedyInput).machineDeleting}, rules: unswitched("machine-deleting", sayMachineDeleting)},
		{name: "healthy", when: asFar{(*remedyInput).healthy}, rules: unswitched("healthy", sayHealthy)},
		{name: "handed-over", when: asFar{(*remedyInput).handedOver}, rules: unswitched("handed-over", sayHandedOver)},
		{name: "left-alone", when: asFar{(*remedyInput).leftAlone}, rules: unswitched("left-alone", sayLeftAlone)},
		{name: "condemned", when: asFar{(*remedyInput).inUse, (*remedyInput).marked}, then: handOverMarked},
		{name: "asked", when: asFar{(*remedyInput).askedFor}, then: handOverAsked},
		{name: "foreign", when: asFar{(*remedyInput).foreign}, then: handOverForeign},
		{name: "host-lost", when: asFar{(*remedyInput).hostLost}, then: handOverLost},
		{name: "no-host", when: asFar{(*remedyInput).notHeld}, then: sayNotInUse},
		{name: "host-paused", when: asFar{(*remedyInput).hostPaused}, then: sayHostPaused},
		{name: "unmanaged", when: asFar{(*remedyInput).unmanaged}, then: handOverUnmanaged},
		{name: "person", when: asFar{(*remedyInput).personAtWork}, rules: remedyRules{
			{name: "person/cycle", when: asFar{(*remedyInput).cycleCutting}, then: endCycle},
			{name: "person/wait", then: sayPersonAtWork},
		}},
		{name: "installing", when: asFar{(*remedyInput).installing}, rules: installingRules()},
		{name: "unreachable", when: asFar{(*remedyInput).nodeAwaited, (*remedyInput).unreachable, (*remedyInput).worker}, then: sayUnreachable},
		{name: "cycling", when: asFar{(*remedyInput).cycling}, rules: remedyRules{
			{name: "cycling/overdue", when: asFar{(*remedyInput).cycleOverdue}, rules: remedyRules{
				{name: "cycling/untried", when: asFar{(*remedyInput).untried}, then: handOverUncycled},
				{name: "cycling/failed", then: condemnUncycled},
			}},
			{name: "cycling/wait", then: waitCycle},
		}},
		{name: "cut-off", when: asFar{(*remedyInput).firstBootCutOff}, rules: cutOffRules()},
		{name: "bootstrap", when: asFar{(*remedyInput).bootstrapFailed}, rules: firstBootRules("bootstrap", remedyRules{{name: "bootstrap/failed", then: handOverUnjoined}})},
		{name: "restarted", when: asFar{(*remedyInput).cycled, (*remedyInput).nodeHasTime}, then: waitNode},
		{name: "back", when: asFar{(*remedyInput).cycled, (*remedyInput).nodeBack}, then: sayNodeBack},
		{name: "grace", when: asFar{(*remedyInput).interrupted, (*remedyInput).graceLeft, (*remedyInput).notSeenOff}, then: waitGrace},
		{name: "cycle", when: asFar{(*remedyInput).cyclesLeft}, then: askCycle},
		{name: "none-wanted", when: asFar{(*remedyInput).noneWanted}, then: handOverAtOnce},
		{name: "exhausted", then: condemnExhausted},
	}
}

// installingRules leave an installation to its own tries and to the host's quarantine,
// but where these come to nothing: what is never counted, and so never ends.
func installingRules() remedyRules {
	return remedyRules{
		{name: "installing/unreachable", when: asFar{(*remedyInput).unreachable, (*remedyInput).worker}, then: sayUnreachable},
		{name: "installing/in-vain", when: asFar{(*remedyInput).triedInVain, (*remedyInput).installOverdue}, then: handOverInVain},
		{name: "installing/agent", when: asFar{(*remedyInput).agentAtWork}, then: sayInstalling},
		{name: "installing/bmc", when: asFar{(*remedyInput).bmcFails}, rules: remedyRules{
			{name: "installing/bmc-overdue", when: asFar{(*remedyInput).bmcOverdue}, then: handOverBMC},
			{name: "installing/bmc-wait", then: awaitBMC},
		}},
		{name: "installing/wait", then: sayInstalling},
	}
}

// cutOffRules are of a first boot that was cut off.
func cutOffRules() remedyRules {
	return firstBootRules("cut-off", remedyRules{
		{name: "cut-off/by-cycle", when: asFar{(*remedyInput).cutByCycle}, then: condemnCutOff},
		{name: "cut-off/by-others", then: handOverUnjoined},
	})
}

// firstBootRules are of a first boot that came to nothing, which no power cycle helps; late
// are those of a Node that has not joined in time.
func firstBootRules(name string, late remedyRules) remedyRules {
	return remedyRules{
		{name: name + "/joined", when: asFar{(*remedyInput).joined, (*remedyInput).nodeYoung, (*remedyInput).notSeenOff}, then: waitYoung},
		{name: name + "/not-joined", when: asFar{(*remedyInput).notJoined}, rules: remedyRules{
			{name: name + "/unreachable", when: asFar{(*remedyInput).unreachable, (*remedyInput).worker}, then: sayUnreachable},
			{name: name + "/late", when: asFar{(*remedyInput).joinOverdue}, rules: late},
			{name: name + "/wait", then: waitJoin},
		}},
	}
}

// unswitched leaves the Machine as it is, and has its host not switched off any more. The
// claim of a host that is paused is not written: clusterctl move may have copied it (I10).
func unswitched(name string, say func(*remedyInput) RemedyDecision) remedyRules {
	return remedyRules{
		{name: name + "/host-paused", when: asFar{(*remedyInput).inUse, (*remedyInput).cycleCutting, (*remedyInput).hostPaused}, then: sayEndHeld},
		{name: name + "/cycle", when: asFar{(*remedyInput).inUse, (*remedyInput).cycleCutting}, then: endCycle},
		{name: name + "/wait", then: say},
	}
}
