// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"errors"
	"time"
)

// CallName names a call for metrics; the set is closed.
type CallName string

const (
	CallDial              CallName = "Dial"
	CallClose             CallName = "Close"
	CallPowerState        CallName = "PowerState"
	CallPollState         CallName = "Vitals"
	CallSetPower          CallName = "SetPower"
	CallBootOverride      CallName = "BootOverride"
	CallSetBootOverride   CallName = "SetBootOverride"
	CallIdentity          CallName = "Identity"
	CallInventory         CallName = "Inventory"
	CallMediaSlots        CallName = "MediaSlots"
	CallInsertMedia       CallName = "InsertMedia"
	CallEjectMedia        CallName = "EjectMedia"
	CallSettings          CallName = "Settings"
	CallSettingSchemas    CallName = "SettingSchemas"
	CallPendingSettings   CallName = "PendingSettings"
	CallSetSettings       CallName = "SetSettings"
	CallResetSettings     CallName = "ResetSettings"
	CallFirmwareInventory CallName = "FirmwareInventory"
	CallUpdateMethods     CallName = "UpdateWays"
	CallUpdateFirmware    CallName = "UpdateFirmware"
	CallTask              CallName = "Task"
	CallHealth            CallName = "Health"
	CallEventLog          CallName = "EventLog"
	CallClearEventLog     CallName = "ClearEventLog"
	CallOpenConsole       CallName = "OpenConsole"
	CallSetPassword       CallName = "SetPassword"
	CallSecureBoot        CallName = "SecureBoot"
	CallSetSecureBoot     CallName = "SetSecureBoot"
	CallResetBMC          CallName = "ResetBMC"
	CallIndicator         CallName = "Indicator"
	CallSetIndicator      CallName = "SetIndicator"
	CallOpenEvents        CallName = "OpenEvents"
	CallSweep             CallName = "Sweep"
)

// Outcome classifies the result of a call for metrics; the set is closed.
type Outcome string

const (
	OutcomeOK             Outcome = "OK"
	OutcomeNotSupported   Outcome = "NotSupported"
	OutcomeUnauthorized   Outcome = "Unauthorized"
	OutcomeCertificate    Outcome = "Certificate"
	OutcomeUnreachable    Outcome = "Unreachable"
	OutcomeTimeout        Outcome = "Timeout"
	OutcomeUnknownOutcome Outcome = "UnknownOutcome"
	OutcomeBusy           Outcome = "Busy"
	OutcomeRateLimited    Outcome = "RateLimited"
	OutcomeUnfinished     Outcome = "Unfinished"
	OutcomeNotApplied     Outcome = "NotApplied"
	OutcomeProtocol       Outcome = "Protocol"
	OutcomeAddress        Outcome = "Address"
	// OutcomeCanceled: the caller gave up.
	OutcomeCanceled Outcome = "Canceled"
	// OutcomeOther: an error that wraps no sentinel.
	OutcomeOther Outcome = "Other"
)

// Call is one finished call to a BMC.
type Call struct {
	// Address is Target.Address. It has too many values for a metric label.
	Address  string
	Name     CallName
	Duration time.Duration
	Outcome  Outcome
}

// Observer receives every call, on the goroutine that made the call. It must not block.
type Observer func(Call)

// OutcomeOf classifies an error by its sentinel.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return OutcomeOK
	}
	for _, c := range []struct {
		sentinel error
		outcome  Outcome
	}{
		// ErrUnknownOutcome comes first: such a write also wraps the error that ended it.
		{ErrUnknownOutcome, OutcomeUnknownOutcome},
		{ErrNotSupported, OutcomeNotSupported},
		{ErrUnauthorized, OutcomeUnauthorized},
		{ErrPasswordChange, OutcomeUnauthorized},
		{ErrCertificate, OutcomeCertificate},
		{ErrUnreachable, OutcomeUnreachable},
		{ErrTimeout, OutcomeTimeout},
		{ErrUnfinished, OutcomeUnfinished},
		{ErrRateLimited, OutcomeRateLimited},
		{ErrBusy, OutcomeBusy},
		{ErrNotApplied, OutcomeNotApplied},
		{ErrProtocol, OutcomeProtocol},
		{ErrAddress, OutcomeAddress},
		{context.Canceled, OutcomeCanceled},
		{context.DeadlineExceeded, OutcomeTimeout},
	} {
		if errors.Is(err, c.sentinel) {
			return c.outcome
		}
	}
	return OutcomeOther
}

// BusyError is an ErrBusy with the pause that the BMC requests.
type BusyError struct {
	// RetryAfter is 0 if the BMC requests no pause.
	RetryAfter time.Duration
	// RateLimited means that the BMC rejected the call only because of the request rate.
	RateLimited bool
}

func (e *BusyError) Error() string {
	text := ErrBusy.Error()
	if e.RateLimited {
		text = ErrRateLimited.Error()
	}
	if e.RetryAfter > 0 {
		text += ": retry after " + e.RetryAfter.String()
	}
	return text
}

// Is reports whether target is ErrBusy, or ErrRateLimited for a rate-limited call.
func (e *BusyError) Is(target error) bool {
	return target == ErrBusy || e.RateLimited && target == ErrRateLimited
}
