// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/testscheme"
)

const instance = "11111111-1111-4111-8111-111111111111"

// fixture is a fake API server with a reconciler. It counts patches of hosts.
type fixture struct {
	*Reconciler
	t       *testing.T
	patches int
	fail    func(client.Object) error
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := testscheme.Scheme(t, ipamv1.AddToScheme)
	y := &fixture{t: t}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			y.patches++
			if y.fail != nil {
				if err := y.fail(obj); err != nil {
					return err
				}
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	y.Reconciler = &Reconciler{Client: c, Live: c, Clock: testclock.NewFakePassiveClock(time.Unix(1000, 0))}
	return y
}

func (y *fixture) step() ctrl.Result {
	y.t.Helper()
	result, err := y.Reconcile(y.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "metal"}})
	if err != nil {
		y.t.Fatal(err)
	}
	return result
}

// took returns the number of patches since the last call.
func (y *fixture) took() int {
	n := y.patches
	y.patches = 0
	return n
}

// carries counts the hosts by annotation.
func (y *fixture) carries() map[string]int {
	y.t.Helper()
	hosts := &infrav1.IngotHostList{}
	if err := y.Client.List(y.t.Context(), hosts); err != nil {
		y.t.Fatal(err)
	}
	out := map[string]int{}
	for i := range hosts.Items {
		for _, name := range []string{paused, blocked} {
			if _, has := hosts.Items[i].Annotations[name]; has {
				out[name]++
			}
		}
	}
	return out
}

func (y *fixture) pauseCluster(name string, on bool) {
	y.t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := y.Client.Get(y.t.Context(), client.ObjectKey{Namespace: "metal", Name: name}, cluster); err != nil {
		y.t.Fatal(err)
	}
	cluster.Spec.Paused = ptr.To(on)
	if err := y.Client.Update(y.t.Context(), cluster); err != nil {
		y.t.Fatal(err)
	}
}

func fleet(n int) []client.Object {
	a, b := clusterOf("a", nil), clusterOf("b", nil)
	out := []client.Object{&a, &b}
	for i := range n {
		host := hostWith("mine")
		host.Name = fmt.Sprintf("h%d", i)
		out = append(out, host)
	}
	other := hostWith()
	other.Namespace = "elsewhere"
	return append(out, other)
}

// Each transition costs one write per host; at rest there are none.
func TestOneWriteATransition(t *testing.T) {
	const n = 500
	y := newFixture(t, fleet(n)...)
	for _, tc := range []struct {
		name  string
		do    func()
		wrote int
		want  map[string]int
	}{
		{"clusters at work", func() {}, n, map[string]int{blocked: n}},
		{"one of two is paused", func() { y.pauseCluster("a", true) }, 0, map[string]int{blocked: n}},
		{"both are paused", func() { y.pauseCluster("b", true) }, n, map[string]int{blocked: n, paused: n}},
		{"the move is given up", func() { y.pauseCluster("a", false) }, n, map[string]int{blocked: n}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.do()
			if after := y.step().RequeueAfter; after != 0 {
				t.Errorf("comes again after %s", after)
			}
			y.step()
			if wrote := y.took(); wrote != tc.wrote {
				t.Errorf("%d writes, want %d", wrote, tc.wrote)
			}
			if diff := cmp.Diff(tc.want, y.carries()); diff != "" {
				t.Errorf("hosts carry (-want +got):\n%s", diff)
			}
		})
	}
	host := &infrav1.IngotHost{}
	if err := y.Client.Get(t.Context(), client.ObjectKey{Namespace: "metal", Name: "h7"}, host); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"mine": "x", blocked: ""}, host.Annotations); diff != "" {
		t.Errorf("annotations of others (-want +got):\n%s", diff)
	}
}

// Busy servers are paused first: in a large namespace the others take a while.
func TestServersAtWorkComeFirst(t *testing.T) {
	objects := fleet(20)
	for i, object := range objects {
		if host, ok := object.(*infrav1.IngotHost); ok && i%5 == 0 {
			host.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderClean}
		}
	}
	y := newFixture(t, objects...)
	var orders []bool
	y.fail = func(o client.Object) error {
		host, ok := o.(*infrav1.IngotHost)
		orders = append(orders, ok && host.Spec.Order != nil)
		return nil
	}
	y.step()
	if len(orders) != 20 || !slices.IsSortedFunc(orders, func(a, b bool) int {
		switch {
		case a == b:
			return 0
		case a:
			return -1
		}
		return 1
	}) || !orders[0] {
		t.Errorf("hosts with an order are written in the places of true: %v", orders)
	}
}

// On the target, a claimed host waits for its machine, a free host does not.
func TestLiftWaitsForTheMachine(t *testing.T) {
	running := clusterOf("a", nil)
	claimed, releasing, free := hostWith(paused), hostWith(paused), hostWith(paused)
	claimed.Name, releasing.Name, free.Name = "claimed", "releasing", "free"
	claimed.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m"}, InstanceID: instance, State: infrav1.ClaimProvisioned}
	releasing.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "gone"}, InstanceID: instance, State: infrav1.ClaimReleasing}
	y := newFixture(t, &running, claimed, releasing, free)
	machine := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "m"}}
	for _, tc := range []struct {
		name string
		do   func()
		want map[string]int
	}{
		{"no machine", func() {}, map[string]int{paused: 1, blocked: 2}},
		{"a machine of another host", func() {
			machine.Spec.ProviderID = "ingot://metal/free/" + instance
			if err := y.Client.Create(t.Context(), machine); err != nil {
				t.Fatal(err)
			}
		}, map[string]int{paused: 1, blocked: 2}},
		{"the machine", func() {
			machine.Spec.ProviderID = "ingot://metal/claimed/" + instance
			if err := y.Client.Update(t.Context(), machine); err != nil {
				t.Fatal(err)
			}
		}, map[string]int{blocked: 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.do()
			y.step()
			if diff := cmp.Diff(tc.want, y.carries()); diff != "" {
				t.Errorf("hosts carry (-want +got):\n%s", diff)
			}
		})
	}
}

// lagging lists old versions of Clusters.
type lagging struct {
	client.Client
	clusters []clusterv1.Cluster
}

func (l lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if clusters, ok := list.(*clusterv1.ClusterList); ok {
		clusters.Items = l.clusters
		return nil
	}
	return l.Client.List(ctx, list, opts...)
}

// A cache that lags behind a new move ends no pause.
func TestLiftIsConfirmedLive(t *testing.T) {
	stopped := clusterOf("a", ptr.To(true))
	y := newFixture(t, &stopped, hostWith(paused))
	y.Client = lagging{y.Client, []clusterv1.Cluster{clusterOf("a", nil)}}
	if after := y.step().RequeueAfter; after <= 0 {
		t.Error("nothing brings the namespace up again")
	}
	if diff := cmp.Diff(map[string]int{paused: 1}, y.carries()); diff != "" || y.took() != 0 {
		t.Errorf("hosts carry (-want +got):\n%s", diff)
	}
}

func TestWritesThatFail(t *testing.T) {
	gone := apierrors.NewNotFound(infrav1.GroupVersion.WithResource("ingothosts").GroupResource(), "h1")
	conflict := apierrors.NewConflict(infrav1.GroupVersion.WithResource("ingothosts").GroupResource(), "h1", errors.New("newer"))
	for name, tc := range map[string]struct {
		err   error
		again bool
		fails bool
	}{
		"a newer version": {conflict, true, false}, "a host that is gone": {gone, false, false}, "API server away": {errors.New("away"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, fleet(3)...)
			y.fail = func(o client.Object) error {
				if o.GetName() == "h1" {
					return tc.err
				}
				return nil
			}
			result, err := y.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "metal"}})
			if (err != nil) != tc.fails || (result.RequeueAfter > 0) != tc.again {
				t.Errorf("%+v, %v", result, err)
			}
			if got := y.carries()[blocked]; !tc.fails && got != 2 {
				t.Errorf("%d other hosts are written, want 2", got)
			}
		})
	}
}

func TestWatchFilter(t *testing.T) {
	running := clusterOf("a", nil)
	ours, theirs := hostWith(), hostWith()
	ours.Name, ours.Labels = "ours", map[string]string{clusterv1.WatchLabel: "blue"}
	y := newFixture(t, &running, ours, theirs)
	y.WatchFilterValue = "blue"
	y.step()
	if got := y.carries()[blocked]; got != 1 {
		t.Errorf("%d hosts are written, want the one with the label", got)
	}
}

func TestHostChangedIgnoresOtherChanges(t *testing.T) {
	host := func(change func(*infrav1.IngotHost)) *infrav1.IngotHost {
		h := hostWith(blocked)
		change(h)
		return h
	}
	for name, tc := range map[string]struct {
		before, after *infrav1.IngotHost
		want          bool
	}{
		"status":                {hostWith(blocked), host(func(h *infrav1.IngotHost) { h.Status.Phase = infrav1.PhaseAvailable }), false},
		"another annotation":    {hostWith(blocked), hostWith(blocked, "mine"), false},
		"a claim":               {hostWith(blocked), host(func(h *infrav1.IngotHost) { h.Spec.Claim = &infrav1.HostClaim{} }), false},
		"block-move removed":    {hostWith(blocked), hostWith(), true},
		"paused":                {hostWith(blocked), hostWith(blocked, paused), true},
		"a claim that waits":    {hostWith(paused), host(func(h *infrav1.IngotHost) { h.Annotations[paused] = ""; h.Spec.Claim = &infrav1.HostClaim{} }), true},
		"label of the filter":   {hostWith(blocked), host(func(h *infrav1.IngotHost) { h.Labels = map[string]string{clusterv1.WatchLabel: "x"} }), true},
		"removed by clusterctl": {hostWith(paused), hostWith(leaving), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hostChanged().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("let through: %t, want %t", got, tc.want)
			}
		})
	}
}
