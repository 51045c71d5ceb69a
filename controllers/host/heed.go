// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory"
)

// maxUnheeded is how many times in a row a BMC may take an order to switch the server
// and go on showing it as before. More than that, and it counts as a BMC that fails:
// its condition says so, and it is asked at growing intervals, instead of being told
// the same at every reset interval for ever (I13).
const maxUnheeded = 3

// orders are those to switch a server that the BMC took, and by which the state that
// it shows has not changed yet. The zero value is none.
type orders struct {
	want infrav1.PowerState
	n    int
	// refused: the BMC did not take the last one. proves: it was to support what the BMC
	// said already (inventory.OffProof), so that to say it again heeds nothing.
	refused, proves bool
	// problem and message are how they failed; BMCOK: not yet. That the BMC answers when
	// it is only read ends neither: only an order that is heeded does.
	problem inventory.BMCProblem
	message string
}

// failedAs remembers how the contact says that the orders failed.
func (o orders) failedAs(c contact) orders {
	if o.n > 0 {
		o.problem, o.message = c.problem, c.message
	}
	return o
}

// refusedBy counts an order that the BMC did not take, and what it showed before. The next
// one decides; until then the interval goes on growing, though the BMC answers when it is
// only read.
func (o orders) refusedBy(step inventory.Step, shown infrav1.PowerState) orders {
	o = o.after(step)
	if o.n > 0 {
		o.n, o.refused, o.proves = maxUnheeded-1, true, shown == o.want
	}
	return o
}

// after counts one more. A soft power-off and a restart may be ignored by the
// operating system: they say nothing of the BMC.
func (o orders) after(step inventory.Step) orders {
	want := infrav1.PowerState("")
	switch step := step.(type) {
	case inventory.BootAgent, inventory.PowerOn:
		want = infrav1.PowerStateOn
	case inventory.PowerOff:
		if !step.Graceful {
			want = infrav1.PowerStateOff
		}
	}
	if want == "" {
		return orders{}
	}
	if want != o.want {
		o = orders{want: want}
	}
	o.n++
	o.refused, o.proves = false, false
	return o
}

// seen compares with what the BMC shows. After the error one more order is due before
// the next: whoever repaired the BMC need not tell us. unproven: the BMC's word alone that
// the host is off is not enough.
func (o orders) seen(shown infrav1.PowerState, unproven bool) (orders, error) {
	switch {
	case o.n == 0 || shown == o.want && !(o.proves && unproven):
		return orders{}, nil
	case o.n < maxUnheeded || shown == infrav1.PowerStateUnknown:
		return o, nil
	}
	o.n = maxUnheeded - 1
	return o, disobeyed{fmt.Errorf("it took %d orders in a row to switch the server %s, and shows it %s", maxUnheeded, o.want, shown)}
}

// disobeyed is the error of a BMC that answers, and does not switch the server as it is
// ordered: a remediation tells it from one that does not answer.
type disobeyed struct{ error }

func (d disobeyed) Unwrap() error { return d.error }

// refusal is the error of an order to switch the server that the BMC answered with an
// error of its own. For the boot of an agent more is asked of it than the switch.
func refusal(step inventory.Step, err error) error {
	var rests *bmc.RestError
	_, boots := step.(inventory.BootAgent)
	if boots || problemOf(err) != inventory.BMCError || errors.As(err, &rests) {
		return err
	}
	return disobeyed{err}
}

// told is the decision as people are told of it. The step of a host whose BMC did not do
// as it was ordered is taken, since that order may be heeded; but until one is, the BMC's
// failure is what is told, or it would be told and taken back at every try. A host that is
// ready asks nothing of its BMC; what is idle for another reason says so itself.
func (r *Reconciler) told(host *infrav1.IngotHost, seen *observation, decision inventory.Decision) inventory.Decision {
	known := r.contacts.of(host)
	if host.Spec.BMC == nil || seen.BMC != inventory.BMCOK || known.orders.problem == inventory.BMCOK ||
		decision.Reason == infrav1.ReasonAvailable || decision.Reason == infrav1.ReasonProvisioned {
		return decision
	}
	known.problem, known.message = known.orders.problem, known.orders.message
	shown := seen.Power
	seen.contact(host, known)
	if _, idle := decision.Step.(inventory.Idle); idle {
		seen.Power = shown
		return decision
	}
	told := inventory.Next(host, seen.Observation, r.Policy)
	told.RecordContact = decision.RecordContact
	return told
}
