// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// maxSweep bounds the sessions that are looked at for ours.
const maxSweep = 64

// keepsContext are the vendors whose BMC takes Session.Context (DSP0268, Session
// v1.5) with a login and shows it: bmcweb does. Others may refuse a login with a
// property that they do not know, so nobody else is sent one.
var keepsContext = regexp.MustCompile(`(?i)^openbmc\b`)

// mark is what the session's Context is to be; empty: none.
func (c *conn) mark() string {
	if !keepsContext.MatchString(strings.TrimSpace(c.root.Vendor)) {
		return ""
	}
	return c.target.Mark.String()
}

// postLogin sends the credentials, with a mark where there is one. A BMC of an age
// that does not know it says so and opens nothing; it then gets the login without.
func (c *conn) postLogin(path, mark string) (*http.Response, error) {
	body := map[string]string{"UserName": c.target.Username, "Password": c.target.Password.Reveal()}
	if mark != "" {
		body["Context"] = mark
	}
	bmc.Committed(c.transport.ctx)
	resp, err := c.client.Post(path, body)
	if err == nil {
		c.marked = mark != ""
		return resp, nil
	}
	err = c.failure(session, "open session", err)
	if e, ok := refusal(err); ok && mark != "" && e.status == http.StatusBadRequest && e.has("PropertyUnknown") {
		return c.postLogin(path, "")
	}
	return nil, err
}

type sessionResource struct {
	UserName string `json:"UserName"`
	Context  string `json:"Context"`
}

// SweepSessions implements bmc.Sweeper: it ends the sessions of the same user whose
// mark is of an earlier life, and no others. Where the BMC keeps no marks nothing is
// provably ours, and it reads nothing.
func (c *conn) SweepSessions(ctx context.Context) (int, error) {
	if !c.marked {
		return 0, nil
	}
	c.begin(ctx)
	paths, err := c.membersUpTo(c.sessions, maxSweep)
	if err != nil {
		return 0, fmt.Errorf("look for sessions left open: %w", err)
	}
	ended := 0
	var errs []error
	for _, path := range paths {
		var s sessionResource
		if path == c.session || c.get(path, &s) != nil { // it may have ended meanwhile
			continue
		}
		if s.UserName != c.target.Username || !c.target.Mark.Earlier(s.Context) {
			continue
		}
		if _, err := c.client.Delete(path); err != nil {
			errs = append(errs, c.failure(session, "end a session left open", err))
			continue
		}
		ended++
	}
	return ended, errors.Join(errs...)
}

// Probe implements bmc.Driver: it reads the service root, which needs no credentials
// (DSP0266, service root request), and sends none.
//
// A web page behind a certificate that is not trusted is no Redfish: where the
// certificate is refused, the root is read once more without verifying it, to tell
// the two apart. Nothing but that one word is taken from the answer, and who stands
// in between learns nothing.
func Probe(ctx context.Context, target bmc.Target) error {
	ep, err := parseAddress(target.Address)
	if err != nil {
		return err
	}
	target.Username, target.Password = "", ""
	err = probe(ctx, target, ep)
	if !errors.Is(err, bmc.ErrCertificate) {
		return err
	}
	target.CABundle, target.Fingerprint, target.InsecureSkipVerify = nil, "", true
	blind := probe(ctx, target, ep)
	if errors.Is(blind, bmc.ErrNotSupported) {
		return blind
	}
	return err
}

// probe reads the service root once. What cannot be told apart from a BMC that
// restarts or is busy is not called another protocol.
func probe(ctx context.Context, target bmc.Target, ep endpoint) error {
	what := "read service root of " + ep.base
	t, err := newTransport(target, ep)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer t.CloseIdleConnections()
	reached := false
	t.begin(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectDone: func(_, _ string, err error) { reached = reached || err == nil },
	}))
	c := &conn{target: target, transport: t, base: ep.base}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, ep.base+serviceRoot+"/", http.NoBody)
	if err != nil {
		return fmt.Errorf("%s: %w", what, bmc.ErrAddress)
	}
	resp, err := (&http.Client{Transport: t, CheckRedirect: checkRedirect}).Do(r)
	if err != nil {
		err = c.failure(read, what, err)
		switch {
		case errors.Is(err, bmc.ErrProtocol): // no TLS that is still in use, or no HTTP
			return fmt.Errorf("%w: %w", bmc.ErrNotSupported, err)
		case errors.Is(err, bmc.ErrUnreachable) && reached:
			return fmt.Errorf("%s: %w: it takes connections, and nothing comes over them", what, bmc.ErrTimeout)
		}
		return err
	}
	defer discard(resp)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return c.failure(read, what, err)
	}
	return isServiceRoot(what, resp, body)
}

// isServiceRoot judges an answer.
func isServiceRoot(what string, resp *http.Response, body []byte) error {
	var root struct {
		Version string `json:"RedfishVersion"`
		Systems link   `json:"Systems"`
	}
	err := decode(body, &root)
	switch status := resp.StatusCode; {
	case status == http.StatusOK && err == nil && (root.Version != "" || root.Systems.ID != ""):
		return nil
	case status == http.StatusOK && err != nil && bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")):
		return fmt.Errorf("%s: %w: the answer is cut off", what, bmc.ErrProtocol)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("%s: %w: it answers %d where no credentials are needed", what, bmc.ErrProtocol, status)
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout,
		status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		return fmt.Errorf("%s: %w: it answers %d", what, &bmc.BusyError{RetryAfter: bmc.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now())}, status)
	default:
		return fmt.Errorf("%s: %w: it answers %d, and with no service root of Redfish", what, bmc.ErrNotSupported, status)
	}
}
