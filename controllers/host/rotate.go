// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/rotation"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// This file lets package rotation take its part in a reconcile.

// dealings are those of one reconcile with the BMC of a host.
type dealings struct {
	*Reconciler
	host  *infrav1.IngotHost
	seen  *observation
	known *contact
}

// Do implements rotation.BMC.
func (d dealings) Do(ctx context.Context, target bmc.Target, calls func(context.Context, bmc.Conn) error) error {
	return d.do(d.onServer(ctx, d.host, d.seen), target, calls)
}

// Read implements rotation.BMC.
func (d dealings) Read(ctx context.Context) bool {
	*d.known = d.readBMC(ctx, d.host, d.seen, *d.known)
	d.seen.contact(d.host, *d.known)
	return d.known.problem == lifecycle.BMCOK || d.known.problem == lifecycle.BMCPasswordChange
}

// Failed implements rotation.BMC.
func (d dealings) Failed(err error, tell func(string) string) {
	d.seen.Now = d.Clock.Now()
	*d.known = d.failed(d.host, *d.known, err, d.seen.Now)
	d.known.message = stable(tell(d.known.message))
}

func (r *Reconciler) rotator(bmc rotation.BMC) *rotation.Rotator {
	return &rotation.Rotator{Client: r.Client, Clock: r.Clock, BMC: bmc, Turn: r.waits().Turn,
		Current: r.mustBeCurrent, Save: r.saveCommands, Note: r.note, Warn: r.event}
}

// rotate goes on with a change of the BMC's password. settled: seen.target has the
// password that holds, and the BMC is well.
func (r *Reconciler) rotate(ctx context.Context, host *infrav1.IngotHost, seen *observation, secret *corev1.Secret, known contact) (_ contact, settled bool, _ error) {
	r.unwatch(keyOf(host)) // a stream that breaks would log in with a password that no longer holds
	outcome, err := r.rotator(dealings{r, host, seen, &known}).Rotate(ctx, rotation.View{
		Host: host, Secret: secret, Target: &seen.target, Seen: &seen.Observation, Memory: &known.rotation,
	})
	if outcome.Condition != nil {
		seen.rotated = outcome.Condition
	}
	return known, outcome.Settled, err
}
