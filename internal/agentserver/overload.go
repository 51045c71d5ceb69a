// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/slots"
	"github.com/ingot-metal/ingot/internal/ttlset"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// contactInterval is the minimum time between two writes of the contact of an agent that gets no
// slot. It is much shorter than --agent-deadline.
const contactInterval = 30 * time.Second

// overload remembers which agents got no slot.
type overload struct {
	// slots bound the writes of contacts at once. The key is an order.
	slots *slots.Limiter[string]
	// recorded are the orders whose agent's contact was written within contactInterval.
	recorded ttlset.Set[string]
}

func (o *overload) hasRecorded(order string, now time.Time) bool {
	_, ok := o.recorded.Has(order, now)
	return ok
}

// overloaded asks the agent to retry later, since its request got no slot.
func overloaded() *agentapi.Error {
	e := notReady("the manager has too many requests")
	e.RetryAfter = agentapi.Duration(overloadRetry)
	return e
}

// recordOverload records that the agent called although its request got no slot. Otherwise the host
// would end with NoAgentContact while the manager is overloaded. It reads from the cache only, and
// writes at most once per contactInterval and order. An agent whose token has expired cannot open a
// session, and its calls do not count: every wait ends (I13).
func (s *Server) recordOverload(ctx context.Context, c caller) {
	now := s.Clock.Now()
	if c.isUnknownClient() || s.overload.hasRecorded(c.claims.OrderID, now) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()
	host := s.cachedHost(ctx, c, now.After(c.claims.Expiry))
	if host == nil {
		return
	}
	release, err := s.overload.slots.Acquire(ctx, c.claims.OrderID)
	if err != nil {
		return // the next call tries again
	}
	defer release()
	if !s.overload.recorded.Add(c.claims.OrderID, now, contactInterval) {
		return
	}
	operation := infrav1.HostOperation{Step: string(agentapi.StepStarted)}
	if !lifecycle.LastContact(host).IsZero() {
		operation = *host.Status.Operation
	}
	operation.LastContactTime = metav1.NewTime(now)
	s.saveOperation(ctx, host, operation)
}
