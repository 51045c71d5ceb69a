// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

// This file is the life of a host, top to bottom. It branches only by rules and
// their conditions, never by an if: a test sees to that, and another takes each
// rule and each condition away and expects the walk to find the harm.

func hostLadder() ladder {
	return ladder{
		{Name: "cut-off", When: when{(*input).orphaned}, Then: noteCutOff},
		{Name: "deleting", When: when{(*input).deleting}, Rules: deletingLadder()},
		{Name: "force-release", When: when{(*input).forced, (*input).releasing, (*input).notFenced}, Then: forceRelease},
		{Name: "command-dropped", When: when{(*input).commandIdle}, Then: dropCommands},
		{Name: "instances-approved", When: when{(*input).namesInstances}, Then: approveInstances},
		{Name: "duplicate", When: when{(*input).duplicate}, Then: sayDuplicate},
		{Name: "unmanaged", When: when{(*input).unmanaged}, Then: sayUnmanaged},
		{Name: "dangling", When: when{(*input).held, (*input).machineMissing}, Rules: ladder{
			{Name: "dangling/release", When: when{(*input).releaseDangling}, Then: releaseDangling},
			{Name: "dangling/wait", Then: sayDangling},
		}},
		{Name: "bmc", When: when{(*input).bmcProblem}, Then: sayBMCProblem},
		{Name: "wrong-server", When: when{(*input).wrongServer}, Then: sayWrongServer},
		{Name: "power-unknown", When: when{(*input).powerUnknown}, Then: sayPowerUnknown},
		{Name: "installed-by-node", When: when{(*input).provisioning, (*input).installedByNode}, Then: confirmInstalled},
		{Name: "unconfirmed", When: when{(*input).on, (*input).unconfirmed, (*input).dueToSwitch}, Then: sayUnconfirmed},
		{Name: "updating", When: when{(*input).updateBusy}, Rules: updatingLadder()},
		{Name: "media", When: when{(*input).mediaNoted, (*input).mediaSpent}, Then: ejectMedia},
		{Name: "reboot-refused", When: when{(*input).rebootAsked, (*input).notRunning}, Then: refuseReboot},
		{Name: "order", When: when{(*input).ordered}, Rules: orderLadder()},
		{Name: "provisioning", When: when{(*input).provisioning, (*input).on},
			Rules: forcedOff("provisioning/off", sayProvisioningOff)},
		{Name: "provisioned", When: when{(*input).provisioned}, Rules: provisionedLadder()},
		{Name: "releasing", When: when{(*input).releasing}, Rules: releasingLadder()},
		{Name: "maintenance", When: when{(*input).maintenance}, Then: sayMaintenance},
		{Name: "free", Rules: freeLadder()},
		{Name: "start", Rules: startLadder()},
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
		{Name: "deleting/forced", When: when{(*input).forced}, Then: forget},
		{Name: "deleting/claimed", When: when{(*input).held}, Then: sayDeletingClaimed},
		{Name: "deleting/free", When: when{(*input).free}, Rules: ladder{
			{Name: "deleting/unmanaged", When: when{(*input).unmanaged}, Then: forget},
			{Name: "deleting/updating", When: when{(*input).updateBusy}, Rules: ladder{
				{Name: "deleting/updating-bmc", When: when{(*input).bmcProblem}, Then: sayBMCProblem},
				{Name: "deleting/updating-wait", Then: waitUpdate},
			}},
			{Name: "deleting/duplicate", When: when{(*input).duplicate}, Then: forget},
			{Name: "deleting/order", When: when{(*input).ordered}, Rules: ladder{
				{Name: "deleting/bmc", When: when{(*input).bmcProblem}, Then: sayBMCProblem},
				{Name: "deleting/wrong-server", When: when{(*input).wrongServer}, Then: sayWrongServer},
				{Name: "deleting/power-unknown", When: when{(*input).powerUnknown}, Then: sayPowerUnknown},
				{Name: "deleting/on", When: when{(*input).on}, Rules: append(ladder{
					{Name: "deleting/unconfirmed", When: when{(*input).unconfirmed}, Then: sayUnconfirmed},
				}, forcedOff("deleting/off", sayDeletingOff)...)},
				{Name: "deleting/speaking", When: when{(*input).speaking}, Then: waitSpeaking},
				{Name: "deleting/doubted", When: when{(*input).offDoubted}, Then: waitDoubted},
			}},
			{Name: "deleting/media", When: when{(*input).mediaNoted, (*input).bmcTells}, Then: ejectMedia},
			{Name: "deleting/quarantined", When: when{(*input).keepsQuarantine}, Then: sayDeletingQuarantined},
			{Name: "deleting/forget", Then: forget},
		}},
	}
}

// orderLadder ends an order, waits for its agent, or falls through to the start
// of the boot that the order is for.
func orderLadder() ladder {
	return ladder{
		{Name: "order/committed", When: when{(*input).provisioned}, Then: dropCommitted},
		{Name: "order/left", When: when{(*input).free, (*input).maintenance, (*input).untaken}, Then: sayMaintenance},
		{Name: "order/speaking", When: when{(*input).off, (*input).speaking}, Then: waitSpeaking},
		{Name: "order/misfit", When: when{(*input).misfit}, Rules: ladder{
			{Name: "order/misfit-on", When: when{(*input).on}, Rules: forcedOff("order/misfit-off", sayMisfit)},
			{Name: "order/misfit-doubted", When: when{(*input).offDoubted}, Then: waitDoubted},
			{Name: "order/misfit-live-doubted", When: when{(*input).liveStopIsNews}, Then: waitOffAgain},
			{Name: "order/misfit-drop", Then: dropMisfit},
		}},
		{Name: "order/on", When: when{(*input).on}, Rules: ladder{
			{Name: "order/ended", When: when{(*input).ended}, Rules: forcedOff("order/ended-off", sayEnded)},
			{Name: "order/forgotten", When: when{(*input).contactForgotten}, Then: waitAgentAgain},
			{Name: "order/live-silent", When: when{(*input).silent, (*input).liveStarted}, Then: giveUpLive},
			{Name: "order/silent", When: when{(*input).silent}, Then: giveUpAgent},
			{Name: "order/running", Then: waitAgent},
		}},
		{Name: "order/doubted", When: when{(*input).bootDoubted}, Then: waitDoubted},
		{Name: "order/inspected", When: when{(*input).succeeded, (*input).isInspect}, Then: concludeInspection},
		{Name: "order/wiped", When: when{(*input).succeeded, (*input).isWipe}, Then: concludeWipe},
		{Name: "order/failed", When: when{(*input).failed}, Rules: ladder{
			{Name: "order/live-off", When: when{(*input).liveStopped}, Rules: ladder{
				{Name: "order/live-doubted", When: when{(*input).offIsNews}, Then: waitOffAgain},
				{Name: "order/live-stopped", Then: noteLiveStopped},
			}},
			{Name: "order/network", When: when{(*input).networkToBlame}, Then: retrySilent},
			{Name: "order/image", When: when{(*input).imageToBlame}, Rules: ladder{
				{Name: "order/image-wait", When: when{(*input).imageTooSoon}, Then: waitImage},
				{Name: "order/image-retry", Then: retryImage},
			}},
			{Name: "order/retry", When: when{(*input).attemptsLeft}, Then: retryOrder},
			{Name: "order/quarantine", Then: quarantineFailed},
		}},
	}
}

// provisionedLadder does nothing to a provisioned host but what a person asks for, by
// the remediation of its Machine too (I2).
func provisionedLadder() ladder {
	return ladder{
		{Name: "provisioned/off", When: when{(*input).wantedOff, (*input).on},
			Rules: softOff("provisioned/off", sayWantedOff)},
		{Name: "provisioned/cycle", When: when{(*input).cycling, (*input).untouched}, Rules: cycleLadder()},
		{Name: "provisioned/on", When: when{(*input).wantedOn, (*input).off, (*input).untouched}, Rules: ladder{
			{Name: "provisioned/on-interval", When: when{(*input).tooSoon}, Then: waitInterval},
			{Name: "provisioned/power-on", Then: powerOn},
		}},
		{Name: "provisioned/reboot", When: when{(*input).rebootAsked}, Rules: ladder{
			{Name: "provisioned/reboot-interval", When: when{(*input).tooSoon}, Then: waitInterval},
			{Name: "provisioned/restart", Then: restart},
		}},
		{Name: "provisioned/success", When: when{(*input).failuresCounted}, Then: forgetFailures},
		{Name: "provisioned/firmware", When: when{(*input).caresForFirmware}, Rules: provisionedPrepareLadder()},
		{Name: "provisioned/idle", Then: sayProvisioned},
	}
}

// releasingLadder fences first (I7), then lets the host be cleaned. The claim goes
// last, in the write that makes it a record.
func releasingLadder() ladder {
	return ladder{
		{Name: "releasing/fence", When: when{(*input).notFenced}, Rules: ladder{
			{Name: "releasing/on", When: when{(*input).on}, Rules: softOff("releasing/off", sayFencing)},
			{Name: "releasing/doubted", When: when{(*input).offDoubted}, Then: waitDoubted},
			{Name: "releasing/unproven", When: when{(*input).offUnproven}, Then: explain(sayFencing).proveOff},
			{Name: "releasing/fenced", Then: fence},
		}},
		{Name: "releasing/fenced-on", When: when{(*input).on}, Rules: forcedOff("releasing/fenced-off", sayFencedOn)},
		{Name: "releasing/nothing-to-clean", When: when{(*input).nothingToClean}, Then: releaseUncleaned},
	}
}

// freeLadder keeps its hands off strangers that are on (I8) and off hosts in quarantine.
// A claimed host that comes here is off, and in none.
func freeLadder() ladder {
	return ladder{
		{Name: "free/not-fenced", When: when{(*input).quarantinedNotFenced}, Rules: ladder{
			{Name: "free/not-fenced-on", When: when{(*input).on}, Rules: softOff("free/not-fenced-off", sayNotFenced)},
			{Name: "free/not-fenced-doubted", When: when{(*input).offDoubted}, Then: waitDoubted},
			{Name: "free/not-fenced-unproven", When: when{(*input).offUnproven}, Then: explain(sayForced).proveOff},
			{Name: "free/now-fenced", Then: liftNotFenced},
		}},
		{Name: "free/quarantine", When: when{(*input).quarantined}, Rules: ladder{
			{Name: "free/cleared", When: when{(*input).cleared}, Then: clearQuarantine},
			{Name: "free/quarantined", Then: sayQuarantined},
		}},
		{Name: "free/approval-spent", When: when{(*input).approvalSpent}, Then: spendApproval},
		{Name: "free/on", When: when{(*input).on}, Rules: ladder{
			{Name: "free/off-wanted", When: when{(*input).wantedOff}, Rules: softOff("free/off-wanted", sayWantedOff)},
			{Name: "free/expected", When: when{(*input).expectedOn, (*input).idleHost}, Rules: startLadder()},
			{Name: "free/expected-off", When: when{(*input).expectedOn}, Rules: softOff("free/expected-off", sayWorkDue)},
			{Name: "free/approved", When: when{(*input).takeoverApproved}, Rules: softOff("free/approved-off", sayApproved)},
			{Name: "free/unexpectedly-on", Then: sayUnexpectedlyOn},
		}},
	}
}

// startLadder is reached by a host that is off and has work to do, or is free and
// has none: what a boot needs, then the order, then the boot.
func startLadder() ladder {
	return ladder{
		{Name: "start/powered-off", When: when{(*input).wantedOff}, Then: sayPoweredOff},
		{Name: "start/machine-unknown", When: when{(*input).held, (*input).machineUnknown}, Then: waitMachine},
		{Name: "start/mac", When: when{(*input).macMissing}, Then: sayMACMissing},
		{Name: "start/network", When: when{(*input).networkMissing}, Then: sayNetworkMissing},
		{Name: "start/address-problem", When: when{(*input).addressProblem}, Then: sayAddressProblem},
		{Name: "start/address", When: when{(*input).addressMissing}, Then: recordAddress},
		{Name: "start/firmware", When: when{(*input).staying, (*input).caresForFirmware}, Rules: prepareLadder()},
		{Name: "start/idle", When: when{(*input).idleHost}, Rules: ladder{
			{Name: "start/wanted-on", When: when{(*input).wantedOn, (*input).off}, Rules: ladder{
				{Name: "start/wanted-on-interval", When: when{(*input).tooSoon}, Then: waitInterval},
				{Name: "start/power-on", Then: powerOn},
			}},
			{Name: "start/given-up", When: when{(*input).givenUp}, Then: sayGivenUp},
			{Name: "start/available", Then: sayAvailable},
		}},
		{Name: "start/boot-trust", When: when{(*input).provisioning, (*input).verifiedDemanded, (*input).bootNotVerified}, Then: sayBootNotVerified},
		{Name: "start/boot-server", When: when{(*input).namedByBMC, (*input).bootServerUnknown}, Then: sayBootServerUnknown},
		{Name: "start/interval", When: when{(*input).tooSoon}, Then: waitInterval},
		{Name: "start/order", When: when{(*input).unordered}, Then: mintOrder},
		{Name: "start/media", When: when{(*input).byMedia, (*input).mediaUnnoted}, Then: noteMedia},
		{Name: "start/boot", Then: bootAgent},
	}
}

// forcedOff cuts the power: nothing worth a shutdown runs there.
func forcedOff(name string, why explain) ladder {
	return ladder{
		{Name: name + "-interval", When: when{(*input).tooSoon}, Then: waitInterval},
		{Name: name, Then: why.cut},
	}
}

// softOff asks the operating system, gives it time, then cuts the power (I7). It asks
// again where the BMC refuses to, for as long as the system would have had.
func softOff(name string, why explain) ladder {
	return ladder{
		{Name: name + "-pending", When: when{(*input).softPending}, Then: why.wait},
		{Name: name + "-interval", When: when{(*input).tooSoon}, Then: waitToAsk},
		{Name: name + "-cut", When: when{(*input).softOver}, Then: why.cutWarned},
		{Name: name + "-ask", Then: why.ask},
	}
}
