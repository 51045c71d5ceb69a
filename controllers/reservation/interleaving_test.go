// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// actor is a process, or a part of one, that acts only through its client.
type actor func(ctx context.Context)

// scheduler runs one actor at a time until its next API request. It draws the next actor at random,
// so that a seed determines the order of all requests.
type scheduler struct {
	rand *rand.Rand
	// on: requests are scheduled; before and after a run they pass at once.
	on      bool
	current string
	go_     map[string]chan struct{}
	back    chan bool
}

func newTurns(seed uint64) *scheduler {
	return &scheduler{rand: randomly(seed), go_: map[string]chan struct{}{}, back: make(chan bool)}
}

// step waits for the actor's next turn.
func (s *scheduler) step() {
	if !s.on {
		return
	}
	me := s.current
	s.back <- false
	<-s.go_[me]
}

// run schedules until all actors are done, and checks the world after each step.
func (s *scheduler) run(t *testing.T, check func() string, actors map[string]actor) {
	t.Helper()
	s.on = true
	defer func() { s.on = false }()
	waiting := slices.Sorted(maps.Keys(actors))
	for _, name := range waiting {
		turn := make(chan struct{})
		s.go_[name] = turn
		go func() {
			<-turn
			actors[name](t.Context())
			s.back <- true
		}()
	}
	for fault, turn := "", 0; len(waiting) > 0; turn++ {
		i := s.rand.IntN(len(waiting))
		s.current = waiting[i]
		s.go_[s.current] <- struct{}{}
		if <-s.back {
			waiting = slices.Delete(waiting, i, i+1)
		}
		if fault == "" {
			if fault = check(); fault != "" {
				t.Errorf("after turn %d, of %s: %s", turn, s.current, fault)
			}
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// client returns a client of which every request is a step.
func (s *scheduler) client(_ string, api client.WithWatch) client.WithWatch {
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			s.step()
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			s.step()
			return c.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			s.step()
			return c.Create(ctx, obj, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			s.step()
			return c.Update(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			s.step()
			return c.Delete(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			s.step()
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
}

// lagging returns a client that reads from a cache whose watches lag independently for each kind.
func (s *scheduler) lagging(live client.WithWatch) client.Client {
	return &lagging{Client: live, scheduler: s, seen: map[schema.GroupVersionKind][]runtime.Object{}}
}

type lagging struct {
	client.Client
	scheduler *scheduler
	seen      map[schema.GroupVersionKind][]runtime.Object
}

func (l *lagging) Get(ctx context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	gvk, err := l.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	items, err := l.items(ctx, gvk)
	if err != nil {
		return err
	}
	for _, item := range items {
		if o, ok := item.(client.Object); ok && client.ObjectKeyFromObject(o) == key {
			reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(item.DeepCopyObject()).Elem())
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.Name)
}

// List lists the cached objects; the tests have one namespace.
func (l *lagging) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	gvk, err := l.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	gvk.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
	items, err := l.items(ctx, gvk)
	if err != nil {
		return err
	}
	return meta.SetList(list, items)
}

// items returns the cached objects of a kind.
func (l *lagging) items(ctx context.Context, gvk schema.GroupVersionKind) ([]runtime.Object, error) {
	seen, ok := l.seen[gvk]
	if ok && l.scheduler.on && l.scheduler.rand.IntN(3) > 0 {
		return seen, nil
	}
	object, err := l.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	list, ok := object.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%s is no list", gvk)
	}
	if err := l.Client.List(ctx, list); err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	l.seen[gvk] = items
	return items, nil
}
