// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/ingot-metal/ingot/api/v1beta1"
	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/pki"
	"github.com/ingot-metal/ingot/test/eventually"
)

// limitedSite is a webhook server with limits on loopback, with a client.
type limitedSite struct {
	url    string
	client *http.Client
}

// serveLimited starts a server like the manager's with handlers by path. edit changes its limits.
func serveLimited(t *testing.T, edit func(*limitedServer), handlers map[string]http.Handler) *limitedSite {
	t.Helper()
	dir := t.TempDir()
	ca, err := pki.NewAuthority("webhooks")
	if err != nil {
		t.Fatal(err)
	}
	serving, err := ca.Server("webhooks", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := serving.Write(dir, "tls"); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	server := WithLimits(webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: dir}))
	if edit != nil {
		edit(server.(*limitedServer))
	}
	for path, handler := range handlers {
		server.Register(path, handler)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.CertificatePEM())
	s := &limitedSite{
		url:    fmt.Sprintf("https://127.0.0.1:%d", port),
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}},
	}
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	eventually.Wait{Interval: 10 * time.Millisecond}.Until(t, "the server to listen", eventually.Works(func(context.Context) error { return server.StartedChecker()(nil) }))
	return s
}

// post returns the status of an answer, or 0 if the server closed the connection. length is the
// announced length, -1 for none.
func (s *limitedSite) post(t *testing.T, path string, body io.Reader, length int64) (int, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, io.NopCloser(body))
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	request.ContentLength = length
	request.Header.Set("Content-Type", "application/json")
	answer, err := s.client.Do(request)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.Header
}

func converter(t *testing.T) http.Handler {
	t.Helper()
	scheme := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{v1beta1.AddToScheme, v1beta2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return conversion.NewWebhookHandler(scheme, conversion.NewRegistry())
}

// endless is an endless text of one letter.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// A body of 256 MiB to /convert is rejected without using memory.
func TestLargeBodyTakesNoMemory(t *testing.T) {
	s := serveLimited(t, nil, map[string]http.Handler{"/convert": converter(t)})
	const size = 256 << 20
	body := func() io.Reader {
		const head, tail = `{"request":{"objects":["`, `"]}}`
		return io.MultiReader(strings.NewReader(head), io.LimitReader(endless('x'), size-int64(len(head)+len(tail))), strings.NewReader(tail))
	}
	for name, length := range map[string]int64{"announced": size, "not announced": -1} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			status, _ := s.post(t, "/convert", body(), length)
			runtime.ReadMemStats(&after)
			if status != http.StatusRequestEntityTooLarge && status != 0 {
				t.Errorf("status %d, want %d", status, http.StatusRequestEntityTooLarge)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 16*maxBody { // total allocations; half of it under the race detector
				t.Errorf("it took %d MiB", took>>20)
			}
		})
	}
}

// The largest allowed bodies, made to use the most memory when decoded, fit well into the
// manager's 2 GiB.
func TestDecodedBodiesAreBounded(t *testing.T) {
	s := serveLimited(t, nil, map[string]http.Handler{"/convert": converter(t)})
	stop, peak := make(chan struct{}), make(chan uint64, 1)
	go func() {
		var most uint64
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
			select {
			case <-stop:
				peak <- most
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	body := `{"request":{"objects":[` + strings.Repeat("1,", maxBody/2-32) + `1]}}`
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s.post(t, "/convert", strings.NewReader(body), int64(len(body)))
		})
	}
	wg.Wait()
	close(stop)
	if most := <-peak; most > 1<<30 {
		t.Errorf("the heap grew to %d MiB", most>>20)
	}
}

// Clients that announce large bodies and send slowly are cut off, and do not block others.
func TestSlowBodiesDoNotBlockOthers(t *testing.T) {
	ok := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	s := serveLimited(t, func(l *limitedServer) { l.readTimeout = time.Second }, map[string]http.Handler{"/ok": ok})
	slow := make(chan int, 32)
	for range cap(slow) {
		body, end := io.Pipe()
		defer end.Close()
		go func() {
			status, _ := s.post(t, "/ok", body, maxBody)
			slow <- status
		}()
		if _, err := end.Write([]byte("{")); err != nil {
			t.Fatal(err)
		}
	}
	if status, _ := s.post(t, "/ok", strings.NewReader("{}"), 2); status != http.StatusOK {
		t.Errorf("another call: status %d", status)
	}
	for range cap(slow) {
		if status := <-slow; status != http.StatusBadRequest && status != 0 {
			t.Errorf("a body that never ends: status %d", status)
		}
	}
}

// At most maxCalls requests are handled concurrently. Others get 429 with Retry-After.
func TestConcurrentCallsAreLimited(t *testing.T) {
	release := make(chan struct{})
	var now, most atomic.Int64
	wait := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-release
	})
	s := serveLimited(t, func(l *limitedServer) { l.answerTimeout = 3 * time.Second }, map[string]http.Handler{"/wait": wait})
	statuses := make(chan int, 2*maxCalls)
	var wg sync.WaitGroup
	for range cap(statuses) {
		wg.Go(func() {
			status, header := s.post(t, "/wait", strings.NewReader("{}"), 2)
			if status == http.StatusTooManyRequests && header.Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
			statuses <- status
		})
	}
	for range maxCalls {
		if status := <-statuses; status != http.StatusTooManyRequests {
			t.Errorf("status %d, want %d", status, http.StatusTooManyRequests)
		}
	}
	close(release)
	wg.Wait()
	if got := most.Load(); got != maxCalls {
		t.Errorf("%d calls at once, want %d", got, maxCalls)
	}
}
