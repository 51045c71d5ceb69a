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

// callKind says what a lost answer means.
type callKind int

const (
	// read: nothing happened.
	read callKind = iota
	// write: it may have happened (I17).
	write
	// opening or closing a session: whether it happened interests nobody who asks
	// for the server's sake.
	opening
	closing
)

// maxText bounds what an error shows of the library's, in bytes.
const maxText = 300

// callError is what a failed call returns: text that was cleaned of secrets, the
// sentinel by which callers decide, and the caller's own context error. Nothing of
// the library's is in it.
type callError struct {
	text              string
	sentinel, context error
}

func (e *callError) Error() string { return e.text }

func (e *callError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.sentinel, e.context}, func(err error) bool { return err == nil })
}

// failure makes the error of a call from what the library and the wire tell.
func (l *link) failure(ctx context.Context, kind callKind, what string, err error) error {
	last, worst := l.wire.seen()
	out := &callError{context: ctx.Err()}
	why := err.Error()
	if last.err != nil && l.relay != nil {
		why = last.err.Error() // the library saw no more than a connection that broke
	}
	switch {
	case out.context != nil:
		out.sentinel = sentinelOfEnd(kind, last, out.context)
		why = "no answer by the deadline"
		if errors.Is(out.context, context.Canceled) {
			why = "given up by the caller"
		}
	default:
		out.sentinel = sentinelOf(kind, last, worst, err)
	}
	switch {
	case out.sentinel == nil:
		out.text = what + ": " + l.clean(why)
	case errors.Is(out.sentinel, bmc.ErrCertificate): // it says all
		out.text = what + ": " + l.clean(out.sentinel.Error())
	default:
		out.text = what + ": " + out.sentinel.Error() + ": " + l.clean(strings.TrimPrefix(why, out.sentinel.Error()+": "))
	}
	return out
}

// sentinelOfEnd classifies a call whose context has ended. Nil: the caller gave up,
// and nothing happened.
func sentinelOfEnd(kind callKind, last exchange, err error) error {
	switch {
	case kind == write:
		// Which of the library's requests it was that changes something, only the
		// library knows.
		return bmc.ErrUnknownOutcome
	case errors.Is(err, context.Canceled):
		return nil
	case !last.connected && last.err != nil:
		return bmc.ErrUnreachable
	}
	return bmc.ErrTimeout
}

// sentinelOf classifies a call that failed in time.
func sentinelOf(kind callKind, last, worst exchange, err error) error {
	switch {
	case errors.Is(err, errPanicked) && !(kind == write && last.connected), errors.Is(err, bmc.ErrProtocol) && kind != write:
		return bmc.ErrProtocol
	case isUnfit(err):
		return bmc.ErrNotSupported
	case isOccupied(err):
		return &bmc.BusyError{}
	case last.failed():
		return sentinelOfExchange(kind, last)
	case worst.failed() && (errors.Is(err, libraryerrors.ErrLoginFailed) || kind == read || kind == opening):
		return sentinelOfExchange(kind, worst)
	case errors.Is(err, libraryerrors.ErrLoginFailed), errors.Is(err, libraryerrors.ErrNotAuthenticated),
		errors.Is(err, libraryerrors.ErrSessionExpired):
		return bmc.ErrUnauthorized // some boards answer 200 to a login that failed
	case errors.Is(err, bmc.ErrNotSupported):
		return bmc.ErrNotSupported
	case kind == write && last.connected && !hasAny(err, "error from rpc consumer"):
		return bmc.ErrUnknownOutcome // it was taken, and the library cannot read the answer
	}
	return bmc.ErrProtocol
}

// sentinelOfExchange classifies by what became of a request.
func sentinelOfExchange(kind callKind, e exchange) error {
	if e.err == nil {
		return sentinelOfStatus(kind, e)
	}
	if told := trust.Explain(e.err); told != nil {
		return told
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

// speaksOtherwise reports a failed handshake, or an answer that is not HTTP;
// net/http has no types for these.
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
		return bmc.ErrUnknownOutcome // the BMC broke down while it worked on it
	case e.status >= 500:
		return &bmc.BusyError{RetryAfter: bmc.ParseRetryAfter(e.retryAfter, time.Now())} // it cannot tell now
	}
	return bmc.ErrProtocol
}

// isUnfit reports a machine that the driver is not for. What has no sentinel is
// known by its text, which the version of the library pins.
func isUnfit(err error) bool {
	var hardware *libraryerrors.ErrUnsupportedHardware
	if errors.As(err, &hardware) || errors.Is(err, libraryerrors.ErrIncompatibleProvider) || errors.Is(err, supermicro.ErrModelUnsupported) {
		return true
	}
	return hasAny(err, "not an OpenBMC device", "device model not supported", "unsupported model for BIOS", "firmware install not supported for",
		"unsupported update method", "component unsupported")
}

// isOccupied reports a BMC that is busy, works on another update, or waits for the restart
// after one.
func isOccupied(err error) bool {
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

// clean removes the password, since BMCs repeat what they got, and bounds the text.
func (l *link) clean(text string) string {
	text = bmc.Mask(text, l.target.Password)
	// A BMC's answer may be in it: one line, without what a terminal would obey.
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
	return bmc.Shorten(text, maxText)
}

// refused is a refusal of this package's own.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", bmc.ErrNotSupported, fmt.Sprintf(format, args...))
}
