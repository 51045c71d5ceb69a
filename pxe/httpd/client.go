// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/ingot-metal/ingot/pxe/oci"
)

const (
	maxRedirects   = 5
	connectTimeout = 10 * time.Second
	headerTimeout  = 30 * time.Second
)

// ClientConfig configures the client that fetches images.
type ClientConfig struct {
	// Allowed are the sources; the zero value allows all public addresses.
	Allowed Sources
	// RootCAs verify image servers; nil means the system's.
	RootCAs *x509.CertPool
	// Proxy returns the proxy of a request, or nil; nil means http.ProxyFromEnvironment. Only named
	// sources can be fetched by a proxy, because the addresses of other hosts cannot be checked.
	Proxy func(*http.Request) (*url.URL, error)
}

// NewClient returns a client that connects to allowed sources only. It checks every redirect,
// and every address when it connects, which defeats DNS rebinding. It resolves URLs of
// oci.Scheme and checks each request to the registry, its token server and its storage.
func NewClient(cfg ClientConfig) *http.Client {
	if cfg.Proxy == nil {
		cfg.Proxy = http.ProxyFromEnvironment
	}
	g := &guard{allowed: cfg.Allowed, proxyFor: cfg.Proxy}
	g.direct = newTransport(cfg.RootCAs, &net.Dialer{Timeout: connectTimeout, ControlContext: g.control})
	g.proxied = newTransport(cfg.RootCAs, &net.Dialer{Timeout: connectTimeout})
	g.proxied.Proxy = func(r *http.Request) (*url.URL, error) {
		u, _ := r.Context().Value(proxyKey{}).(*url.URL)
		return u, nil
	}
	return &http.Client{Transport: &oci.Transport{Base: g}, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		req.Header.Del("Referer") // the previous URL may contain a signature
		return nil
	}}
}

func newTransport(roots *x509.CertPool, dialer *net.Dialer) *http.Transport {
	return &http.Transport{
		DialContext:           dialer.DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   connectTimeout,
		ResponseHeaderTimeout: headerTimeout,
		// The checksum is of the file on the server, not of its decompressed content.
		DisableCompression: true,
		// A reused connection would skip the address check.
		DisableKeepAlives: true,
		ForceAttemptHTTP2: true,
	}
}

// guard allows requests to allowed sources only.
type guard struct {
	allowed         Sources
	proxyFor        func(*http.Request) (*url.URL, error)
	direct, proxied *http.Transport
}

type (
	targetKey struct{}
	proxyKey  struct{}
)

type target struct {
	host       string
	permission permission
}

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	t := target{host: hostOf(req.URL), permission: g.allowed.url(req.URL)}
	literal, err := netip.ParseAddr(t.host)
	isLiteral := err == nil
	if t.permission == refused || isLiteral && !g.allowed.address(literal, t.host, t.permission) {
		return nil, fmt.Errorf("%w: %s", ErrSourceNotAllowed, t.host)
	}
	proxy, err := g.proxyFor(req)
	switch {
	case err != nil:
		return nil, errors.New("the proxy address is invalid") // the cause may contain a password
	case proxy == nil:
		return g.direct.RoundTrip(req.WithContext(context.WithValue(req.Context(), targetKey{}, t)))
	case t.permission != byName && !isLiteral:
		return nil, fmt.Errorf("%w: %s must be named, because a proxy hides its address", ErrSourceNotAllowed, t.host)
	}
	return g.proxied.RoundTrip(req.WithContext(context.WithValue(req.Context(), proxyKey{}, proxy)))
}

// control checks each address before it is connected to. The error does not contain the
// address, to keep internal DNS records secret.
func (g *guard) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	t, _ := ctx.Value(targetKey{}).(target)
	a, err := hostPort(address)
	if err != nil || !g.allowed.address(a, t.host, t.permission) {
		return fmt.Errorf("%w: the address of %s", ErrSourceNotAllowed, t.host)
	}
	return nil
}
