// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"strings"
	"time"
)

// relay connects a driver that has its own HTTP client, without verification, contexts or limits,
// to a wire: it is a TLS server on a free port of the loopback interface that forwards requests. It
// answers only while a call is in progress.
type relay struct {
	wire     *wire
	server   *http.Server
	listener net.Listener
	served   chan struct{}
	// pool trusts the certificate of the relay, which is valid as long as the relay.
	pool *x509.CertPool
}

// newRelay starts a relay. The caller ends it with close.
func newRelay(w *wire) (*relay, error) {
	fail := func(err error) (*relay, error) { return nil, fmt.Errorf("start relay: %w", err) }
	cert, pool, err := ephemeral()
	if err != nil {
		return fail(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // loopback
	if err != nil {
		return fail(err)
	}
	r := &relay{wire: w, listener: l, served: make(chan struct{}), pool: pool}
	r.server = &http.Server{
		Handler:           r,
		ReadHeaderTimeout: 30 * time.Second,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}},
		ErrorLog:          log.New(io.Discard, "", 0), // it could quote requests
	}
	go func() {
		defer close(r.served)
		_ = r.server.ServeTLS(l, "", "") // ends with close
	}()
	return r, nil
}

func (r *relay) url() string { return "https://" + r.listener.Addr().String() }

func (r *relay) close() {
	_ = r.server.Close()
	<-r.served
}

// ServeHTTP forwards a request. Without an answer, it breaks the driver's connection.
func (r *relay) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	out, err := http.NewRequestWithContext(in.Context(), in.Method, r.wire.scheme+"://"+r.wire.host+in.URL.RequestURI(), in.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	out.Header, out.ContentLength = in.Header.Clone(), in.ContentLength
	if in.ContentLength == 0 {
		out.Body = nil // net/http would otherwise send an unknown length
	}
	// Some boards require their own name without the port in Host and Referer (X11SCM-F with
	// BMC 1.23.06 and older).
	if !strings.Contains(in.Host, ":") {
		out.Host = strings.TrimSuffix(r.wire.host, portOf(r.wire.host))
	}
	if in.Header.Get("Referer") != "" {
		out.Header.Set("Referer", r.wire.scheme+"://"+r.wire.host)
	}
	resp, err := r.wire.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = resp.Body.Close() }()
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// portOf returns the end of host:port with the colon.
func portOf(host string) string { return host[strings.LastIndex(host, ":"):] }

// ephemeral returns a certificate for the loopback address and a pool that trusts it.
func ephemeral() (tls.Certificate, *x509.CertPool, error) {
	fail := func(err error) (tls.Certificate, *x509.CertPool, error) { return tls.Certificate{}, nil, err }
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "relay"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0), // longer than any connection
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fail(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return fail(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool, nil
}

// farDeadline is a context without a deadline of the caller: it ends with its parent and reports a
// deadline far away. Drivers refuse uploads with less than ten minutes or no deadline, and Open uses
// the deadline as the timeout of all later requests.
type farDeadline struct {
	context.Context
	until time.Time
}

// farAway is longer than any call.
const farAway = 24 * time.Hour

func withoutDeadline(ctx context.Context) context.Context {
	return farDeadline{ctx, time.Now().Add(farAway)}
}

// Deadline implements context.Context.
func (e farDeadline) Deadline() (time.Time, bool) { return e.until, true }
