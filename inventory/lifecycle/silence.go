// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// enoughSilent is how many other hosts must have a silent agent, and none an active one, before
// Ingot reports the network as unresponsive. One other host may be chance.
const enoughSilent = 2

// IsAgentSilent reports whether an agent has been silent for so long that CountSilentPeers matters, and
// Ingot has listened for as long.
func IsAgentSilent(host *infrav1.IngotHost, obs Observation, policy Policy) bool {
	order, last := host.Spec.Order, obs.LastReset
	for _, t := range []time.Time{obs.LastContact, obs.ListeningSince} {
		if t.After(last) {
			last = t
		}
	}
	return order != nil && order.Result == nil && !obs.Now.Before(last.Add(policy.AgentDeadline))
}

// CountSilentPeers counts the other hosts on the IngotNetwork that wait for a silent agent. It is 0
// if any agent on the network was heard within the agent's deadline (the last at lastHeard):
// then the network works.
func CountSilentPeers(host *infrav1.IngotHost, all []infrav1.IngotHost, lastHeard, now time.Time, policy Policy) int {
	if lastHeard.After(now.Add(-policy.AgentDeadline)) {
		return 0
	}
	silent := 0
	for i := range all {
		peer := &all[i]
		if peer.UID != host.UID && peer.Spec.NetworkRef.Name == host.Spec.NetworkRef.Name && waitsForAgent(peer, now, policy) {
			silent++
		}
	}
	return silent
}

// waitsForAgent reports whether the host was booted for its order a while ago and no agent has
// taken the order, or Ingot gave up on that within the deadline. A younger order may be about
// to boot again. Paused hosts, and hosts that do not power on, wait for something else.
func waitsForAgent(host *infrav1.IngotHost, now time.Time, policy Policy) bool {
	order, since := host.Spec.Order, now.Add(-policy.AgentDeadline)
	switch {
	case order == nil || HostPause(host) != "":
		return false
	case order.Result != nil:
		return isSilence(order.Result) && order.Result.CompletionTime.After(since)
	case order.AgentKey != "":
		return false
	case order.CreationTime.After(since):
		return true
	}
	booted := host.Status.LastResetTime
	return host.Status.Power == infrav1.PowerStateOn && !booted.Before(&order.CreationTime) && booted.After(since.Add(-policy.AgentDeadline))
}

// isSilence reports whether Ingot ended the order because its agent was silent.
func isSilence(result *infrav1.OrderResult) bool {
	return result.Reason == infrav1.ReasonNoAgentContact || result.Reason == infrav1.ReasonNetworkUnresponsive
}

// HostPause returns the annotation by which an operator or clusterctl move paused the host.
// Empty: the host is not paused.
func HostPause(host *infrav1.IngotHost) string {
	for _, name := range []string{infrav1.MovePausedAnnotation, clusterv1.PausedAnnotation} {
		if _, found := host.Annotations[name]; found {
			return name
		}
	}
	return ""
}
