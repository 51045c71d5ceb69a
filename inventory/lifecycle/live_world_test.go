// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// This file is live systems in the world of the walks.

// checkLiveFailure: what comes to nothing once a live system was started is not the host's
// failure.
func (w *world) checkLiveFailure(before, next Ledger) {
	was := before.Order
	if was == nil || was.LiveStartTime.IsZero() || was.Revoked != nil || !w.orderFits(w.host) ||
		was.Result != nil && was.Result.Reason != infrav1.ReasonLiveSystemUnresponsive {
		return
	}
	if failuresOf(next) > failuresOf(before) || next.Record != nil && next.Record.Quarantine != nil {
		w.violate("a host is blamed for a live system that came to nothing")
	}
}

// checkLiveResult: only a live system that was started can be silent, nothing else can once
// it was, and what an agent has said stands.
func checkLiveResult(w *world, was, is *infrav1.HostOrder) {
	if was.Result == nil && is.Result != nil && !was.LiveStartTime.IsZero() && is.Result.Reason != infrav1.ReasonLiveSystemUnresponsive {
		w.violate("the silence of a live system that was started is reported as %s", is.Result.Reason)
	}
	if is.Result == nil || is.Result.Reason != infrav1.ReasonLiveSystemUnresponsive || was.Result != nil && was.Result.CompletionTime == is.Result.CompletionTime {
		return
	}
	if was.LiveStartTime.IsZero() || was.Result != nil || was.Revoked != nil {
		w.violate("an order is ended as that of a live system that was never started, or had ended")
	}
}
