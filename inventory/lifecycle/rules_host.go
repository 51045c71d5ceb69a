// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

// This file has the rules of a host's lifecycle, in order of precedence. It branches only by
// rules and their conditions, so that TestMutants can remove each of them.

func hostRules() ruleTable {
	return ruleTable{
		{Name: "cut-off", When: when{(*input).orphaned}, Then: noteCutOff},
		{Name: "deleting", When: when{(*input).deleting}, Rules: deletingRules()},
		{Name: "force-release", When: when{(*input).forced, (*input).releasing, (*input).notFenced}, Then: forceRelease},
		{Name: "command-dropped", When: when{(*input).commandIdle}, Then: dropCommands},
		{Name: "instances-approved", When: when{(*input).namesInstances}, Then: approveInstances},
		{Name: "duplicate", When: when{(*input).duplicate}, Then: sayDuplicate},
		{Name: "unmanaged", When: when{(*input).unmanaged}, Then: sayUnmanaged},
		{Name: "dangling", When: when{(*input).held, (*input).machineMissing}, Rules: ruleTable{
			{Name: "dangling/release", When: when{(*input).releaseDangling}, Then: releaseDangling},
			{Name: "dangling/wait", Then: sayMachineMissing},
		}},
		{Name: "bmc", When: when{(*input).bmcProblem}, Then: sayBMCProblem},
		{Name: "wrong-server", When: when{(*input).wrongServer}, Then: sayWrongServer},
		{Name: "power-unknown", When: when{(*input).powerUnknown}, Then: sayPowerUnknown},
		{Name: "installed-by-node", When: when{(*input).provisioning, (*input).installedByNode}, Then: confirmInstalled},
		{Name: "unconfirmed", When: when{(*input).on, (*input).unconfirmed, (*input).dueToSwitch}, Then: sayUnconfirmed},
		{Name: "updating", When: when{(*input).updateBusy}, Rules: updatingRules()},
		{Name: "media", When: when{(*input).mediaRecorded, (*input).mediaUnneeded}, Then: ejectMedia},
		{Name: "reboot-refused", When: when{(*input).rebootAsked, (*input).notRunning}, Then: refuseReboot},
		{Name: "order", When: when{(*input).ordered}, Rules: orderRules()},
		{Name: "provisioning", When: when{(*input).provisioning, (*input).on},
			Rules: forcedOff("provisioning/off", sayProvisioningOff)},
		{Name: "provisioned", When: when{(*input).provisioned}, Rules: provisionedRules()},
		{Name: "releasing", When: when{(*input).releasing}, Rules: releasingRules()},
		{Name: "maintenance", When: when{(*input).maintenance}, Then: sayMaintenance},
		{Name: "free", Rules: freeRules()},
		{Name: "start", Rules: startRules()},
	}
}

// deletingRules release the object that is being deleted:
//   - A host in use stays unless an operator forces its release.
//   - A host that is being released is fenced and cleaned first. If cleaning fails for good,
//     the object stays until an operator has erased the disks, which hold a tenant's data.
//   - Ingot powers the agent off, which would otherwise run on an unregistered server.
//   - Ingot waits while the BMC may be writing firmware (updateBusy): a new host object for
//     the server would change its power during the update.
func deletingRules() ruleTable {
	return ruleTable{
		{Name: "deleting/forced", When: when{(*input).forced}, Then: forget},
		{Name: "deleting/claimed", When: when{(*input).held}, Then: sayDeletingClaimed},
		{Name: "deleting/free", When: when{(*input).free}, Rules: ruleTable{
			{Name: "deleting/unmanaged", When: when{(*input).unmanaged}, Then: forget},
			{Name: "deleting/updating", When: when{(*input).updateBusy}, Rules: ruleTable{
				{Name: "deleting/updating-bmc", When: when{(*input).bmcProblem}, Then: sayBMCProblem},
				{Name: "deleting/updating-wait", Then: waitUpdate},
			}},
			{Name: "deleting/duplicate", When: when{(*input).duplicate}, Then: forget},
			{Name: "deleting/order", When: when{(*input).ordered}, Rules: ruleTable{
				{Name: "deleting/bmc", When: when{(*input).bmcProblem}, Then: sayBMCProblem},
				{Name: "deleting/wrong-server", When: when{(*input).wrongServer}, Then: sayWrongServer},
				{Name: "deleting/power-unknown", When: when{(*input).powerUnknown}, Then: sayPowerUnknown},
				{Name: "deleting/on", When: when{(*input).on}, Rules: append(ruleTable{
					{Name: "deleting/unconfirmed", When: when{(*input).unconfirmed}, Then: sayUnconfirmed},
				}, forcedOff("deleting/off", sayDeletingOff)...)},
				{Name: "deleting/speaking", When: when{(*input).agentActive}, Then: waitAgentActive},
				{Name: "deleting/doubted", When: when{(*input).offDoubted}, Then: waitDoubted},
			}},
			{Name: "deleting/media", When: when{(*input).mediaRecorded, (*input).bmcUsable}, Then: ejectMedia},
			{Name: "deleting/quarantined", When: when{(*input).keepsQuarantine}, Then: sayDeletingQuarantined},
			{Name: "deleting/forget", Then: forget},
		}},
	}
}

// orderRules end an order, wait for its agent, or leave the host to startRules, which boot it.
func orderRules() ruleTable {
	return ruleTable{
		{Name: "order/committed", When: when{(*input).provisioned}, Then: dropCommitted},
		{Name: "order/left", When: when{(*input).free, (*input).maintenance, (*input).notContacted}, Then: sayMaintenance},
		{Name: "order/speaking", When: when{(*input).off, (*input).agentActive}, Then: waitAgentActive},
		{Name: "order/misfit", When: when{(*input).misfit}, Rules: ruleTable{
			{Name: "order/misfit-on", When: when{(*input).on}, Rules: forcedOff("order/misfit-off", sayMisfit)},
			{Name: "order/misfit-doubted", When: when{(*input).offDoubted}, Then: waitDoubted},
			{Name: "order/misfit-live-doubted", When: when{(*input).liveStopUnconfirmed}, Then: waitOffAgain},
			{Name: "order/misfit-drop", Then: dropMisfit},
		}},
		{Name: "order/on", When: when{(*input).on}, Rules: ruleTable{
			{Name: "order/ended", When: when{(*input).ended}, Rules: forcedOff("order/ended-off", sayEnded)},
			{Name: "order/forgotten", When: when{(*input).contactForgotten}, Then: waitAgentAgain},
			{Name: "order/live-silent", When: when{(*input).silent, (*input).liveStarted}, Then: giveUpLive},
			{Name: "order/silent", When: when{(*input).silent}, Then: giveUpAgent},
			{Name: "order/running", Then: waitAgent},
		}},
		{Name: "order/doubted", When: when{(*input).bootDoubted}, Then: waitDoubted},
		{Name: "order/inspected", When: when{(*input).succeeded, (*input).isInspect}, Then: concludeInspection},
		{Name: "order/wiped", When: when{(*input).succeeded, (*input).isWipe}, Then: concludeWipe},
		{Name: "order/failed", When: when{(*input).failed}, Rules: ruleTable{
			{Name: "order/live-off", When: when{(*input).liveStopped}, Rules: ruleTable{
				{Name: "order/live-doubted", When: when{(*input).offUnconfirmed}, Then: waitOffAgain},
				{Name: "order/live-stopped", Then: noteLiveStopped},
			}},
			{Name: "order/network", When: when{(*input).networkFailed}, Then: retrySilent},
			{Name: "order/image", When: when{(*input).imageFailed}, Rules: ruleTable{
				{Name: "order/image-wait", When: when{(*input).imageRetryTooSoon}, Then: waitImage},
				{Name: "order/image-retry", Then: retryImage},
			}},
			{Name: "order/retry", When: when{(*input).attemptsLeft}, Then: retryOrder},
			{Name: "order/quarantine", Then: quarantineFailed},
		}},
	}
}

// provisionedRules only do what an operator, or the remediation of the Machine, requests (I2).
func provisionedRules() ruleTable {
	return ruleTable{
		{Name: "provisioned/off", When: when{(*input).wantedOff, (*input).on},
			Rules: softOff("provisioned/off", sayWantedOff)},
		{Name: "provisioned/cycle", When: when{(*input).cycling, (*input).untouched}, Rules: cycleRules()},
		{Name: "provisioned/on", When: when{(*input).wantedOn, (*input).off, (*input).untouched}, Rules: ruleTable{
			{Name: "provisioned/on-interval", When: when{(*input).tooSoon}, Then: waitInterval},
			{Name: "provisioned/power-on", Then: powerOn},
		}},
		{Name: "provisioned/reboot", When: when{(*input).rebootAsked}, Rules: ruleTable{
			{Name: "provisioned/reboot-interval", When: when{(*input).tooSoon}, Then: waitInterval},
			{Name: "provisioned/restart", Then: restart},
		}},
		{Name: "provisioned/success", When: when{(*input).failuresCounted}, Then: forgetFailures},
		{Name: "provisioned/firmware", When: when{(*input).hasFirmwareToRead}, Rules: provisionedPrepareRules()},
		{Name: "provisioned/idle", Then: sayProvisioned},
	}
}

// releasingRules power the host off (I7), then clean it. The last write turns the claim into
// a record.
func releasingRules() ruleTable {
	return ruleTable{
		{Name: "releasing/fence", When: when{(*input).notFenced}, Rules: ruleTable{
			{Name: "releasing/on", When: when{(*input).on}, Rules: softOff("releasing/off", sayFencing)},
			{Name: "releasing/doubted", When: when{(*input).offDoubted}, Then: waitDoubted},
			{Name: "releasing/unproven", When: when{(*input).offUnproven}, Then: explain(sayFencing).proveOff},
			{Name: "releasing/fenced", Then: fence},
		}},
		{Name: "releasing/fenced-on", When: when{(*input).on}, Rules: forcedOff("releasing/fenced-off", sayFencedOn)},
		{Name: "releasing/nothing-to-clean", When: when{(*input).nothingToClean}, Then: releaseUncleaned},
	}
}

// freeRules leave quarantined hosts alone, and servers that came on without Ingot (I8). A
// claimed host that reaches them is off and not quarantined.
func freeRules() ruleTable {
	return ruleTable{
		{Name: "free/not-fenced", When: when{(*input).quarantinedNotFenced}, Rules: ruleTable{
			{Name: "free/not-fenced-on", When: when{(*input).on}, Rules: softOff("free/not-fenced-off", sayNotFenced)},
			{Name: "free/not-fenced-doubted", When: when{(*input).offDoubted}, Then: waitDoubted},
			{Name: "free/not-fenced-unproven", When: when{(*input).offUnproven}, Then: explain(sayForced).proveOff},
			{Name: "free/now-fenced", Then: liftNotFenced},
		}},
		{Name: "free/quarantine", When: when{(*input).quarantined}, Rules: ruleTable{
			{Name: "free/cleared", When: when{(*input).cleared}, Then: clearQuarantine},
			{Name: "free/quarantined", Then: sayQuarantined},
		}},
		{Name: "free/approval-spent", When: when{(*input).approvalSpent}, Then: spendApproval},
		{Name: "free/on", When: when{(*input).on}, Rules: ruleTable{
			{Name: "free/off-wanted", When: when{(*input).wantedOff}, Rules: softOff("free/off-wanted", sayWantedOff)},
			{Name: "free/expected", When: when{(*input).expectedOn, (*input).idleHost}, Rules: startRules()},
			{Name: "free/expected-off", When: when{(*input).expectedOn}, Rules: softOff("free/expected-off", sayWorkDue)},
			{Name: "free/approved", When: when{(*input).takeoverApproved}, Rules: softOff("free/approved-off", sayApproved)},
			{Name: "free/unexpectedly-on", Then: sayUnexpectedlyOn},
		}},
	}
}

// startRules check the preconditions of a boot, write the order and boot the agent. A host
// that reaches them is off and has work to do, or is free and idle.
func startRules() ruleTable {
	return ruleTable{
		{Name: "start/powered-off", When: when{(*input).wantedOff}, Then: sayPoweredOff},
		{Name: "start/machine-unknown", When: when{(*input).held, (*input).machineUnknown}, Then: waitMachine},
		{Name: "start/mac", When: when{(*input).macMissing}, Then: sayMACMissing},
		{Name: "start/network", When: when{(*input).networkMissing}, Then: sayNetworkMissing},
		{Name: "start/address-problem", When: when{(*input).addressProblem}, Then: sayAddressProblem},
		{Name: "start/address", When: when{(*input).addressMissing}, Then: recordAddress},
		{Name: "start/firmware", When: when{(*input).staying, (*input).hasFirmwareToRead}, Rules: prepareRules()},
		{Name: "start/idle", When: when{(*input).idleHost}, Rules: ruleTable{
			{Name: "start/wanted-on", When: when{(*input).wantedOn, (*input).off}, Rules: ruleTable{
				{Name: "start/wanted-on-interval", When: when{(*input).tooSoon}, Then: waitInterval},
				{Name: "start/power-on", Then: powerOn},
			}},
			{Name: "start/given-up", When: when{(*input).givenUp}, Then: sayGivenUp},
			{Name: "start/available", Then: sayAvailable},
		}},
		{Name: "start/boot-trust", When: when{(*input).provisioning, (*input).verifiedDemanded, (*input).bootNotVerified}, Then: sayBootNotVerified},
		{Name: "start/boot-server", When: when{(*input).namedByBMC, (*input).bootServerUnknown}, Then: sayBootServerUnknown},
		{Name: "start/interval", When: when{(*input).tooSoon}, Then: waitInterval},
		{Name: "start/order", When: when{(*input).unordered}, Then: createOrder},
		{Name: "start/media", When: when{(*input).byMedia, (*input).mediaNotRecorded}, Then: recordMedia},
		{Name: "start/boot", Then: bootAgent},
	}
}

// forcedOff cuts the power of a host whose system needs no shutdown.
func forcedOff(name string, why explain) ruleTable {
	return ruleTable{
		{Name: name + "-interval", When: when{(*input).tooSoon}, Then: waitInterval},
		{Name: name, Then: why.cut},
	}
}

// softOff shuts the system down, then cuts the power after Policy.SoftPowerOff (I7). If the
// BMC refuses the shutdown, softOff repeats the request for the same time.
func softOff(name string, why explain) ruleTable {
	return ruleTable{
		{Name: name + "-pending", When: when{(*input).softPending}, Then: why.waitForShutdown},
		{Name: name + "-interval", When: when{(*input).tooSoon}, Then: waitToAsk},
		{Name: name + "-cut", When: when{(*input).softOver}, Then: why.cutAfterShutdown},
		{Name: name + "-ask", Then: why.shutDown},
	}
}
