// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// enoughSilent is how many other hosts must wait for their agents in vain, and none be
// heard, until silence is their network's and not the host's. One beside it may be chance.
const enoughSilent = 2

// SilenceDue says whether an agent has been silent for so long that it matters who else
// is; see SilentPeers.
func SilenceDue(host *infrav1.IngotHost, obs Observation, policy Policy) bool {
	order, last := host.Spec.Order, obs.LastReset
	if obs.LastContact.After(last) {
		last = obs.LastContact
	}
	return order != nil && order.Result == nil && !obs.Now.Before(last.Add(policy.AgentDeadline))
}

// SilentPeers counts the hosts beside this one that wait for an agent by its IngotNetwork,
// in vain so far. It is 0 if an agent on any host of the network was heard within the
// agent's deadline: what that one reached, this one could have.
func SilentPeers(host *infrav1.IngotHost, all []infrav1.IngotHost, now time.Time, policy Policy) int {
	since, silent := now.Add(-policy.AgentDeadline), 0
	for i := range all {
		peer := &all[i]
		if peer.UID == host.UID || peer.Spec.NetworkRef.Name != host.Spec.NetworkRef.Name {
			continue
		}
		if heard(peer).After(since) {
			return 0
		}
		if waitsInVain(peer, since) {
			silent++
		}
	}
	return silent
}

// heard is when an agent on the host last spoke, as far as the object tells; zero: never.
func heard(host *infrav1.IngotHost) time.Time {
	var last time.Time
	later := func(t time.Time) {
		if t.After(last) {
			last = t
		}
	}
	if operation, order := host.Status.Operation, host.Spec.Order; operation != nil && order != nil && order.AgentKey != "" && operation.StartedAt.Equal(&order.CreatedAt) {
		later(operation.LastContactTime.Time)
	}
	if order := host.Spec.Order; order != nil && order.Result != nil && !unheardOf(order.Result) {
		later(order.Result.At.Time)
	}
	if record := host.Spec.Record; record != nil {
		later(record.InspectedAt.Time)
		later(record.SanitizedAt.Time)
	}
	return last
}

// unheardOf: the result is Ingot's own, for want of an agent's.
func unheardOf(result *infrav1.OrderResult) bool {
	switch result.Reason {
	case infrav1.ReasonNoAgentContact, infrav1.ReasonNetworkSilent, infrav1.ReasonLiveSystemSilent:
		return true
	}
	return false
}

// waitsInVain: no agent has taken the host's order, and the host was booted for it. One
// whose order is younger than since may be about to be: Ingot gives all up one after
// another, and starts each anew at once.
func waitsInVain(host *infrav1.IngotHost, since time.Time) bool {
	order := host.Spec.Order
	if order == nil || order.AgentKey != "" || order.Result != nil && !unheardOf(order.Result) {
		return false
	}
	return !host.Status.LastResetTime.Before(&order.CreatedAt) || order.CreatedAt.After(since)
}
