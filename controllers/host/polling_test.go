// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// fakeWatches are watched by hand.
type fakeWatches struct {
	wanted  map[string]bmc.Target
	watched bool
}

func (w *fakeWatches) Want(key string, target bmc.Target) {
	if w.wanted == nil {
		w.wanted = map[string]bmc.Target{}
	}
	w.wanted[key] = target
}
func (w *fakeWatches) Drop(key string) { delete(w.wanted, key) }
func (w *fakeWatches) Watched(key string) bool {
	_, wanted := w.wanted[key]
	return w.watched && wanted
}

func TestPollInterval(t *testing.T) {
	provisioned := func(h *infrav1.IngotHost) { h.Spec.Claim = &infrav1.HostClaim{State: infrav1.ClaimProvisioned} }
	well := lifecycle.Observation{Power: infrav1.PowerStateOn, Health: lifecycle.HealthOK}
	with := func(change func(*lifecycle.Observation)) lifecycle.Observation {
		obs := well
		change(&obs)
		return obs
	}
	for name, tc := range map[string]struct {
		host    func(*infrav1.IngotHost)
		obs     lifecycle.Observation
		watched bool
		want    int
	}{
		"provisioned and well":   {provisioned, well, false, 3},
		"health is unknown":      {provisioned, with(func(o *lifecycle.Observation) { o.Health = lifecycle.HealthUnknown }), false, 3},
		"watched":                {provisioned, well, true, 10},
		"watched and free":       {func(*infrav1.IngotHost) {}, well, true, 10},
		"watched, does not tell": {provisioned, with(func(o *lifecycle.Observation) { o.BMC = lifecycle.BMCTimeout }), true, 1},
		"free":                   {func(*infrav1.IngotHost) {}, with(func(o *lifecycle.Observation) { o.Power = infrav1.PowerStateOff }), false, 1},
		"ails":                   {provisioned, with(func(o *lifecycle.Observation) { o.Health = lifecycle.HealthWarning }), false, 1},
		"off":                    {provisioned, with(func(o *lifecycle.Observation) { o.Power = infrav1.PowerStateOff }), false, 1},
		"being installed": {func(h *infrav1.IngotHost) {
			h.Spec.Claim = &infrav1.HostClaim{State: infrav1.ClaimProvisioning}
		}, well, false, 1},
		"in maintenance": {func(h *infrav1.IngotHost) { provisioned(h); h.Spec.Maintenance = ptr.To(true) }, well, false, 1},
		"leaving":        {provisioned, with(func(o *lifecycle.Observation) { o.Deleting = true }), false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h"}}
			tc.host(host)
			watches := &fakeWatches{watched: tc.watched}
			watches.Want("n/h", bmc.Target{})
			r := &Reconciler{Poll: time.Minute, Watches: watches}
			if got := r.pollInterval(host, tc.obs); got != time.Duration(tc.want)*time.Minute {
				t.Errorf("asked every %s, want %d minutes", got, tc.want)
			}
		})
	}
}

// TestRequestsPerHost prints the BMC requests of idle hosts and checks the budget: one request a
// minute and host in any ten minutes.
func TestRequestsPerHost(t *testing.T) {
	const hosts, window = 1000, 10 * time.Minute
	for _, tc := range []struct {
		name   string
		factor time.Duration
	}{{"free", 1}, {"provisioned, on and well", restFactor}, {"watched for events", watchedFactor}} {
		poll := tc.factor * time.Minute
		total, most, seconds := 0, 0, make([]int, int(window/time.Second))
		for n := range hosts {
			uid, start := types.UID(fmt.Sprintf("host-%d", n)), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			now := start.Add(untilPoll(uid, start, poll)) // all started together
			asked := 0
			for from := now; now.Sub(from) < window; now = now.Add(untilPoll(uid, now, poll)) {
				asked++
				seconds[int(now.Sub(start)/time.Second)%len(seconds)]++
			}
			total, most = total+asked, max(most, asked)
		}
		t.Logf("%-26s %.2f requests per host and minute in the mean, %.2f at most; of %d hosts at most %d in one second",
			tc.name, float64(total)/hosts/window.Minutes(), float64(most)/window.Minutes(), hosts, slices.Max(seconds))
		if float64(most) > window.Minutes()/float64(tc.factor)+1 || most > int(window/time.Minute) {
			t.Errorf("%s: %d requests in %s", tc.name, most, window)
		}
	}
}

// A BMC event triggers a reconcile at once, the end of a stream within a poll interval.
func TestHeard(t *testing.T) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	r := &Reconciler{Poll: time.Millisecond}
	r.HandleBMCEvent("n/early", bmc.WatchChanged) // before the controller runs: lost, but the first poll is soon
	if err := r.setQueue(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []bmc.WatchEventKind{bmc.WatchChanged, bmc.WatchEnded} {
		r.HandleBMCEvent("n/h", kind)
		item, _ := queue.Get()
		if item.Namespace != "n" || item.Name != "h" {
			t.Errorf("%s brings up %s", kind, item)
		}
		queue.Done(item)
	}
	r.HandleBMCEvent("n/h", bmc.WatchStarted)
	r.HandleBMCEvent("nonsense", bmc.WatchChanged)
	if queue.Len() != 0 {
		t.Error("brought up for nothing")
	}
}

// A host has one event stream, none during a pause, and none after it is gone.
func testEventStream(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	watches := &fakeWatches{watched: true}
	y.Reconciler.Watches = watches
	y.ready("h")
	y.inspect("h")
	key := y.ns + "/h"
	wantWatched := func(when string, want bool) {
		t.Helper()
		if _, got := watches.wanted[key]; got != want {
			t.Errorf("%s: watched %v, want %v", when, got, want)
		}
	}
	wantWatched("available", true)
	if after := y.step("h").RequeueAfter; after <= y.Poll {
		t.Errorf("a watched host is looked at after %s", after)
	}
	y.edit("h", func(h *infrav1.IngotHost) { h.Annotations = map[string]string{"cluster.x-k8s.io/paused": ""} })
	y.step("h")
	wantWatched("paused", false)
	y.edit("h", func(h *infrav1.IngotHost) { h.Annotations = nil })
	for range 3 {
		y.step("h")
	}
	wantWatched("not paused", true)
	y.edit("h", func(h *infrav1.IngotHost) { h.Spec.BMC.CredentialsRef.Name = "missing" })
	y.step("h")
	wantWatched("without credentials", false)
	y.edit("h", func(h *infrav1.IngotHost) { h.Spec.BMC.CredentialsRef.Name = "bmc" })
	y.step("h")
	wantWatched("with credentials", true)
	twin := y.ready("twin", func(h *infrav1.IngotHost) { h.Spec.BMC.Address = y.get("h").Spec.BMC.Address })
	y.step("h")
	wantWatched("twice", false)
	must(y, y.api.Delete(y.ctx, twin))
	y.step("h")
	wantWatched("once", true)
	must(y, y.api.Delete(y.ctx, y.get("h")))
	for range 3 {
		y.step("h")
	}
	wantWatched("gone", false)
}

// Hosts that start together get distinct poll times, each exactly once in an interval.
func TestUntilPoll(t *testing.T) {
	const hosts, poll = 600, time.Minute
	start := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	seconds := make([]int, 60)
	for n := range hosts {
		uid, now := types.UID(fmt.Sprintf("host-%d", n)), start
		first := untilPoll(uid, now, poll)
		if first <= poll/2 || first > 3*poll/2 {
			t.Errorf("%s: first asked after %s", uid, first)
		}
		now = now.Add(first)
		seconds[now.Second()]++
		for _, late := range []time.Duration{0, time.Millisecond, time.Second, 10 * time.Second} {
			if got := untilPoll(uid, now.Add(late), poll); got != poll-late {
				t.Errorf("%s: %s after its moment it waits %s, want %s", uid, late, got, poll-late)
			}
		}
	}
	if busiest, quietest := slices.Max(seconds), slices.Min(seconds); busiest > 30 || quietest == 0 {
		t.Errorf("%d hosts by second of the minute, want about 10 in each: %v", hosts, seconds)
	}
}
