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
	// Allowed are the sources; the zero value allows public addresses only.
	Allowed Sources
	// RootCAs verify image servers; nil: the system's.
	RootCAs *x509.CertPool
	// Proxy returns the proxy for a request, if there is one; nil:
	// http.ProxyFromEnvironment. Through a proxy only sources that are named can
	// be fetched: the addresses behind other names are the proxy's secret.
	Proxy func(*http.Request) (*url.URL, error)
}

// NewClient makes a client that connects only to what is allowed. Every redirect
// is a request of its own to it, and every address is looked at when it is
// connected to: a name that has changed its meaning since does not help. URLs of
// oci.Scheme are resolved on the way; what is allowed is asked of each request to the
// registry, to where it gives out tokens, and to its storage.
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
		req.Header.Del("Referer") // the URL before may carry a signature
		return nil
	}}
}

func newTransport(roots *x509.CertPool, dialer *net.Dialer) *http.Transport {
	return &http.Transport{
		DialContext:           dialer.DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   connectTimeout,
		ResponseHeaderTimeout: headerTimeout,
		// The checksum is of what the server holds, not of what it unpacks to.
		DisableCompression: true,
		// A kept connection would be used without a look at its address.
		DisableKeepAlives: true,
		ForceAttemptHTTP2: true,
	}
}

// guard lets out only requests that are allowed.
type guard struct {
	allowed         Sources
	proxyFor        func(*http.Request) (*url.URL, error)
	direct, proxied *http.Transport
}

type (
	targetKey struct{}
	proxyKey  struct{}
)

// target is what a connection is for.
type target struct {
	host       string
	permission permission
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	t := target{host: hostOf(req.URL), permission: g.allowed.url(req.URL)}
	if t.permission == refused {
		return nil, fmt.Errorf("%w: %s", ErrSourceNotAllowed, t.host)
	}
	if literal, err := netip.ParseAddr(t.host); err == nil && !g.allowed.address(literal, t.host, t.permission) {
		return nil, fmt.Errorf("%w: %s", ErrSourceNotAllowed, t.host)
	}
	proxy, err := g.proxyFor(req)
	switch {
	case err != nil:
		return nil, errors.New("the address of the proxy is wrong") // and may hold a password
	case proxy == nil:
		return g.direct.RoundTrip(req.WithContext(context.WithValue(req.Context(), targetKey{}, t)))
	case t.permission != byName && !g.isAllowedLiteral(t):
		return nil, fmt.Errorf("%w: %s is not named, and through a proxy its address cannot be known", ErrSourceNotAllowed, t.host)
	}
	return g.proxied.RoundTrip(req.WithContext(context.WithValue(req.Context(), proxyKey{}, proxy)))
}

func (g *guard) isAllowedLiteral(t target) bool {
	literal, err := netip.ParseAddr(t.host)
	return err == nil && g.allowed.address(literal, t.host, t.permission)
}

// control looks at each address before it is connected to. The error does not
// say which one it is: what a name means inside is nobody's business outside.
func (g *guard) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	t, _ := ctx.Value(targetKey{}).(target)
	a, err := hostPort(address)
	if err != nil || !g.allowed.address(a, t.host, t.permission) {
		return fmt.Errorf("%w: the address of %s", ErrSourceNotAllowed, t.host)
	}
	return nil
}
