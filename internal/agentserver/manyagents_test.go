// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/test/needs"
)

// limitedAPI makes calls wait for the rate limit of an API client, and counts them.
type limitedAPI struct {
	client.Reader
	limiter *rate.Limiter
	calls   *atomic.Int32
}

func (l limitedAPI) wait(ctx context.Context) error {
	err := l.limiter.Wait(ctx)
	if err == nil {
		l.calls.Add(1)
	}
	return err
}

func (l limitedAPI) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := l.wait(ctx); err != nil {
		return err
	}
	return l.Reader.Get(ctx, key, object, options...)
}

// When all hosts of a site boot at once, each agent gets its session after a while, and little work is
// done twice.
func TestManyAgentsGetSessions(t *testing.T) {
	hosts := 80
	if needs.IsFull() {
		hosts = 500
	}
	objects := []client.Object{loopback(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "c1"}}}
	source := func(i int) string { return fmt.Sprintf("127.1.%d.%d", i/200, i%200+1) }
	name := func(i int) string { return fmt.Sprintf("h%d", i) }
	for i := range hosts {
		host := installing(func(h *infrav1.IngotHost) {
			h.Name, h.UID = name(i), types.UID(name(i))
			h.Spec.Order.AgentKey, h.Spec.Order.ID = "", name(i)
		})
		hardware := recorded(source(i))
		hardware.Name = host.Name
		objects = append(objects, host, hardware)
	}
	s := newSite(t, objects...)
	claims := func(i int) token.Claims {
		claims := validClaims(s)
		claims.Host, claims.OrderID = name(i), name(i)
		return claims
	}
	synctest.Test(t, func(t *testing.T) {
		api := limitedAPI{s.client, rate.NewLimiter(20, 40), &atomic.Int32{}}
		writes := interceptor.NewClient(s.client, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				if err := api.wait(ctx); err != nil {
					return err
				}
				return c.Patch(ctx, object, patch, options...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
				if err := api.wait(ctx); err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, object, patch, options...)
			},
		})
		server := New(Options{Client: writes, Live: api, Keys: s.keys, Recorder: s.events, Clock: s.clock, Log: logr.Discard()})
		start := time.Now()
		var agents sync.WaitGroup
		for i := range hosts {
			agents.Go(func() {
				for backoff := time.Second; ; backoff = min(2*backoff, 30*time.Second) {
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					got := send(ctx, s, server, agentapi.PathSession, source(i), claims(i), agentapi.SessionRequest{Hardware: found()})
					cancel()
					if got.status == 0 {
						return
					}
					if got.status != http.StatusServiceUnavailable || time.Since(start) > time.Hour {
						t.Errorf("host %s: status %d after %s: %s", name(i), got.status, time.Since(start), got)
						return
					}
					after, _ := strconv.Atoi(got.header.Get("Retry-After"))
					time.Sleep(max(time.Duration(after)*time.Second, rand.N(backoff)))
				}
			})
		}
		agents.Wait()
		took, calls := time.Since(start), int(api.calls.Load())
		t.Logf("%d sessions in %s with %d API calls, %d for each", hosts, took.Round(time.Second), calls, calls/hosts)
		// 20 calls a second, 8 for each session, and half as much again.
		if limit := time.Duration(hosts*8/20) * time.Second * 3 / 2; took > limit || calls > hosts*9 {
			t.Errorf("want at most %s and %d calls", limit, hosts*9)
		}
	})
}
