// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// Limits on what a BMC can make Ingot hold or do.
const (
	// maxBody of one answer, in bytes after decompression.
	maxBody = 2 << 20
	// maxHeader of one answer, in bytes.
	maxHeader = 64 << 10
	// maxRequests of one call: gofish, which bmclib uses, follows collections that link to
	// one another without end.
	maxRequests = 200
)

var (
	// errTooLarge reports a body that exceeds its limit.
	errTooLarge = errors.New("answer is larger than its limit")
	// errCallEnded reports a request of a call that has ended already.
	errCallEnded = errors.New("the call has ended")
)

// wire carries the requests of one connection. It applies the context of the call, which bmclib
// ignores, obeys the rate limit, verifies the certificate, keeps the TCP connection, bounds answers
// and remembers the exchanges. It is safe for concurrent use: gofish fetches three members of a
// collection at once, which wire sends one after the other.
type wire struct {
	base *http.Transport
	// scheme and host of the BMC, as in URLs.
	scheme, host string
	// login is the path of a login whose session can be ended only with its answer; empty:
	// none.
	login string

	// one is held by the request in flight until its answer was read.
	one chan struct{}

	mu sync.Mutex
	// ctx is the context of the call in progress, or nil.
	ctx  context.Context
	left int
	// calls numbers the calls, so that a late request does not count for the next one.
	calls uint64
	// last is the last exchange of the call, and worst the first that failed.
	last, worst exchange
}

// exchange describes one request and its answer.
type exchange struct {
	// connected reports that there was a connection: the BMC may have got the request.
	connected bool
	// status is 0 without an answer.
	status     int
	retryAfter string
	err        error
}

// failed reports whether there was no answer or one with an error status.
func (e exchange) failed() bool {
	return e.err != nil || e.status != 0 && (e.status < 200 || e.status > 299)
}

func newWire(target bmc.Target, ep endpoint, verified *tls.Config) *wire {
	return &wire{
		scheme: ep.scheme, host: ep.host, one: make(chan struct{}, 1),
		base: &http.Transport{
			// No proxy: a BMC is in the management network.
			DialContext:            target.DialContext,
			TLSClientConfig:        verified,
			TLSHandshakeTimeout:    15 * time.Second,
			MaxConnsPerHost:        1,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: maxHeader,
		},
	}
}

// begin starts a call.
func (w *wire) begin(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx, w.left, w.last, w.worst = ctx, maxRequests, exchange{}, exchange{}
	w.calls++
}

// end ends a call: requests are refused until the next begin.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx = nil
}

// seen returns the last exchange of the call and the first that failed.
func (w *wire) seen() (last, worst exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.worst
}

func (w *wire) record(call uint64, e exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if call != w.calls {
		return
	}
	w.last = e
	if e.failed() && !w.worst.failed() {
		w.worst = e
	}
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, call, err := w.admit(r)
	var (
		resp *http.Response
		seen exchange
	)
	if err == nil {
		resp, seen, err = w.exchange(ctx, r)
	}
	seen.err = err
	w.record(call, seen)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return resp, nil
}

// admit checks whether a request may be sent and returns the context and number of the call.
func (w *wire) admit(r *http.Request) (context.Context, uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case r.URL.Host != w.host || r.URL.Scheme != w.scheme:
		return nil, w.calls, fmt.Errorf("%w: redirects to another host", bmc.ErrProtocol)
	case w.ctx == nil:
		return nil, w.calls, errCallEnded
	}
	if w.left--; w.left < 0 {
		return nil, w.calls, fmt.Errorf("%w: needs more than %d requests", bmc.ErrProtocol, maxRequests)
	}
	return w.ctx, w.calls, nil
}

func (w *wire) exchange(call context.Context, r *http.Request) (_ *http.Response, seen exchange, _ error) {
	// The context of the request may end earlier than that of the call.
	ctx, cancel := context.WithCancel(call)
	stop := context.AfterFunc(r.Context(), cancel)
	release := func() { stop(); cancel() }
	select {
	case w.one <- struct{}{}:
	case <-ctx.Done():
		release()
		return nil, seen, ctx.Err()
	}
	done := func() { <-w.one; release() }
	if err := bmc.WaitForRateLimit(ctx); err != nil {
		done()
		return nil, seen, err
	}
	if w.login != "" && r.Method == http.MethodPost && r.URL.Path == w.login {
		bmc.ProtectNextRequest(call)
	}
	var connected bool
	r = r.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected = true }}))
	r.Close = false
	r.Header.Del("Connection")
	r.Header.Del("Accept-Encoding") // net/http then decompresses the answer
	resp, err := w.base.RoundTrip(r)
	seen.connected = connected
	if err != nil {
		done()
		return nil, seen, err
	}
	bmc.ResponseReceived(call)
	seen.status, seen.retryAfter = resp.StatusCode, resp.Header.Get("Retry-After")
	err = w.collect(call, resp)
	done()
	return resp, seen, err
}

// collect reads the whole answer, since bmclib sometimes does not and the connection would be lost.
// The answer to an upload is small too.
func (w *wire) collect(call context.Context, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(heardReader{call, resp.Body}, maxBody+1))
	_ = resp.Body.Close()
	switch {
	case err != nil:
		return err
	case len(body) > maxBody:
		return errTooLarge
	}
	body = bmc.WithoutControls(body)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Del("Content-Length")
	return nil
}

// heardReader reports each piece of an answer to the pool: a slow BMC is not silent.
type heardReader struct {
	call context.Context
	io.Reader
}

// Read implements io.Reader.
func (h heardReader) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		bmc.ResponseReceived(h.call)
	}
	return n, err
}

// close closes the connection.
func (w *wire) close() { w.base.CloseIdleConnections() }

// client returns an HTTP client for drivers that accept one. The timeout that bmclib sets in it
// does not matter, since withoutDeadline makes it long.
func (w *wire) client() *http.Client {
	return &http.Client{Transport: w, CheckRedirect: checkRedirect}
}

// checkRedirect follows a read to another path of the same BMC and nothing else: net/http would
// turn a redirected POST into a GET.
func checkRedirect(r *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > 3 || first.Method != http.MethodGet || r.URL.Host != first.URL.Host || r.URL.Scheme != first.URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}
