// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

// This file is the life of a host, top to bottom. It branches only by rules and
// their conditions, never by an if: a test sees to that, and another takes each
// rule and each condition away and expects the walk to find the harm.

func hostLadder() ladder {
	return ladder{
		{name: "cut-off", when: when{(*input).orphaned}, then: noteCutOff},
		{name: "deleting", when: when{(*input).deleting}, rules: deletingLadder()},
		{name: "force-release", when: when{(*input).forced, (*input).releasing, (*input).notFenced}, then: forceRelease},
		{name: "command-dropped", when: when{(*input).commandIdle}, then: dropCommands},
		{name: "instances-approved", when: when{(*input).namesInstances}, then: approveInstances},
		{name: "duplicate", when: when{(*input).duplicate}, then: sayDuplicate},
		{name: "unmanaged", when: when{(*input).unmanaged}, then: sayUnmanaged},
		{name: "dangling", when: when{(*input).held, (*input).machineMissing}, rules: ladder{
			{name: "dangling/release", when: when{(*input).releaseDangling}, then: releaseDangling},
			{name: "dangling/wait", then: sayDangling},
		}},
		{name: "bmc", when: when{(*input).bmcProblem}, then: sayBMCProblem},
		{name: "wrong-server", when: when{(*input).wrongServer}, then: sayWrongServer},
		{name: "power-unknown", when: when{(*input).powerUnknown}, then: sayPowerUnknown},
		{name: "installed-by-node", when: when{(*input).provisioning, (*input).installedByNode}, then: confirmInstalled},
		{name: "unconfirmed", when: when{(*input).on, (*input).unconfirmed, (*input).dueToSwitch}, then: sayUnconfirmed},
		{name: "updating", when: when{(*input).updateBusy}, rules: updatingLadder()},
		{name: "media", when: when{(*input).mediaNoted, (*input).mediaSpent}, then: ejectMedia},
		{name: "reboot-refused", when: when{(*input).rebootAsked, (*input).notRunning}, then: refuseReboot},
		{name: "order", when: when{(*input).ordered}, rules: orderLadder()},
		{name: "provisioning", when: when{(*input).provisioning, (*input).on},
			rules: forcedOff("provisioning/off", sayProvisioningOff)},
		{name: "provisioned", when: when{(*input).provisioned}, rules: provisionedLadder()},
		{name: "releasing", when: when{(*input).releasing}, rules: releasingLadder()},
		{name: "maintenance", when: when{(*input).maintenance}, then: sayMaintenance},
		{name: "free", rules: freeLadder()},
		{name: "start", rules: startLadder()},
	}
}

// deletingLadder lets the object go. A host in use stays unless a person forces it, and
// about one that is being released nothing is decided here: it is fenced and cleaned
// first, as any; where that fails for good the object stays until a person has seen to
// the disks, or the server would go with a tenant's data and nobody would know. Our own agent is not left running on a server that nobody knows any
// more, and firmware that is being written is waited for, as long as updateBusy says:
// whoever registers the server anew would switch it in the middle of that.
func deletingLadder() ladder {
	return ladder{
		{name: "deleting/forced", when: when{(*input).forced}, then: forget},
		{name: "deleting/claimed", when: when{(*input).held}, then: sayDeletingClaimed},
		{name: "deleting/free", when: when{(*input).free}, rules: ladder{
			{name: "deleting/unmanaged", when: when{(*input).unmanaged}, then: forget},
			{name: "deleting/updating", when: when{(*input).updateBusy}, rules: ladder{
				{name: "deleting/updating-bmc", when: when{(*input).bmcProblem}, then: sayBMCProblem},
				{name: "deleting/updating-wait", then: waitUpdate},
			}},
			{name: "deleting/duplicate", when: when{(*input).duplicate}, then: forget},
			{name: "deleting/order", when: when{(*input).ordered}, rules: ladder{
				{name: "deleting/bmc", when: when{(*input).bmcProblem}, then: sayBMCProblem},
				{name: "deleting/wrong-server", when: when{(*input).wrongServer}, then: sayWrongServer},
				{name: "deleting/power-unknown", when: when{(*input).powerUnknown}, then: sayPowerUnknown},
				{name: "deleting/on", when: when{(*input).on}, rules: append(ladder{
					{name: "deleting/unconfirmed", when: when{(*input).unconfirmed}, then: sayUnconfirmed},
				}, forcedOff("deleting/off", sayDeletingOff)...)},
				{name: "deleting/speaking", when: when{(*input).speaking}, then: waitSpeaking},
				{name: "deleting/doubted", when: when{(*input).offDoubted}, then: waitDoubted},
			}},
			{name: "deleting/media", when: when{(*input).mediaNoted, (*input).bmcTells}, then: ejectMedia},
			{name: "deleting/quarantined", when: when{(*input).keepsQuarantine}, then: sayDeletingQuarantined},
			{name: "deleting/forget", then: forget},
		}},
	}
}

// orderLadder ends an order, waits for its agent, or falls through to the start
// of the boot that the order is for.
func orderLadder() ladder {
	return ladder{
		{name: "order/committed", when: when{(*input).provisioned}, then: dropCommitted},
		{name: "order/left", when: when{(*input).free, (*input).maintenance, (*input).untaken}, then: sayMaintenance},
		{name: "order/speaking", when: when{(*input).off, (*input).speaking}, then: waitSpeaking},
		{name: "order/misfit", when: when{(*input).misfit}, rules: ladder{
			{name: "order/misfit-on", when: when{(*input).on}, rules: forcedOff("order/misfit-off", sayMisfit)},
			{name: "order/misfit-doubted", when: when{(*input).offDoubted}, then: waitDoubted},
			{name: "order/misfit-live-doubted", when: when{(*input).liveStopIsNews}, then: waitOffAgain},
			{name: "order/misfit-drop", then: dropMisfit},
		}},
		{name: "order/on", when: when{(*input).on}, rules: ladder{
			{name: "order/ended", when: when{(*input).ended}, rules: forcedOff("order/ended-off", sayEnded)},
			{name: "order/forgotten", when: when{(*input).contactForgotten}, then: waitAgentAgain},
			{name: "order/live-silent", when: when{(*input).silent, (*input).liveStarted}, then: giveUpLive},
			{name: "order/silent", when: when{(*input).silent}, then: giveUpAgent},
			{name: "order/running", then: waitAgent},
		}},
		{name: "order/doubted", when: when{(*input).bootDoubted}, then: waitDoubted},
		{name: "order/inspected", when: when{(*input).succeeded, (*input).isInspect}, then: concludeInspection},
		{name: "order/wiped", when: when{(*input).succeeded, (*input).isWipe}, then: concludeWipe},
		{name: "order/failed", when: when{(*input).failed}, rules: ladder{
			{name: "order/live-off", when: when{(*input).liveStopped}, rules: ladder{
				{name: "order/live-doubted", when: when{(*input).offIsNews}, then: waitOffAgain},
				{name: "order/live-stopped", then: noteLiveStopped},
			}},
			{name: "order/network", when: when{(*input).networkToBlame}, then: retrySilent},
			{name: "order/image", when: when{(*input).imageToBlame}, rules: ladder{
				{name: "order/image-wait", when: when{(*input).imageTooSoon}, then: waitImage},
				{name: "order/image-retry", then: retryImage},
			}},
			{name: "order/retry", when: when{(*input).attemptsLeft}, then: retryOrder},
			{name: "order/quarantine", then: quarantineFailed},
		}},
	}
}

// provisionedLadder does nothing to a provisioned host but what a person asks for, by
// the remediation of its Machine too (I2).
func provisionedLadder() ladder {
	return ladder{
		{name: "provisioned/off", when: when{(*input).wantedOff, (*input).on},
			rules: softOff("provisioned/off", sayWantedOff)},
		{name: "provisioned/cycle", when: when{(*input).cycling, (*input).untouched}, rules: cycleLadder()},
		{name: "provisioned/on", when: when{(*input).wantedOn, (*input).off, (*input).untouched}, rules: ladder{
			{name: "provisioned/on-interval", when: when{(*input).tooSoon}, then: waitInterval},
			{name: "provisioned/power-on", then: powerOn},
		}},
		{name: "provisioned/reboot", when: when{(*input).rebootAsked}, rules: ladder{
			{name: "provisioned/reboot-interval", when: when{(*input).tooSoon}, then: waitInterval},
			{name: "provisioned/restart", then: restart},
		}},
		{name: "provisioned/success", when: when{(*input).failuresCounted}, then: forgetFailures},
		{name: "provisioned/firmware", when: when{(*input).caresForFirmware}, rules: provisionedPrepareLadder()},
		{name: "provisioned/idle", then: sayProvisioned},
	}
}

// releasingLadder fences first (I7), then lets the host be cleaned. The claim goes
// last, in the write that makes it a record.
func releasingLadder() ladder {
	return ladder{
		{name: "releasing/fence", when: when{(*input).notFenced}, rules: ladder{
			{name: "releasing/on", when: when{(*input).on}, rules: softOff("releasing/off", sayFencing)},
			{name: "releasing/doubted", when: when{(*input).offDoubted}, then: waitDoubted},
			{name: "releasing/unproven", when: when{(*input).offUnproven}, then: explain(sayFencing).proveOff},
			{name: "releasing/fenced", then: fence},
		}},
		{name: "releasing/fenced-on", when: when{(*input).on}, rules: forcedOff("releasing/fenced-off", sayFencedOn)},
		{name: "releasing/nothing-to-clean", when: when{(*input).nothingToClean}, then: releaseUncleaned},
	}
}

// freeLadder keeps its hands off strangers that are on (I8) and off hosts in quarantine.
// A claimed host that comes here is off, and in none.
func freeLadder() ladder {
	return ladder{
		{name: "free/not-fenced", when: when{(*input).quarantinedNotFenced}, rules: ladder{
			{name: "free/not-fenced-on", when: when{(*input).on}, rules: softOff("free/not-fenced-off", sayNotFenced)},
			{name: "free/not-fenced-doubted", when: when{(*input).offDoubted}, then: waitDoubted},
			{name: "free/not-fenced-unproven", when: when{(*input).offUnproven}, then: explain(sayForced).proveOff},
			{name: "free/now-fenced", then: liftNotFenced},
		}},
		{name: "free/quarantine", when: when{(*input).quarantined}, rules: ladder{
			{name: "free/cleared", when: when{(*input).cleared}, then: clearQuarantine},
			{name: "free/quarantined", then: sayQuarantined},
		}},
		{name: "free/approval-spent", when: when{(*input).approvalSpent}, then: spendApproval},
		{name: "free/on", when: when{(*input).on}, rules: ladder{
			{name: "free/off-wanted", when: when{(*input).wantedOff}, rules: softOff("free/off-wanted", sayWantedOff)},
			{name: "free/expected", when: when{(*input).expectedOn, (*input).idleHost}, rules: startLadder()},
			{name: "free/expected-off", when: when{(*input).expectedOn}, rules: softOff("free/expected-off", sayWorkDue)},
			{name: "free/approved", when: when{(*input).takeoverApproved}, rules: softOff("free/approved-off", sayApproved)},
			{name: "free/unexpectedly-on", then: sayUnexpectedlyOn},
		}},
	}
}

// startLadder is reached by a host that is off and has work to do, or is free and
// has none: what a boot needs, then the order, then the boot.
func startLadder() ladder {
	return ladder{
		{name: "start/powered-off", when: when{(*input).wantedOff}, then: sayPoweredOff},
		{name: "start/machine-unknown", when: when{(*input).held, (*input).machineUnknown}, then: waitMachine},
		{name: "start/mac", when: when{(*input).macMissing}, then: sayMACMissing},
		{name: "start/network", when: when{(*input).networkMissing}, then: sayNetworkMissing},
		{name: "start/address-problem", when: when{(*input).addressProblem}, then: sayAddressProblem},
		{name: "start/address", when: when{(*input).addressMissing}, then: recordAddress},
		{name: "start/firmware", when: when{(*input).staying, (*input).caresForFirmware}, rules: prepareLadder()},
		{name: "start/idle", when: when{(*input).idleHost}, rules: ladder{
			{name: "start/wanted-on", when: when{(*input).wantedOn, (*input).off}, rules: ladder{
				{name: "start/wanted-on-interval", when: when{(*input).tooSoon}, then: waitInterval},
				{name: "start/power-on", then: powerOn},
			}},
			{name: "start/given-up", when: when{(*input).givenUp}, then: sayGivenUp},
			{name: "start/available", then: sayAvailable},
		}},
		{name: "start/boot-trust", when: when{(*input).provisioning, (*input).verifiedDemanded, (*input).bootNotVerified}, then: sayBootNotVerified},
		{name: "start/boot-server", when: when{(*input).namedByBMC, (*input).bootServerUnknown}, then: sayBootServerUnknown},
		{name: "start/interval", when: when{(*input).tooSoon}, then: waitInterval},
		{name: "start/order", when: when{(*input).unordered}, then: mintOrder},
		{name: "start/media", when: when{(*input).byMedia, (*input).mediaUnnoted}, then: noteMedia},
		{name: "start/boot", then: bootAgent},
	}
}

// forcedOff cuts the power: nothing worth a shutdown runs there.
func forcedOff(name string, why explain) ladder {
	return ladder{
		{name: name + "-interval", when: when{(*input).tooSoon}, then: waitInterval},
		{name: name, then: why.cut},
	}
}

// softOff asks the operating system, gives it time, then cuts the power (I7). It asks
// again where the BMC refuses to, for as long as the system would have had.
func softOff(name string, why explain) ladder {
	return ladder{
		{name: name + "-pending", when: when{(*input).softPending}, then: why.wait},
		{name: name + "-interval", when: when{(*input).tooSoon}, then: waitToAsk},
		{name: name + "-cut", when: when{(*input).softOver}, then: why.cutWarned},
		{name: name + "-ask", then: why.ask},
	}
}
