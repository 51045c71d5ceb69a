// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/trust"
)

// Limits on what a BMC can make Ingot hold.
const (
	// maxBody of one answer, in bytes after decompression. The largest resource read is a
	// system: below 100 KiB on real BMCs.
	maxBody = 1 << 20
	// maxLargeBody of a BIOS attribute registry or a page of a log, in bytes: up to about
	// 3 MiB on real BMCs.
	maxLargeBody = 8 << 20
	// maxHeader of one answer, in bytes.
	maxHeader = 64 << 10
	// maxMembers of one collection.
	maxMembers = 64
	// maxLink of one reference, in bytes.
	maxLink = 1024
	// maxRequests of one call: many requests freeze a BMC (field notes), and collections
	// that link to one another must not loop.
	maxRequests = 200
)

// errTooLarge reports a body that exceeds its limit.
var errTooLarge = errors.New("answer is larger than its limit")

// transport adapts gofish's requests. gofish has one context per client and closes each
// connection; transport gives every request the context of its call and keeps the connection
// (field notes). It also adds the session token, bounds bodies and remembers the last exchange.
// It is not safe for concurrent use.
type transport struct {
	base *http.Transport
	// scheme and host that every request must have.
	scheme, host string
	token        string
	// basic is the Authorization header for a BMC without sessions; empty: token is sent.
	basic string

	// ctx is the context of the call in progress; gofish cannot pass it.
	ctx context.Context
	// last describes the last request.
	last exchange
	// limit of a body, in bytes.
	limit int64
	// compressed asks for compressed answers. Web servers change the ETag of what they
	// compress, and then refuse a PATCH with that tag.
	compressed bool
	// left is how many requests the call in progress may still make.
	left int
	// copy gets a copy of each successful body, if not nil.
	copy io.Writer
}

// exchange describes one request and its answer.
type exchange struct {
	// connected reports that there was a connection: the BMC may have got the request.
	connected bool
	// status is 0 without an answer. whole reports that the body was read to its end.
	status     int
	whole      bool
	retryAfter string
	etag       string
	// refusal is the body of an answer with an error status, as far as it was read.
	refusal bytes.Buffer
}

func newTransport(target bmc.Target, ep endpoint) (*transport, error) {
	cfg, err := trust.Config(target, ep.name)
	if err != nil {
		return nil, err
	}
	return &transport{
		limit:  maxBody,
		scheme: ep.scheme, host: ep.host,
		base: &http.Transport{
			// No proxy: a BMC is in the management network.
			DialContext:            target.DialContext,
			TLSClientConfig:        cfg,
			TLSHandshakeTimeout:    15 * time.Second,
			MaxConnsPerHost:        1,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: maxHeader,
		},
	}, nil
}

// begin starts a call.
func (t *transport) begin(ctx context.Context) { t.ctx, t.left = ctx, maxRequests }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.last = exchange{}
	if r.URL.Host != t.host || r.URL.Scheme != t.scheme {
		return nil, fmt.Errorf("%w: redirects to another host", bmc.ErrProtocol)
	}
	if t.left--; t.left < 0 {
		return nil, fmt.Errorf("%w: needs more than %d requests", bmc.ErrProtocol, maxRequests)
	}
	if err := bmc.WaitForRateLimit(t.ctx); err != nil {
		return nil, err
	}
	seen := &t.last
	ctx := httptrace.WithClientTrace(t.ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { seen.connected = true },
	})
	r = r.Clone(ctx)
	r.Close = false
	r.Header.Del("Connection")
	t.authorize(r.Header)
	if !t.compressed {
		r.Header.Set("Accept-Encoding", "identity")
	}
	resp, err := t.base.RoundTrip(r)
	if err == nil {
		if again := slashRedirect(r, resp); again != nil {
			resp, err = t.sendAgain(again, resp)
		}
	}
	if err != nil {
		return nil, err
	}
	bmc.ResponseReceived(t.ctx)
	unzip(resp)
	seen.status, seen.etag, seen.retryAfter = resp.StatusCode, resp.Header.Get("ETag"), resp.Header.Get("Retry-After")
	resp.Body = &boundedBody{ReadCloser: resp.Body, ctx: ctx, left: t.limit, ended: func() { seen.whole = true }, heard: func() { bmc.ResponseReceived(ctx) }}
	switch {
	case resp.StatusCode >= http.StatusMultipleChoices: // gofish understands less of it
		resp.Body = tee(resp.Body, &seen.refusal)
	case t.copy != nil:
		resp.Body = tee(resp.Body, t.copy)
	}
	return resp, nil
}

// tee copies what is read of a body to a writer.
func tee(body io.ReadCloser, to io.Writer) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.TeeReader(body, to), body}
}

// authorize adds the credentials to a request.
func (t *transport) authorize(header http.Header) {
	if t.token != "" {
		header.Set("X-Auth-Token", t.token)
	}
	if t.basic != "" {
		header.Set("Authorization", t.basic)
	}
}

// unzip decompresses the body of an answer that the BMC compressed without being asked (iLO's
// registries).
func unzip(resp *http.Response) {
	if !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		return
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength = -1
	resp.Body = &gzipBody{ReadCloser: resp.Body}
}

// gzipBody is a compressed body. The first Read reads the gzip header.
type gzipBody struct {
	io.ReadCloser
	unzipped *gzip.Reader
}

func (b *gzipBody) Read(p []byte) (n int, err error) {
	if b.unzipped == nil {
		if b.unzipped, err = gzip.NewReader(b.ReadCloser); err != nil {
			return 0, err
		}
	}
	return b.unzipped.Read(p)
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (t *transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// checkRedirect follows a read to another path of the same BMC ("/redfish/v1" to
// "/redfish/v1/" on some BMCs) and nothing else: net/http would turn a redirected POST into a
// GET. For writes see slashRedirect.
func checkRedirect(r *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > 3 || first.Method != http.MethodGet || r.URL.Host != first.URL.Host || r.URL.Scheme != first.URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// sendAgain sends a request in place of the redirected one. It counts toward maxRequests.
func (t *transport) sendAgain(r *http.Request, redirected *http.Response) (*http.Response, error) {
	_, _ = io.CopyN(io.Discard, redirected.Body, t.limit) // a longer body costs the connection
	_ = redirected.Body.Close()
	if t.left--; t.left < 0 {
		return nil, fmt.Errorf("%w: needs more than %d requests", bmc.ErrProtocol, maxRequests)
	}
	if err := bmc.WaitForRateLimit(t.ctx); err != nil {
		return nil, err
	}
	return t.base.RoundTrip(r)
}

// slashRedirect returns a redirected write for the same path with or without a trailing slash. Older
// Supermicro BMCs want that of a login (github.com/bb-Ricardo/check_redfish pull request 187).
// It returns nil for any other redirect, which Ingot does not follow: the body has passwords.
func slashRedirect(r *http.Request, resp *http.Response) *http.Request {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil
	}
	to, err := resp.Location()
	if r.Method == http.MethodGet || r.Method == http.MethodHead || err != nil || to.Host != r.URL.Host || to.Scheme != r.URL.Scheme ||
		to.RawQuery != r.URL.RawQuery || to.Path == r.URL.Path || strings.TrimSuffix(to.Path, "/") != strings.TrimSuffix(r.URL.Path, "/") {
		return nil
	}
	again := r.Clone(r.Context())
	if again.URL = to; r.Body != nil && r.Body != http.NoBody {
		if r.GetBody == nil {
			return nil // a stream that was read already
		}
		if again.Body, err = r.GetBody(); err != nil {
			return nil
		}
	}
	return again
}

// boundedBody fails after left bytes. It replaces control characters, which would make the
// JSON of a whole resource invalid.
type boundedBody struct {
	io.ReadCloser
	// ctx is the context of the call. When it ends, net/http closes the connection, and the BMC
	// may end a half-sent body in good order before the close is complete.
	ctx  context.Context
	left int64
	// ended is called at the end of the body.
	ended func()
	// heard is called for each piece: a slow BMC is not silent.
	heard func()
}

func (b *boundedBody) Read(p []byte) (int, error) {
	full := b.left <= 0
	switch {
	case full: // only EOF is acceptable
		p = make([]byte, 1)
	case int64(len(p)) > b.left:
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	if full && n > 0 {
		return 0, errTooLarge
	}
	if n > 0 {
		b.heard()
		bmc.WithoutControls(p[:n])
	}
	b.left -= int64(n)
	if ended := b.ctx.Err(); err != nil && ended != nil {
		return n, ended // the body may be cut off
	}
	if errors.Is(err, io.EOF) {
		b.ended()
	}
	return n, err
}
