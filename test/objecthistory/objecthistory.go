// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package objecthistory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options say what is recorded.
type Options struct {
	// Namespace; empty: all, and what is in none.
	Namespace string
	// Kinds are lists of the types that objects shall have: typed, or
	// UnstructuredList with its kind set.
	Kinds []client.ObjectList
}

// A Version is one version of an object.
type Version struct {
	// Revision orders the versions of all objects: it is etcd's.
	Revision uint64
	// At is when it was seen here.
	At time.Time
	// Deleted: this is the object's last state, and it is gone.
	Deleted bool
	// First: the object was there when the recording began.
	First  bool
	Object client.Object
}

// A History keeps versions until the context of Record ends.
type History struct {
	client  client.WithWatch
	options Options
	watches sync.WaitGroup

	mu       sync.Mutex
	versions []Version
	err      error
}

// Record starts to record; what exists is the first version of each object.
func Record(ctx context.Context, c client.WithWatch, o Options) (*History, error) {
	h := &History{client: c, options: o}
	for _, kind := range o.Kinds {
		list, ok := kind.DeepCopyObject().(client.ObjectList)
		if !ok {
			return nil, fmt.Errorf("record %T: it is no list", kind)
		}
		if err := c.List(ctx, list, client.InNamespace(o.Namespace)); err != nil {
			return nil, fmt.Errorf("record %T: %w", kind, err)
		}
		if err := h.each(list, func(obj client.Object) { h.add(Version{First: true, Object: obj}) }); err != nil {
			return nil, err
		}
		h.watches.Go(func() { h.follow(ctx, list, list.GetResourceVersion()) })
	}
	return h, nil
}

// Wait returns when the recording has ended, after its context has.
func (h *History) Wait() { h.watches.Wait() }

func (h *History) each(list client.ObjectList, do func(client.Object)) error {
	return apimeta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", item)
		}
		do(obj)
		return nil
	})
}

// follow watches one kind. A watch that ends goes on where it was; what cannot be
// had any more is an error, never a gap.
func (h *History) follow(ctx context.Context, list client.ObjectList, from string) {
	for ctx.Err() == nil {
		w, err := h.client.Watch(ctx, list, client.InNamespace(h.options.Namespace),
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true}})
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second): // the API server is busy
			}
			continue
		}
		for event := range w.ResultChan() {
			if event.Type == watch.Error {
				h.fail(fmt.Errorf("watch %T: %v", list, event.Object))
				w.Stop()
				return
			}
			obj, ok := event.Object.(client.Object)
			if !ok {
				continue
			}
			from = obj.GetResourceVersion()
			if event.Type != watch.Bookmark {
				h.add(Version{Deleted: event.Type == watch.Deleted, Object: obj})
			}
		}
		w.Stop()
	}
}

func (h *History) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = errors.Join(h.err, err)
}

func (h *History) add(v Version) {
	var err error
	v.At = time.Now()
	if v.Revision, err = strconv.ParseUint(v.Object.GetResourceVersion(), 10, 64); err != nil {
		h.fail(fmt.Errorf("resource version: %w", err))
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions = append(h.versions, v)
}

// Versions are all of them in the order in which they were written.
func (h *History) Versions() ([]Version, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, h.err
	}
	versions := slices.Clone(h.versions)
	slices.SortStableFunc(versions, func(a, b Version) int {
		switch {
		case a.Revision < b.Revision:
			return -1
		case a.Revision > b.Revision:
			return 1
		}
		return 0
	})
	return versions, nil
}

// settleInterval is the pause between two looks.
const settleInterval = 20 * time.Millisecond

// Settle waits until the history holds what the API server holds now.
func (h *History) Settle(ctx context.Context) error {
	want := map[uint64]bool{}
	for _, kind := range h.options.Kinds {
		list, ok := kind.DeepCopyObject().(client.ObjectList)
		if !ok {
			return fmt.Errorf("settle %T: it is no list", kind)
		}
		if err := h.client.List(ctx, list, client.InNamespace(h.options.Namespace)); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		if err := h.each(list, func(obj client.Object) {
			if revision, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64); err == nil {
				want[revision] = true
			}
		}); err != nil {
			return err
		}
	}
	for {
		versions, err := h.Versions()
		if err != nil {
			return err
		}
		for _, v := range versions {
			delete(want, v.Revision)
		}
		if len(want) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the history lacks %d versions: %w", len(want), ctx.Err())
		case <-time.After(settleInterval):
		}
	}
}
