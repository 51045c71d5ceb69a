// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"sync"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// DefaultRest is Reconciler.Rest: the five minutes that docs/book/move.md promises,
// and what a manager that acts needs to be seen to be ready.
const DefaultRest = 5*time.Minute + 30*time.Second

// restings remember since when this process has seen hosts of a namespace rest that
// could go on. They are not written down: with a manager that starts the rest starts
// again, so that nothing is begun within that time of it. Safe for concurrent use.
type restings struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// begin returns since when hosts of the namespace rest: since now, if none did.
func (r *restings) begin(namespace string, now time.Time) time.Time {
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

// end forgets the namespace: no host rests.
func (r *restings) end(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.since, namespace)
}

// rests returns how long a host whose pause could be lifted rests before that; 0: it
// does not, or no longer. Only a host that has arrived rests, and only if something
// would be begun at once: the others are touched only when somebody asks for it.
func (r *Reconciler) rests(host *infrav1.IngotHost) time.Duration {
	if r.Rest <= 0 || !arrived(host) || !lifecycle.WorkIsDue(host) {
		return 0
	}
	now := r.Clock.Now()
	return max(r.resting.begin(host.Namespace, now).Add(r.Rest).Sub(now), 0)
}

// arrived says whether the host was paused before it was created here: elsewhere. A
// pause set by hand has no time, and no rest.
func arrived(host *infrav1.IngotHost) bool {
	paused, err := time.Parse(time.RFC3339, host.Annotations[infrav1.MovePausedAnnotation])
	return err == nil && paused.Before(host.CreationTimestamp.Time)
}

// setHere reports whether Ingot paused the host in this cluster. A pause set by hand has no
// time, and one from elsewhere is older than the object.
func setHere(host *infrav1.IngotHost) bool {
	_, err := time.Parse(time.RFC3339, host.Annotations[infrav1.MovePausedAnnotation])
	return err == nil && !arrived(host)
}
