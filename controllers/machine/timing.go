// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"time"
)

// Waits are how long the reconciler waits by itself; zero fields mean the defaults.
// They are here so that tests of many machines can shorten all of them by one factor.
type Waits struct {
	// Placement is how soon a machine without a host looks again, should nothing
	// bring it up.
	Placement time.Duration
	// Conflict is how soon one tries again that lost against another.
	Conflict time.Duration
	// Answer is how long the provider of a pool has to answer a claim that is new here
	// before people are told of the address.
	Answer time.Duration
	// Join is how long the Node may take to join after a first boot that failed, and Host how
	// long a server is off, or its BMC silent, before the machine is not Ready any more.
	Join, Host time.Duration
}

// DefaultWaits are the waits as shipped.
func DefaultWaits() Waits {
	return Waits{Placement: retryPlacement, Conflict: retryConflict, Answer: newClaim, Join: joinTime, Host: hostTime}
}

// waits are those of the reconciler, without zeroes.
func (r *Reconciler) waits() Waits {
	return Waits{
		Placement: cmp.Or(r.Waits.Placement, retryPlacement), Conflict: cmp.Or(r.Waits.Conflict, retryConflict), Answer: cmp.Or(r.Waits.Answer, newClaim),
		Join: cmp.Or(r.Waits.Join, joinTime), Host: cmp.Or(r.Waits.Host, hostTime),
	}
}
