// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"fmt"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// Shelves keep the hosts of every namespace sorted for plans, by the events of a cache:
// to list thousands of hosts for each question would copy them all. The zero value has
// not seen any.
type Shelves struct {
	// WatchFilterValue is the label of the hosts that are kept (M41); empty: all.
	WatchFilterValue string

	mu sync.Mutex
	of map[string]*allocation.Shelf
	// seen are the registrations at the cache; nil before Watch.
	seen []toolscache.ResourceEventHandlerRegistration
}

// Watch has a cache tell of hosts and hardware from now on. It does not wait.
func (s *Shelves) Watch(ctx context.Context, from cache.Informers) error {
	for _, of := range []struct {
		object  client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&infrav1.IngotHost{}, follow(
			s.putHost,
			func(host *infrav1.IngotHost) { s.shelf(host.Namespace).Remove(host.Name) })},
		{&infrav1.IngotHardware{}, follow(
			func(facts *infrav1.IngotHardware) { s.shelf(facts.Namespace).PutHardware(facts) },
			func(facts *infrav1.IngotHardware) { s.shelf(facts.Namespace).RemoveHardware(facts.Name) })},
	} {
		informer, err := from.GetInformer(ctx, of.object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T for plans: %w", of.object, err)
		}
		seen, err := informer.AddEventHandler(of.handler)
		if err != nil {
			return fmt.Errorf("watch %T for plans: %w", of.object, err)
		}
		s.mu.Lock()
		s.seen = append(s.seen, seen)
		s.mu.Unlock()
	}
	return nil
}

// putHost keeps a host, as long as it counts.
func (s *Shelves) putHost(host *infrav1.IngotHost) {
	if !counts(host, s.WatchFilterValue) {
		s.shelf(host.Namespace).Remove(host.Name)
		return
	}
	s.shelf(host.Namespace).Put(host)
}

// follow hands on what there is of one kind, and what has gone.
func follow[T client.Object](put, remove func(T)) toolscache.ResourceEventHandler {
	have := func(object any) {
		if o, ok := object.(T); ok {
			put(o)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    have,
		UpdateFunc: func(_, object any) { have(object) },
		DeleteFunc: func(object any) {
			if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			if o, ok := object.(T); ok {
				remove(o)
			}
		},
	}
}

func (s *Shelves) shelf(namespace string) *allocation.Shelf {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]*allocation.Shelf{}
	}
	if s.of[namespace] == nil {
		s.of[namespace] = &allocation.Shelf{}
	}
	return s.of[namespace]
}

// Of is the shelf of a namespace; nil while not all that the cache has was told.
func (s *Shelves) Of(namespace string) *allocation.Shelf {
	if s == nil || !s.synced() {
		return nil
	}
	return s.shelf(namespace)
}

func (s *Shelves) synced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seen := range s.seen {
		if !seen.HasSynced() {
			return false
		}
	}
	return len(s.seen) > 0
}
