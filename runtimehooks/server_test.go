// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/ingot-metal/ingot/lab/pki"
	"github.com/ingot-metal/ingot/test/eventually"
)

const (
	group     = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/"
	create    = group + "beforeclustercreate/hold"
	upgraded  = group + "afterclusterupgrade/fall"
	plan      = group + "generateupgradeplan/long"
	inPlace   = "/in-place" + group + "updatemachine/update"
	goodHold  = `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"BeforeClusterCreateRequest","cluster":{"metadata":{"name":"c","namespace":"n"},` + classed + `}}`
	goodFall  = `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"AfterClusterUpgradeRequest","cluster":{` + classed + `}}`
	classed   = `"spec":{"topology":{"classRef":{"name":"k"}}}`
	discovery = `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"DiscoveryRequest"}`
)

// handlers returns handlers that misbehave.
func handlers() []Mount {
	return []Mount{
		{Handlers: []Handler{
			{Hook: runtimehooksv1.BeforeClusterCreate, Name: "hold", HandlerFunc: func(_ context.Context, r *runtimehooksv1.BeforeClusterCreateRequest, a *runtimehooksv1.BeforeClusterCreateResponse) {
				a.Status, a.Message, a.RetryAfterSeconds = runtimehooksv1.ResponseStatusSuccess, "hold "+r.Cluster.Name, 15
			}},
			{Hook: runtimehooksv1.AfterClusterUpgrade, Name: "fall", HandlerFunc: func(context.Context, *runtimehooksv1.AfterClusterUpgradeRequest, *runtimehooksv1.AfterClusterUpgradeResponse) {
				panic("secret of a panic")
			}},
			{Hook: runtimehooksv1.GenerateUpgradePlan, Name: "long", HandlerFunc: func(_ context.Context, _ *runtimehooksv1.GenerateUpgradePlanRequest, a *runtimehooksv1.GenerateUpgradePlanResponse) {
				a.Status, a.Message = runtimehooksv1.ResponseStatusFailure, strings.Repeat("ä", MaxMessage)
			}},
			{Hook: runtimehooksv1.BeforeClusterDelete, Name: "wait", HandlerFunc: func(ctx context.Context, _ *runtimehooksv1.BeforeClusterDeleteRequest, a *runtimehooksv1.BeforeClusterDeleteResponse) {
				<-ctx.Done()
				a.Status, a.Message = runtimehooksv1.ResponseStatusFailure, "late"
			}},
		}},
		{Path: "/in-place", Handlers: []Handler{
			{Hook: runtimehooksv1.UpdateMachine, Name: "update", HandlerFunc: func(_ context.Context, _ *runtimehooksv1.UpdateMachineRequest, a *runtimehooksv1.UpdateMachineResponse) {
				a.Status = runtimehooksv1.ResponseStatusSuccess
			}},
		}},
	}
}

// site is a server on loopback with a client.
type site struct {
	url      string
	client   *http.Client
	registry *prometheus.Registry
	ca       *pki.KeyPair
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func serve(t *testing.T, edit func(*Options)) *site {
	t.Helper()
	dir, registry := t.TempDir(), prometheus.NewRegistry()
	ca, err := pki.NewAuthority("hooks")
	check(t, err)
	serving, err := ca.Server("hooks", nil)
	check(t, err)
	check(t, serving.Write(dir, "tls"))
	check(t, os.WriteFile(filepath.Join(dir, "clients.crt"), ca.CertificatePEM(), 0o600))
	metrics, err := NewMetrics(registry)
	check(t, err)
	o := Options{Host: "127.0.0.1", Port: freePort(t), CertDir: dir, CertName: "tls.crt", KeyName: "tls.key", Mounts: handlers(), Metrics: metrics, Log: logr.Discard()}
	if edit != nil {
		edit(&o)
	}
	server, err := New(o)
	check(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.CertificatePEM())
	s := &site{
		url: fmt.Sprintf("https://127.0.0.1:%d", o.Port), registry: registry, ca: ca,
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}},
	}
	t.Cleanup(func() { s.client.CloseIdleConnections(); cancel(); check(t, <-done) })
	eventually.Wait{Interval: 10 * time.Millisecond}.Until(t, "the server to listen", eventually.Works(func(context.Context) error { return server.StartedChecker()(nil) }))
	return s
}

// ask returns the status code and body of a response.
func (s *site) ask(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	check(t, err)
	answer, err := s.client.Do(request)
	check(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	check(t, err)
	return answer.StatusCode, string(data)
}

// Every answer has its envelope, and the same request gets the same answer.
func TestAnswers(t *testing.T) {
	s := serve(t, nil)
	failure := func(kind, message string) string {
		return fmt.Sprintf(`{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":%q,"message":%q,"status":"Failure"}`, kind+"Response", message)
	}
	const v1alpha1 = "hooks.runtime.cluster.x-k8s.io/v1alpha1"
	for name, tc := range map[string]struct {
		method, path, body string
		code               int
		want               string
	}{
		"held":                {"POST", create, goodHold, 200, `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"BeforeClusterCreateResponse","message":"hold c","retryAfterSeconds":15,"status":"Success"}`},
		"with timeout":        {"POST", create + "?timeout=10s", goodHold, 200, `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"BeforeClusterCreateResponse","message":"hold c","retryAfterSeconds":15,"status":"Success"}`},
		"of the mount":        {"POST", inPlace, `{"apiVersion":"` + v1alpha1 + `","kind":"UpdateMachineRequest"}`, 200, `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"UpdateMachineResponse","retryAfterSeconds":0,"status":"Success"}`},
		"unknown fields":      {"POST", create, strings.Replace(goodHold, "{", `{"new":[1],`, 1), 200, `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"BeforeClusterCreateResponse","message":"hold c","retryAfterSeconds":15,"status":"Success"}`},
		"panic":               {"POST", upgraded, goodFall, 200, failure("AfterClusterUpgrade", internalError)},
		"GET":                 {"GET", create, "", 405, failure("BeforeClusterCreate", notPost)},
		"PUT":                 {"PUT", create, goodHold, 405, failure("BeforeClusterCreate", notPost)},
		"DELETE of discovery": {"DELETE", group + "discovery", "", 405, failure("Discovery", notPost)},
		"nothing":             {"POST", create, "", 200, failure("BeforeClusterCreate", notJSON)},
		"garbage":             {"POST", create, "\x00\xff{", 200, failure("BeforeClusterCreate", notJSON)},
		"null":                {"POST", create, "null", 200, failure("BeforeClusterCreate", notJSON)},
		"a list":              {"POST", create, "[]", 200, failure("BeforeClusterCreate", notJSON)},
		"two objects":         {"POST", create, goodHold + goodHold, 200, failure("BeforeClusterCreate", notJSON)},
		"deep":                {"POST", create, strings.Repeat("[", 1<<20), 200, failure("BeforeClusterCreate", notJSON)},
		"no version":          {"POST", create, "{}", 200, failure("BeforeClusterCreate", "apiVersion must be "+v1alpha1)},
		"unknown version":     {"POST", create, strings.Replace(goodHold, "v1alpha1", "v1", 1), 200, failure("BeforeClusterCreate", "apiVersion must be "+v1alpha1)},
		"version, no text":    {"POST", create, `{"apiVersion":{},"kind":1}`, 200, failure("BeforeClusterCreate", "apiVersion must be "+v1alpha1)},
		"another hook's kind": {"POST", create, goodFall, 200, failure("BeforeClusterCreate", "kind must be BeforeClusterCreateRequest")},
		"a response":          {"POST", create, strings.Replace(goodHold, "Request", "Response", 1), 200, failure("BeforeClusterCreate", "kind must be BeforeClusterCreateRequest")},
		"wrong type inside":   {"POST", create, strings.Replace(goodHold, `"cluster":{"metadata":`, `"cluster":{"metadata":{"creationTimestamp":"secret"},"x":`, 1), 200, failure("BeforeClusterCreate", notOfForm)},
		"too large":           {"POST", create, strings.Repeat(" ", maxBody+1), 200, failure("BeforeClusterCreate", tooLarge)},
		"unknown hook":        {"POST", group + "beforelunch/hold", goodHold, 404, "404 page not found\n"},
		"unknown path":        {"POST", "/", goodHold, 404, "404 page not found\n"},
		"version of the path": {"POST", strings.Replace(create, "v1alpha1", "v1beta1", 1), goodHold, 404, "404 page not found\n"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				code, got := s.ask(t, tc.method, tc.path, tc.body)
				if code != tc.code {
					t.Errorf("code %d, want %d", code, tc.code)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// Discovery lists the handlers of the mount in a fixed order.
func TestDiscovery(t *testing.T) {
	s := serve(t, nil)
	var first string
	for range 5 {
		code, body := s.ask(t, "POST", group+"discovery", discovery)
		if code != 200 || first != "" && body != first {
			t.Fatalf("%d %s, before %s", code, body, first)
		}
		first = body
	}
	for path, want := range map[string][]string{"": {"fall", "hold", "long", "wait"}, "/in-place": {"update"}} {
		_, body := s.ask(t, "POST", path+group+"discovery", discovery)
		var answer runtimehooksv1.DiscoveryResponse
		check(t, json.Unmarshal([]byte(body), &answer))
		var got []string
		for _, h := range answer.Handlers {
			got = append(got, h.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" || answer.Status != runtimehooksv1.ResponseStatusSuccess || answer.Kind != "DiscoveryResponse" {
			t.Errorf("%s: %s: %s", path, diff, body)
		}
	}
}

// A long message is truncated to fit a condition.
func TestMessagesAreTruncated(t *testing.T) {
	_, body := serve(t, nil).ask(t, "POST", plan, `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"GenerateUpgradePlanRequest","cluster":{`+classed+`}}`)
	var answer runtimehooksv1.GenerateUpgradePlanResponse
	check(t, json.Unmarshal([]byte(body), &answer))
	if n := len(answer.Message); n > MaxMessage || n < MaxMessage-4 || strings.Contains(answer.Message, "\uFFFD") {
		t.Errorf("%d bytes: %s", n, answer.Message)
	}
	if truncate("short") != "short" {
		t.Error("a short message is changed")
	}
}

// The context of a handler ends before the caller's timeout.
func TestDeadline(t *testing.T) {
	s := serve(t, nil)
	_, body := s.ask(t, "POST", group+"beforeclusterdelete/wait?timeout=50ms", `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"BeforeClusterDeleteRequest","cluster":{`+classed+`}}`)
	if !strings.Contains(body, `"late"`) {
		t.Error(body)
	}
	for query, want := range map[string]time.Duration{"": 9 * time.Second, "timeout=1s": 900 * time.Millisecond, "timeout=1h": 9 * time.Second, "timeout=-1s": 9 * time.Second, "timeout=x": 9 * time.Second} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://x/?"+query, nil)
		check(t, err)
		if got := answerTimeout(request); got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
}

// Concurrent callers get their own answers.
func TestConcurrentCalls(t *testing.T) {
	s := serve(t, nil)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			name := fmt.Sprintf("c%d", i)
			body := strings.Replace(goodHold, `"name":"c"`, fmt.Sprintf("%q:%q", "name", name), 1)
			answer, err := s.client.Post(s.url+create, "", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Body.Close()
			data, _ := io.ReadAll(answer.Body)
			if !bytes.Contains(data, []byte(`"hold `+name+`"`)) {
				t.Errorf("%s: %s", name, data)
			}
		})
	}
	wg.Wait()
	families, err := s.registry.Gather()
	check(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if got := metric.GetHistogram().GetSampleCount(); family.GetName() != hookSeconds || got != 64 || metric.GetLabel()[1].GetValue() != outcomeBlocked {
				t.Errorf("%s: %v", family.GetName(), metric)
			}
		}
	}
}

// A client that announces a large body and sends nothing blocks no other. A slow client is cut off
// before the caller's timeout.
func TestSlowRequestsDoNotBlockOthers(t *testing.T) {
	s := serve(t, nil)
	var slow []io.Closer
	ended := make(chan string, 8)
	for range cap(ended) {
		body, end := io.Pipe()
		slow = append(slow, end)
		go func() {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+create+"?timeout=6s", body)
			if err != nil {
				ended <- err.Error()
				return
			}
			request.ContentLength = maxBody
			answer, err := s.client.Do(request)
			if err != nil {
				ended <- err.Error()
				return
			}
			defer answer.Body.Close()
			data, _ := io.ReadAll(answer.Body)
			ended <- string(data)
		}()
		if _, err := end.Write([]byte("{")); err != nil {
			t.Fatal(err)
		}
	}
	if code, body := s.ask(t, http.MethodPost, create, goodHold); code != http.StatusOK || !strings.Contains(body, "hold c") {
		t.Errorf("%d %s", code, body)
	}
	for range cap(ended) {
		if got := <-ended; !strings.Contains(got, notReadable) {
			t.Errorf("an endless request got %s", got)
		}
	}
	for _, end := range slow {
		_ = end.Close()
	}
}

// Received bytes count against the budget, and a request beyond it must be retried.
func TestBudget(t *testing.T) {
	budget := semaphore.NewWeighted(3 * chunk)
	first, second := &share{of: budget}, &share{of: budget}
	if body, err := readAll(strings.NewReader(strings.Repeat("x", 2*chunk-1)), first); err != nil || len(body) != 2*chunk-1 || first.bytes != 2*chunk {
		t.Fatalf("%d bytes, %d held, %v", len(body), first.bytes, err)
	}
	if _, err := readAll(strings.NewReader(strings.Repeat("x", chunk)), second); !errors.Is(err, errBusy) {
		t.Errorf("beyond the budget: %v", err)
	}
	first.release()
	second.release()
	if !budget.TryAcquire(3 * chunk) {
		t.Error("the budget was not released")
	}
}

// With a client CA, other clients are rejected.
func TestClientCertificates(t *testing.T) {
	s := serve(t, func(o *Options) { o.ClientCAName = "clients.crt" })
	if answer, err := s.client.Post(s.url+create, "", strings.NewReader(goodHold)); err == nil {
		answer.Body.Close()
		t.Error("a client without a certificate got an answer")
	}
	dir := t.TempDir()
	client, err := s.ca.Client("cluster-api")
	check(t, err)
	check(t, client.Write(dir, "client"))
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"))
	check(t, err)
	s.client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{pair}
	if code, body := s.ask(t, "POST", create, goodHold); code != 200 {
		t.Errorf("%d %s", code, body)
	}
}

// New rejects invalid mounts.
func TestInvalidMounts(t *testing.T) {
	for name, mounts := range map[string][]Mount{
		"no handler":        nil,
		"an unknown hook":   {{Handlers: []Handler{{Hook: func(*int, *int) {}, Name: "x", HandlerFunc: func() {}}}}},
		"a wrong signature": {{Handlers: []Handler{{Hook: runtimehooksv1.BeforeClusterCreate, Name: "x", HandlerFunc: func() {}}}}},
	} {
		if _, err := New(Options{Mounts: mounts}); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
