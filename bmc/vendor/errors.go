// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	libraryerrors "github.com/bmc-toolbox/bmclib/v2/errors"
	"github.com/bmc-toolbox/bmclib/v2/providers/supermicro"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/trust"
)

// callKind decides what a missing answer means.
type callKind int

const (
	// read changes nothing.
	read callKind = iota
	// write may have taken effect (I17).
	write
	// opening and closing affect only a session.
	opening
	closing
)

// maxText bounds bmclib's text in an error, in bytes.
const maxText = 300

// callError is a failed call: its text without secrets, the sentinel that callers decide on, and
// the caller's own context error. It contains no error of bmclib.
type callError struct {
	text              string
	sentinel, context error
}

func (e *callError) Error() string { return e.text }

func (e *callError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.sentinel, e.context}, func(err error) bool { return err == nil })
}

// failure builds the error of a call from bmclib's error and the exchanges.
func (l *link) failure(ctx context.Context, kind callKind, what string, err error) error {
	last, worst := l.wire.seen()
	out := &callError{context: ctx.Err()}
	why := err.Error()
	if last.err != nil && l.relay != nil {
		why = last.err.Error() // bmclib saw only a broken connection
	}
	switch {
	case out.context != nil:
		out.sentinel = sentinelOfEnd(kind, last, out.context)
		why = "no answer by the deadline"
		if errors.Is(out.context, context.Canceled) {
			why = "canceled by the caller"
		}
	default:
		out.sentinel = sentinelOf(kind, last, worst, err)
	}
	switch {
	case out.sentinel == nil:
		out.text = what + ": " + l.clean(why)
	case errors.Is(out.sentinel, bmc.ErrCertificate): // it has the details
		out.text = what + ": " + l.clean(out.sentinel.Error())
	default:
		out.text = what + ": " + out.sentinel.Error() + ": " + l.clean(strings.TrimPrefix(why, out.sentinel.Error()+": "))
	}
	return out
}

// sentinelOfEnd classifies a call whose context has ended. Nil: the caller canceled, and nothing
// happened.
func sentinelOfEnd(kind callKind, last exchange, err error) error {
	switch {
	case kind == write:
		// Only bmclib knows which of its requests changes something.
		return bmc.ErrUnknownOutcome
	case errors.Is(err, context.Canceled):
		return nil
	case !last.connected && last.err != nil:
		return bmc.ErrUnreachable
	}
	return bmc.ErrTimeout
}

// sentinelOf classifies a call that failed before its deadline.
func sentinelOf(kind callKind, last, worst exchange, err error) error {
	switch {
	case errors.Is(err, errPanicked) && !(kind == write && last.connected), errors.Is(err, bmc.ErrProtocol) && kind != write:
		return bmc.ErrProtocol
	case isUnsupportedMachine(err):
		return bmc.ErrNotSupported
	case isBusy(err):
		return &bmc.BusyError{}
	case last.failed():
		return sentinelOfExchange(kind, last)
	case worst.failed() && (errors.Is(err, libraryerrors.ErrLoginFailed) || kind == read || kind == opening):
		return sentinelOfExchange(kind, worst)
	case errors.Is(err, libraryerrors.ErrLoginFailed), errors.Is(err, libraryerrors.ErrNotAuthenticated),
		errors.Is(err, libraryerrors.ErrSessionExpired):
		return bmc.ErrUnauthorized // some boards answer 200 to a failed login
	case errors.Is(err, bmc.ErrNotSupported):
		return bmc.ErrNotSupported
	case kind == write && last.connected && !hasAny(err, "error from rpc consumer"):
		return bmc.ErrUnknownOutcome // the BMC accepted it, and bmclib cannot read the answer
	}
	return bmc.ErrProtocol
}

// sentinelOfExchange classifies by the failed request.
func sentinelOfExchange(kind callKind, e exchange) error {
	if e.err == nil {
		return sentinelOfStatus(kind, e)
	}
	if certificate := trust.Explain(e.err); certificate != nil {
		return certificate
	}
	switch {
	case errors.Is(e.err, bmc.ErrNotSupported):
		return bmc.ErrNotSupported
	case errors.Is(e.err, bmc.ErrBusy):
		return &bmc.BusyError{}
	case errors.Is(e.err, errTooLarge), errors.Is(e.err, bmc.ErrProtocol):
		return bmc.ErrProtocol
	case kind == write && e.connected:
		return bmc.ErrUnknownOutcome
	case speaksOtherwise(e.err):
		return bmc.ErrProtocol
	}
	return bmc.ErrUnreachable
}

// speaksOtherwise reports a failed TLS handshake or an answer that is not HTTP. net/http has no
// error types for them.
func speaksOtherwise(err error) bool {
	text := err.Error()
	return strings.Contains(text, "tls: ") || strings.Contains(text, "malformed HTTP") ||
		strings.Contains(text, "server gave HTTP response to HTTPS client")
}

func sentinelOfStatus(kind callKind, e exchange) error {
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return bmc.ErrUnauthorized
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusConflict, http.StatusLocked:
		return &bmc.BusyError{RetryAfter: bmc.ParseRetryAfter(e.retryAfter, time.Now()), RateLimited: e.status == http.StatusTooManyRequests}
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return bmc.ErrNotSupported
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		if kind == write {
			return bmc.ErrNotSupported
		}
	}
	switch {
	case e.status >= 500 && kind == write:
		return bmc.ErrUnknownOutcome // it may have taken effect before the BMC failed
	case e.status >= 500:
		return &bmc.BusyError{RetryAfter: bmc.ParseRetryAfter(e.retryAfter, time.Now())} // it cannot answer now
	}
	return bmc.ErrProtocol
}

// isUnsupportedMachine reports whether bmclib's driver does not support the machine. Errors without a sentinel are
// recognized by text; go.mod pins the version.
func isUnsupportedMachine(err error) bool {
	var hardware *libraryerrors.ErrUnsupportedHardware
	if errors.As(err, &hardware) || errors.Is(err, libraryerrors.ErrIncompatibleProvider) || errors.Is(err, supermicro.ErrModelUnsupported) {
		return true
	}
	return hasAny(err, "not an OpenBMC device", "device model not supported", "unsupported model for BIOS", "firmware install not supported for",
		"unsupported update method", "component unsupported")
}

// isBusy reports whether the BMC is busy, runs another update, or waits for the restart after
// an update.
func isBusy(err error) bool {
	for _, occupied := range []error{
		bmc.ErrBusy, libraryerrors.ErrBMCUpdating, libraryerrors.ErrBMCColdResetRequired, libraryerrors.ErrHostPowercycleRequired,
	} {
		if errors.Is(err, occupied) {
			return true
		}
	}
	return hasAny(err, "was found active for component")
}

func hasAny(err error, texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// clean removes the password, which BMCs repeat, and shortens the text.
func (l *link) clean(text string) string {
	text = bmc.Mask(text, l.target.Password)
	// The text may be from a BMC: keep it on one line without terminal control characters.
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
	return bmc.Shorten(text, maxText)
}

// unsupported returns the error for a call that a driver does not support.
func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", bmc.ErrNotSupported, fmt.Sprintf(format, args...))
}
