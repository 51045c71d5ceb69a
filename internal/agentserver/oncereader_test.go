// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"sync/atomic"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

// A storm of sessions must not use up the rate limit of the API client: a session reads the host and
// its facts once, and an order its machine as well.
func TestLiveReadsPerCall(t *testing.T) {
	s := newSite(t, append(world(), recorded(here))...)
	a := s.agent(claimsOf(token.Install), here)
	for _, call := range []struct {
		name string
		do   func()
		want int32
	}{
		{"a session", func() { opened(s, a) }, 2},
		{"an order", func() {
			if _, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{}); reason != "" {
				t.Errorf("the order is refused: %s", reason)
			}
		}, 3},
	} {
		s.live.Store(0)
		call.do()
		if got := s.live.Load(); got != call.want {
			t.Errorf("%s: %d live reads, want %d", call.name, got, call.want)
		}
	}
}

// Each request reads anew, and so does a request that has written.
func TestOnceReader(t *testing.T) {
	s := newSite(t, append(world(), recorded(here))...)
	var reads atomic.Int32
	reader := onceReader{counted{s.client, &reads}}
	ctx, key := withFacts(t.Context()), client.ObjectKey{Namespace: "metal", Name: "h1"}
	for _, step := range []struct {
		name   string
		before func()
		want   int32
	}{
		{"the first read", func() {}, 1},
		{"the second read", func() {}, 1},
		{"after a write", func() { forgetFacts(ctx) }, 2},
		{"another request", func() { ctx = withFacts(t.Context()) }, 3},
		{"outside a request", func() { ctx = t.Context() }, 4},
	} {
		step.before()
		hardware := &infrav1.IngotHardware{}
		if err := reader.Get(ctx, key, hardware); err != nil {
			t.Fatal(err)
		}
		if hardware.Spec.Address == nil || hardware.Spec.Address.IP != here {
			t.Errorf("%s: address %+v, want %s", step.name, hardware.Spec.Address, here)
		}
		hardware.Spec.Address = nil // the caller may change what it got
		if got := reads.Load(); got != step.want {
			t.Errorf("%s: %d live reads, want %d", step.name, got, step.want)
		}
	}
}
