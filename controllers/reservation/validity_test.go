// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/reservation"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// Reservations end by claims: a machine may clear a selection, and then needs the host.
func TestReservationDoesNotEndWithASelection(t *testing.T) {
	d := newDesk(t, 1)
	d.promise(1)
	d.machine("x", "x-0")
	d.settle()
	d.choose("x-0", "h1")
	r, _ := d.settle()
	d.ready(r, metav1.ConditionTrue, infrav1.ReasonReservationSatisfied, "")
	d.numbers(r, 1, 1, 0)
	d.choose("x-0", "") // the host changed while it was being claimed
	r, _ = d.settle()
	d.numbers(r, 1, 0, 1)
	if plan, err := d.replica("a").Reserve(t.Context(), "uid-y", asksFor("y", 1)); err != nil || plan.Satisfied {
		t.Errorf("the last host is y's: %+v, %v", plan, err)
	}
	d.claim("x-0", "h1")
	if r, _ = d.settle(); r != nil {
		t.Errorf("fulfilled, and still there: %+v", r.Status)
	}
}

// Unclaimed hosts are reserved again only after a break as long as the next, shorter reservation.
func TestExpiredReservationIsRenewedAfterABreak(t *testing.T) {
	d := newDesk(t, 2)
	planner := d.replica("a")
	get := func() *infrav1.IngotReservation {
		r := &infrav1.IngotReservation{}
		if err := d.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "x"}, r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	ask := func(count int, want bool, says string) {
		t.Helper()
		plan, err := planner.Reserve(t.Context(), "uid-x", asksFor("x", count))
		if err != nil || plan.Satisfied != want || !strings.Contains(plan.Message, says) {
			t.Fatalf("x hears %+v, %v, want %q", plan, err, says)
		}
	}
	ask(2, true, "")
	for range 3 { // the Cluster does not come: its patches fail, or another hook blocks it
		asked := get().Spec.RequestTime
		d.clock.SetTime(get().Spec.ExpirationTime.Time)
		d.settle()
		ask(2, false, "did not claim its reserved hosts by")
		ask(2, false, "to reserve them again now: kubectl delete ires -n metal x")
		if again := get().Spec.RequestTime; !again.Equal(&asked) {
			t.Errorf("asked for at %s while it rests, before at %s", again, asked)
		}
		if plan, err := d.replica("b").Plan(t.Context(), asksFor("y", 2)); err != nil || !plan.Satisfied {
			t.Errorf("the hosts are not y's to take: %+v, %v", plan, err)
		}
		d.clock.Step(reservation.DefaultExpiry/4 - time.Second)
		ask(2, false, "other Clusters may have them until")
		d.clock.Step(time.Second)
		ask(2, true, "")
		if lasts := get().Spec.ExpirationTime.Sub(d.clock.Now()); lasts != reservation.DefaultExpiry/4 {
			t.Errorf("promised again for %s", lasts)
		}
	}
	// A different request, and one after a deletion, is not a renewal.
	d.clock.SetTime(get().Spec.ExpirationTime.Time)
	ask(1, true, "")
	if lasts := get().Spec.ExpirationTime.Sub(d.clock.Now()); lasts != reservation.DefaultExpiry {
		t.Errorf("something else is promised for %s", lasts)
	}
	d.clock.SetTime(get().Spec.ExpirationTime.Time)
	if err := d.api.Delete(t.Context(), get()); err != nil {
		t.Fatal(err)
	}
	ask(1, true, "")
}

// A reservation of the extension shrinks with the topology once the Cluster is being built; an
// operator's does not.
func TestReservationShrinksWithTheTopology(t *testing.T) {
	ours := func(r *infrav1.IngotReservation) {
		r.Spec.RequestTime = metav1.Now()
		r.Spec.Groups = append(r.Spec.Groups, infrav1.ReservedGroup{Name: "gone", Count: 2})
	}
	scale := func(replicas int32) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) {
			c.Spec.Topology.ClassRef.Name = "c"
			c.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Name: "md", Replicas: &replicas}}
		}
	}
	for name, tc := range map[string]struct {
		change   func(*infrav1.IngotReservation)
		replicas int32
		unbuilt  bool
		want     []int32 // promised, claimed, outstanding; nil: it ends
	}{
		"scaled down":        {ours, 2, false, []int32{2, 1, 1}},
		"to what it has":     {ours, 1, false, nil},
		"to nothing":         {ours, 0, false, nil},
		"scaled up":          {ours, 9, false, []int32{4, 1, 3}},
		"a person's":         {func(*infrav1.IngotReservation) {}, 2, false, []int32{4, 1, 3}},
		"blocked by a hook":  {ours, 2, true, []int32{6, 1, 5}},
		"for an upgrade":     {func(r *infrav1.IngotReservation) { ours(r); r.Spec.Purpose = infrav1.ReservationUpgrade }, 1, false, []int32{2, 1, 1}},
		"a person's, halved": {func(r *infrav1.IngotReservation) { r.Spec.Groups[0].Count = 2 }, 1, false, []int32{2, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, 9)
			d.promise(4, tc.change)
			d.machine("x", "x1")
			d.claim("x1", "h1")
			d.cluster(func(c *clusterv1.Cluster) {
				scale(tc.replicas)(c)
				if tc.unbuilt {
					c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{}
				}
			})
			r, _ := d.settle()
			if tc.want == nil {
				if r != nil {
					t.Errorf("it keeps %+v", r.Spec.Groups)
				}
				return
			}
			if r == nil {
				t.Fatal("it has ended")
			}
			d.numbers(r, tc.want...)
		})
	}
}

func forUpgrade(cluster string, count int) allocation.PlanRequest {
	request := asksFor(cluster, count)
	request.Purpose = infrav1.ReservationUpgrade
	return request
}

// An upgrade's reservation stays while the Cluster has all its hosts, so that a released host
// returns to it. It ends with the upgrade, and costs nothing if it is not possible.
func TestUpgradeReservation(t *testing.T) {
	d := newDesk(t, 3)
	planner := d.replica("a")
	for _, host := range []string{"1", "2"} {
		d.machine("x", "x"+host)
		d.claim("x"+host, "h"+host)
	}
	if plan, err := planner.Reserve(t.Context(), "uid-x", forUpgrade("x", 2)); err != nil || !plan.Satisfied {
		t.Fatalf("%+v, %v", plan, err)
	}
	r, _ := d.settle()
	d.ready(r, metav1.ConditionTrue, infrav1.ReasonReservationSatisfied, "")
	d.numbers(r, 2, 2, 0)
	if plan, err := planner.Reserve(t.Context(), "uid-x", forUpgrade("x", 4)); err != nil || plan.Satisfied {
		t.Fatalf("%+v, %v", plan, err)
	}
	if again, _ := d.settle(); again == nil || again.ResourceVersion != r.ResourceVersion {
		t.Errorf("an upgrade that is held changed the promise: %+v", again)
	}
	// Its machine is deleted, and the host is not free yet: no warning.
	if err := d.api.Delete(t.Context(), &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x1"}}); err != nil {
		t.Fatal(err)
	}
	if plan, err := d.replica("b").Reserve(t.Context(), "uid-y", asksFor("y", 1)); err != nil || plan.Satisfied {
		t.Errorf("y is promised the host that x is to get: %+v, %v", plan, err)
	}
	if err := d.api.Delete(t.Context(), &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "h3"}}); err != nil {
		t.Fatal(err)
	}
	r, _ = d.settle()
	d.ready(r, metav1.ConditionTrue, infrav1.ReasonReservationSatisfied, "")
	d.numbers(r, 2, 1, 1)
	for _, uid := range []types.UID{"uid-new", "uid-x", "uid-x"} { // of another Cluster of that name, and twice
		if err := planner.EndUpgrade(t.Context(), uid, client.ObjectKey{Namespace: ns, Name: "x"}); err != nil {
			t.Fatal(err)
		}
		if r, _ := d.settle(); (r == nil) != (uid == "uid-x") {
			t.Errorf("after the end of %s's upgrade: %+v", uid, r)
		}
	}
	d.promise(2)
	if err := planner.EndUpgrade(t.Context(), "uid-x", client.ObjectKey{Namespace: ns, Name: "x"}); err != nil {
		t.Fatal(err)
	}
	if r, _ := d.settle(); r == nil {
		t.Error("the end of an upgrade ended what was promised for something else")
	}
}

// An upgrade's reservation lasts as long as replacing its machines one by one, and expires if it
// was forgotten.
func TestUpgradeLastsByItsMachines(t *testing.T) {
	d := newDesk(t, 30)
	for i := range 30 {
		name := fmt.Sprintf("x%d", i+1)
		d.machine("x", name)
		d.claim(name, fmt.Sprintf("h%d", i+1))
	}
	if plan, err := d.replica("a").Reserve(t.Context(), "uid-x", forUpgrade("x", 30)); err != nil || !plan.Satisfied {
		t.Fatalf("%+v, %v", plan, err)
	}
	r, _ := d.settle()
	if lasts := r.Spec.ExpirationTime.Sub(d.clock.Now()); lasts != 30*time.Hour {
		t.Errorf("it lasts %s", lasts)
	}
	d.clock.Step(30 * time.Hour)
	if r, _ := d.settle(); r != nil {
		t.Errorf("forgotten, met, and there: %+v", r)
	}
}

// Hosts and hardware are not listed live; machines are, in pages.
func TestNoLiveListOfHosts(t *testing.T) {
	d := newDesk(t, 2)
	pages := 0
	live := interceptor.NewClient(d.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			o := (&client.ListOptions{}).ApplyOptions(opts)
			switch list := list.(type) {
			case *infrav1.IngotHostList, *infrav1.IngotHardwareList:
				t.Errorf("a live list of %T", list)
			case *infrav1.IngotMachineList:
				if o.Limit == 0 || o.Continue != strings.Repeat("n", pages) {
					t.Errorf("page %d: limit %d, continue %q", pages, o.Limit, o.Continue)
				}
				if pages++; pages < 3 {
					list.Continue = strings.Repeat("n", pages)
					m := infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("z%d", pages)}}
					m.Spec.ProviderID = infrav1.ProviderID{Namespace: ns, Host: fmt.Sprintf("h%d", pages), InstanceID: instanceID}.String()
					list.Items = append(list.Items, m)
				}
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
	planner := &reservation.Planner{Client: d.api, Live: live, Clock: d.clock}
	plan, err := planner.Reserve(t.Context(), "uid-x", asksFor("x", 1))
	if err != nil || plan.Satisfied || pages != 3 {
		t.Errorf("%d pages say that both hosts are chosen, and x hears %+v, %v", pages, plan, err)
	}
}

// A replica counts hosts for two requests at once. A request that waits longer than its context
// returns its error.
func TestConcurrentRequestsAreBounded(t *testing.T) {
	d := newDesk(t, 9)
	arrived, leave := make(chan struct{}, 9), make(chan struct{})
	live := interceptor.NewClient(d.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, machines := list.(*infrav1.IngotMachineList); machines {
				arrived <- struct{}{}
				<-leave
			}
			return c.List(ctx, list, opts...)
		},
	})
	planner := &reservation.Planner{Client: d.api, Live: live, Clock: d.clock}
	answers := make(chan error, 2)
	for _, name := range []string{"x", "y"} {
		go func() {
			plan, err := planner.Reserve(t.Context(), types.UID("uid-"+name), asksFor(name, 1))
			if err == nil && !plan.Satisfied {
				err = errors.New(plan.Message)
			}
			answers <- err
		}()
	}
	<-arrived
	<-arrived
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := planner.Reserve(impatient, "uid-z", asksFor("z", 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("the third hears %v", err)
	}
	close(leave)
	for range 2 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}
