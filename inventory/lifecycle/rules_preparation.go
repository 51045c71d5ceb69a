// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

// This file is how a host is prepared: BIOS settings and firmware. It branches by
// rules only, like rules_host.go.

// RuleLookBeforeUpdate is the rule that reads a host's firmware only to begin an update:
// whoever has reason to put the update off need not read it.
const RuleLookBeforeUpdate = "prepare/look"

// updatingLadder comes before everything else that could switch a host: while the BMC
// may be writing firmware nobody does.
func updatingLadder() ladder {
	return ladder{
		{Name: "updating/read", When: when{(*input).updateUntold, (*input).readingStale}, Then: lookInside},
		{Name: "updating/wait", Then: waitUpdate},
	}
}

// prepareLadder sees to what the next boot finds, whatever it is for, and to a free
// host's firmware before the host is Available.
func prepareLadder() ladder {
	return ladder{
		{Name: "prepare/read", When: when{(*input).readingStale}, Then: lookInside},
		{Name: "prepare/write", When: when{
			(*input).off, (*input).settingsMissing, (*input).notRefused, (*input).untried, (*input).notGivenUp, (*input).bootToCome,
		}, Then: writeSettings},
		{Name: "prepare/resting", When: when{(*input).resting}, Rules: ladder{
			{Name: "prepare/put-off", When: when{(*input).firmwareRests}, Then: waitFirmware},
			{Name: "prepare/update", When: when{(*input).updating}, Rules: updateLadder()},
			{Name: "prepare/in-force", When: when{(*input).allInForce, (*input).unsettled}, Then: settle},
			{Name: "prepare/open", When: when{(*input).notGivenUp, (*input).notAllInForce}, Rules: ladder{
				{Name: "prepare/refused-once", When: when{(*input).refusedOnce}, Then: waitRefused},
				{Name: "prepare/lost", When: when{(*input).on}, Then: unsettle},
				{Name: "prepare/refused", When: when{(*input).refused}, Then: giveUpRefused},
				{Name: "prepare/spent", When: when{(*input).attemptsSpent}, Then: giveUp},
				{Name: "prepare/interval", When: when{(*input).tooSoon}, Then: waitInterval},
				{Name: "prepare/firmware", When: when{(*input).firmwareMissing}, Rules: ladder{
					{Name: RuleLookBeforeUpdate, When: when{(*input).readingOld}, Then: lookInside},
					{Name: "prepare/no-way", When: when{(*input).noWay}, Then: giveUpNoWay},
					{Name: "prepare/update-start", Then: startUpdate},
				}},
				{Name: "prepare/boot", Then: orderForSettings},
			}},
		}},
	}
}

// updateLadder ends an update that is not at work any more: the version is the proof.
func updateLadder() ladder {
	return ladder{
		{Name: "update/in-force", When: when{(*input).updateInForce}, Then: concludeUpdate},
		{Name: "update/failed", When: when{(*input).updateFailed}, Then: failUpdate},
		{Name: "update/unbooted", When: when{(*input).notBootedSince}, Rules: ladder{
			{Name: "update/interval", When: when{(*input).tooSoon}, Then: waitInterval},
			{Name: "update/boot", Then: orderForUpdate},
		}},
		{Name: "update/reset-bmc", When: when{(*input).bmcNotReset}, Then: resetBMC},
		{Name: "update/bmc-restarting", When: when{(*input).bmcRestarting}, Then: waitBMC},
		{Name: "update/look", When: when{(*input).readingOld}, Then: lookInside},
		{Name: "update/lost", Then: failUpdate},
	}
}

// provisionedPrepareLadder looks at a host in use, and writes what waits for its next
// reboot only where a person has asked for that (I2).
func provisionedPrepareLadder() ladder {
	return ladder{
		{Name: "provisioned/stale", When: when{(*input).readingStale}, Rules: ladder{
			{Name: "provisioned/read", When: when{(*input).booted}, Then: lookInside},
			{Name: "provisioned/unread", Then: waitBooted},
		}},
		{Name: "provisioned/in-force", When: when{(*input).allInForce, (*input).unsettled}, Then: settle},
		{Name: "provisioned/write", When: when{
			(*input).atNextReboot, (*input).settingsMissing, (*input).notRefused, (*input).untried, (*input).attemptsToSpend,
		}, Then: writeToProvisioned},
	}
}
