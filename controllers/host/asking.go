// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// asking is when a BMC refused for the first and for the last time to ask the system to
// shut down. The zero value: it has not. It may be lost: the system is then asked for as
// long once more.
type asking struct {
	first, last time.Time
}

func (a asking) refused(now time.Time) asking {
	if a.first.IsZero() {
		a.first = now
	}
	a.last = now
	return a
}

// lasted says whether it was refused for so long, the last try included: a BMC that was
// away all the time is asked once more when it is back.
func (a asking) lasted(while time.Duration) bool {
	return !a.first.IsZero() && a.last.Sub(a.first) >= while
}

// forgetAsked forgets what was asked of the system, once it was met or nobody wants it any
// more: it must not shorten the next request.
func (r *Reconciler) forgetAsked(host *infrav1.IngotHost, seen *observation, decision lifecycle.Decision) {
	if seen.Power == infrav1.PowerStateOff || seen.Power == infrav1.PowerStateOn && !decision.ShutsDown {
		host.Status.SoftPowerOffTime = metav1.Time{}
		r.contacts.change(keyOf(host), func(c *contact) { c.asking = asking{} })
	}
}
