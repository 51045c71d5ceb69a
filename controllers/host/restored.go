// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// Continuity is since when managers have watched the state of hosts without a gap (I21).
type Continuity interface {
	Since() time.Time
	// Known reports whether Since is known; a manager that just started looks it up.
	Known() bool
	// Break is called when a host went back to an earlier state.
	Break()
}

// NodeReports returns when the Node of a host's claim last reported; zero: never.
type NodeReports interface {
	Heard(ctx context.Context, host *infrav1.IngotHost) (time.Time, error)
}

// generations are the latest that were seen of each host. An API server counts up for as
// long as an object lives: one that goes back was restored from a backup. The zero value is
// empty and ready.
type generations struct {
	mu sync.Mutex
	m  map[types.NamespacedName]generation
}

type generation struct {
	uid    types.UID
	latest int64
}

// seen reports whether the host went back since it was last seen.
func (g *generations) seen(host *infrav1.IngotHost) (back bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.m == nil {
		g.m = map[types.NamespacedName]generation{}
	}
	key := keyOf(host)
	before := g.m[key]
	g.m[key] = generation{uid: host.UID, latest: host.Generation}
	return before.uid == host.UID && host.Generation < before.latest
}

func (g *generations) forget(host types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.m, host)
}

// lookBack notices that the API server was restored while this process went on.
func (r *Reconciler) lookBack(ctx context.Context, host *infrav1.IngotHost) {
	if back := r.generations.seen(host); back && r.Continuity != nil {
		ctrl.LoggerFrom(ctx).Info("The host went back to an earlier state, as after a restored backup: what Ingot knows of all hosts is confirmed again",
			"generation", host.Generation)
		r.Continuity.Break()
	}
}

// observeContinuity notes since when the host's state can be trusted, and looks for its Node
// where that matters.
func (r *Reconciler) observeContinuity(ctx context.Context, host *infrav1.IngotHost, seen *observation) {
	if r.Continuity == nil {
		return
	}
	seen.LedgerSince = r.Continuity.Since()
	if r.Nodes == nil || !lifecycle.NodeMatters(host, seen.Observation) {
		return
	}
	heard, err := r.Nodes.Heard(ctx, host)
	if err != nil { // the host waits, as if the Node were not there
		ctrl.LoggerFrom(ctx).Error(err, "Could not look for the Node of a claim")
	}
	seen.NodeHeard = heard
}
