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
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/trust"
)

// Limits on what a BMC can make us hold.
const (
	// maxBody of one answer, in bytes after decompression. The largest resource
	// that this driver reads is a system, below 100 KiB on real ones.
	maxBody = 1 << 20
	// maxLargeBody of a registry of BIOS attributes or a page of a log: up to about
	// 3 MiB on real ones.
	maxLargeBody = 8 << 20
	// maxHeader of one answer, in bytes.
	maxHeader = 64 << 10
	// maxMembers of one collection, and maxLink bytes of one reference.
	maxMembers = 64
	maxLink    = 1024
	// maxRequests of one call: a BMC freezes under many (field notes), and one
	// whose collections lead to one another must come to an end.
	maxRequests = 200
)

// errTooLarge reports a body beyond its limit.
var errTooLarge = errors.New("answer is larger than its limit")

// transport makes gofish's requests fit: gofish has one context for the life of
// its client and asks to close each connection; here every request gets the
// context of the call that it belongs to, and the connection is kept (field
// notes). It also carries the session token, bounds bodies, and remembers what
// gofish does not pass on. Not safe for concurrent use, as the Conn.
type transport struct {
	base *http.Transport
	// scheme and host of every request.
	scheme, host string
	token        string
	// basic is the value of the header Authorization for a BMC without sessions; empty:
	// the token is sent.
	basic string

	// ctx is the context of the call in progress. It is kept here only while the
	// call lasts, because gofish has no place for it.
	ctx context.Context
	// last is what is known of the last request.
	last exchange
	// limit of a body, in bytes.
	limit int64
	// compressed answers are asked for. Web servers change the ETag of what they compress:
	// they make it weak, or another's, and a PATCH with that tag is refused.
	compressed bool
	// left counts down the requests of the call in progress.
	left int
	// copy, where not nil, gets a copy of what is read of an answer's body.
	copy io.Writer
}

// exchange is what became of one request.
type exchange struct {
	// connected: a connection was there, so that the BMC may have got the request.
	connected bool
	// status is 0 when no answer came; whole: its body came to its end.
	status     int
	whole      bool
	retryAfter string
	etag       string
	// refusal is the body of an answer that is no success, as far as it was read.
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
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
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
		return nil, fmt.Errorf("%w: sends us to another host", bmc.ErrProtocol)
	}
	if t.left--; t.left < 0 {
		return nil, fmt.Errorf("%w: leads to more than %d requests", bmc.ErrProtocol, maxRequests)
	}
	if err := bmc.Pace(t.ctx); err != nil {
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
		if again := slashed(r, resp); again != nil {
			resp, err = t.sendAgain(again, resp)
		}
	}
	if err != nil {
		return nil, err
	}
	bmc.Heard(t.ctx)
	unzip(resp)
	seen.status, seen.etag, seen.retryAfter = resp.StatusCode, resp.Header.Get("ETag"), resp.Header.Get("Retry-After")
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: t.limit, ended: func() { seen.whole = true }, heard: func() { bmc.Heard(ctx) }}
	switch {
	case resp.StatusCode >= http.StatusMultipleChoices: // gofish reads it, and understands less of it
		resp.Body = tee(resp.Body, &seen.refusal)
	case t.copy != nil:
		resp.Body = tee(resp.Body, t.copy)
	}
	return resp, nil
}

// tee copies what is read of a body.
func tee(body io.ReadCloser, to io.Writer) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.TeeReader(body, to), body}
}

// authorize adds what proves who asks.
func (t *transport) authorize(header http.Header) {
	if t.token != "" {
		header.Set("X-Auth-Token", t.token)
	}
	if t.basic != "" {
		header.Set("Authorization", t.basic)
	}
}

// unzip has an answer be read as it was before it was compressed, where the BMC compresses
// without being asked (iLO's registries).
func unzip(resp *http.Response) {
	if !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		return
	}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength = -1
	resp.Body = &gzipBody{ReadCloser: resp.Body}
}

// gzipBody is a compressed body. Its header is read with the first of it.
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

// CloseIdleConnections implements what http.Client looks for.
func (t *transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// checkRedirect follows a read to another path of the same BMC ("/redfish/v1" to
// "/redfish/v1/" on some) and nothing else: net/http would turn a redirected
// POST into a GET. Writes see slashed.
func checkRedirect(r *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > 3 || first.Method != http.MethodGet || r.URL.Host != first.URL.Host || r.URL.Scheme != first.URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// sendAgain makes a request in the place of one that was redirected; it counts as any.
func (t *transport) sendAgain(r *http.Request, redirected *http.Response) (*http.Response, error) {
	_, _ = io.CopyN(io.Discard, redirected.Body, t.limit) // one that goes on costs the connection
	_ = redirected.Body.Close()
	if t.left--; t.left < 0 {
		return nil, fmt.Errorf("%w: leads to more than %d requests", bmc.ErrProtocol, maxRequests)
	}
	if err := bmc.Pace(t.ctx); err != nil {
		return nil, err
	}
	return t.base.RoundTrip(r)
}

// slashed is a write once more, where the BMC did nothing and wants the same path with a
// slash at its end, or without, as older Supermicros want it of a login
// (github.com/bb-Ricardo/check_redfish pull request 187). Nil: it is not that. What was
// redirected anywhere else is not sent there: it holds passwords.
func slashed(r *http.Request, resp *http.Response) *http.Request {
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
			return nil // a stream, which is gone
		}
		if again.Body, err = r.GetBody(); err != nil {
			return nil
		}
	}
	return again
}

// boundedBody fails once too much was read. It leaves out control characters, which would
// lose a whole resource.
type boundedBody struct {
	io.ReadCloser
	left int64
	// ended is told that all of it came.
	ended func()
	// heard is told of each piece: a slow BMC is not silent.
	heard func()
}

func (b *boundedBody) Read(p []byte) (int, error) {
	full := b.left <= 0
	switch {
	case full: // only the end may come
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
	if errors.Is(err, io.EOF) {
		b.ended()
	}
	b.left -= int64(n)
	return n, err
}
