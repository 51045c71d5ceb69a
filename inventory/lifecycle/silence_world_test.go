// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// silenceEvents take a network away, from this host and perhaps from others that wait. The
// agent that ran here is not heard again: the walk has it die, which is the same to Ingot.
func silenceEvents() []event {
	silent := func(w *world) bool { return w.silence > 0 }
	falls := func(others int) func(*world) {
		return func(w *world) {
			w.silence = others
			if w.running == "agent" {
				w.running, w.started = "unknown", false
			}
		}
	}
	boots := func(w *world) bool { return w.silences && !silent(w) && w.order() != nil && w.power }
	return []event{
		{name: "network: silent, one other waits", weight: 2, fault: true, when: boots, do: falls(1)},
		{name: "network: silent, many wait", weight: 4, fault: true, when: boots, do: falls(7)},
		{name: "network: heard again", weight: 2, when: silent, do: func(w *world) { w.silence = 0 }},
	}
}

// checkSilentResult: silence is the network's when many hosts wait in it, and else the
// host's; of cleanings always (I7).
func (w *world) checkSilentResult(was, is *infrav1.HostOrder) {
	if was.Result != nil || is.Result == nil || !isSilence(is.Result) {
		return
	}
	if network := is.Result.Reason == infrav1.ReasonNetworkUnresponsive; network != (w.silence >= 2 && is.Kind != infrav1.OrderClean) {
		w.violate("silence is told as %s while %d others wait", is.Result.Reason, w.silence)
	}
}

// checkSilentFailure: a host is not to blame for the silence of its network, and for its
// own it is.
func (w *world) checkSilentFailure(before, next Ledger) {
	was := before.Order
	if was == nil || was.Revoked != nil || was.Result == nil || !w.orderFits(w.host) {
		return
	}
	quarantined := next.Record != nil && next.Record.Quarantine != nil
	blamed := quarantined || failuresOf(next) > failuresOf(before)
	switch {
	case was.Result.Reason == infrav1.ReasonNetworkUnresponsive && blamed:
		w.violate("a host is blamed for the silence of its network")
	case was.Result.Reason == infrav1.ReasonNoAgentContact && was.Kind != infrav1.OrderClean && !blamed:
		w.violate("the silence of a host is not counted")
	}
}
