// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func TestLimits(t *testing.T) {
	l := &Limiter[string]{Total: 3, PerKey: 2}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var held []func()
	for _, key := range []string{"a", "a", "b"} {
		release, err := l.Acquire(t.Context(), key)
		if err != nil {
			t.Fatalf("no slot for %s: %v", key, err)
		}
		held = append(held, release)
	}
	for _, key := range []string{"a", "c"} {
		if _, err := l.Acquire(ended, key); err == nil {
			t.Errorf("%s got a slot above the limit", key)
		}
	}
	for _, release := range held {
		release()
		release() // has no effect
	}
	if l.inUse != 0 || len(l.byKey) != 0 || len(l.waiting) != 0 {
		t.Errorf("left: %d slots, keys %v, %d waiting", l.inUse, l.byKey, len(l.waiting))
	}
}

func TestOrder(t *testing.T) {
	type caller struct{ server, namespace string }
	for _, tc := range []struct {
		name    string
		callers []caller // in order of arrival
		want    []int    // indexes of the callers that have a slot
		// gone ends; then the callers in after have a slot.
		gone  int
		after []int
	}{
		{"all slots in use", []caller{{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}, {"e", "5"}, {"f", "6"}}, []int{0, 1, 2, 3}, 1, []int{0, 2, 3, 4}},
		{"one server has its slots", []caller{{"a", "1"}, {"a", "2"}, {"a", "3"}, {"b", "4"}}, []int{0, 1, 3}, 0, []int{1, 2, 3}},
		{"one namespace has its slots", []caller{{"a", "1"}, {"b", "1"}, {"c", "1"}, {"d", "2"}}, []int{0, 1, 3}, 3, []int{0, 1}},
		{"a waiting caller ends", []caller{{"a", "1"}, {"a", "1"}, {"a", "1"}, {"a", "1"}}, []int{0, 1}, 2, []int{0, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &Limiter[string]{Total: 4, PerKey: 2}
				working := make([]bool, len(tc.callers))
				cancels := make([]context.CancelFunc, len(tc.callers))
				for i, r := range tc.callers {
					ctx, cancel := context.WithCancel(t.Context())
					cancels[i] = cancel
					go func() {
						release, err := q.Acquire(ctx, "server "+r.server, "namespace "+r.namespace)
						if err != nil {
							return
						}
						working[i] = true
						<-ctx.Done()
						working[i] = false
						release()
					}()
					synctest.Wait()
				}
				look := func(when string, want []int) {
					t.Helper()
					synctest.Wait()
					var got []int
					for i, works := range working {
						if works {
							got = append(got, i)
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", when, diff)
					}
				}
				look("before", tc.want)
				cancels[tc.gone]()
				look("after one has gone", tc.after)
				for _, cancel := range cancels {
					cancel()
				}
				synctest.Wait()
				if q.inUse+len(q.byKey)+len(q.waiting) > 0 {
					t.Error("slots are lost")
				}
			})
		})
	}
}
