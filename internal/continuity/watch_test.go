// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package continuity

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// world is an API server and its managers, one after the other.
type world struct {
	*testing.T
	client client.Client
	clock  *clocktesting.FakeClock
}

func newWorld(t *testing.T) *world {
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return &world{T: t, client: fake.NewClientBuilder().WithScheme(scheme).Build(), clock: clocktesting.NewFakeClock(time.Unix(1e9, 0).UTC())}
}

func (w *world) manager() *Watch {
	return &Watch{Client: w.client, Live: w.client, Clock: w.clock, Namespace: "ns", Name: "watch"}
}

func (w *world) renew(m *Watch) {
	w.Helper()
	if err := m.renew(w.Context()); err != nil {
		w.Fatal(err)
	}
}

func (w *world) lease() *coordinationv1.Lease {
	w.Helper()
	lease := &coordinationv1.Lease{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: "ns", Name: "watch"}, lease); err != nil {
		w.Fatal(err)
	}
	return lease
}

// restore puts the Lease back as it was in a backup.
func (w *world) restore(backup *coordinationv1.Lease) {
	w.Helper()
	lease := w.lease()
	lease.Spec = backup.Spec
	if err := w.client.Update(w.Context(), lease); err != nil {
		w.Fatal(err)
	}
}

func (w *world) since(m *Watch, want time.Time, what string) {
	w.Helper()
	if got := m.Since(); !got.Equal(want) {
		w.Errorf("%s: since %s, want %s", what, got, want)
	}
}

// TestRestartsGoOn: a manager that starts soon after another takes over its time, and any
// number of them in a row.
func TestRestartsGoOn(t *testing.T) {
	w := newWorld(t)
	first := w.clock.Now()
	for range 5 {
		m := w.manager()
		w.renew(m)
		w.since(m, first, "after a restart")
		w.clock.Step(Interval)
		w.renew(m)
		w.clock.Step(MaxGap)
	}
}

// TestGapsBeginAgain: what happened while no manager was there is not known. The time is kept
// over a restart: the state from before does not become current by that.
func TestGapsBeginAgain(t *testing.T) {
	w := newWorld(t)
	w.renew(w.manager())
	w.clock.Step(MaxGap + time.Second)
	late, m := w.clock.Now(), w.manager()
	w.since(m, late, "before the Lease is read")
	w.clock.Step(time.Second)
	w.since(m, late, "while the Lease is not read")
	w.clock.Step(-time.Second)
	w.renew(m)
	w.since(m, late, "after a gap")
	w.clock.Step(Interval)
	next := w.manager()
	w.renew(next)
	w.since(next, late, "after a restart since")
}

// TestProcessOutlivesItsAPIServer: a manager that cannot renew for an hour has seen no other
// one act, unless the Lease shows it; a Lease that went back shows a backup.
func TestProcessOutlivesItsAPIServer(t *testing.T) {
	w := newWorld(t)
	first, m := w.clock.Now(), w.manager()
	w.renew(m)
	backup := w.lease()
	w.clock.Step(time.Hour)
	w.renew(m)
	w.since(m, first, "after an hour without the API server")
	w.clock.Step(Interval)
	w.restore(backup)
	w.renew(m)
	w.since(m, w.clock.Now(), "after a restored backup")
	restored := w.clock.Now()
	w.clock.Step(Interval)
	w.renew(m)
	w.since(m, restored, "after the next renewal")
}

// TestKnown: a manager that has asked for the Lease goes on, whether or not it was there.
func TestKnown(t *testing.T) {
	w := newWorld(t)
	m := w.manager()
	if m.Known() {
		t.Error("known before the Lease was asked for")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	for !m.Known() || !w.clock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil || w.lease().Spec.RenewTime == nil {
		t.Errorf("the Lease was not written: %v", err)
	}
	if outside := (&Watch{Clock: w.clock}); !outside.Known() {
		t.Error("a manager without a namespace waits for a Lease")
	}
}

// TestBreak: what a caller has seen counts at once, and for the managers to come.
func TestBreak(t *testing.T) {
	w := newWorld(t)
	m := w.manager()
	w.renew(m)
	w.clock.Step(Interval)
	m.Break()
	broken := w.clock.Now()
	w.since(m, broken, "at once")
	w.clock.Step(Interval)
	w.renew(m)
	w.since(m, broken, "after the renewal")
	next := w.manager()
	w.renew(next)
	w.since(next, broken, "after a restart")
}

// TestLook: a replica that does not lead finds the leader's time, and a gap as the leader
// would.
func TestLook(t *testing.T) {
	w := newWorld(t)
	look := func(m *Watch, want time.Time, what string) {
		t.Helper()
		if got, err := m.Look(t.Context()); err != nil || !got.Equal(want) {
			t.Errorf("%s: since %s, %v, want %s", what, got, err, want)
		}
	}
	follower := w.manager()
	look(follower, w.clock.Now(), "without a Lease")
	first, leader := w.clock.Now(), w.manager()
	w.renew(leader)
	w.clock.Step(MaxGap)
	look(follower, first, "while the leader is at work")
	look(leader, first, "the leader")
	w.clock.Step(time.Second)
	look(follower, w.clock.Now(), "after a gap")
	if got := w.lease().Spec.AcquireTime; !got.Time.Equal(first) {
		t.Errorf("the look wrote the Lease: %s", got)
	}
	look(&Watch{Clock: w.clock}, w.clock.Now(), "outside of a Pod")
}
