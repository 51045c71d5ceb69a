// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"time"

	"github.com/ingot-metal/ingot/internal/firmware"
)

// Waits are how long the reconciler waits by itself; zero fields mean the
// defaults. Those that an operator may want to change are flags of the manager
// (lifecycle.Policy, Poll): these are here so that tests of many hosts can shorten
// all of them by one factor.
type Waits struct {
	// Turn bounds everything that one reconcile asks of a BMC.
	Turn time.Duration
	// BackoffFirst and BackoffCap are the backoff of a BMC that fails (I13).
	BackoffFirst, BackoffCap time.Duration
	// Settle is how soon the power state is read again after a switch.
	Settle time.Duration
	// HealthSettle is how long a server must have been better before it is told: a
	// sensor at its threshold would be told at every poll.
	HealthSettle time.Duration
	// DetailEvery is how often the parts of a server that ails are read again: a reading
	// may take 80 requests. DetailLeast bounds those of one that gets worse and better in
	// turn.
	DetailEvery, DetailLeast time.Duration
	// ImageTime bounds the reading of an image of firmware; ImageAge is
	// how long its result is used.
	ImageTime, ImageAge time.Duration
	// PushTime bounds the push of an image to a BMC.
	PushTime time.Duration
	// Soon is how soon a reconcile that met a newer version starts over.
	Soon time.Duration
}

// DefaultWaits are the waits as shipped.
func DefaultWaits() Waits {
	return Waits{Turn: turn, BackoffFirst: backoffFirst, BackoffCap: backoffCap, Settle: settle, Soon: soon,
		HealthSettle: healthSettle, DetailEvery: detailEvery, DetailLeast: detailLeast, ImageTime: firmware.DefaultImageTime, ImageAge: firmware.DefaultImageAge, PushTime: firmware.DefaultPushTime}
}

// waits are those of the reconciler, without zeroes.
func (r *Reconciler) waits() Waits {
	w := r.Waits
	return Waits{
		Turn: cmp.Or(w.Turn, turn), BackoffFirst: cmp.Or(w.BackoffFirst, backoffFirst), BackoffCap: cmp.Or(w.BackoffCap, backoffCap),
		Settle: cmp.Or(w.Settle, settle), Soon: cmp.Or(w.Soon, soon),
		HealthSettle: cmp.Or(w.HealthSettle, healthSettle), DetailEvery: cmp.Or(w.DetailEvery, detailEvery), DetailLeast: cmp.Or(w.DetailLeast, detailLeast),
		ImageTime: cmp.Or(w.ImageTime, firmware.DefaultImageTime), ImageAge: cmp.Or(w.ImageAge, firmware.DefaultImageAge), PushTime: cmp.Or(w.PushTime, firmware.DefaultPushTime),
	}
}
