// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"sync"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// DefaultRest is the default of Reconciler.Rest: the five minutes that docs/book/tasks/move.md states,
// plus the time that an acting manager needs to show that it is ready.
const DefaultRest = 5*time.Minute + 30*time.Second

// restStarts has the start of the rest of each namespace. It is not persistent: after a restart of
// the manager the rest starts again. It is safe for concurrent use.
type restStarts struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// begin returns when the namespace's rest started: now, if it had not.
func (r *restStarts) begin(namespace string, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since == nil {
		r.since = map[string]time.Time{}
	}
	if _, rests := r.since[namespace]; !rests {
		r.since[namespace] = now
	}
	return r.since[namespace]
}

func (r *restStarts) end(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.since, namespace)
}

// remainingRest returns how much longer a host rests; 0: its pause may end. Only a host that
// arrived by a move and has pending work rests.
func (r *Reconciler) remainingRest(host *infrav1.IngotHost) time.Duration {
	if r.Rest <= 0 || !hasArrived(host) || !lifecycle.HasPendingWork(host) {
		return 0
	}
	now := r.Clock.Now()
	return max(r.arrivals.begin(host.Namespace, now).Add(r.Rest).Sub(now), 0)
}

// hasArrived reports whether the host was paused before it was created here. A pause set by hand
// has no time, and no rest.
func hasArrived(host *infrav1.IngotHost) bool {
	paused, err := time.Parse(time.RFC3339, host.Annotations[infrav1.MovePausedAnnotation])
	return err == nil && paused.Before(host.CreationTimestamp.Time)
}

// isPausedHere reports whether Ingot paused the host in this cluster.
func isPausedHere(host *infrav1.IngotHost) bool {
	_, err := time.Parse(time.RFC3339, host.Annotations[infrav1.MovePausedAnnotation])
	return err == nil && !hasArrived(host)
}
