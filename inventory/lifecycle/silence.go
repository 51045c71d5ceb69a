// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// enoughSilent is how many other hosts must wait for their agents in vain, and none be
// heard, until silence is their network's and not the host's. One beside it may be chance.
const enoughSilent = 2

// SilenceDue says whether an agent has been silent for so long that it matters who else
// is; see SilentPeers. Not before Ingot has listened for as long.
func SilenceDue(host *infrav1.IngotHost, obs Observation, policy Policy) bool {
	order, last := host.Spec.Order, obs.LastReset
	for _, t := range []time.Time{obs.LastContact, obs.ListeningSince} {
		if t.After(last) {
			last = t
		}
	}
	return order != nil && order.Result == nil && !obs.Now.Before(last.Add(policy.AgentDeadline))
}

// SilentPeers counts the hosts beside this one that wait for an agent by its IngotNetwork,
// in vain so far. It is 0 if an agent on any host of the network was heard within the
// agent's deadline, the last of them at lastHeard: what that one reached, this one could
// have.
func SilentPeers(host *infrav1.IngotHost, all []infrav1.IngotHost, lastHeard, now time.Time, policy Policy) int {
	if lastHeard.After(now.Add(-policy.AgentDeadline)) {
		return 0
	}
	silent := 0
	for i := range all {
		peer := &all[i]
		if peer.UID != host.UID && peer.Spec.NetworkRef.Name == host.Spec.NetworkRef.Name && waitsInVain(peer, now, policy) {
			silent++
		}
	}
	return silent
}

// waitsInVain: the host was booted for its order a while ago and no agent has taken it, or
// it was given up for that just now. One whose order is young may be about to be booted:
// Ingot gives all up one after another, and starts each anew at once. A host that does not
// come on, or that Ingot leaves alone, waits for something else.
func waitsInVain(host *infrav1.IngotHost, now time.Time, policy Policy) bool {
	order, since := host.Spec.Order, now.Add(-policy.AgentDeadline)
	switch {
	case order == nil || HostPause(host) != "":
		return false
	case order.Result != nil:
		return unheardOf(order.Result) && order.Result.At.After(since)
	case order.AgentKey != "":
		return false
	case order.CreatedAt.After(since):
		return true
	}
	booted := host.Status.LastResetTime
	return host.Status.Power == infrav1.PowerStateOn && !booted.Before(&order.CreatedAt) && booted.After(since.Add(-policy.AgentDeadline))
}

// unheardOf: the result is Ingot's own, for want of an agent's.
func unheardOf(result *infrav1.OrderResult) bool {
	return result.Reason == infrav1.ReasonNoAgentContact || result.Reason == infrav1.ReasonNetworkSilent
}

// hostPause returns the annotation that pauses the host, set by an operator or for clusterctl
// move; empty if the host is not paused.
func HostPause(host *infrav1.IngotHost) string {
	for _, name := range []string{infrav1.MovePausedAnnotation, clusterv1.PausedAnnotation} {
		if _, found := host.Annotations[name]; found {
			return name
		}
	}
	return ""
}
