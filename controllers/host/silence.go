// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// hearing is when an agent was last heard on each IngotNetwork. Objects do not tell: what
// an agent did is forgotten with its order. It may be lost: for as long as an agent may be
// silent nothing is concluded from it then (lifecycle.SilenceDue).
type hearing struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (h *hearing) note(network string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == nil {
		h.last = map[string]time.Time{}
	}
	if at.After(h.last[network]) {
		h.last[network] = at
	}
}

func (h *hearing) on(network string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last[network]
}

// observeSilence notes when the host's agent was heard, and looks who else waits for one
// when this host is about to be given up.
func (r *Reconciler) observeSilence(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	network := host.Spec.NetworkRef.Name
	if order := host.Spec.Order; order != nil && order.AgentKey != "" && !seen.LastContact.IsZero() {
		r.hearing.note(network, seen.LastContact)
	}
	if !lifecycle.SilenceDue(host, seen.Observation, r.Policy) {
		return nil
	}
	hosts := &infrav1.IngotHostList{}
	if err := r.Client.List(ctx, hosts, client.MatchingFields{index.HostByNetwork: network}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("hosts on network %s: %w", network, err)
	}
	seen.SilentPeers = lifecycle.SilentPeers(host, hosts.Items, r.hearing.on(network), seen.Now, r.Policy)
	return nil
}
