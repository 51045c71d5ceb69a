// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

// An agent hangs up when the reported step is done, which is no error. A failure of the API server is one.
func TestProgressNotSaved(t *testing.T) {
	for name, tc := range map[string]struct {
		hangUp bool
		want   bool
	}{
		"the agent hangs up":     {hangUp: true, want: false},
		"the API server refuses": {hangUp: false, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			refuse := interceptor.Funcs{SubResourcePatch: func(ctx context.Context, _ client.Client, _ string, _ client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
				if tc.hangUp {
					cancel()
					return ctx.Err()
				}
				return errors.New("no room")
			}}
			log := ""
			s := &Server{Options: Options{
				Client: fake.NewClientBuilder().WithInterceptorFuncs(refuse).Build(), Clock: testclock.NewFakeClock(time.Unix(1, 0)),
				Log: funcr.New(func(_, text string) { log += text }, funcr.Options{}),
			}}
			s.saveProgress(ctx, &infrav1.IngotHost{Spec: infrav1.IngotHostSpec{Order: &infrav1.HostOrder{ID: "1"}}}, agentapi.Progress{Step: agentapi.StepWrite})
			if got := strings.Contains(log, "Could not save"); got != tc.want {
				t.Errorf("logged %q", log)
			}
		})
	}
}

// The bytes of a step are shown, where the length of the source is not known they alone,
// and go with it: whatever the cache has seen of it.
func TestProgressShowsBytes(t *testing.T) {
	s := newSite(t, append(world(), recorded(here))...)
	a := s.agent(claimsOf(token.Install), here)
	opened(s, a)
	s.mu.Lock()
	s.stale = func(o client.Object) { // it lags behind all but the first
		if host, ok := o.(*infrav1.IngotHost); ok {
			host.Status.Operation = &infrav1.HostOperation{Kind: infrav1.OrderInstall, Step: "Writing", Percent: new(int32)}
		}
	}
	s.mu.Unlock()
	type shown struct {
		Step    string
		Percent int32
		Bytes   int64
	}
	for _, tc := range []struct {
		name  string
		after time.Duration
		in    agentapi.Progress
		want  shown
	}{
		{"none yet", 0, agentapi.Progress{Step: agentapi.StepWrite}, shown{"Writing", 0, 0}},
		{"some", 20 * time.Second, agentapi.Progress{Step: agentapi.StepWrite, Bytes: 5 << 30}, shown{"Writing", 0, 5 << 30}},
		{"more, too soon", 19 * time.Second, agentapi.Progress{Step: agentapi.StepWrite, Bytes: 6 << 30}, shown{"Writing", 0, 5 << 30}},
		{"more", time.Second, agentapi.Progress{Step: agentapi.StepWrite, Bytes: 6 << 30}, shown{"Writing", 0, 6 << 30}},
		{"with percent", 2 * time.Second, agentapi.Progress{Step: agentapi.StepWrite, Percent: 50, Bytes: 7 << 30}, shown{"Writing", 50, 7 << 30}},
		{"the next step counts none", time.Second, agentapi.Progress{Step: agentapi.StepSeed}, shown{"Seeding", 0, 0}},
		{"nonsense", time.Second, agentapi.Progress{Step: agentapi.StepMirror, Bytes: -1}, shown{"Mirroring", 0, 0}},
	} {
		s.clock.Step(tc.after)
		tc.in.OrderID = orderID
		if _, reason := call[agentapi.ProgressReply](a, agentapi.PathProgress, tc.in); reason != "" {
			t.Fatalf("%s: refused: %s", tc.name, reason)
		}
		op := s.host().Status.Operation
		if op == nil || op.Percent == nil {
			t.Fatalf("%s: operation = %+v", tc.name, op)
		}
		if diff := cmp.Diff(tc.want, shown{op.Step, *op.Percent, op.Bytes}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// A verification shows no percentage, also where the step before it had one: it ends before
// another one than the first is worth a write.
func TestVerificationShowsNoPercent(t *testing.T) {
	s := newSite(t, append(world(), recorded(here))...)
	a := s.agent(claimsOf(token.Install), here)
	opened(s, a)
	for _, in := range []agentapi.Progress{{Step: agentapi.StepWrite, Percent: 100}, {Step: agentapi.StepVerify, Percent: 9}} {
		in.OrderID = orderID
		if _, reason := call[agentapi.ProgressReply](a, agentapi.PathProgress, in); reason != "" {
			t.Fatalf("refused: %s", reason)
		}
		s.clock.Step(time.Second)
	}
	if op := s.host().Status.Operation; op == nil || op.Step != "Verifying" || op.Percent != nil {
		t.Errorf("operation = %+v", op)
	}
}
