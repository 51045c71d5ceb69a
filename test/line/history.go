// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package line

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A Version is one version of an IngotHost or an IngotMachine.
type Version struct {
	// Revision orders the versions of all objects: it is etcd's.
	Revision uint64
	Deleted  bool
	// One of the two is set.
	Host    *infrav1.IngotHost
	Machine *infrav1.IngotMachine
}

// A History keeps every version of the hosts and machines of a namespace, from
// before the first one on.
type History struct {
	client    client.WithWatch
	namespace string

	mu       sync.Mutex
	versions []Version
	seen     uint64
	err      error
}

// newHistory starts to record; the recording ends with the test. The namespace is
// empty still.
func newHistory(t *testing.T, c client.WithWatch, namespace string) *History {
	t.Helper()
	h := &History{client: c, namespace: namespace}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var watches sync.WaitGroup
	t.Cleanup(func() { cancel(); watches.Wait() })
	for _, list := range []client.ObjectList{&infrav1.IngotHostList{}, &infrav1.IngotMachineList{}} {
		check(t, c.List(ctx, list, client.InNamespace(namespace)))
		if n := apimeta.LenList(list); n != 0 {
			t.Fatalf("history begins too late: there are %d objects", n)
		}
		watches.Go(func() { h.record(ctx, list, list.GetResourceVersion()) })
	}
	return h
}

// record follows one kind. A watch that ends goes on where it was; what cannot be
// had any more is an error, never a gap.
func (h *History) record(ctx context.Context, list client.ObjectList, from string) {
	for ctx.Err() == nil {
		w, err := h.client.Watch(ctx, list, client.InNamespace(h.namespace),
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
				h.fail(fmt.Errorf("watch: %v", event.Object))
				w.Stop()
				return
			}
			obj, ok := event.Object.(client.Object)
			if !ok {
				continue
			}
			from = obj.GetResourceVersion()
			if event.Type != watch.Bookmark {
				h.add(event.Type, obj)
			}
		}
		w.Stop()
	}
}

func (h *History) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

func (h *History) add(kind watch.EventType, obj client.Object) {
	revision, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		h.fail(err)
		return
	}
	v := Version{Revision: revision, Deleted: kind == watch.Deleted}
	switch o := obj.(type) {
	case *infrav1.IngotHost:
		v.Host = o
	case *infrav1.IngotMachine:
		v.Machine = o
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions = append(h.versions, v)
	h.seen = max(h.seen, revision)
}

// Versions are all of them in the order in which they were written.
func (h *History) Versions(t *testing.T) []Version {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	check(t, h.err)
	versions := slices.Clone(h.versions)
	slices.SortStableFunc(versions, func(a, b Version) int { return int(int64(a.Revision) - int64(b.Revision)) })
	return versions
}

// Settle waits until the history holds what the API server holds now.
func (h *History) Settle(t *testing.T) {
	t.Helper()
	want := map[string]bool{}
	hosts, machines := &infrav1.IngotHostList{}, &infrav1.IngotMachineList{}
	check(t, h.client.List(t.Context(), hosts, client.InNamespace(h.namespace)))
	check(t, h.client.List(t.Context(), machines, client.InNamespace(h.namespace)))
	for i := range hosts.Items {
		want[hosts.Items[i].ResourceVersion] = true
	}
	for i := range machines.Items {
		want[machines.Items[i].ResourceVersion] = true
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		for _, v := range h.Versions(t) {
			delete(want, strconv.FormatUint(v.Revision, 10))
		}
		if len(want) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the history lacks %d versions", len(want))
		}
	}
}
