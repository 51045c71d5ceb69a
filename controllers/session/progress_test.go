// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// An agent hangs up when the step is done whose progress it reports: that is no error
// of ours. An API server that does not take it is one.
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
			s.note(ctx, &infrav1.IngotHost{Spec: infrav1.IngotHostSpec{Order: &infrav1.HostOrder{ID: "1"}}}, agentapi.Progress{Step: agentapi.StepWrite})
			if got := strings.Contains(log, "Could not save"); got != tc.want {
				t.Errorf("logged %q", log)
			}
		})
	}
}
