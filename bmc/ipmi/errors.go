// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// callError is the error of a failed call: a sentinel for callers, and the caller's own
// context error.
type callError struct {
	text     string
	sentinel error
	context  error
	// cause is the completion code, if there was one; text includes its text.
	cause error
}

func (e *callError) Error() string { return e.text }

func (e *callError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.sentinel, e.context, e.cause}, func(err error) bool { return err == nil })
}

// statusError is a refusal during session setup (§13.24 table 13-15).
type statusError struct {
	status byte
	suite  int
	// opening means that the BMC refused Open Session, which has no user name.
	opening bool
}

func (e *statusError) Error() string {
	return fmt.Sprintf("cipher suite %d: RMCP+ status %02Xh (%s)", e.suite, e.status, e.name())
}

func (e *statusError) name() string {
	switch e.status {
	case 0x01, 0x0b:
		return "session table full"
	case 0x04, 0x05, 0x06, 0x07, 0x10, 0x11:
		return "unsupported cipher suite"
	case 0x09, 0x0a:
		return "role or privilege not authorized"
	case 0x0d:
		return "no such user"
	case 0x0f:
		return "wrong password"
	}
	return "refused"
}

func (e *statusError) isTableFull() bool { return e.status == 0x01 || e.status == 0x0b }

// mayNeedOtherSuite reports whether another cipher suite may work: the BMC does not support
// this one, or refused Open Session for a reason other than a full table. BMCs answer
// "invalid role" (09h), "not authorized" (0Ah) or "invalid payload" (03h) to Open Session with
// an unsupported suite. ipmi_sim answers 12h.
func (e *statusError) mayNeedOtherSuite() bool {
	return e.opening && !e.isTableFull() || slices.Contains([]byte{0x04, 0x05, 0x06, 0x07, 0x10, 0x11, 0x12}, e.status)
}

func (e *statusError) sentinel() error {
	switch {
	case e.isTableFull():
		return &bmc.BusyError{}
	case e.mayNeedOtherSuite():
		return bmc.ErrNotSupported
	}
	switch e.status {
	case 0x09, 0x0a, 0x0c, 0x0d, 0x0e, 0x0f:
		return bmc.ErrUnauthorized
	}
	return bmc.ErrProtocol
}

// codeError is a completion code other than 00h (§5.2 table 5-2).
type codeError struct{ code byte }

func (e *codeError) Error() string { return fmt.Sprintf("completion code %02Xh", e.code) }

// sentinel classifies a code. After some codes a write may have happened.
func (e *codeError) sentinel(write bool) error {
	switch e.code {
	case 0xc0, 0xc4, 0xce, 0xd0, 0xd1, 0xd2:
		// Busy, out of space, no answer possible, updating records or firmware, starting.
		return &bmc.BusyError{}
	case 0xd5:
		// Not in this state, such as On right after off.
		return &bmc.BusyError{RetryAfter: 10 * time.Second}
	case 0xc1, 0xc2, 0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0xcc, 0xcd, 0xd6, 0x80:
		// No such command, parameter, length or record; 80h is a boot option code (§28.12).
		return bmc.ErrNotSupported
	case 0xd4:
		return bmc.ErrUnauthorized
	case 0xc3, 0xff:
		// Timeout, or unspecified.
		if write {
			return bmc.ErrUnknownOutcome
		}
	}
	return bmc.ErrProtocol
}

func (e *codeError) as(what string, write bool) error {
	sentinel := e.sentinel(write)
	return &callError{text: fmt.Sprintf("%s: %v: BMC answered with %v", what, sentinel, e), sentinel: sentinel, cause: e}
}

// isCode reports whether err is one of the completion codes.
func isCode(err error, codes ...byte) bool {
	e, ok := errors.AsType[*codeError](err)
	return ok && slices.Contains(codes, e.code)
}

// isAnyCode reports whether the BMC answered with a completion code other than 00h.
func isAnyCode(err error) bool {
	_, ok := errors.AsType[*codeError](err)
	return ok
}

// noAnswerHint lists the causes of a missing answer.
const noAnswerHint = "no answer: no BMC at this address, a firewall, IPMI over LAN disabled, or a hanging BMC (UDP does not show which)"

// errSilentUser reports a BMC that answered until it received the user name.
var errSilentUser = fmt.Errorf("%w to the user name: some BMCs, such as VirtualBMC, ignore unknown users", errNoAnswer)

// setupError returns the error of opening or closing a session.
func setupError(what string, w *wire, err error) error {
	out := &callError{}
	var status *statusError
	var code *codeError
	why := err.Error()
	switch {
	case errors.As(err, &status):
		out.sentinel = status.sentinel()
	case errors.As(err, &code):
		out.sentinel = code.sentinel(false)
	case errors.Is(err, context.Canceled):
		out.context, why = context.Canceled, "canceled by the caller"
	case errors.Is(err, errUnsent), errors.Is(err, bmc.ErrProtocol), errors.Is(err, bmc.ErrNotSupported), errors.Is(err, bmc.ErrUnauthorized):
		return fmt.Errorf("%s: %w", what, err)
	case errors.Is(err, errStray), w != nil && !w.heard && w.stray > 0:
		out.sentinel, why = bmc.ErrProtocol, "the answers are not IPMI"
	case errors.Is(err, errSilentUser):
		out.sentinel = bmc.ErrTimeout
	case w != nil && w.heard:
		out.sentinel, why = bmc.ErrTimeout, "the BMC stopped answering"
	case errors.Is(err, errNoAnswer), errors.Is(err, context.DeadlineExceeded):
		out.sentinel, why = bmc.ErrUnreachable, noAnswerHint
	default:
		out.sentinel = bmc.ErrUnreachable
	}
	if errors.Is(err, context.DeadlineExceeded) {
		out.context = context.DeadlineExceeded
	}
	out.setText(what, why)
	return out
}

func (e *callError) setText(what, why string) {
	e.text = what + ": "
	if e.sentinel != nil {
		e.text += e.sentinel.Error() + ": "
	}
	e.text += why
}

// unanswered returns the error of a call without an answer.
func unanswered(what string, write bool, err error) error {
	out := &callError{sentinel: bmc.ErrTimeout}
	why := "no answer: the BMC hangs, restarts or dropped the session, or the network fails (UDP does not show which)"
	switch {
	case errors.Is(err, context.Canceled):
		out.sentinel, out.context, why = nil, context.Canceled, "canceled by the caller"
	case errors.Is(err, context.DeadlineExceeded):
		out.context = context.DeadlineExceeded
	case errors.Is(err, errRefused):
		out.sentinel, why = bmc.ErrUnreachable, errRefused.Error()
	case errors.Is(err, errStray):
		out.sentinel, why = bmc.ErrProtocol, errStray.Error()
	case !errors.Is(err, errNoAnswer):
		out.sentinel, why = bmc.ErrUnreachable, err.Error()
	}
	if write {
		out.sentinel = bmc.ErrUnknownOutcome
	}
	out.setText(what, why)
	return out
}
