// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// off is when a BMC said for the first time that a host is off whose live system was
// started. The zero value: it has not. It may be lost: off is then believed later.
type off struct {
	// order of the live system.
	order string
	since time.Time
}

// seen takes in what the BMC says now. Off is unsure until it was said twice, a while
// apart: status.power may be of before the boot, and anything may wake the controller a
// moment after a wrong word. A BMC that says nothing takes nothing back.
func (o off) seen(order *infrav1.HostOrder, power infrav1.PowerState, now time.Time, while time.Duration) (_ off, unsure bool) {
	switch {
	case order == nil || order.LiveStartedAt.IsZero() || power == infrav1.PowerStateOn:
		return off{}, false
	case power != infrav1.PowerStateOff:
		return o, false
	case o.order != order.ID:
		o = off{order: order.ID, since: now}
	}
	return o, now.Before(o.since.Add(while))
}
