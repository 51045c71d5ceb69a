// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"
)

// A Witness sees the writes that a manager sends, before they are forwarded and
// before the reply goes back. False drops the connection there: the write is not
// forwarded, or its reply never arrives.
type Witness interface {
	Before(Write) bool
	After(w Write, status int) bool
}

// proxyOptions describe a proxy between a manager and a server.
type proxyOptions struct {
	Target    *url.URL
	Transport http.RoundTripper
	// TLS serves TLS with the server's own certificate.
	TLS bool
	// Describe names a write; false keeps the write from the witness.
	Describe func(r *http.Request, body []byte) (Write, bool)
	Witness  Witness
	// Delay is the most by which what a watch brings is late, by Seed.
	Delay time.Duration
	Seed  uint64
}

// newProxy starts a proxy that ends with the test.
func newProxy(t *testing.T, o proxyOptions) *httptest.Server {
	t.Helper()
	reads := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(o.Target) },
		Transport:     o.Transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // a manager that was killed breaks connections
	}
	if o.Delay > 0 {
		delays := &delays{rand: rand.New(rand.NewPCG(o.Seed, 0)), most: o.Delay}
		reads.ModifyResponse = delays.apply
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			reads.ServeHTTP(w, r)
			return
		}
		o.write(w, r)
	})
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = reads.ErrorLog
	if o.TLS {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(func() {
		server.CloseClientConnections() // watches do not end by themselves
		server.Close()
	})
	return server
}

// write forwards a request that changes something.
func (o *proxyOptions) write(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	write, seen := o.Describe(r, body)
	if seen && !o.Witness.Before(write) {
		panic(http.ErrAbortHandler)
	}
	out := r.Clone(r.Context())
	out.RequestURI = ""
	out.URL.Scheme, out.URL.Host, out.Host = o.Target.Scheme, o.Target.Host, o.Target.Host
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response, err := o.Transport.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil || (seen && !o.Witness.After(write, response.StatusCode)) {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	_, _ = w.Write(answer)
}

// insecure reaches a server of this test, whose identity is not what is tested.
func insecure() http.RoundTripper {
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
}

// delays holds back what watches bring, each piece by a time of its own, in order.
type delays struct {
	mu   sync.Mutex
	rand *rand.Rand
	most time.Duration
}

func (d *delays) next() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.rand.Int64N(int64(d.most)))
}

// apply makes the answer to a watch late.
func (d *delays) apply(response *http.Response) error {
	if response.Request.URL.Query().Get("watch") == "" {
		return nil
	}
	response.Body = d.body(response.Request.Context(), response.Body)
	return nil
}

// piece is some bytes and when they may go on.
type piece struct {
	data []byte
	due  time.Time
}

// body reads from, and gives each piece when it is due. Both goroutines end with
// the request.
func (d *delays) body(ctx context.Context, from io.ReadCloser) io.ReadCloser {
	pieces := make(chan piece, 4096)
	go func() {
		defer close(pieces)
		var due time.Time
		for {
			buffer := make([]byte, 32<<10)
			n, err := from.Read(buffer)
			if at := time.Now().Add(d.next()); at.After(due) {
				due = at // what comes later is never shown earlier
			}
			if n > 0 {
				select {
				case pieces <- piece{buffer[:n], due}:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	reader, writer := io.Pipe()
	go func() {
		defer func() { _ = writer.Close() }()
		for p := range pieces {
			select {
			case <-time.After(time.Until(p.due)):
			case <-ctx.Done():
				return
			}
			if _, err := writer.Write(p.data); err != nil {
				return
			}
		}
	}()
	return &lateBody{PipeReader: reader, from: from}
}

// lateBody closes both ends.
type lateBody struct {
	*io.PipeReader
	from io.Closer
}

// Close implements io.Closer.
func (b *lateBody) Close() error {
	_ = b.from.Close()
	return b.PipeReader.Close()
}
