// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// A Call is a question and its answer.
type Call struct {
	Method, Path, Query string
	Request             []byte
	Code                int
	Answer              []byte
	At                  time.Time
	Took                time.Duration
}

// recorder stands between Cluster API and the extension, and speaks TLS to both.
type recorder struct {
	server *httptest.Server
	client *http.Client
	target string

	mu    sync.Mutex
	calls []Call
}

// record passes calls on to a target whose certificate is of an authority. With clients it
// hears only who proves to be one of them, and proves to be one itself; it may be nil.
func record(target string, authority []byte, clients *Clients) *recorder {
	onward := &tls.Config{RootCAs: poolOf(authority), MinVersion: tls.VersionTLS12}
	r := &recorder{target: target, client: &http.Client{Transport: &http.Transport{TLSClientConfig: onward, MaxIdleConnsPerHost: 8}}}
	r.server = httptest.NewUnstartedServer(r)
	if clients != nil {
		onward.Certificates = []tls.Certificate{clients.certificate}
		r.server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: poolOf(clients.authority), MinVersion: tls.VersionTLS12}
	}
	r.server.StartTLS()
	return r
}

func poolOf(authority []byte) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return pool
}

// ServeHTTP passes one call on.
func (r *recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	call := Call{Method: q.Method, Path: q.URL.Path, Query: q.URL.RawQuery, At: time.Now()}
	var err error
	if call.Request, err = io.ReadAll(q.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	onward, err := http.NewRequestWithContext(q.Context(), q.Method, r.target+q.URL.RequestURI(), bytes.NewReader(call.Request))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	answer, err := r.client.Do(onward)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	if call.Answer, err = io.ReadAll(answer.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	call.Code, call.Took = answer.StatusCode, time.Since(call.At)
	r.mu.Lock()
	r.calls = append(r.calls, call)
	r.mu.Unlock()
	w.WriteHeader(call.Code)
	_, _ = w.Write(call.Answer)
}

// all returns the calls so far.
func (r *recorder) all() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Call(nil), r.calls...)
}

func (r *recorder) stop() {
	r.server.Close()
	r.client.CloseIdleConnections()
}
