// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// HasPendingWork reports whether Ingot would act on the host's server or BMC without a new request:
// continue an order, a power cycle or a firmware update; install, release, inspect, clean or
// prepare the host; power it off after a forced release; or change the BMC's password. It
// cannot detect drift of settings, which only a reading of the BMC shows.
func HasPendingWork(host *infrav1.IngotHost) bool {
	claim, record := host.Spec.Claim, host.Spec.Record
	_, rotating := inventory.PendingCommand(host, infrav1.RotateCredentialsAnnotation)
	switch {
	case host.Spec.Order != nil, UpdateOf(host) != nil, rotating:
		return true
	case claim != nil:
		return claim.State != infrav1.ClaimProvisioned || IsPowerCycling(claim) || settingsDueInUse(host)
	case record == nil:
		return true
	case record.Quarantine != nil:
		return record.Quarantine.Reason == infrav1.QuarantineNotFenced
	}
	return record.InspectedTime.IsZero() || record.CleaningDue != "" && record.CleaningDue != infrav1.CleaningNone || preparationDue(host)
}

// settingsDueInUse reports whether settings must be written for the next reboot of a host in use.
func settingsDueInUse(host *infrav1.IngotHost) bool {
	return host.Spec.BIOS != nil && host.Spec.BIOS.Apply == infrav1.BIOSAtNextReboot && preparationDue(host)
}
