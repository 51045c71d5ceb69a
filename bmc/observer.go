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

// The calls.
const (
	CallDial              CallName = "Dial"
	CallClose             CallName = "Close"
	CallPowerState        CallName = "PowerState"
	CallVitals            CallName = "Vitals"
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
	CallUpdateWays        CallName = "UpdateWays"
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

// Outcome is the class of what came of a call, for metrics; the set is closed.
type Outcome string

// The outcomes, one per sentinel.
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
	// OutcomeOther: an error that wraps none of the sentinels.
	OutcomeOther Outcome = "Other"
)

// Call is one call to a BMC, after its end.
type Call struct {
	// Address is Target.Address: too many values for a metric's label.
	Address  string
	Name     CallName
	Duration time.Duration
	Outcome  Outcome
}

// Observer is told of every call, from the goroutine that made it: it must not
// block.
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
		// A write without an answer is that first, whatever ended the wait.
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

// BusyError is an ErrBusy that says how long the BMC asks to be left alone.
type BusyError struct {
	// RetryAfter is 0 when the BMC did not say.
	RetryAfter time.Duration
	// RateLimited: it was asked too often, and has nothing else against the call.
	RateLimited bool
}

// Error implements error.
func (e *BusyError) Error() string {
	text := ErrBusy.Error()
	if e.RateLimited {
		text = ErrRateLimited.Error()
	}
	if e.RetryAfter > 0 {
		text += ": asks to wait " + e.RetryAfter.String()
	}
	return text
}

// Is makes errors.Is(err, ErrBusy) true, and that of ErrRateLimited where it is so.
func (e *BusyError) Is(target error) bool {
	return target == ErrBusy || e.RateLimited && target == ErrRateLimited
}
