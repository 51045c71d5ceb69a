// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/firmware"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

const action = "ReconcileHost" // of all events

// Steps of an operation that the agent does not report.
const (
	stepBooting     = "Booting"
	stepPoweringOff = "PoweringOff"
)

// displayDecision returns the decision for conditions and events. While the BMC does not carry
// out power actions, Ingot keeps sending them, and the conditions show the failure until one
// has an effect. Otherwise the failure would be shown and withdrawn at every try. A ready
// host needs nothing from its BMC. An idle host shows its own reason.
func (r *Reconciler) displayDecision(host *infrav1.IngotHost, seen *observation, decision lifecycle.Decision) lifecycle.Decision {
	known := r.memory.bmcOf(host)
	if host.Spec.BMC == nil || seen.BMC != lifecycle.BMCOK || known.acks.problem == lifecycle.BMCOK ||
		decision.Reason == infrav1.ReasonAvailable || decision.Reason == infrav1.ReasonProvisioned {
		return decision
	}
	known.problem, known.message = known.acks.problem, known.acks.message
	power := seen.Power
	seen.setBMC(host, known)
	if _, idle := decision.Step.(lifecycle.Idle); idle {
		seen.Power = power
		return decision
	}
	shown := lifecycle.Next(host, seen.Observation, r.Policy)
	shown.RecordContact = decision.RecordContact
	return shown
}

// summarize computes the status from the observation and the decision.
func (r *Reconciler) summarize(host *infrav1.IngotHost, seen *observation, decision lifecycle.Decision) {
	status := &host.Status
	status.Phase = decision.Phase
	if seen.Power != "" {
		status.Power = seen.Power
	}
	for _, condition := range lifecycle.Conditions(host, seen.Observation, decision) {
		condition.ObservedGeneration = host.Generation
		conditions.Set(host, condition)
	}
	if seen.networkAllowed != nil {
		conditions.Set(host, *seen.networkAllowed)
	}
	if seen.rotated != nil {
		conditions.Set(host, *seen.rotated)
	}
	conditions.Set(host, pausedCondition(host, nil)) // a paused host is not summarized
	if seen.hardware != nil {
		status.Hardware = ptr.To(inventory.Summarize(seen.hardware.Spec))
	}
	if seen.Power == infrav1.PowerStateOff || seen.Power == infrav1.PowerStateOn && !decision.ShutsDown {
		// The shutdown is done or canceled and must not shorten the next one.
		status.SoftPowerOffTime = metav1.Time{}
		r.memory.changeBMC(keyOf(host), func(s *bmcState) { s.softOff = softPowerOff{} })
	}
	if status.Operation = operationOf(host); status.Operation == nil {
		status.Operation = firmware.Operation(host, seen.Observation)
	}
	inventory.ShowProgress(status.Operation)
	status.FailureDomain = seen.failureDomain
	if decision.RecordContact && status.Operation != nil {
		status.Operation.LastContactTime = metav1.NewTime(seen.Now)
	}
	showBooted(host, seen.hardware)
}

// showBooted shows the first-boot report of the system that the claim installed. A system
// reports once; IngotHardware restores the report if the status was lost.
func showBooted(host *infrav1.IngotHost, hardware *infrav1.IngotHardware) {
	claim, status := host.Spec.Claim, &host.Status
	if claim == nil || (status.Booted != nil && status.Booted.InstanceID != claim.InstanceID) {
		status.Booted, status.Addresses = nil, nil
	}
	if claim == nil || status.Booted != nil || hardware == nil {
		return
	}
	if kept := hardware.Spec.Booted; kept != nil && kept.InstanceID == claim.InstanceID {
		status.Booted = inventory.SummarizeBooted(*kept)
		status.Addresses = slices.Clone(kept.Addresses)
	}
}

// operationOf returns the current operation with the progress that its agent reported.
func operationOf(host *infrav1.IngotHost) *infrav1.HostOperation {
	order := host.Spec.Order
	if order == nil {
		return nil
	}
	operation := host.Status.Operation
	if operation == nil || operation.Kind != order.Kind || !operation.StartTime.Equal(&order.CreationTime) {
		operation = &infrav1.HostOperation{
			Kind: order.Kind, Step: stepBooting, Percent: ptr.To[int32](0),
			StartTime: order.CreationTime, Attempt: order.Attempt,
		}
	}
	if order.Result != nil || ptr.Deref(order.Revoked, false) {
		operation.Step, operation.Percent, operation.Bytes = stepPoweringOff, ptr.To[int32](100), 0
	}
	return operation
}

// saveStatus writes the status if it changed, and records an event if the reason is new.
func (r *Reconciler) saveStatus(ctx context.Context, host, base *infrav1.IngotHost, decision lifecycle.Decision) error {
	changed := isReadyChanged(base, host)
	host.Status.ObservedGeneration = base.Generation
	if !equality.Semantic.DeepEqual(base.Status, host.Status) {
		patched := base.DeepCopy()
		patched.Status = host.Status
		if err := r.Client.Status().Patch(ctx, patched, client.MergeFrom(base)); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if decision.Event != "" && changed {
		r.recordDecision(host, decision)
	}
	return nil
}

// isReadyChanged reports whether status or reason of the Ready condition changed.
func isReadyChanged(before, after *infrav1.IngotHost) bool {
	was, is := conditions.Get(before, infrav1.ReadyCondition), conditions.Get(after, infrav1.ReadyCondition)
	if was == nil || is == nil {
		return was != is
	}
	return was.Status != is.Status || was.Reason != is.Reason
}

func (r *Reconciler) recordDecision(host *infrav1.IngotHost, decision lifecycle.Decision) {
	r.Recorder.Eventf(host, nil, decision.Event, decision.Reason, action, "%s", decision.Message)
}

func (r *Reconciler) recordNormal(host *infrav1.IngotHost, reason, message string) {
	r.Recorder.Eventf(host, nil, corev1.EventTypeNormal, reason, action, "%s", message)
}

func (r *Reconciler) recordWarning(host *infrav1.IngotHost, reason, message string) {
	r.Recorder.Eventf(host, nil, corev1.EventTypeWarning, reason, action, "%s", message)
}

func withLogKeys(ctx context.Context, host *infrav1.IngotHost) context.Context {
	keys := []any{"host", keyOf(host).String()}
	if host.Spec.BMC != nil {
		keys = append(keys, "bmc", index.BMC(host))
	}
	if claim := host.Spec.Claim; claim != nil {
		keys = append(keys, "machine", host.Namespace+"/"+claim.MachineRef.Name, "cluster", host.Namespace+"/"+claim.ClusterName, "instanceID", claim.InstanceID)
	}
	if host.Spec.Order != nil {
		keys = append(keys, "attempt", host.Spec.Order.Attempt)
	}
	return ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues(keys...))
}

// logStep logs a step that changes the server or the spec.
func (r *Reconciler) logStep(ctx context.Context, host *infrav1.IngotHost, decision lifecycle.Decision) {
	r.memory.isNewDecision(host, decision)
	logWith(ctx, stepPhrase(decision.Step), decision)
}

// logDecision logs a decision whose rule or reason changed: one line for each decision, not for
// each poll.
func (r *Reconciler) logDecision(ctx context.Context, host *infrav1.IngotHost, decision lifecycle.Decision) {
	if !r.memory.isNewDecision(host, decision) {
		return
	}
	phrase := "Leaving the host unchanged"
	if _, waits := decision.Step.(lifecycle.Wait); waits {
		phrase = "Waiting"
	}
	logWith(ctx, phrase, decision)
}

func logWith(ctx context.Context, phrase string, decision lifecycle.Decision) {
	log := ctrl.LoggerFrom(ctx)
	if decision.Detail != "" {
		log = log.WithValues("detail", decision.Detail)
	}
	log.Info(phrase, "rule", decision.Rule, "reason", decision.Reason, "message", decision.Message)
}

func stepPhrase(step lifecycle.Step) string {
	switch step := step.(type) {
	case lifecycle.PowerOn:
		return "Powering on the host"
	case lifecycle.PowerOff:
		if step.Graceful {
			return "Shutting down the host"
		}
		return "Powering off the host"
	case lifecycle.Restart:
		return "Restarting the host"
	case lifecycle.BootAgent:
		return "Booting the agent"
	case lifecycle.EjectMedia:
		return "Ejecting virtual media"
	case lifecycle.SaveLedger:
		return "Saving claim, record and order"
	case lifecycle.RecordAddress:
		return "Recording the address"
	case lifecycle.RemoveFinalizer:
		return "Removing the finalizer"
	case lifecycle.WriteSettings:
		return "Writing BIOS settings"
	case lifecycle.StartUpdate:
		return "Updating firmware"
	case lifecycle.ResetBMC:
		return "Resetting the BMC"
	}
	return fmt.Sprintf("Executing %T", step)
}

const maxUnhealthy = 8

// healthState is the displayed health of a server. It follows an improvement with a delay.
type healthState struct {
	// state is the displayed state; empty: none yet.
	state lifecycle.Health
	// betterSince is since when the BMC reports a better state; zero: not now.
	betterSince time.Time
	// detail names the unhealthy components; readings adds their readings, which change each
	// time. Both were read at detailAt for the state detailOf.
	detail, readings string
	detailAt         time.Time
	detailOf         lifecycle.Health
	// recorded is the state of the last event.
	recorded lifecycle.Health
}

// healthOf returns the known health of the host; after a restart, the one in its status.
func (s bmcState) healthOf(host *infrav1.IngotHost) healthState {
	if s.health.state == "" {
		shown := lifecycle.HealthOf(host)
		return healthState{state: shown, recorded: shown}
	}
	return s.health
}

// reported applies the state that the BMC reports: a worse one at once, a better one after
// HealthSettle.
func (h healthState) reported(now lifecycle.Health, at time.Time, delays timing.Timing) healthState {
	switch {
	case h.state == "" || now.WorseThan(h.state) || (now == h.state) || !h.state.IsUnhealthy():
		h.state, h.betterSince = now, time.Time{}
	case h.betterSince.IsZero():
		h.betterSince = at
	case at.Sub(h.betterSince) >= delays.HealthSettle:
		h.state, h.betterSince = now, time.Time{}
	}
	if !h.state.IsUnhealthy() {
		h.detail, h.readings = "", ""
	}
	return h
}

// isDetailDue reports whether the health of the components must be read.
func (h healthState) isDetailDue(at time.Time, delays timing.Timing) bool {
	if !h.state.IsUnhealthy() {
		return false
	}
	age := at.Sub(h.detailAt)
	return h.detailAt.IsZero() || age >= delays.HealthDetail || (h.detailOf != h.state && age >= delays.HealthDetailMin)
}

// readHealth updates the health and reads the components if that is due. A failure to read
// them has no consequences: the BMC has just answered.
func (r *Reconciler) readHealth(ctx context.Context, conn bmc.Conn, h healthState, now lifecycle.Health) healthState {
	at := r.Clock.Now()
	h = h.reported(now, at, r.timing())
	if !h.isDetailDue(at, r.timing()) {
		return h
	}
	h.detailAt, h.detailOf = at, h.state
	switch report, err := conn.Health(ctx); {
	case err == nil:
		h.detail, h.readings = unhealthy(report.Components)
	case errors.Is(err, bmc.ErrUnfinished):
		h.detailAt = time.Time{} // the next poll continues
	}
	return h
}

// unhealthy lists the unhealthy components, the worst first, without and with their readings.
func unhealthy(components []bmc.ComponentHealth) (names, readings string) {
	ill := slices.DeleteFunc(slices.Clone(components), func(c bmc.ComponentHealth) bool { return !lifecycle.Health(c.State).IsUnhealthy() })
	slices.SortFunc(ill, func(a, b bmc.ComponentHealth) int {
		worst := 0
		if a.State != b.State {
			worst = 1
			if a.State == bmc.HealthCritical {
				worst = -1
			}
		}
		return cmp.Or(worst, strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	var with, without []string
	for i, c := range ill {
		if i == maxUnhealthy {
			more := fmt.Sprintf("and %d more", len(ill)-i)
			with, without = append(with, more), append(without, more)
			break
		}
		name := fmt.Sprintf("%s %q is %s", c.Kind, c.Name, c.State)
		without = append(without, name)
		if c.Reading != "" {
			name += " (" + c.Reading + ")"
		}
		with = append(with, name)
	}
	return strings.Join(without, ", "), strings.Join(with, ", ")
}

// recordHealth records an event if the health changed. It runs after the status was written,
// so that a restarted manager does not record the event again.
func (r *Reconciler) recordHealth(host *infrav1.IngotHost, seen *observation) {
	h := seen.known.health
	if h.state == "" || h.state == lifecycle.HealthUnknown || h.state == h.recorded || seen.BMC != lifecycle.BMCOK {
		return
	}
	was := h.recorded
	h.recorded = h.state
	r.memory.changeBMC(keyOf(host), func(s *bmcState) { s.health = h }) // nothing else: acks changed since
	message := fmt.Sprintf("The BMC reports %s", h.state)
	if h.readings != "" {
		message += ": " + h.readings
	}
	switch {
	case h.state == lifecycle.HealthCritical:
		r.recordWarning(host, infrav1.ReasonHealthCritical, message)
	case h.state == lifecycle.HealthWarning:
		r.recordWarning(host, infrav1.ReasonHealthWarning, message)
	case was.IsUnhealthy():
		r.recordNormal(host, infrav1.ReasonHealthOK, "The BMC no longer reports a fault.")
	}
}
