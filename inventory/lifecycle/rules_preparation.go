// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

// This file has the rules for BIOS settings and firmware. It branches by rules only, like
// rules_host.go.

// RuleReadBeforeUpdate names the rule that reads the firmware only to start an update. A
// caller that defers the update can skip the reading.
const RuleReadBeforeUpdate = "prepare/look"

// updatingRules precede every rule that changes the power, because the BMC may be writing
// firmware.
func updatingRules() ruleTable {
	return ruleTable{
		{Name: "updating/read", When: when{(*input).updateUntold, (*input).readingStale}, Then: readFirmware},
		{Name: "updating/wait", Then: waitUpdate},
	}
}

// prepareRules write the settings for the next boot, and update the firmware of a free host
// before it becomes Available.
func prepareRules() ruleTable {
	return ruleTable{
		{Name: "prepare/read", When: when{(*input).readingStale}, Then: readFirmware},
		{Name: "prepare/write", When: when{
			(*input).off, (*input).settingsMissing, (*input).notRefused, (*input).untried, (*input).notGivenUp, (*input).bootToCome,
		}, Then: writeSettings},
		{Name: "prepare/resting", When: when{(*input).idleExceptPreparation}, Rules: ruleTable{
			{Name: "prepare/put-off", When: when{(*input).firmwareDeferred}, Then: waitFirmware},
			{Name: "prepare/update", When: when{(*input).updating}, Rules: updateRules()},
			{Name: "prepare/in-force", When: when{(*input).allInForce, (*input).unsettled}, Then: recordPrepared},
			{Name: "prepare/open", When: when{(*input).notGivenUp, (*input).notAllInForce}, Rules: ruleTable{
				{Name: "prepare/refused-once", When: when{(*input).refusedOnce}, Then: waitRefused},
				{Name: "prepare/lost", When: when{(*input).on}, Then: recordDrift},
				{Name: "prepare/refused", When: when{(*input).refused}, Then: giveUpRefused},
				{Name: "prepare/spent", When: when{(*input).attemptsSpent}, Then: giveUp},
				{Name: "prepare/interval", When: when{(*input).tooSoon}, Then: waitInterval},
				{Name: "prepare/firmware", When: when{(*input).firmwareMissing}, Rules: ruleTable{
					{Name: RuleReadBeforeUpdate, When: when{(*input).readingOld}, Then: readFirmware},
					{Name: "prepare/no-way", When: when{(*input).noWay}, Then: giveUpNoWay},
					{Name: "prepare/update-start", Then: startUpdate},
				}},
				{Name: "prepare/boot", Then: orderForSettings},
			}},
		}},
	}
}

// updateRules end an update that no longer runs. The reported version decides its success.
func updateRules() ruleTable {
	return ruleTable{
		{Name: "update/in-force", When: when{(*input).updateInForce}, Then: concludeUpdate},
		{Name: "update/failed", When: when{(*input).updateFailed}, Then: failUpdate},
		{Name: "update/unbooted", When: when{(*input).notBootedSince}, Rules: ruleTable{
			{Name: "update/interval", When: when{(*input).tooSoon}, Then: waitInterval},
			{Name: "update/boot", Then: orderForUpdate},
		}},
		{Name: "update/reset-bmc", When: when{(*input).bmcNotReset}, Then: resetBMC},
		{Name: "update/bmc-restarting", When: when{(*input).bmcRestarting}, Then: waitBMC},
		{Name: "update/look", When: when{(*input).readingOld}, Then: readFirmware},
		{Name: "update/lost", Then: failUpdate},
	}
}

// provisionedPrepareRules read the settings of a host in use. They write them for the next
// reboot only if spec.bios.apply requests that (I2).
func provisionedPrepareRules() ruleTable {
	return ruleTable{
		{Name: "provisioned/stale", When: when{(*input).readingStale}, Rules: ruleTable{
			{Name: "provisioned/read", When: when{(*input).booted}, Then: readFirmware},
			{Name: "provisioned/unread", Then: waitBooted},
		}},
		{Name: "provisioned/in-force", When: when{(*input).allInForce, (*input).unsettled}, Then: recordPrepared},
		{Name: "provisioned/write", When: when{
			(*input).atNextReboot, (*input).settingsMissing, (*input).notRefused, (*input).untried, (*input).attemptsToSpend,
		}, Then: writeToProvisioned},
	}
}
