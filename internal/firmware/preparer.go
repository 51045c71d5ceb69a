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

// ErrStale means that the host has changed since it was read: the reconcile must start over.
var ErrStale = errors.New("the host has changed meanwhile")

// BMC makes calls to BMCs.
type BMC interface {
	// Do runs calls in the BMC's session, within the time of one reconcile.
	Do(ctx context.Context, target bmc.Target, calls func(context.Context, bmc.Conn) error) error
	// DoWithin is Do with a limit of its own, outside a worker. ctx holds the values of the
	// context of Execute.
	// one that the step was taken with.
	DoWithin(ctx context.Context, target bmc.Target, limit time.Duration, calls func(context.Context, bmc.Conn) error) error
}

// Preparer executes steps. All fields but HTTP are required. It has no state of its own.
type Preparer struct {
	// Live reads from the API server.
	Live   client.Reader
	BMC    BMC
	Clock  clock.Clock
	Policy lifecycle.Policy
	Timing timing.Timing
	// Poll is the interval at which a waiting host is reconciled.
	Poll time.Duration
	// HTTP reads images. Tenants choose the URLs: it must fail with httpd.ErrSourceNotAllowed for
	// those that the operator does not allow. If it is nil, no image is read.
	HTTP *http.Client
	Jobs *Jobs
	// Save writes a host with optimistic locking on base. Its error ends the reconcile.
	Save func(ctx context.Context, next, base *infrav1.IngotHost) error
	// Wake calls Memory.ResumeClaim for a host, and reconciles it.
	Wake func(host types.NamespacedName)
	// Warn records an event that no decision foresaw.
	Warn func(host *infrav1.IngotHost, reason, message string)
	// Stable removes what differs each time from the text of a failure.
	Stable func(text string) string
}

// backoffJitter is the random part of a delay.
const backoffJitter = 0.5

// View is a host in one reconcile. Methods change Seen and Memory.
type View struct {
	Host   *infrav1.IngotHost
	Target bmc.Target
	Seen   *lifecycle.Observation
	Memory *Memory
}

func (v View) key() types.NamespacedName {
	return types.NamespacedName{Namespace: v.Host.Namespace, Name: v.Host.Name}
}

// Memory is what is remembered of a host's settings and firmware between reconciles. If it is lost,
// the BMC is read again. The zero value is empty.
type Memory struct {
	// address is the BMC that was read.
	address string
	reading *lifecycle.FirmwareReading
	// tried: settings were written since the last power change; tryError is the BMC's answer.
	tried    bool
	tryError string
	// update defers the update, access all calls about settings and firmware.
	update, access deferral
	running        running
}

// running is the last known state of a running task.
type running struct {
	// key names the BMC and the task.
	key  string
	task lifecycle.UpdateTask
}

// ResumeClaim ends the wait for a background job.
func (m *Memory) EndWait() { m.update.until = time.Time{} }

// RetryNow ends the deferral of calls that failed, since the BMC's access data is new.
func (m *Memory) RetryNow() { m.access = deferral{} }

// Forget drops the reading, which is outdated after a power change.
func (v View) Forget() {
	*v.Memory = Memory{address: v.Target.Address, update: v.Memory.update, access: v.Memory.access}
	v.Seen.Firmware = nil
}

// remember changes the memory of the target's BMC.
func (v View) remember(change func(*Memory)) {
	v.Memory.address = v.Target.Address
	change(v.Memory)
	v.Seen.Firmware = v.Memory.reading
}

// ObservePush adds the host's push to the observation. ErrStale means that the host was read before
// the push began.
func (p *Preparer) ObservePush(v View) error {
	p.applyJobResults(v)
	percent, pushing := p.Jobs.Pushing(v.key())
	if !pushing {
		return nil
	}
	if lifecycle.UpdateOf(v.Host) == nil {
		return ErrStale
	}
	v.Seen.Update = lifecycle.UpdateTask{State: lifecycle.UpdatePushing, Percent: percent}
	return nil
}

// Observe adds what is remembered to the observation. If an update is running, it asks the BMC for
// the task.
func (p *Preparer) Observe(ctx context.Context, v View) {
	if v.Seen.Update.State == lifecycle.UpdatePushing {
		return // the BMC has one call in flight
	}
	if v.Memory.address == v.Target.Address {
		v.Seen.Firmware = v.Memory.reading
	}
	p.showAccess(v)
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
	key := v.Target.Address + " " + update.TaskID
	switch {
	case err == nil:
		v.Seen.Update = lifecycle.UpdateTask{State: progressOf(task.State), Percent: task.Percent, Message: bmc.Mask(task.Message, secretsOf(v.Host)...)}
	case errors.Is(err, bmc.ErrNotSupported): // BMCs forget their tasks when they restart
	case v.Memory.running.key == key && v.Seen.Now.Before(update.StartTime.Add(p.Policy.UpdateDeadline)):
		// A BMC that writes firmware may be too busy to answer: the task is probably still running.
		v.Seen.Update = v.Memory.running.task
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Could not read the task of the firmware update", "task", update.TaskID, "error", err.Error())
	}
	v.Memory.running = running{}
	if v.Seen.Update.State == lifecycle.UpdateRunning {
		v.Memory.running = running{key, v.Seen.Update}
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
		return lifecycle.UpdateWaitsForReset
	}
	return lifecycle.UpdateUnknown
}

// secretsOf returns the secrets in the URLs of spec.firmware.
func secretsOf(host *infrav1.IngotHost) []bmc.Password {
	var secrets []bmc.Password
	for _, wish := range host.Spec.Firmware {
		secrets = append(secrets, bmc.QuerySecrets(wish.URL)...)
	}
	return secrets
}

// Look reads settings and firmware, and remembers them. If the BMC answers but they cannot be read,
// they are deferred, and Look returns nil. It returns the error of a BMC that may be unreachable.
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
		return p.deferAccess(v, err)
	}
	p.clearAccess(v)
	reading.At, reading.Key, reading.Tried, reading.TryError = v.Seen.Now, lifecycle.ReadingKey(v.Host), tried, tryError
	reading.RefusedSince = refusedSince(v.Memory.reading, reading)
	v.remember(func(m *Memory) { m.tried, m.tryError, m.reading = tried, tryError, reading })
	return nil
}

// refusedSince returns FirmwareReading.RefusedSince of a reading, given the reading before.
func refusedSince(before, now *lifecycle.FirmwareReading) time.Time {
	switch {
	case now.Refused == "":
		return time.Time{}
	case before != nil && before.Key == now.Key && !before.RefusedSince.IsZero():
		return before.RefusedSince
	}
	return now.At
}

// IsStep reports whether Execute handles a step.
func IsStep(step lifecycle.Step) bool {
	switch step.(type) {
	case lifecycle.WriteSettings, lifecycle.StartUpdate, lifecycle.ResetBMC:
		return true
	}
	return false
}

// Execute executes a step. The view must be current. It returns an error of Save or of the API
// server, ErrStale, or a *BMCError.
func (p *Preparer) Execute(ctx context.Context, v View, step lifecycle.Step) error {
	switch step := step.(type) {
	case lifecycle.WriteSettings:
		return p.writeSettings(ctx, v, step)
	case lifecycle.StartUpdate:
		return p.startUpdate(ctx, v, step)
	case lifecycle.ResetBMC:
		return p.resetBMC(ctx, v, step)
	}
	return fmt.Errorf("execute step %T: not a step of the preparation", step)
}

// BMCError is an error to show in the BMC's condition, with backoff.
type BMCError struct{ Err error }

func (e *BMCError) Error() string { return e.Err.Error() }

func (e *BMCError) Unwrap() error { return e.Err }

// Operation returns the running update as an operation, or nil if there is none or an order exists.
func Operation(host *infrav1.IngotHost, seen lifecycle.Observation) *infrav1.HostOperation {
	update := lifecycle.UpdateOf(host)
	if host.Spec.Order != nil || update == nil {
		return nil
	}
	operation := &infrav1.HostOperation{
		Kind: infrav1.OperationUpdate, Step: "Update" + firstRunes(update.Component, 58),
		StartTime: update.StartTime, Attempt: host.Spec.Record.Preparation.Attempt + 1,
	}
	if seen.Update.State != lifecycle.UpdateUnknown && seen.Update.Percent >= 0 {
		operation.Percent = ptr.To(int32(min(seen.Update.Percent, 100)))
	}
	return operation
}

// firstRunes cuts a text to the schema's limit.
func firstRunes(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n])
	}
	return text
}
