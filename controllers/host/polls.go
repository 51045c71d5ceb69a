// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// How much more seldom than Reconciler.Poll a host is asked.
const (
	// restFactor is for a provisioned host on which nothing is under way and nothing
	// ails: its cluster watches it much closer than its BMC can (MachineHealthCheck).
	restFactor = 3
	// watchedFactor is for a host whose BMC tells by itself.
	watchedFactor = 10
)

// Watches keep streams of what BMCs tell by themselves, by host (bmc.Watches).
type Watches interface {
	// Want has a BMC watched; it is called at every poll.
	Want(key string, target bmc.Target)
	Drop(key string)
	// Watched says whether the stream is open.
	Watched(key string) bool
}

// pollOf is how often the host is asked. A host that is free, at work, or ails is asked
// at every poll.
func (r *Reconciler) pollOf(host *infrav1.IngotHost, obs lifecycle.Observation) time.Duration {
	switch {
	case obs.BMC != lifecycle.BMCOK:
		return r.Poll
	case r.Watches != nil && r.Watches.Watched(keyOf(host).String()):
		return watchedFactor * r.Poll
	case atRest(host, obs):
		return restFactor * r.Poll
	}
	return r.Poll
}

// atRest says whether a host is provisioned, on and well, and nothing is asked of it.
func atRest(host *infrav1.IngotHost, obs lifecycle.Observation) bool {
	claim := host.Spec.Claim
	return claim != nil && claim.State == infrav1.ClaimProvisioned && host.Spec.Order == nil && obs.Power == infrav1.PowerStateOn &&
		!obs.Health.Ails() && !obs.Deleting && !ptr.Deref(host.Spec.Maintenance, false)
}

// watch has the BMC watched while it may be polled. Of two hosts that are the same
// server neither is: they would take the one stream from each other.
func (r *Reconciler) watch(host *infrav1.IngotHost, seen *observation) {
	if r.Watches == nil {
		return
	}
	key := keyOf(host).String()
	switch {
	case host.Spec.BMC == nil, seen.Deleting, seen.DuplicateOf != "", seen.BMC == lifecycle.BMCCredentialsMissing, seen.BMC == lifecycle.BMCCAMissing:
		r.Watches.Drop(key)
	case seen.BMC == lifecycle.BMCOK:
		r.Watches.Want(key, seen.target)
	}
}

func (r *Reconciler) unwatch(host types.NamespacedName) {
	if r.Watches != nil {
		r.Watches.Drop(host.String())
	}
}

// let forgets a host that is no more, or not ours any more, and ends the session with
// its BMC.
func (r *Reconciler) let(host types.NamespacedName) {
	r.unwatch(host)
	r.works.Cancel(host)
	r.peers.forget(host)
	r.generations.forget(host)
	address := r.contacts.forget(host)
	if pool, can := r.BMC.(interface{ Forget(address string) }); can && address != "" {
		pool.Forget(address)
	}
}

// wakes is the way into the controller's queue from outside. The zero value leads
// nowhere until the controller starts.
type wakes struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// start is a source of the controller's.
func (w *wakes) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	return nil
}

// Heard takes the news of a watch. A host of which something was told is looked at at
// once; one whose watch has ended within a poll, at random: where a network breaks, all
// of them end at the same moment.
func (r *Reconciler) Heard(key string, kind bmc.NewsKind) {
	r.wakes.mu.Lock()
	queue := r.wakes.queue
	r.wakes.mu.Unlock()
	namespace, name, ok := strings.Cut(key, string(types.Separator))
	if queue == nil || !ok {
		return
	}
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	switch kind {
	case bmc.NewsHappened:
		queue.Add(request)
	case bmc.NewsEnded:
		queue.AddAfter(request, rand.N(max(r.Poll, 1)))
	case bmc.NewsBegun: // the next poll finds it watched
	}
}
