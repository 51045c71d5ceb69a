// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// ErrStale: the host has changed since it was read, and the reconcile starts over.
var ErrStale = errors.New("the host has changed meanwhile")

// BMC makes calls to BMCs.
type BMC interface {
	// Do runs calls on the one session with a BMC, within the time that one reconcile
	// has for it.
	Do(ctx context.Context, target bmc.Target, calls func(context.Context, bmc.Conn) error) error
	// DoWithin is Do within a time of its own, beside the worker: ctx holds the values of the
	// one that the step was taken with.
	DoWithin(ctx context.Context, target bmc.Target, limit time.Duration, calls func(context.Context, bmc.Conn) error) error
}

// Preparer takes steps. All fields but HTTP are needed; it holds no state of its own.
type Preparer struct {
	// Live reads from the API server.
	Live   client.Reader
	BMC    BMC
	Clock  clock.Clock
	Policy lifecycle.Policy
	Timing timing.Timing
	// Poll is how often a host that waits for nothing else is looked at.
	Poll time.Duration
	// HTTP reads images. It asks only where the operator allows, since whoever writes a
	// host chooses the URL, and fails with httpd.ErrSourceNotAllowed elsewhere; nil: none
	// are read.
	HTTP  *http.Client
	Works *Works
	// Save writes a host by optimistic lock on base; a conflict is an error that starts
	// the reconcile over.
	Save func(ctx context.Context, next, base *infrav1.IngotHost) error
	// Wake ends what the host waits for in its Memory (GoOn), and has it reconciled.
	Wake func(host types.NamespacedName)
	// Warn tells people of something that the decision did not foresee.
	Warn func(host *infrav1.IngotHost, reason, message string)
	// Stable has the same failure read the same each time.
	Stable func(text string) string
}

// backoffJitter is how much is added at random to the delay of an update, as a part of it.
const backoffJitter = 0.5

// View is a host as one reconcile sees it. Seen and Memory are changed on the way.
type View struct {
	Host   *infrav1.IngotHost
	Target bmc.Target
	Seen   *lifecycle.Observation
	Memory *Memory
}

func (v View) key() types.NamespacedName {
	return types.NamespacedName{Namespace: v.Host.Namespace, Name: v.Host.Name}
}

// Memory is what is remembered of a host's settings and firmware between reconciles. It
// may be lost: the BMC is then read again. The zero value is empty.
type Memory struct {
	// address of the BMC that was read.
	address string
	reading *lifecycle.FirmwareReading
	// tried: settings were written since the last switch; tryError is the answer.
	tried    bool
	tryError string
	putOff   putOff
	// rest is since calls about settings or firmware fail, though the BMC answers.
	rest    putOff
	running running
}

// running is a task that the BMC said is running, the last time that it said anything.
type running struct {
	// of names BMC and task.
	of   string
	task lifecycle.UpdateTask
}

// GoOn ends what the host waits for.
func (m *Memory) GoOn() { m.putOff.until = time.Time{} }

// Anew has calls that failed tried at once: what the BMC is asked with is new.
func (m *Memory) Anew() { m.rest = putOff{} }

// Forget what was read: before a switch it says nothing of what is after it.
func (v View) Forget() {
	*v.Memory = Memory{address: v.Target.Address, putOff: v.Memory.putOff, rest: v.Memory.rest}
	v.Seen.Firmware = nil
}

// remember what was found out about the target's BMC.
func (v View) remember(change func(*Memory)) {
	v.Memory.address = v.Target.Address
	change(v.Memory)
	v.Seen.Firmware = v.Memory.reading
}

// ObservePush adds what is known of a push for the host. ErrStale: the host is seen as it
// was before the push began.
func (p *Preparer) ObservePush(v View) error {
	p.hear(v)
	percent, pushing := p.Works.Pushing(v.key())
	if !pushing {
		return nil
	}
	if lifecycle.UpdateOf(v.Host) == nil {
		return ErrStale
	}
	v.Seen.Update = lifecycle.UpdateTask{State: lifecycle.UpdatePushing, Percent: percent}
	return nil
}

// Observe adds what is remembered, and what the BMC tells of an update under way: its
// task is asked for only then.
func (p *Preparer) Observe(ctx context.Context, v View) {
	if v.Seen.Update.State == lifecycle.UpdatePushing {
		return // the BMC has one call in flight
	}
	if v.Memory.address == v.Target.Address {
		v.Seen.Firmware = v.Memory.reading
	}
	p.showRest(v)
	update := lifecycle.UpdateOf(v.Host)
	if update == nil || update.TaskID == "" {
		return
	}
	var task bmc.Task
	err := p.BMC.Do(ctx, v.Target, func(ctx context.Context, conn bmc.Conn) (err error) {
		task, err = conn.Task(ctx, update.TaskID)
		return err
	})
	v.Seen.Now = p.Clock.Now()
	of := v.Target.Address + " " + update.TaskID
	switch {
	case err == nil:
		v.Seen.Update = lifecycle.UpdateTask{State: progressOf(task.State), Percent: task.Percent, Message: bmc.Mask(task.Message, secretsOf(v.Host)...)}
	case errors.Is(err, bmc.ErrNotSupported): // BMCs forget their tasks when they restart
	case v.Memory.running.of == of && v.Seen.Now.Before(update.StartedAt.Add(p.Policy.UpdateDeadline)):
		// One that writes firmware may well have no time to say so: it is at work still.
		v.Seen.Update = v.Memory.running.task
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("The task of the update cannot be read", "task", update.TaskID, "error", err.Error())
	}
	v.Memory.running = running{}
	if v.Seen.Update.State == lifecycle.UpdateRunning {
		v.Memory.running = running{of, v.Seen.Update}
	}
}

func progressOf(state bmc.TaskState) lifecycle.UpdateProgress {
	switch state {
	case bmc.TaskRunning:
		return lifecycle.UpdateRunning
	case bmc.TaskSucceeded:
		return lifecycle.UpdateSucceeded
	case bmc.TaskFailed:
		return lifecycle.UpdateFailed
	case bmc.TaskWaitsForReset:
		return lifecycle.UpdateWaits
	}
	return lifecycle.UpdateUnknown
}

// secretsOf are those in the URLs of the firmware that the host is to have.
func secretsOf(host *infrav1.IngotHost) []bmc.Password {
	var secrets []bmc.Password
	for _, wish := range host.Spec.Firmware {
		secrets = append(secrets, bmc.QuerySecrets(wish.URL)...)
	}
	return secrets
}

// Look reads settings and firmware, and remembers them. That they cannot be read while
// the BMC answers otherwise puts them off, and nothing else; an error is of a BMC that may
// not be there any more.
func (p *Preparer) Look(ctx context.Context, v View) error {
	tried, tryError := v.Memory.tried, v.Memory.tryError
	if v.Memory.reading != nil || v.Memory.address != v.Target.Address {
		tried, tryError = false, ""
	}
	var reading *lifecycle.FirmwareReading
	err := p.BMC.Do(ctx, v.Target, func(ctx context.Context, conn bmc.Conn) (err error) {
		reading, err = p.read(ctx, conn, v.Host)
		return err
	})
	v.Seen.Now = p.Clock.Now()
	if err != nil {
		return p.failed(v, err)
	}
	p.succeeded(v)
	reading.At, reading.Key, reading.Tried, reading.TryError = v.Seen.Now, lifecycle.ReadingKey(v.Host), tried, tryError
	reading.RefusedSince = refusedSince(v.Memory.reading, reading)
	v.remember(func(m *Memory) { m.tried, m.tryError, m.reading = tried, tryError, reading })
	return nil
}

// refusedSince is FirmwareReading.RefusedSince of a reading, by the one before it.
func refusedSince(before, now *lifecycle.FirmwareReading) time.Time {
	switch {
	case now.Refused == "":
		return time.Time{}
	case before != nil && before.Key == now.Key && !before.RefusedSince.IsZero():
		return before.RefusedSince
	}
	return now.At
}

// Is says whether a step is one that Execute takes.
func Is(step lifecycle.Step) bool {
	switch step.(type) {
	case lifecycle.WriteSettings, lifecycle.StartUpdate, lifecycle.ResetBMC:
		return true
	}
	return false
}

// Execute takes a step of the preparation. Like a switch, none may be taken on an old
// view. The error is Save's, ErrStale, the API server's, or a *BMCError.
func (p *Preparer) Execute(ctx context.Context, v View, step lifecycle.Step) error {
	switch step := step.(type) {
	case lifecycle.WriteSettings:
		return p.writeSettings(ctx, v, step)
	case lifecycle.StartUpdate:
		return p.startUpdate(ctx, v, step)
	case lifecycle.ResetBMC:
		return p.resetBMC(ctx, v, step)
	}
	return fmt.Errorf("step %T is none of the preparation", step)
}

// BMCError is an error that the BMC's condition shows, with its backoff.
type BMCError struct{ Err error }

// Error implements error.
func (e *BMCError) Error() string { return e.Err.Error() }

// Unwrap returns the BMC's error.
func (e *BMCError) Unwrap() error { return e.Err }

// Operation shows the update under way, where no order is; nil: none.
func Operation(host *infrav1.IngotHost, seen lifecycle.Observation) *infrav1.HostOperation {
	update := lifecycle.UpdateOf(host)
	if host.Spec.Order != nil || update == nil {
		return nil
	}
	operation := &infrav1.HostOperation{
		Kind: infrav1.OperationUpdate, Step: "Update" + firstRunes(update.Component, 58),
		StartedAt: update.StartedAt, Attempts: host.Spec.Record.Preparation.Attempts + 1,
	}
	if seen.Update.State != lifecycle.UpdateUnknown && seen.Update.Percent >= 0 {
		operation.Percent = ptr.To(int32(min(seen.Update.Percent, 100)))
	}
	return operation
}

// firstRunes keeps a name within the schema's bound.
func firstRunes(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n])
	}
	return text
}
