// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"time"
)

// Waits are how long the reconciler waits by itself; zero fields mean the
// defaults. Those that an operator may want to change are flags of the manager
// (inventory.Policy, Poll): these are here so that tests of many hosts can shorten
// all of them by one factor.
type Waits struct {
	// Turn bounds everything that one reconcile asks of a BMC.
	Turn time.Duration
	// BackoffFirst and BackoffCap are the backoff of a BMC that fails (I13).
	BackoffFirst, BackoffCap time.Duration
	// Settle is how soon the power state is read again after a switch.
	Settle time.Duration
	// Soon is how soon a reconcile that met a newer version starts over.
	Soon time.Duration
}

// DefaultWaits are the waits as shipped.
func DefaultWaits() Waits {
	return Waits{Turn: turn, BackoffFirst: backoffFirst, BackoffCap: backoffCap, Settle: settle, Soon: soon}
}

// waits are those of the reconciler, without zeroes.
func (r *Reconciler) waits() Waits {
	w := r.Waits
	return Waits{
		Turn: cmp.Or(w.Turn, turn), BackoffFirst: cmp.Or(w.BackoffFirst, backoffFirst), BackoffCap: cmp.Or(w.BackoffCap, backoffCap),
		Settle: cmp.Or(w.Settle, settle), Soon: cmp.Or(w.Soon, soon),
	}
}
