// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/reservation"
)

// current reads the reservation of Cluster x; nil: there is none.
func (d *fixture) current() *infrav1.IngotReservation {
	d.t.Helper()
	r := &infrav1.IngotReservation{}
	err := d.api.Get(d.t.Context(), client.ObjectKey{Namespace: ns, Name: "x"}, r)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// wantRestored checks that the reservation has the earlier spec and no stored one.
func (d *fixture) wantRestored(want infrav1.IngotReservationSpec) {
	d.t.Helper()
	r := d.current()
	if r == nil {
		d.t.Fatal("it is gone")
	}
	if diff := cmp.Diff(want, r.Spec); diff != "" {
		d.t.Errorf("reservation (-want +got):\n%s", diff)
	}
	if len(r.Annotations) != 0 {
		d.t.Errorf("still remembered: %v", r.Annotations)
	}
}

// behind is a replica whose cache has no machines.
func (d *fixture) behind() *reservation.Planner {
	cache := interceptor.NewClient(d.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, machines := list.(*infrav1.IngotMachineList); machines {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
	return &reservation.Planner{Client: cache, Live: d.api, Clock: d.clock}
}

// A failed request of the extension does not end an operator's reservation, whether the cache shows
// the failure or not.
func TestFailedRequestKeepsTheOperatorsReservation(t *testing.T) {
	hand := func(*infrav1.IngotReservation) {}
	extension := func(r *infrav1.IngotReservation) {
		r.Spec.RequestTime = metav1.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)
	}
	expired := func(r *infrav1.IngotReservation) {
		r.Spec.ExpirationTime = metav1.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)
	}
	for name, tc := range map[string]struct {
		former func(*infrav1.IngotReservation)
		ask    infrav1.ReservationPurpose
		kept   bool
	}{
		"by hand, for a Cluster to be built":      {hand, "", true},
		"by hand, for an upgrade":                 {hand, infrav1.ReservationUpgrade, true},
		"the extension's, for other groups":       {extension, "", false},
		"the extension's, for an upgrade":         {extension, infrav1.ReservationUpgrade, true},
		"by hand, expired":                        {expired, "", false},
		"by hand, expired before the extension's": {expired, infrav1.ReservationUpgrade, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, 4)
			d.promise(2, tc.former)
			before := d.current()
			d.machine("y", "y1")
			d.choose("y1", "h4")
			asked := asksFor("x", 4)
			asked.Purpose = tc.ask
			plan, err := d.behind().Reserve(t.Context(), "uid-x", asked)
			if err != nil || plan.Satisfied {
				t.Fatalf("three hosts are enough for four: %+v, %v", plan, err)
			}
			if !tc.kept {
				if r := d.current(); r != nil {
					t.Errorf("it keeps %+v", r.Spec)
				}
				return
			}
			d.wantRestored(before.Spec)
		})
	}
	// If the cache shows it, nothing is written.
	d := newDesk(t, 3)
	d.promise(2)
	before := d.current()
	if plan, err := d.replica("a").Reserve(t.Context(), "uid-x", asksFor("x", 4)); err != nil || plan.Satisfied {
		t.Fatalf("%+v, %v", plan, err)
	}
	if after := d.current(); after == nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("written: %+v", after)
	}
}

func TestStaleRequestRestoresTheOperatorsReservation(t *testing.T) {
	d := newDesk(t, 4)
	d.promise(2)
	before := d.current()
	dies, cancel := context.WithCancel(t.Context())
	live := interceptor.NewClient(d.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			cancel()
			return ctx.Err()
		},
	})
	planner := &reservation.Planner{Client: d.api, Live: live, Clock: d.clock}
	if _, err := planner.Reserve(dies, "uid-x", asksFor("x", 3)); err == nil {
		t.Fatal("promised")
	}
	if r := d.current(); r.Spec.State != infrav1.ReservationRequested {
		t.Fatalf("it is not at it: %+v", r.Spec)
	}
	d.clock.Step(2 * time.Minute)
	d.settle()
	d.wantRestored(before.Spec)
}

// An operator's reservation is restored after the upgrade that replaced it ends, however it ends.
func TestOperatorsReservationIsRestoredAfterAnUpgrade(t *testing.T) {
	until := metav1.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		expires metav1.Time
		over    func(*fixture, *reservation.Planner)
		kept    bool
	}{
		"finished": {over: finish, kept: true},
		"finished, asked for something else between": {kept: true, over: func(d *fixture, planner *reservation.Planner) {
			if plan, err := planner.Reserve(d.t.Context(), "uid-x", forUpgrade("x", 2)); err != nil || !plan.Satisfied {
				d.t.Fatalf("%+v, %v", plan, err)
			}
			finish(d, planner)
		}},
		"finished, the person's time is over": {expires: until, over: func(d *fixture, planner *reservation.Planner) {
			d.clock.SetTime(until.Time)
			finish(d, planner)
		}},
		"finished in time": {expires: until, over: finish, kept: true},
		"forgotten": {kept: true, over: func(d *fixture, _ *reservation.Planner) {
			d.clock.SetTime(d.current().Spec.ExpirationTime.Time)
			d.settle()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, 4)
			d.promise(4, func(r *infrav1.IngotReservation) { r.Spec.ExpirationTime = tc.expires })
			d.machine("x", "x1")
			d.claim("x1", "h1")
			before := d.current()
			planner := d.replica("a")
			if plan, err := planner.Reserve(t.Context(), "uid-x", forUpgrade("x", 3)); err != nil || !plan.Satisfied {
				t.Fatalf("%+v, %v", plan, err)
			}
			if r, _ := d.settle(); r == nil || r.Spec.Purpose != infrav1.ReservationUpgrade {
				t.Fatalf("no upgrade: %+v", r)
			}
			tc.over(d, planner)
			if !tc.kept {
				if r := d.current(); r != nil {
					t.Errorf("it keeps %+v", r.Spec)
				}
				return
			}
			d.wantRestored(before.Spec)
		})
	}
}

func finish(d *fixture, planner *reservation.Planner) {
	d.t.Helper()
	if err := planner.EndUpgrade(d.t.Context(), "uid-x", client.ObjectKey{Namespace: ns, Name: "x"}); err != nil {
		d.t.Fatal(err)
	}
}
