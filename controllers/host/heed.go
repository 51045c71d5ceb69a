// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// maxUnheeded is how many times in a row a BMC may take an order to switch the server
// and go on showing it as before. More than that, and it counts as a BMC that fails:
// its condition says so, and it is asked at growing intervals, instead of being told
// the same at every reset interval for ever (I13).
const maxUnheeded = 3

// orders are those to switch a server by which the state that it shows has not changed
// yet. The zero value is none.
type orders struct {
	want infrav1.PowerState
	// n is how many in a row the BMC took, or gave no answer to; what it refused is not
	// among them, and begins a new row.
	n int
	// proves: the BMC did not take the last one, or gave no answer to it, and it was to
	// support what the BMC said already (lifecycle.OffProof), so that to say it again heeds
	// nothing.
	proves bool
	// problem and message are how they failed; BMCOK: not yet. That the BMC answers when
	// it is only read ends neither: only an order that is heeded does.
	problem lifecycle.BMCProblem
	message string
}

// pending: some were given, and none is known to be heeded.
func (o orders) pending() bool { return o.want != "" }

// failedAs remembers how the contact says that the orders failed.
func (o orders) failedAs(c contact) orders {
	if o.pending() {
		o.problem, o.message = c.problem, c.message
	}
	return o
}

// refusedBy takes in an order that the BMC did not take, and what it showed before. Until one
// is heeded the interval goes on growing, though the BMC answers when it is only read.
func (o orders) refusedBy(step lifecycle.Step, shown infrav1.PowerState) orders {
	o = o.after(step).lost(shown)
	o.n = 0
	return o
}

// lost takes in that the BMC gave no answer to the last one, and what it showed before. It
// may have taken it (I17), but that it says the same again does not tell.
func (o orders) lost(shown infrav1.PowerState) orders {
	o.proves = o.pending() && shown == o.want
	return o
}

// after counts one more. A soft power-off and a restart may be ignored by the
// operating system: they say nothing of the BMC.
func (o orders) after(step lifecycle.Step) orders {
	want := infrav1.PowerState("")
	switch step := step.(type) {
	case lifecycle.BootAgent, lifecycle.PowerOn:
		want = infrav1.PowerStateOn
	case lifecycle.PowerOff:
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
	o.proves = false
	return o
}

// seen compares with what the BMC shows. After the error one more order is due before
// the next: whoever repaired the BMC need not tell us. unproven: the BMC's word alone that
// the host is off is not enough. lags: it may still show the state before the last order,
// so that only good news counts.
func (o orders) seen(shown infrav1.PowerState, unproven, lags bool) (orders, error) {
	switch {
	case !o.pending() || shown == o.want && !(o.proves && unproven):
		return orders{}, nil
	case o.n < maxUnheeded || lags || shown == infrav1.PowerStateUnknown:
		return o, nil
	}
	o.n = maxUnheeded - 1
	if shown == o.want { // it shows what is to be proved, and one that it took had proved it
		return o, unanswered(fmt.Sprintf("it gave no answer to %d orders in a row to switch the server %s", maxUnheeded, o.want))
	}
	return o, disobeyed{fmt.Errorf("it took %d orders in a row to switch the server %s, and shows it %s", maxUnheeded, o.want, shown)}
}

// disobeyed is the error of a BMC that answers, and does not switch the server as it is
// ordered: a remediation tells it from one that does not answer.
type disobeyed struct{ error }

func (d disobeyed) Unwrap() error { return d.error }

// unanswered is the error of a BMC that answers when it is read, and gives no answer to
// orders: it cannot be told whether it switches the server.
type unanswered string

func (u unanswered) Error() string { return string(u) }
func (unanswered) Unwrap() error   { return bmc.ErrUnknownOutcome }

// booting is since when the BMC takes the orders to boot the agent of an order. The zero
// value: it has taken none, or not the last one. It may be lost: the boot then gets its
// time once more.
type booting struct {
	order string
	since time.Time
}

// took takes in that the BMC took one, or may have (I17).
func (b booting) took(order *infrav1.HostOrder, step lifecycle.Step, now time.Time) booting {
	if _, boots := step.(lifecycle.BootAgent); !boots || order == nil || b.order == order.ID {
		return b
	}
	return booting{order: order.ID, since: now}
}

// refused takes in that it did not.
func (b booting) refused(step lifecycle.Step) booting {
	if _, boots := step.(lifecycle.BootAgent); boots {
		return booting{}
	}
	return b
}

// of is since when it takes those of the order; zero: it does not.
func (b booting) of(order *infrav1.HostOrder) time.Time {
	if order == nil || b.order != order.ID {
		return time.Time{}
	}
	return b.since
}

// refusal is the error of an order to switch the server that the BMC answered with an
// error of its own. For the boot of an agent more is asked of it than the switch.
func refusal(step lifecycle.Step, err error) error {
	var rests *bmc.RestError
	_, boots := step.(lifecycle.BootAgent)
	if boots || problemOf(err) != lifecycle.BMCError || errors.As(err, &rests) {
		return err
	}
	return disobeyed{err}
}

// told is the decision as people are told of it. The step of a host whose BMC did not do
// as it was ordered is taken, since that order may be heeded; but until one is, the BMC's
// failure is what is told, or it would be told and taken back at every try. A host that is
// ready asks nothing of its BMC; what is idle for another reason says so itself.
func (r *Reconciler) told(host *infrav1.IngotHost, seen *observation, decision lifecycle.Decision) lifecycle.Decision {
	known := r.contacts.of(host)
	if host.Spec.BMC == nil || seen.BMC != lifecycle.BMCOK || known.orders.problem == lifecycle.BMCOK ||
		decision.Reason == infrav1.ReasonAvailable || decision.Reason == infrav1.ReasonProvisioned {
		return decision
	}
	known.problem, known.message = known.orders.problem, known.orders.message
	shown := seen.Power
	seen.contact(host, known)
	if _, idle := decision.Step.(lifecycle.Idle); idle {
		seen.Power = shown
		return decision
	}
	told := lifecycle.Next(host, seen.Observation, r.Policy)
	told.RecordContact = decision.RecordContact
	return told
}
