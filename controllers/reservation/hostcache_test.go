// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation_test

import (
	"context"
	"fmt"
	"testing"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/reservation"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// informers keeps event handlers for a test to call.
type informers struct {
	cache.Informers
	handlers map[string]toolscache.ResourceEventHandler
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
	return nil, nil
}

// Hosts are listed again only after an event of their namespace.
func TestHostCache(t *testing.T) {
	w := newWorld(t, 0, 3)
	listed := 0
	duringList := func() {}
	api := interceptor.NewClient(w.api, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, list, opts...)
		if _, hosts := list.(*infrav1.IngotHostList); hosts {
			listed++
			duringList()
		}
		return err
	}})
	watched := &informers{handlers: map[string]toolscache.ResourceEventHandler{}}
	hosts := &reservation.HostCache{}
	if err := hosts.Watch(t.Context(), watched); err != nil {
		t.Fatal(err)
	}
	planner := &reservation.Planner{Client: api, Live: api, Clock: w.clock, Hosts: hosts}
	host, elsewhere, facts := &infrav1.IngotHost{}, &infrav1.IngotHost{}, &infrav1.IngotHardware{}
	for _, object := range []client.Object{host, facts} {
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "h1"}, object); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere.Namespace = "elsewhere"
	ofHosts, ofHardware := watched.handlers["*v1beta2.IngotHost"], watched.handlers["*v1beta2.IngotHardware"]
	quarantine := func() {
		host.Spec.Record.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineCleanFailed}
		if err := w.api.Update(t.Context(), host); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name         string
		do           func()
		free, listed int
	}{
		{"the first question", func() {}, 3, 1},
		{"the second", func() {}, 3, 0},
		{"an event of another namespace", func() { ofHosts.OnAdd(elsewhere, false) }, 3, 0},
		{"a host changes, and no event came yet", quarantine, 3, 0},
		{"the event comes", func() { ofHosts.OnUpdate(host, host) }, 2, 1},
		{"hardware changes", func() { ofHardware.OnUpdate(facts, facts) }, 2, 1},
		{"hardware is deleted, unseen", func() {
			ofHardware.OnDelete(toolscache.DeletedFinalStateUnknown{Key: ns + "/h1", Obj: facts})
		}, 2, 1},
		{"a host is added while hosts are listed", func() {
			ofHosts.OnAdd(host, false)
			duringList = func() { ofHosts.OnAdd(host, false) }
		}, 2, 1},
		{"and so they are listed again", func() { duringList = func() {} }, 2, 1},
		{"once", func() {}, 2, 0},
	} {
		listed = 0
		step.do()
		plan, err := planner.Plan(t.Context(), allocation.PlanRequest{Namespace: ns, ClusterName: "x",
			Demand: allocation.Demand{Groups: []allocation.DemandGroup{{Name: "md", Count: 100}}}})
		if err != nil || len(plan.Missing) != 1 {
			t.Fatalf("%s: %+v, %v", step.name, plan, err)
		}
		if got := plan.Missing[0].Free; got != step.free || listed != step.listed {
			t.Errorf("%s: %d hosts are free, want %d; listed %d times, want %d", step.name, got, step.free, listed, step.listed)
		}
	}
}
