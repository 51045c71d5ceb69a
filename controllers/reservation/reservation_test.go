// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/reservation"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// fixture is a world with a reconciler.
type fixture struct {
	*world
	*reservation.Reconciler
	events *events.FakeRecorder
}

func newDesk(t *testing.T, hosts int) *fixture {
	t.Helper()
	w := newWorld(t, 0, hosts)
	recorder := events.NewFakeRecorder(100)
	return &fixture{world: w, events: recorder, Reconciler: &reservation.Reconciler{Client: w.api, Recorder: recorder, Clock: w.clock}}
}

func (d *fixture) promise(count int32, change ...func(*infrav1.IngotReservation)) {
	d.t.Helper()
	r := &infrav1.IngotReservation{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x", Generation: 3}, Spec: infrav1.IngotReservationSpec{
		State: infrav1.ReservationReserved, Groups: []infrav1.ReservedGroup{{Name: "md", Count: count}}}}
	for _, c := range change {
		c(r)
	}
	d.create(r)
}

// settle reconciles until nothing changes and returns the reservation; nil: it is gone.
func (d *fixture) settle() (*infrav1.IngotReservation, time.Duration) {
	d.t.Helper()
	var after time.Duration
	for range 4 {
		result, err := d.Reconcile(d.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: ns, Name: "x"}})
		if err != nil {
			d.t.Fatal(err)
		}
		after = result.RequeueAfter
	}
	r := &infrav1.IngotReservation{}
	err := d.api.Get(d.t.Context(), client.ObjectKey{Namespace: ns, Name: "x"}, r)
	if apierrors.IsNotFound(err) {
		return nil, after
	}
	if err != nil {
		d.t.Fatal(err)
	}
	if conditions.Has(r, infrav1.ReadyCondition) && r.Status.ObservedGeneration != r.Generation {
		d.t.Errorf("status.observedGeneration is %d, metadata.generation %d", r.Status.ObservedGeneration, r.Generation)
	}
	return r, after
}

func (d *fixture) ready(r *infrav1.IngotReservation, status metav1.ConditionStatus, reason, says string) {
	d.t.Helper()
	if r == nil {
		d.t.Fatalf("the reservation is gone, want %s", reason)
	}
	c := conditions.Get(r, infrav1.ReadyCondition)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, says) {
		d.t.Errorf("Ready = %+v, want %s %s with %q", c, status, reason, says)
	}
}

// numbers checks promised, claimed and outstanding hosts.
func (d *fixture) numbers(r *infrav1.IngotReservation, want ...int32) {
	d.t.Helper()
	got := []int32{*r.Status.Reserved, *r.Status.Claimed, *r.Status.Outstanding}
	if diff := cmp.Diff(want, got); diff != "" {
		d.t.Errorf("promised, claimed, outstanding (-want +got):\n%s", diff)
	}
}

// claim writes the machine's intent and then the claim, as controllers/machine does.
func (d *fixture) claim(name, host string) {
	d.t.Helper()
	d.choose(name, host)
	h := &infrav1.IngotHost{}
	if err := d.api.Get(d.t.Context(), client.ObjectKey{Namespace: ns, Name: host}, h); err != nil {
		d.t.Fatal(err)
	}
	h.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: name}, ClusterName: name[:1], InstanceID: instanceID, State: infrav1.ClaimProvisioning}
	if err := d.api.Update(d.t.Context(), h); err != nil {
		d.t.Fatal(err)
	}
}

const instanceID = "1b0e5e0c-9c3e-4b59-9a6c-6a1f0c3f6f11"

// choose writes or clears (empty) the machine's intent.
func (d *fixture) choose(name, host string) {
	d.t.Helper()
	m := &infrav1.IngotMachine{}
	if err := d.api.Get(d.t.Context(), client.ObjectKey{Namespace: ns, Name: name}, m); err != nil {
		d.t.Fatal(err)
	}
	m.Spec.ProviderID = ""
	if host != "" {
		m.Spec.ProviderID = infrav1.ProviderID{Namespace: ns, Host: host, InstanceID: instanceID}.String()
	}
	if err := d.api.Update(d.t.Context(), m); err != nil {
		d.t.Fatal(err)
	}
}

func (d *fixture) cluster(change func(*clusterv1.Cluster)) {
	d.t.Helper()
	c := &clusterv1.Cluster{}
	if err := d.api.Get(d.t.Context(), client.ObjectKey{Namespace: ns, Name: "x"}, c); err != nil {
		d.t.Fatal(err)
	}
	change(c)
	if err := d.api.Update(d.t.Context(), c); err != nil {
		d.t.Fatal(err)
	}
}

// A reservation shrinks with each claim and ends with the last one.
func TestReservationEndsWithTheLastClaim(t *testing.T) {
	d := newDesk(t, 3)
	registry := prometheus.NewRegistry()
	counted, err := reservation.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	d.Metrics = counted
	d.promise(2, func(r *infrav1.IngotReservation) {
		r.Spec.ExpirationTime = metav1.NewTime(d.clock.Now().Add(30 * time.Second))
	})
	d.machine("x", "x1")
	d.machine("x", "x2")
	r, after := d.settle()
	d.ready(r, metav1.ConditionTrue, infrav1.ReasonReservationSatisfied, "")
	d.numbers(r, 2, 0, 2)
	if after <= 0 || after > 31*time.Second {
		t.Errorf("looked at again after %s, and it expires in 30 s", after)
	}
	if len(r.OwnerReferences) != 1 || r.OwnerReferences[0].UID != "uid-x" || r.Labels[clusterv1.ClusterNameLabel] != "x" {
		t.Errorf("not the Cluster's: %+v", r.ObjectMeta)
	}
	if shown, err := registry.Gather(); err != nil || len(shown) != 1 || shown[0].GetMetric()[0].GetGauge().GetValue() != 2 {
		t.Errorf("measured: %v, %v", shown, err)
	}
	d.claim("x1", "h1")
	r, _ = d.settle()
	d.numbers(r, 2, 1, 1)
	r, _ = d.settle()
	d.numbers(r, 2, 1, 1)
	d.claim("x2", "h2")
	if r, _ = d.settle(); r != nil {
		t.Errorf("fulfilled, and still there: %+v", r.Status)
	}
	if event := <-d.events.Events; !strings.Contains(event, infrav1.ReasonReservationConsumed) {
		t.Errorf("event %q", event)
	}
	if left, err := registry.Gather(); err != nil || len(left) != 0 {
		t.Errorf("still measured: %v, %v", left, err)
	}
}

func TestPromiseEndsInTheSecondAttempt(t *testing.T) {
	d := newDesk(t, 1)
	d.promise(1)
	d.machine("x", "x-0")
	d.settle()
	d.claim("x-0", "h1")
	changed := true
	d.Client = interceptor.NewClient(d.api, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if changed {
				changed = false
				return apierrors.NewConflict(schema.GroupResource{Resource: "ingotreservations"}, obj.GetName(), errors.New("the object has been modified"))
			}
			return c.Delete(ctx, obj, opts...)
		},
	})
	again := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: ns, Name: "x"}}
	if _, err := d.Reconcile(t.Context(), again); !apierrors.IsConflict(err) {
		t.Errorf("it is not tried again: %v", err)
	}
	if n := len(d.events.Events); n != 0 {
		t.Errorf("%d events tell of an end that was none: %s", n, <-d.events.Events)
	}
	if r, _ := d.settle(); r != nil || len(d.events.Events) != 1 {
		t.Errorf("%v is there, %d events", r, len(d.events.Events))
	}
}

func TestHostsThatWerePromisedAreGone(t *testing.T) {
	d := newDesk(t, 1)
	d.promise(2)
	r, after := d.settle()
	d.ready(r, metav1.ConditionFalse, infrav1.ReasonInsufficientHosts, "1 host is missing: machine deployment md lacks 1 of 2 hosts")
	if after < time.Minute || after > 2*time.Minute { // not all at the same moment
		t.Errorf("looked at again after %s", after)
	}
	d.host("h9")
	r, _ = d.settle()
	d.ready(r, metav1.ConditionTrue, infrav1.ReasonReservationSatisfied, "")
}

func TestPromiseExpires(t *testing.T) {
	d := newDesk(t, 2)
	d.promise(2, func(r *infrav1.IngotReservation) {
		r.Spec.ExpirationTime = metav1.NewTime(d.clock.Now().Add(time.Hour))
	})
	r, _ := d.settle()
	d.ready(r, metav1.ConditionTrue, infrav1.ReasonReservationSatisfied, "")
	d.clock.Step(time.Hour)
	r, after := d.settle()
	d.ready(r, metav1.ConditionFalse, infrav1.ReasonReservationExpired, "2 reserved hosts were not claimed by 2026-11-20T13:00:00Z")
	d.numbers(r, 2, 0, 0)
	if after != 0 {
		t.Errorf("looked at again after %s", after)
	}
	if plan, err := d.replica("a").Reserve(t.Context(), "uid-y", asksFor("y", 2)); err != nil || !plan.Satisfied {
		t.Errorf("y hears %+v, %v", plan, err)
	}
	// A repeated request of the first does not get them.
	if plan, err := d.replica("a").Reserve(t.Context(), "uid-x", asksFor("x", 2)); err != nil || plan.Satisfied {
		t.Errorf("x hears %+v, %v", plan, err)
	}
}

func TestReservationGoesWithItsCluster(t *testing.T) {
	d := newDesk(t, 1)
	d.promise(1)
	d.settle()
	d.cluster(func(c *clusterv1.Cluster) { c.Finalizers = []string{"test/hold"} })
	if err := d.api.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}}); err != nil {
		t.Fatal(err)
	}
	if r, _ := d.settle(); r != nil {
		t.Error("the Cluster is being deleted, and its reservation stays")
	}
}

func TestReservationWithoutCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		count  int32
		change func(*infrav1.IngotReservation)
		reason string
		says   string
		kept   int32
	}{
		"its hosts are there": {1, func(*infrav1.IngotReservation) {}, infrav1.ReasonClusterMissing, "Create the Cluster, or delete the reservation", 1},
		"too few are":         {2, func(*infrav1.IngotReservation) {}, infrav1.ReasonInsufficientHosts, "", 2},
		"invalid selector": {1, func(r *infrav1.IngotReservation) {
			r.Spec.HostSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		}, infrav1.ReasonSelectorInvalid, "The reservation holds no hosts until its selector is corrected", 1},
		"expired": {1, func(r *infrav1.IngotReservation) { r.Spec.ExpirationTime = metav1.Unix(1, 0) },
			infrav1.ReasonReservationExpired, "are released", 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, 1)
			if err := d.api.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}}); err != nil {
				t.Fatal(err)
			}
			d.promise(tc.count, tc.change)
			r, _ := d.settle()
			d.ready(r, metav1.ConditionFalse, tc.reason, tc.says)
			if got := r.Status.Outstanding; got == nil || *got != tc.kept {
				t.Errorf("outstanding %v, want %d", got, tc.kept)
			}
		})
	}
}

// During a move and while the Cluster is paused, nothing happens, not even at the expiry.
func TestReservationPaused(t *testing.T) {
	d := newDesk(t, 1)
	d.cluster(func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	d.promise(1, func(r *infrav1.IngotReservation) { r.Spec.ExpirationTime = metav1.NewTime(d.clock.Now()) })
	d.machine("x", "x1")
	d.claim("x1", "h1")
	r, _ := d.settle()
	if r == nil || !conditions.IsTrue(r, infrav1.PausedCondition) || conditions.Get(r, infrav1.ReadyCondition) != nil || len(r.OwnerReferences) != 0 {
		t.Errorf("acted while paused: %+v", r)
	}
	r.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	if err := d.api.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	d.cluster(func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	if again, _ := d.settle(); again == nil || again.ResourceVersion != r.ResourceVersion {
		t.Errorf("acted on what clusterctl moves: %+v", again)
	}
}

func TestReservationWithAWrongSelector(t *testing.T) {
	d := newDesk(t, 1)
	d.promise(1, func(r *infrav1.IngotReservation) {
		r.Spec.HostSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	})
	r, _ := d.settle()
	d.ready(r, metav1.ConditionFalse, infrav1.ReasonSelectorInvalid, "The reservation holds no hosts until its selector is corrected")
}

// M41: reservations of another manager's Cluster are not touched.
func TestReservationWatchFilter(t *testing.T) {
	d := newDesk(t, 1)
	d.WatchFilterValue = "mine"
	d.promise(1)
	if r, _ := d.settle(); r == nil || len(r.Status.Conditions) != 0 {
		t.Errorf("another's was looked after: %+v", r)
	}
	d.cluster(func(c *clusterv1.Cluster) { c.Labels = map[string]string{clusterv1.WatchLabel: "mine"} })
	r, _ := d.settle()
	d.ready(r, metav1.ConditionFalse, infrav1.ReasonInsufficientHosts, "lacks 1 of 1 hosts") // the host is another's
	hosts := &infrav1.IngotHostList{}
	if err := d.api.List(t.Context(), hosts); err != nil || len(hosts.Items) != 1 {
		t.Fatalf("%d hosts, %v", len(hosts.Items), err)
	}
	hosts.Items[0].Labels = map[string]string{clusterv1.WatchLabel: "mine"}
	if err := d.api.Update(t.Context(), &hosts.Items[0]); err != nil {
		t.Fatal(err)
	}
	r, _ = d.settle()
	d.ready(r, metav1.ConditionTrue, infrav1.ReasonReservationSatisfied, "")
}

// A new request replaces the reservation. A reservation of an earlier Cluster with the same name is
// not used.
func TestNewRequestReplacesTheReservation(t *testing.T) {
	d := newDesk(t, 3)
	planner := d.replica("a")
	for _, step := range []struct {
		uid       types.UID
		count     int
		satisfied bool
	}{{"uid-x", 1, true}, {"uid-x", 3, true}, {"uid-new", 3, true}, {"uid-new", 4, false}, {"uid-new", 2, true}} {
		plan, err := planner.Reserve(t.Context(), step.uid, asksFor("x", step.count))
		if err != nil || plan.Satisfied != step.satisfied {
			t.Fatalf("%+v: %+v, %v", step, plan, err)
		}
		r := &infrav1.IngotReservation{}
		err = d.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "x"}, r)
		if !step.satisfied {
			if !apierrors.IsNotFound(err) {
				t.Fatalf("%+v: %v, want no reservation", step, err)
			}
			continue
		}
		if err != nil || r.Spec.Groups[0].Count != int32(step.count) || r.OwnerReferences[0].UID != step.uid || r.Spec.ExpirationTime.Sub(d.clock.Now()) != reservation.DefaultExpiry {
			t.Fatalf("%+v: %+v, %v", step, r, err)
		}
	}
}

// A reservation gets its status without an event: each reconcile schedules the next one until then.
// A write to the status triggers no reconcile.
func TestStatusComesByItself(t *testing.T) {
	d := newDesk(t, 1)
	d.promise(1)
	for range 4 {
		result, err := d.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: ns, Name: "x"}})
		if err != nil || result.RequeueAfter == 0 {
			t.Fatalf("%+v, %v: no further reconcile", result, err)
		}
	}
	r := &infrav1.IngotReservation{}
	if err := d.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "x"}, r); err != nil || conditions.Get(r, infrav1.ReadyCondition) == nil {
		t.Errorf("%+v, %v", r.Status, err)
	}
}

// M41: a manager with --watch-filter reserves only hosts that its machines may have. A claimed host
// counts for its Cluster whatever its label.
func TestUnselectedHostsAreNotReserved(t *testing.T) {
	w := newWorld(t, 0, 3)
	planner := &reservation.Planner{Client: w.api, Live: w.api, Clock: w.clock, WatchFilterValue: "mine"}
	label := func(name, value string, claim *infrav1.HostClaim) {
		t.Helper()
		host := &infrav1.IngotHost{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, host); err != nil {
			t.Fatal(err)
		}
		host.Labels, host.Spec.Claim = map[string]string{clusterv1.WatchLabel: value}, claim
		if err := w.api.Update(t.Context(), host); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, free, claimed int) {
		t.Helper()
		plan, err := planner.Plan(t.Context(), allocation.PlanRequest{Namespace: ns, ClusterName: "x",
			Demand: allocation.Demand{Groups: []allocation.DemandGroup{{Name: "md", Count: 100}}}})
		if err != nil || len(plan.Missing) != 1 {
			t.Fatalf("%s: %+v, %v", when, plan, err)
		}
		snapshot, err := planner.Snapshot(t.Context(), ns)
		if err != nil {
			t.Fatal(err)
		}
		if got, has := plan.Missing[0].Free, len(snapshot.ClaimedBy(ns, "c")); got != free || has != claimed {
			t.Errorf("%s: %d are free and %d the Cluster's, want %d and %d", when, got, has, free, claimed)
		}
	}
	label("h1", "mine", nil)
	label("h2", "theirs", nil)
	label("h3", "theirs", &infrav1.HostClaim{ClusterName: "c", InstanceID: "i"})
	check("one of three is ours", 1, 1)
	label("h2", "mine", nil)
	check("and another", 2, 1)
	label("h1", "theirs", nil)
	check("one is given away", 1, 1)
}
