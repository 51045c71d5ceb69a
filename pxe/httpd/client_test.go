// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd_test

import (
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ingot-metal/ingot/pxe/httpd"
)

func sources(t *testing.T, entries ...string) httpd.Sources {
	t.Helper()
	s, err := httpd.ParseSources(entries)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inside is a server that only the boot server should reach, and that counts requests.
func inside(t *testing.T, h http.HandlerFunc) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if h != nil {
			h(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s, &asked
}

// Forbidden addresses cannot be reached by address, by a name that resolves to them at connect
// time, or by a redirect.
func TestClientReachesOnlyWhatIsAllowed(t *testing.T) {
	secret, asked := inside(t, nil)
	port := secret.URL[strings.LastIndex(secret.URL, ":"):]
	redirecting, _ := inside(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://localhost"+port+"/admin", http.StatusFound)
	})
	for _, tc := range []struct {
		name    string
		allowed []string
		url     string
	}{
		{"by address", nil, secret.URL},
		// The name is allowed as a name, and its address is checked when connecting: the same
		// happens if the DNS answer changes after a first check.
		{"by a name that leads to loopback", nil, "http://localhost" + port},
		{"by a name that is allowed, and leads to loopback", []string{"localhost"}, "http://localhost" + port},
		{"IPv4 in IPv6", nil, "http://[::ffff:127.0.0.1]" + port},
		{"as a number", nil, "http://2130706433" + port},
		{"every address of this machine", nil, "http://0.0.0.0" + port},
		{"a registry", nil, "oci://127.0.0.1" + port + "/images/node@sha256:" + strings.Repeat("0", 64)},
		{"a registry whose name leads to loopback", []string{"localhost"}, "oci://localhost" + port + "/images/node@sha256:" + strings.Repeat("0", 64)},
		{"by a redirect from an allowed place", []string{redirecting.URL + "/"}, redirecting.URL + "/os.raw"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := httpd.NewClient(httpd.ClientConfig{Allowed: sources(t, tc.allowed...), Proxy: noProxy})
			r, err := c.Get(tc.url)
			if err == nil {
				_ = r.Body.Close()
				t.Fatalf("got %s", r.Status)
			}
			// Without cgo a number is a host name that does not resolve.
			if !errors.Is(err, httpd.ErrSourceNotAllowed) && !strings.Contains(err.Error(), "no such host") {
				t.Errorf("got %v", err)
			}
		})
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests arrived inside", n)
	}
}

func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

func TestClientFollowsAllowedRedirects(t *testing.T) {
	var referer atomic.Value
	target, _ := inside(t, func(w http.ResponseWriter, r *http.Request) {
		referer.Store(r.Referer())
		_, _ = io.WriteString(w, "image")
	})
	start, _ := inside(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL+"/a", http.StatusFound)
	})
	endless, _ := inside(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) })
	c := httpd.NewClient(httpd.ClientConfig{Allowed: sources(t, "127.0.0.1"), Proxy: noProxy})
	r, err := c.Get(start.URL + "/?signature=canary")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if got, _ := io.ReadAll(r.Body); string(got) != "image" || referer.Load() != "" {
		t.Errorf("got %q; the other server got Referer %q", got, referer.Load())
	}
	if r, err := c.Get(endless.URL); err == nil || !strings.Contains(err.Error(), "redirects") {
		t.Errorf("endless: %v, %v", r, err)
	}
}

// Named sources are fetched by the proxy, whatever their address. Other sources are refused,
// because only the proxy resolves their address.
func TestClientWithProxy(t *testing.T) {
	proxy, asked := inside(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "for "+r.URL.String()) })
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	get := func(t *testing.T, url string, entries ...string) (string, error) {
		t.Helper()
		c := httpd.NewClient(httpd.ClientConfig{Allowed: sources(t, entries...), Proxy: http.ProxyURL(at)})
		r, err := c.Get(url)
		if err != nil {
			return "", err
		}
		defer func() { _ = r.Body.Close() }()
		b, err := io.ReadAll(r.Body)
		return string(b), err
	}
	for _, tc := range []struct{ name, url, entry string }{
		{"host", "http://images.example/os.raw", "images.example"},
		{"network", "http://10.0.0.7/os.raw", "10.0.0.0/8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := get(t, tc.url, tc.entry); err != nil || got != "for "+tc.url {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	asked.Store(0)
	for _, tc := range []struct {
		name, url string
		entries   []string
	}{
		{"a name that is not allowed", "http://images.example/os.raw", nil},
		{"a name next to a network", "http://images.example/os.raw", []string{"10.0.0.0/8"}},
		{"a private address", "http://10.0.0.7/os.raw", nil},
		{"the proxy itself", proxy.URL + "/admin", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := get(t, tc.url, tc.entries...); !errors.Is(err, httpd.ErrSourceNotAllowed) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d of them reached the proxy", n)
	}
}

func TestClientVerifiesByPrivateAuthority(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "image") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	for name, tc := range map[string]struct {
		roots *x509.CertPool
		works bool
	}{"known": {roots, true}, "unknown": {nil, false}} {
		t.Run(name, func(t *testing.T) {
			c := httpd.NewClient(httpd.ClientConfig{Allowed: sources(t, "127.0.0.1"), RootCAs: tc.roots, Proxy: noProxy})
			r, err := c.Get(s.URL)
			if err == nil {
				_ = r.Body.Close()
			}
			var unknown x509.UnknownAuthorityError
			if works := err == nil; works != tc.works || !works && !errors.As(err, &unknown) {
				t.Errorf("got %v", err)
			}
		})
	}
}
