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

// callError is what a failed call returns: the sentinel by which callers decide,
// and the caller's own context error.
type callError struct {
	text     string
	sentinel error
	context  error
	// cause is the completion code, if there was one; its text is in text.
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
	// opening: the BMC refused Open Session, which carries no user name.
	opening bool
}

func (e *statusError) Error() string {
	return fmt.Sprintf("cipher suite %d: RMCP+ status %02Xh (%s)", e.suite, e.status, e.name())
}

func (e *statusError) name() string {
	switch e.status {
	case 0x01, 0x0b:
		return "no room for a session"
	case 0x04, 0x05, 0x06, 0x07, 0x10, 0x11:
		return "no such cipher suite"
	case 0x09, 0x0a:
		return "role or privilege not authorized"
	case 0x0d:
		return "no such user"
	case 0x0f:
		return "the password is wrong"
	}
	return "refused"
}

// noRoom reports a BMC whose session table is full.
func (e *statusError) noRoom() bool { return e.status == 0x01 || e.status == 0x0b }

// wantsOtherSuite reports that another cipher suite may be accepted: the BMC does not know
// this one, or refused Open Session for whatever reason but a full table. BMCs answer
// "invalid role" (09h), "not authorized" (0Ah) or "invalid payload" (03h) there to a suite
// that they do not know. 12h is what ipmi_sim answers.
func (e *statusError) wantsOtherSuite() bool {
	if e.opening && !e.noRoom() {
		return true
	}
	return slices.Contains([]byte{0x04, 0x05, 0x06, 0x07, 0x10, 0x11, 0x12}, e.status)
}

func (e *statusError) sentinel() error {
	switch {
	case e.noRoom():
		return &bmc.BusyError{}
	case e.wantsOtherSuite():
		return bmc.ErrNotSupported
	}
	switch e.status {
	case 0x09, 0x0a, 0x0c, 0x0d, 0x0e, 0x0f:
		return bmc.ErrUnauthorized
	}
	return bmc.ErrProtocol
}

// codeError is a completion code that is not 00h (§5.2 table 5-2).
type codeError struct{ code byte }

func (e *codeError) Error() string { return fmt.Sprintf("completion code %02Xh", e.code) }

// sentinel classifies a code; of a write, some codes leave open whether it
// happened.
func (e *codeError) sentinel(write bool) error {
	switch e.code {
	case 0xc0, 0xc4, 0xce, 0xd0, 0xd1, 0xd2:
		// Busy, out of space, no answer possible, updating its records or its
		// firmware, still starting.
		return &bmc.BusyError{}
	case 0xd5:
		// Not in this state: On right after off, and the like.
		return &bmc.BusyError{RetryAfter: 10 * time.Second}
	case 0xc1, 0xc2, 0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0xcc, 0xcd, 0xd6, 0x80:
		// No such command, parameter, length or record; 80h is that of the boot
		// options (§28.12).
		return bmc.ErrNotSupported
	case 0xd4:
		return bmc.ErrUnauthorized
	case 0xc3, 0xff:
		// It ran out of time, or cannot say why.
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

// isCode reports that err is a completion code of a list.
func isCode(err error, codes ...byte) bool {
	var e *codeError
	return errors.As(err, &e) && slices.Contains(codes, e.code)
}

// isAnyCode reports that the BMC answered, and with a refusal.
func isAnyCode(err error) bool {
	var e *codeError
	return errors.As(err, &e)
}

// silence is what silence may mean: UDP does not tell.
const silence = "no answer: nobody is there, a firewall drops it, IPMI over LAN is off, or the BMC hangs (UDP does not tell which)"

// errSilentUser reports a BMC that answered until it was given the user name.
var errSilentUser = fmt.Errorf("%w to the user name: some BMCs, VirtualBMC among them, are silent to one that they do not know", errNoAnswer)

// setupError makes the error of opening or closing a session.
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
		out.context, why = context.Canceled, "given up by the caller"
	case errors.Is(err, errUnsent), errors.Is(err, bmc.ErrProtocol), errors.Is(err, bmc.ErrNotSupported), errors.Is(err, bmc.ErrUnauthorized):
		return fmt.Errorf("%s: %w", what, err)
	case errors.Is(err, errStray), w != nil && !w.heard && w.stray > 0:
		out.sentinel, why = bmc.ErrProtocol, "what it sends is not IPMI"
	case errors.Is(err, errSilentUser):
		out.sentinel = bmc.ErrTimeout
	case w != nil && w.heard:
		// It has answered before.
		out.sentinel, why = bmc.ErrTimeout, "no answer any more"
	case errors.Is(err, errNoAnswer), errors.Is(err, context.DeadlineExceeded):
		out.sentinel, why = bmc.ErrUnreachable, silence
	default:
		out.sentinel = bmc.ErrUnreachable
	}
	if errors.Is(err, context.DeadlineExceeded) {
		out.context = context.DeadlineExceeded
	}
	out.text = what + ": "
	if out.sentinel != nil {
		out.text += out.sentinel.Error() + ": "
	}
	out.text += why
	return out
}

// lost makes the error of a call that got no answer.
func lost(what string, write bool, err error) error {
	out := &callError{sentinel: bmc.ErrTimeout}
	why := "no answer in the session: the BMC hangs, restarts or forgot the session, or the network is gone (UDP does not tell which)"
	switch {
	case errors.Is(err, context.Canceled):
		out.sentinel, out.context, why = nil, context.Canceled, "given up by the caller"
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
	out.text = what + ": "
	if out.sentinel != nil {
		out.text += out.sentinel.Error() + ": "
	}
	out.text += why
	return out
}
