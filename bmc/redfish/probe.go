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
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

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
