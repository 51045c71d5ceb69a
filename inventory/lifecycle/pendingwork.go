// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"github.com/ingot-metal/ingot/inventory"
)

import infrav1 "github.com/ingot-metal/ingot/api/v1beta2"

// WorkIsDue says whether Ingot would begin something at the host's server, or its BMC,
// that no person asks for anew: go on with an order, a power cycle or an update of firmware,
// install, release, inspect, clean or prepare it, switch off what was released by force, or
// change its BMC's password. That what is in force drifts only a reading of the BMC shows.
func WorkIsDue(host *infrav1.IngotHost) bool {
	claim, record := host.Spec.Claim, host.Spec.Record
	_, rotating := inventory.PendingCommand(host, infrav1.RotateCredentialsAnnotation)
	switch {
	case host.Spec.Order != nil, UpdateOf(host) != nil, rotating:
		return true
	case claim != nil:
		return claim.State != infrav1.ClaimProvisioned || CycleUnderWay(claim) || settingsDueInUse(host)
	case record == nil:
		return true
	case record.Quarantine != nil:
		return record.Quarantine.Reason == infrav1.QuarantineNotFenced
	}
	return record.InspectedAt.IsZero() || record.CleaningDue != "" && record.CleaningDue != infrav1.CleaningNone || preparationDue(host)
}

// settingsDueInUse: settings wait to be written to a host in use, for its next reboot.
func settingsDueInUse(host *infrav1.IngotHost) bool {
	return host.Spec.BIOS != nil && host.Spec.BIOS.Apply == infrav1.BIOSAtNextReboot && preparationDue(host)
}
