// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/firmware"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// Steps of an operation outside of the agent's own.
const (
	stepBooting     = "Booting"
	stepPoweringOff = "PoweringOff"
)

// summarize computes the whole status from what was seen and decided.
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
	conditions.Set(host, pausedCondition(host, nil)) // not paused, or nobody would have decided; of this generation
	if seen.hardware != nil {
		status.Hardware = ptr.To(inventory.Summarize(seen.hardware.Spec))
	}
	r.forgetAsked(host, seen, decision)
	if status.Operation = operationOf(host); status.Operation == nil {
		status.Operation = firmware.Operation(host, seen.Observation)
	}
	if decision.RecordContact && status.Operation != nil {
		status.Operation.LastContactTime = metav1.NewTime(seen.Now)
	}
	showBooted(host, seen.hardware)
}

// showBooted shows the report of the system that the claim installed, and none of
// another's. A system reports once: what IngotHardware keeps brings it back after the
// status was lost.
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

// operationOf shows the order under way. Progress that the agent has reported is
// kept.
func operationOf(host *infrav1.IngotHost) *infrav1.HostOperation {
	order := host.Spec.Order
	if order == nil {
		return nil
	}
	operation := host.Status.Operation
	if operation == nil || operation.Kind != order.Kind || !operation.StartedAt.Equal(&order.CreatedAt) {
		operation = &infrav1.HostOperation{
			Kind: order.Kind, Step: stepBooting, Percent: ptr.To[int32](0),
			StartedAt: order.CreatedAt, Attempts: order.Attempt,
		}
	}
	if order.Result != nil || ptr.Deref(order.Revoked, false) {
		operation.Step, operation.Percent, operation.Bytes = stepPoweringOff, ptr.To[int32](100), 0
	}
	return operation
}

// readyChanged says whether people have not been told yet what the Ready
// condition now says.
func readyChanged(before, after *infrav1.IngotHost) bool {
	was, is := conditions.Get(before, infrav1.ReadyCondition), conditions.Get(after, infrav1.ReadyCondition)
	if was == nil || is == nil {
		return was != is
	}
	return was.Status != is.Status || was.Reason != is.Reason
}
