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

// maxSweep bounds the sessions that SweepSessions reads.
const maxSweep = 64

// storesContext matches the vendors whose BMCs store Session.Context (DSP0268, Session v1.5) of
// a login, as bmcweb does. Other BMCs may refuse a login that has a property they do not know.
var storesContext = regexp.MustCompile(`(?i)^openbmc\b`)

// sessionLabel returns the label for the session's Context; empty: none.
func (c *conn) sessionLabel() string {
	if !storesContext.MatchString(strings.TrimSpace(c.root.Vendor)) {
		return ""
	}
	return c.target.SessionLabel.String()
}

// postLogin sends the credentials, with a label if mark is not empty. A BMC too old for the
// property refuses it without opening a session, and gets a login without label.
func (c *conn) postLogin(path, mark string) (*http.Response, error) {
	body := map[string]string{"UserName": c.target.Username, "Password": c.target.Password.Reveal()}
	if mark != "" {
		body["Context"] = mark
	}
	bmc.ProtectNextRequest(c.transport.ctx)
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

// SweepSessions implements bmc.Sweeper: it ends the sessions of the same user that have the
// label of an earlier process. If the BMC stores no labels, it does nothing.
func (c *conn) SweepSessions(ctx context.Context) (int, error) {
	if !c.marked {
		return 0, nil
	}
	c.begin(ctx)
	paths, err := c.membersUpTo(c.sessions, maxSweep)
	if err != nil {
		return 0, fmt.Errorf("find leaked sessions: %w", err)
	}
	ended := 0
	var errs []error
	for _, path := range paths {
		var s sessionResource
		if path == c.session || c.get(path, &s) != nil { // the session may have ended
			continue
		}
		if s.UserName != c.target.Username || !c.target.SessionLabel.IsEarlierProcess(s.Context) {
			continue
		}
		if _, err := c.client.Delete(path); err != nil {
			errs = append(errs, c.failure(session, "end a leaked session", err))
			continue
		}
		ended++
	}
	return ended, errors.Join(errs...)
}

// Probe implements bmc.Driver: it reads the service root without credentials (DSP0266, service
// root request).
//
// If the certificate is not trusted, Probe reads the root again without verification, only to
// distinguish Redfish from another web server. It uses nothing else of that answer.
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

// probe reads the service root once. It does not report another protocol if the BMC may be
// restarting or busy.
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
		case errors.Is(err, bmc.ErrProtocol): // obsolete TLS, or not HTTP
			return fmt.Errorf("%w: %w", bmc.ErrNotSupported, err)
		case errors.Is(err, bmc.ErrUnreachable) && reached:
			return fmt.Errorf("%s: %w: it accepts connections but sends nothing", what, bmc.ErrTimeout)
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

// isServiceRoot returns nil if an answer is a Redfish service root.
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
		return fmt.Errorf("%s: %w: the answer is truncated", what, bmc.ErrProtocol)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("%s: %w: BMC answered %d to a request that needs no credentials", what, bmc.ErrProtocol, status)
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout,
		status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		return fmt.Errorf("%s: %w: BMC answered %d", what, &bmc.BusyError{RetryAfter: bmc.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now())}, status)
	default:
		return fmt.Errorf("%s: %w: answered %d without a Redfish service root", what, bmc.ErrNotSupported, status)
	}
}
