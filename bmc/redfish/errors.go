// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"cmp"
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

// callKind decides what a missing answer means.
type callKind int

const (
	// read changes nothing.
	read callKind = iota
	// write may have taken effect (I17).
	write
	// session opens or ends a session: a lost answer does not affect the server.
	session
)

// callError is a failed call: its text without secrets, the sentinel that callers decide on,
// and the caller's own context error.
type callError struct {
	text     string
	sentinel error
	context  error
	// status and messages are the BMC's refusal; status 0: no answer.
	status   int
	messages []message
	// said is the whole refusal, shown its readable part, both without secrets.
	said, shown string
}

func (e *callError) Error() string { return e.text }

func (e *callError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.sentinel, e.context}, func(err error) bool { return err == nil })
}

// refusal returns err as the BMC's refusal of a call, if it is one.
func refusal(err error) (*callError, bool) {
	var e *callError
	ok := errors.As(err, &e)
	return e, ok && e.status != 0
}

// isMissing reports whether the BMC has no such resource.
func isMissing(err error) bool {
	e, ok := refusal(err)
	return ok && (e.status == http.StatusNotFound || e.status == http.StatusMethodNotAllowed || e.status == http.StatusNotImplemented)
}

// failure builds the error of a call from the error of gofish and the last exchange.
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
		why = "canceled by the caller"
	case errors.Is(out.sentinel, bmc.ErrCertificate):
		why = "" // the sentinel has the details
	}
	out.text = c.clean(what) + ": "
	if out.sentinel != nil {
		out.text += out.sentinel.Error() + ": "
	}
	out.text = strings.TrimSuffix(out.text+why, ": ")
	return out
}

// sentinelOf classifies a call without a readable answer. Nil: the caller canceled, and nothing
// happened.
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

// speaksOtherwise reports a failed TLS handshake or an answer that is not HTTP. net/http has no
// error types for them.
func speaksOtherwise(err error) bool {
	text := err.Error()
	return strings.Contains(text, "tls: ") || strings.Contains(text, "malformed HTTP") ||
		strings.Contains(text, "server gave HTTP response to HTTPS client")
}

// isConnectionLoss reports whether the connection broke within an answer.
func isConnectionLoss(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unexpected EOF") || strings.Contains(text, "connection reset") ||
		strings.Contains(text, "broken pipe") || strings.Contains(text, "use of closed")
}

// refused fills in an answer with an error status.
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

// refusalSentinel classifies by status and, where vendors disagree on the status, by message.
func (c *conn) refusalSentinel(kind callKind, e *callError, message string) error {
	busy := func(otherwise time.Duration) error {
		wait := cmp.Or(bmc.ParseRetryAfter(c.transport.last.retryAfter, time.Now()), otherwise)
		return &bmc.BusyError{RetryAfter: wait}
	}
	lower := strings.ToLower(message)
	switch {
	case e.has("SessionLimitExceeded"), kind == session && strings.Contains(lower, "session") &&
		(strings.Contains(lower, "limit") || strings.Contains(lower, "maximum")):
		// DSP0266 leaves the status open: BMCs answer 400, 403 or 503.
		return busy(0)
	case e.has("PasswordChangeRequired") && e.status < 500:
		return bmc.ErrPasswordChange
	case kind == session && e.has("UnauthorizedLoginAttempt"):
		return bmc.ErrUnauthorized // iLO answers 400 too
	case kind != session && e.status >= 400 && e.status < 500 && strings.Contains(lower, "licens"):
		// Supermicro without a DCMS license answers 403 "Not licensed to perform this
		// request", also to reads of drives and of Secure Boot (github.com/metal-stack/go-hal
		// issue 67, github.com/metal3-io/ironic-image issue 688). The credentials are good.
		return bmc.ErrNotSupported
	}
	if wait, ok := c.temporary(e, message); ok {
		return busy(wait)
	}
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return bmc.ErrUnauthorized
	case http.StatusTooManyRequests:
		return &bmc.BusyError{RetryAfter: bmc.ParseRetryAfter(c.transport.last.retryAfter, time.Now()), RateLimited: true}
	case http.StatusServiceUnavailable, http.StatusConflict, http.StatusLocked:
		return busy(0)
	}
	if e.status >= 500 && e.status != http.StatusNotImplemented {
		if kind == write {
			// The write may have taken effect before the BMC failed.
			return bmc.ErrUnknownOutcome
		}
		// The BMC cannot answer now; the resource may exist. iDRAC answers 500 SYS518 while it
		// collects data, others while the backend of their web server starts.
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

// has reports whether the refusal has one of the messages, of any registry and version
// ("Base.1.16.<name>").
func (e *callError) has(names ...string) bool {
	return slices.ContainsFunc(e.messages, func(m message) bool { return slices.Contains(names, m.name()) })
}

// brokeDown reports whether err is a 5xx answer: the BMC could not answer now.
func brokeDown(err error) bool {
	e, ok := refusal(err)
	return ok && e.status >= 500 && e.status != http.StatusNotImplemented
}

// clean removes secrets that a BMC or a library may have repeated.
func (c *conn) clean(text string) string {
	return bmc.Mask(text, append([]bmc.Password{c.target.Password, bmc.Password(c.transport.token)}, c.secrets...)...)
}

// short returns a BMC's text without secrets, shortened to n bytes.
func (c *conn) short(text string, n int) string { return bmc.Shorten(c.clean(text), n) }
