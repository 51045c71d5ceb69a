// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/lab/pki"
	"github.com/ingot-metal/ingot/runtimehooks"
	"github.com/ingot-metal/ingot/test/eventually"
)

// served is the extension's server with a client.
type served struct {
	url    string
	client *http.Client
}

func (s *site) serve(t *testing.T) served {
	t.Helper()
	dir := t.TempDir()
	ca, err := pki.NewAuthority("hooks")
	check(t, err)
	serving, err := ca.Server("hooks", nil)
	check(t, err)
	check(t, serving.Write(dir, "tls"))
	metrics, err := runtimehooks.NewMetrics(prometheus.NewRegistry())
	check(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	check(t, listener.Close())
	server, err := runtimehooks.New(runtimehooks.Options{Host: "127.0.0.1", Port: port, CertDir: dir, CertName: "tls.crt", KeyName: "tls.key",
		Mounts: []runtimehooks.Mount{{Handlers: Handlers(s.Options)}}, Metrics: metrics, Log: logr.Discard()})
	check(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.CertificatePEM())
	out := served{url: fmt.Sprintf("https://127.0.0.1:%d", port), client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}}
	t.Cleanup(func() { out.client.CloseIdleConnections(); cancel(); check(t, <-done) })
	eventually.Wait{Interval: 10 * time.Millisecond}.Until(t, "the server to listen", eventually.Works(func(context.Context) error { return server.StartedChecker()(nil) }))
	return out
}

// call posts a request and returns the response.
func (s served) call(t *testing.T, hook, handler string, cluster, more map[string]any) map[string]any {
	t.Helper()
	request := map[string]any{"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": hook + "Request", "settings": nil, "cluster": cluster}
	for name, value := range more {
		request[name] = value
	}
	body, err := json.Marshal(request)
	check(t, err)
	post, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/hooks.runtime.cluster.x-k8s.io/v1alpha1/"+strings.ToLower(hook)+"/"+handler, bytes.NewReader(body))
	check(t, err)
	answer, err := s.client.Do(post)
	check(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	check(t, err)
	out := map[string]any{}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("%s: %s", err, data)
	}
	return out
}

// forms returns a Cluster as in the Runtime SDK documents and as sent by each supported Cluster API.
func forms(t *testing.T) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob("testdata/clusters/*.yaml")
	check(t, err)
	out := map[string]map[string]any{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		check(t, err)
		cluster := map[string]any{}
		check(t, yaml.Unmarshal(data, &cluster))
		out[strings.TrimSuffix(filepath.Base(file), ".yaml")] = cluster
	}
	if len(out) != 4 {
		t.Fatalf("%d forms of a Cluster, want the document's and those of three versions", len(out))
	}
	return out
}

// Every hook gives the same answer for each supported form of a Cluster, and rejects unknown versions.
func TestClusterVersions(t *testing.T) {
	const to = "v1.37.0"
	known := image("v1.36.1", "amd64")
	upgrade := map[string]any{"fromKubernetesVersion": "v1.36.1", "toKubernetesVersion": to}
	after := map[string]any{"kubernetesVersion": to}
	for _, tc := range []struct {
		hook, handler string
		more          map[string]any
		unbuilt       bool // the Cluster has no infrastructure yet
		held, event   string
	}{
		{"BeforeClusterCreate", "before-cluster-create", nil, true, "are missing", ""},
		{"AfterControlPlaneInitialized", "after-control-plane-initialized", nil, false, "", "ControlPlaneInitialized"},
		{"BeforeClusterUpgrade", "before-cluster-upgrade", upgrade, false, "no IngotImage for Kubernetes v1.37.0", ""},
		{"BeforeControlPlaneUpgrade", "before-control-plane-upgrade", upgrade, false, "no IngotImage for Kubernetes v1.37.0", ""},
		{"AfterControlPlaneUpgrade", "after-control-plane-upgrade", after, false, "", "ControlPlaneUpgraded"},
		{"BeforeWorkersUpgrade", "before-workers-upgrade", upgrade, false, "no IngotImage for Kubernetes v1.37.0", ""},
		{"AfterWorkersUpgrade", "after-workers-upgrade", after, false, "", "WorkersUpgraded"},
		{"AfterClusterUpgrade", "after-cluster-upgrade", after, false, "", "ClusterUpgraded"},
		{"BeforeClusterDelete", "before-cluster-delete", nil, false, "the Cluster is retained by annotation", ""},
	} {
		t.Run(tc.hook, func(t *testing.T) {
			objects := append(append(rollout(0, 0), populated()...), known)
			if tc.unbuilt {
				objects = []client.Object{known}
			}
			s := newSite(t, objects...)
			server := s.serve(t)
			answers := map[string]map[string]any{}
			for form, cluster := range forms(t) {
				spec := cluster["spec"].(map[string]any)
				if tc.unbuilt {
					delete(spec, "infrastructureRef")
					delete(spec, "controlPlaneRef")
				}
				answer := server.call(t, tc.hook, tc.handler, cluster, tc.more)
				answers[form] = answer
				retry, _ := answer["retryAfterSeconds"].(float64)
				message, _ := answer["message"].(string)
				if answer["status"] != "Success" || (retry > 0) != (tc.held != "") || !strings.Contains(message, tc.held) {
					t.Errorf("%s: %v, want it held with %q", form, answer, tc.held)
				}
				if tc.event != "" {
					select {
					case event := <-s.events.Events:
						if !strings.Contains(event, tc.event) {
							t.Errorf("%s: event %s", form, event)
						}
					default:
						t.Errorf("%s: no event %s", form, tc.event)
					}
				}
				cluster["apiVersion"] = "cluster.x-k8s.io/v1"
				if answer := server.call(t, tc.hook, tc.handler, cluster, tc.more); answer["status"] != "Failure" || !strings.Contains(answer["message"].(string), "cluster.apiVersion must be") {
					t.Errorf("%s in version v1: %v", form, answer)
				}
			}
			for form, answer := range answers {
				if diff := cmp.Diff(answers["founding"], answer); diff != "" {
					t.Errorf("%s differs from the founding form (-founding +%s):\n%s", form, form, diff)
				}
			}
		})
	}
}

// An upgrade plan uses the images of the catalog, for each form of a Cluster.
func TestUpgradePlanClusterVersions(t *testing.T) {
	s := newSite(t, append(rollout(0, 0), image("v1.37.2", "amd64"), image("v1.38.0", "amd64"))...)
	server := s.serve(t)
	for form, cluster := range forms(t) {
		answer := server.call(t, "GenerateUpgradePlan", nameUpgradePlan, cluster, map[string]any{
			"fromControlPlaneKubernetesVersion": "v1.36.1", "fromWorkersKubernetesVersion": "v1.36.1", "toKubernetesVersion": "v1.38.0",
		})
		want := []any{map[string]any{"version": "v1.37.2"}, map[string]any{"version": "v1.38.0"}}
		if diff := cmp.Diff(want, answer["controlPlaneUpgrades"]); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", form, answer, diff)
		}
	}
}
