// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/reservation"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// informers tell what a test tells them.
type informers struct {
	cache.Informers
	handlers map[string]toolscache.ResourceEventHandler
	synced   map[string]bool
}

func (i *informers) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return &informer{of: i, kind: fmt.Sprintf("%T", object)}, nil
}

type informer struct {
	cache.Informer
	of   *informers
	kind string
}

func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.of.handlers[i.kind] = handler
	return &registration{informer: i}, nil
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration
	*informer
}

func (r *registration) HasSynced() bool { return r.of.synced[r.kind] }

const hostKind, hardwareKind = "*v1beta2.IngotHost", "*v1beta2.IngotHardware"

// Plans count the hosts that events told of, wherever they are by now; until all that the
// cache had was told, they are listed.
func TestShelvesFollowEvents(t *testing.T) {
	w := newWorld(t, 0, 3)
	listed := 0
	api := interceptor.NewClient(w.api, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, hosts := list.(*infrav1.IngotHostList); hosts {
			listed++
		}
		return c.List(ctx, list, opts...)
	}})
	told := &informers{handlers: map[string]toolscache.ResourceEventHandler{}, synced: map[string]bool{}}
	shelves := &reservation.Shelves{}
	book := &reservation.Book{Client: api, Live: api, Clock: w.clock, Shelves: shelves}
	free := func() int {
		t.Helper()
		plan, err := book.Plan(t.Context(), allocation.PromiseRequest{Namespace: ns, ClusterName: "x",
			Demand: allocation.Demand{Groups: []allocation.DemandGroup{{Name: "md", Count: 100}}}})
		if err != nil || len(plan.Missing) != 1 {
			t.Fatalf("%+v, %v", plan, err)
		}
		return plan.Missing[0].Free
	}
	host := func(name string) *infrav1.IngotHost {
		h := &infrav1.IngotHost{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, h); err != nil {
			t.Fatal(err)
		}
		return h
	}
	facts := func(name string) *infrav1.IngotHardware {
		f := &infrav1.IngotHardware{}
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, f); err != nil {
			t.Fatal(err)
		}
		return f
	}
	sick := host("h2")
	sick.Spec.Record.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineWipeFailed}
	elsewhere := host("h1")
	elsewhere.Namespace = "elsewhere"
	for _, step := range []struct {
		name   string
		do     func()
		free   int
		listed bool
	}{
		{"nobody watches", func() {}, 3, true},
		{"watched, and nothing told", func() {
			if err := shelves.Watch(t.Context(), told); err != nil {
				t.Fatal(err)
			}
		}, 3, true},
		{"hosts are told", func() { told.handlers[hostKind].OnAdd(host("h1"), true); told.synced[hostKind] = true }, 3, true},
		{"hardware too", func() { told.handlers[hardwareKind].OnAdd(facts("h1"), true); told.synced[hardwareKind] = true }, 1, false},
		{"another host", func() {
			told.handlers[hardwareKind].OnAdd(facts("h2"), false)
			told.handlers[hostKind].OnAdd(host("h2"), false)
		}, 2, false},
		{"of another namespace", func() { told.handlers[hostKind].OnAdd(elsewhere, false) }, 2, false},
		{"one changes", func() { told.handlers[hostKind].OnUpdate(host("h2"), sick) }, 1, false},
		{"and is well again", func() { told.handlers[hostKind].OnUpdate(sick, host("h2")) }, 2, false},
		{"one is deleted", func() { told.handlers[hostKind].OnDelete(host("h1")) }, 1, false},
		{"facts are deleted, unseen", func() {
			told.handlers[hardwareKind].OnDelete(toolscache.DeletedFinalStateUnknown{Key: strings.Join([]string{ns, "h2"}, "/"), Obj: facts("h2")})
		}, 0, false},
	} {
		listed = 0
		step.do()
		if got := free(); got != step.free || (listed > 0) != step.listed {
			t.Errorf("%s: %d are free, want %d; listed %d times, want it %v", step.name, got, step.free, listed, step.listed)
		}
	}
}

// A manager with --watch-filter promises the hosts that its machines may have, listed or
// told of; what a Cluster has claimed is that Cluster's, whatever its label says (M41).
func TestOthersHostsAreNotPromised(t *testing.T) {
	w := newWorld(t, 0, 3)
	told := &informers{handlers: map[string]toolscache.ResourceEventHandler{}, synced: map[string]bool{hostKind: true, hardwareKind: true}}
	shelves := &reservation.Shelves{WatchFilterValue: "mine"}
	if err := shelves.Watch(t.Context(), told); err != nil {
		t.Fatal(err)
	}
	label := func(name, value string, claim *infrav1.HostClaim) {
		host, facts := &infrav1.IngotHost{}, &infrav1.IngotHardware{}
		for _, object := range []client.Object{host, facts} {
			if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, object); err != nil {
				t.Fatal(err)
			}
		}
		host.Labels, host.Spec.Claim = map[string]string{clusterv1.WatchLabel: value}, claim
		if err := w.api.Update(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		told.handlers[hardwareKind].OnAdd(facts, false)
		told.handlers[hostKind].OnAdd(host, false)
	}
	check := func(when string, free, claimed int) {
		t.Helper()
		for name, book := range map[string]*reservation.Book{
			"listed":  {Client: w.api, Live: w.api, Clock: w.clock, WatchFilterValue: "mine"},
			"told of": {Client: w.api, Live: w.api, Clock: w.clock, WatchFilterValue: "mine", Shelves: shelves},
		} {
			plan, err := book.Plan(t.Context(), allocation.PromiseRequest{Namespace: ns, ClusterName: "x",
				Demand: allocation.Demand{Groups: []allocation.DemandGroup{{Name: "md", Count: 100}}}})
			if err != nil || len(plan.Missing) != 1 {
				t.Fatalf("%s, %s: %+v, %v", when, name, plan, err)
			}
			stock, err := book.Stock(t.Context(), ns)
			if err != nil {
				t.Fatal(err)
			}
			if got, has := plan.Missing[0].Free, len(stock.ClaimedBy(ns, "c")); got != free || has != claimed {
				t.Errorf("%s, %s: %d are free and %d the Cluster's, want %d and %d", when, name, got, has, free, claimed)
			}
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
