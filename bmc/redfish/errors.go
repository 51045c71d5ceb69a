// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

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
	// session: opening or ending one; whether it happened interests nobody
	// who asks for the server's sake.
	session
)

// callError is what a failed call returns: text that was cleaned of secrets, the
// sentinel by which callers decide, and the caller's own context error.
type callError struct {
	text     string
	sentinel error
	context  error
	// status and messages are the BMC's refusal; status 0: there was no answer.
	status   int
	messages []message
	// said is all of it, and shown what people read: both without secrets.
	said, shown string
}

func (e *callError) Error() string { return e.text }

func (e *callError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.sentinel, e.context}, func(err error) bool { return err == nil })
}

// refusal returns the BMC's refusal of a call, if that is what err is.
func refusal(err error) (*callError, bool) {
	var e *callError
	ok := errors.As(err, &e)
	return e, ok && e.status != 0
}

// isMissing reports that the BMC has no such resource.
func isMissing(err error) bool {
	e, ok := refusal(err)
	return ok && (e.status == http.StatusNotFound || e.status == http.StatusMethodNotAllowed || e.status == http.StatusNotImplemented)
}

// failure makes the error of a call from what gofish and the transport tell.
func (c *conn) failure(kind callKind, what string, err error) error {
	out := &callError{}
	for _, ctxErr := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ctxErr) {
			out.context = ctxErr
		}
	}
	last := c.transport.last
	if last.status != 0 && (last.status < 200 || last.status > 299) {
		c.refused(out, kind, what)
		return out
	}
	out.sentinel = sentinelOf(kind, last, err)
	why := c.clean(err.Error())
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		why = "no answer by the deadline"
	case errors.Is(err, context.Canceled):
		why = "given up by the caller"
	case errors.Is(out.sentinel, bmc.ErrCertificate):
		why = "" // the sentinel says it all
	}
	out.text = c.clean(what) + ": "
	if out.sentinel != nil {
		out.text += out.sentinel.Error() + ": "
	}
	out.text = strings.TrimSuffix(out.text+why, ": ")
	return out
}

// sentinelOf classifies a call that got no answer, or none that can be read.
// Nil: the caller gave up, and nothing happened.
func sentinelOf(kind callKind, last exchange, err error) error {
	var noTLS tls.RecordHeaderError
	if certificate := trust.Explain(err); certificate != nil {
		return certificate
	}
	switch {
	case errors.Is(err, errTooLarge), errors.Is(err, bmc.ErrProtocol):
		return bmc.ErrProtocol
	case kind == write && last.connected:
		return bmc.ErrUnknownOutcome
	case errors.Is(err, context.Canceled):
		return nil
	case errors.As(err, &noTLS), speaksOtherwise(err):
		return bmc.ErrProtocol
	case !last.connected:
		return bmc.ErrUnreachable
	case errors.Is(err, context.DeadlineExceeded):
		return bmc.ErrTimeout
	case last.status != 0 && (last.whole || !isConnectionLoss(err)):
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

// isConnectionLoss tells an answer that was cut off from one that makes no sense.
func isConnectionLoss(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unexpected EOF") || strings.Contains(text, "connection reset") ||
		strings.Contains(text, "broken pipe") || strings.Contains(text, "use of closed")
}

// refused fills in an answer with a status that is not success.
func (c *conn) refused(out *callError, kind callKind, what string) {
	out.status = c.transport.last.status
	var general string
	out.messages, general = parseRefusal(c.transport.last.refusal.Bytes())
	words := general
	for i, m := range out.messages {
		words += " " + m.text
		out.messages[i] = m.mapped(c.clean) // a BMC may repeat what it was sent
	}
	out.sentinel = c.refusalSentinel(kind, out, words)
	out.said = general
	for _, m := range out.messages {
		out.said += " " + m.text + " " + strings.Join(slices.Concat(m.args, m.properties), " ")
	}
	out.said = c.clean(out.said)
	out.shown = c.short(shownRefusal(out.messages, general), 300)
	out.text = fmt.Sprintf("%s: %v: BMC answered %d %q", c.clean(what), out.sentinel, out.status, out.shown)
}

// refusalSentinel classifies by status and, where makers disagree on the status,
// by message.
func (c *conn) refusalSentinel(kind callKind, e *callError, message string) error {
	busy := func(otherwise time.Duration) error {
		wait := bmc.ParseRetryAfter(c.transport.last.retryAfter, time.Now())
		if wait == 0 {
			wait = otherwise
		}
		return &bmc.BusyError{RetryAfter: wait}
	}
	lower := strings.ToLower(message)
	switch {
	case e.has("SessionLimitExceeded"), kind == session && strings.Contains(lower, "session") &&
		(strings.Contains(lower, "limit") || strings.Contains(lower, "maximum")):
		// DSP0266 leaves the status open: 400, 403 and 503 have been seen.
		return busy(0)
	case e.has("PasswordChangeRequired") && e.status < 500:
		return bmc.ErrPasswordChange
	case kind == session && e.has("UnauthorizedLoginAttempt"):
		return bmc.ErrUnauthorized // iLOs say so with 400 too
	case kind != session && e.status >= 400 && e.status < 500 && strings.Contains(lower, "licens"):
		// Supermicro without DCMS: 403 "Not licensed to perform this request", to reads
		// of drives and of Secure Boot too (github.com/metal-stack/go-hal issue 67,
		// github.com/metal3-io/ironic-image issue 688). The credentials are good.
		return bmc.ErrNotSupported
	}
	if wait, ok := c.passing(e, message); ok {
		return busy(wait)
	}
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return bmc.ErrUnauthorized
	case http.StatusTooManyRequests:
		return &bmc.BusyError{RetryAfter: bmc.ParseRetryAfter(c.transport.last.retryAfter, time.Now()), RateLimited: true}
	case http.StatusServiceUnavailable:
		return busy(0)
	case http.StatusConflict, http.StatusLocked:
		return busy(0)
	}
	if e.status >= 500 && e.status != http.StatusNotImplemented {
		if kind == write {
			// The BMC broke down while it worked on it.
			return bmc.ErrUnknownOutcome
		}
		// The BMC cannot tell now, which is not to say that it has none: iDRACs answer 500
		// SYS518 while they collect, others while what is behind their web server starts.
		return busy(0)
	}
	switch e.status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return bmc.ErrNotSupported
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		if kind == write {
			return bmc.ErrNotSupported
		}
	}
	return bmc.ErrProtocol
}

// has reports a message of any registry and version ("Base.1.16.<name>").
func (e *callError) has(names ...string) bool {
	return slices.ContainsFunc(e.messages, func(m message) bool { return slices.Contains(names, m.name()) })
}

// brokeDown reports a read that the BMC could not answer now (5xx).
func brokeDown(err error) bool {
	e, ok := refusal(err)
	return ok && e.status >= 500 && e.status != http.StatusNotImplemented
}

// clean removes the secrets that a BMC, or a library, may have repeated.
func (c *conn) clean(text string) string {
	return bmc.Mask(text, append([]bmc.Password{c.target.Password, bmc.Password(c.transport.token)}, c.secrets...)...)
}

// short bounds what a BMC told, without secrets.
func (c *conn) short(text string, n int) string { return bmc.Shorten(c.clean(text), n) }
