// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
)

// Every answer has an envelope and a status, and an invalid request never succeeds.
func FuzzRequest(f *testing.F) {
	handler := guarded(f)
	for _, seed := range []string{goodHold, goodFall, discovery, "", "null", "[]", "{}", `{"apiVersion":1}`, goodHold + "{}", `{"kind":"BeforeClusterCreateRequest","apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","cluster":[]}`} {
		f.Add("POST", []byte(seed))
	}
	f.Add("GET", []byte(goodHold))
	f.Fuzz(func(t *testing.T, method string, body []byte) {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, create, bytes.NewReader(body))
		request.Method = method
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		var answer runtimehooksv1.BeforeClusterCreateResponse
		if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
			t.Fatalf("no answer: %v", err)
		}
		if answer.Kind != "BeforeClusterCreateResponse" || len(answer.Message) > MaxMessage {
			t.Fatalf("envelope: %s", recorder.Body)
		}
		var asked runtimehooksv1.BeforeClusterCreateRequest
		good := method == http.MethodPost && json.Unmarshal(body, &asked) == nil
		switch answer.Status {
		case runtimehooksv1.ResponseStatusFailure:
		case runtimehooksv1.ResponseStatusSuccess:
			if !good {
				t.Fatalf("%s %q succeeds", method, body)
			}
		default:
			t.Fatalf("status %q", answer.Status)
		}
	})
}

// guarded returns a library handler behind the guard, without a network.
func guarded(tb testing.TB) http.Handler {
	tb.Helper()
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		tb.Fatal(err)
	}
	library, err := server.New(server.Options{Catalog: catalog})
	if err != nil {
		tb.Fatal(err)
	}
	listener := library.Server
	kinds, err := register(catalog, library, handlers()[0])
	if err != nil {
		tb.Fatal(err)
	}
	library.Server = &mounted{Server: listener, kinds: kinds, guard: guard{budget: newBudget(), log: logr.Discard()}}
	if err := library.Start(context.Background()); err != nil {
		tb.Fatal(err)
	}
	return listener.WebhookMux()
}
