// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

// This file is how a host is prepared: BIOS settings and firmware. It branches by
// rules only, like ladder.go.

// RuleLookBeforeUpdate is the rule that reads a host's firmware only to begin an update:
// whoever has reason to put the update off need not read it.
const RuleLookBeforeUpdate = "prepare/look"

// updatingLadder comes before everything else that could switch a host: while the BMC
// may be writing firmware nobody does.
func updatingLadder() ladder {
	return ladder{
		{name: "updating/read", when: when{(*input).updateUntold, (*input).readingStale}, then: lookInside},
		{name: "updating/wait", then: waitUpdate},
	}
}

// prepareLadder sees to what the next boot finds, whatever it is for, and to a free
// host's firmware before the host is Available.
func prepareLadder() ladder {
	return ladder{
		{name: "prepare/read", when: when{(*input).readingStale}, then: lookInside},
		{name: "prepare/write", when: when{
			(*input).off, (*input).settingsMissing, (*input).notRefused, (*input).untried, (*input).notGivenUp, (*input).bootToCome,
		}, then: writeSettings},
		{name: "prepare/resting", when: when{(*input).resting}, rules: ladder{
			{name: "prepare/put-off", when: when{(*input).firmwareRests}, then: waitFirmware},
			{name: "prepare/update", when: when{(*input).updating}, rules: updateLadder()},
			{name: "prepare/in-force", when: when{(*input).allInForce, (*input).unsettled}, then: settle},
			{name: "prepare/open", when: when{(*input).notGivenUp, (*input).notAllInForce}, rules: ladder{
				{name: "prepare/refused-once", when: when{(*input).refusedOnce}, then: waitRefused},
				{name: "prepare/lost", when: when{(*input).on}, then: unsettle},
				{name: "prepare/refused", when: when{(*input).refused}, then: giveUpRefused},
				{name: "prepare/spent", when: when{(*input).attemptsSpent}, then: giveUp},
				{name: "prepare/interval", when: when{(*input).tooSoon}, then: waitInterval},
				{name: "prepare/firmware", when: when{(*input).firmwareMissing}, rules: ladder{
					{name: RuleLookBeforeUpdate, when: when{(*input).readingOld}, then: lookInside},
					{name: "prepare/no-way", when: when{(*input).noWay}, then: giveUpNoWay},
					{name: "prepare/update-start", then: startUpdate},
				}},
				{name: "prepare/boot", then: orderForSettings},
			}},
		}},
	}
}

// updateLadder ends an update that is not at work any more: the version is the proof.
func updateLadder() ladder {
	return ladder{
		{name: "update/in-force", when: when{(*input).updateInForce}, then: concludeUpdate},
		{name: "update/failed", when: when{(*input).updateFailed}, then: failUpdate},
		{name: "update/unbooted", when: when{(*input).notBootedSince}, rules: ladder{
			{name: "update/interval", when: when{(*input).tooSoon}, then: waitInterval},
			{name: "update/boot", then: orderForUpdate},
		}},
		{name: "update/reset-bmc", when: when{(*input).bmcNotReset}, then: resetBMC},
		{name: "update/bmc-restarting", when: when{(*input).bmcRestarting}, then: waitBMC},
		{name: "update/look", when: when{(*input).readingOld}, then: lookInside},
		{name: "update/lost", then: failUpdate},
	}
}

// provisionedPrepareLadder looks at a host in use, and writes what waits for its next
// reboot only where a person has asked for that (I2).
func provisionedPrepareLadder() ladder {
	return ladder{
		{name: "provisioned/stale", when: when{(*input).readingStale}, rules: ladder{
			{name: "provisioned/read", when: when{(*input).booted}, then: lookInside},
			{name: "provisioned/unread", then: waitBooted},
		}},
		{name: "provisioned/in-force", when: when{(*input).allInForce, (*input).unsettled}, then: settle},
		{name: "provisioned/write", when: when{
			(*input).atNextReboot, (*input).settingsMissing, (*input).notRefused, (*input).untried, (*input).attemptsToSpend,
		}, then: writeToProvisioned},
	}
}
