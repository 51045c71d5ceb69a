// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/timing"
)

// followHealth shows the health of the machine's server (M27).
func (r *Reconciler) followHealth(_ context.Context, s *scope) (outcome, error) {
	if c := hostHealth(s.host); c != nil {
		s.set(c.Type, c.Status, c.Reason, c.Message)
	}
	return next, nil
}

// wrongServerReasons are reasons of the host's Ready condition with which the BMC may belong to
// another server, so that its power state is not the machine's.
var wrongServerReasons = []string{infrav1.ReasonWrongServer, infrav1.ReasonDuplicate}

// hostHealth derives HostHealthy from the host's conditions. nil means that the BMC has not been
// read: the condition then stays unchanged. A failed component is reported, but does not make
// the server unhealthy.
func hostHealth(host *infrav1.IngotHost) *metav1.Condition {
	reachable := conditions.Get(host, infrav1.HostBMCReachableCondition)
	if _, moving := host.Annotations[infrav1.MovePausedAnnotation]; moving || reachable == nil || annotations.HasPaused(host) {
		return nil
	}
	c := &metav1.Condition{Type: infrav1.MachineHostHealthyCondition, Status: metav1.ConditionUnknown}
	valid, healthy := conditions.Get(host, infrav1.HostCredentialsValidCondition), conditions.Get(host, infrav1.HostHealthyCondition)
	ready := conditions.Get(host, infrav1.ReadyCondition)
	unknown := func(of *metav1.Condition) *metav1.Condition {
		c.Reason = of.Reason
		c.Message = fmt.Sprintf("Ingot cannot read the power state from the BMC. See condition %s of IngotHost %s.", of.Type, host.Name)
		return c
	}
	switch {
	case reachable.Status != metav1.ConditionTrue:
		return unknown(reachable)
	case valid != nil && valid.Status != metav1.ConditionTrue:
		return unknown(valid)
	case ready != nil && slices.Contains(wrongServerReasons, ready.Reason):
		return unknown(ready)
	case host.Status.Power == infrav1.PowerStateOff:
		c.Status, c.Reason = metav1.ConditionFalse, infrav1.ReasonPoweredOff
		c.Message = fmt.Sprintf("The server is off. Ingot does not power it on by itself. Set spec.power of IngotHost %s to On, or delete the Machine.", host.Name)
		return c
	}
	c.Status, c.Reason = metav1.ConditionTrue, infrav1.ReasonHealthOK
	if healthy != nil && healthy.Status == metav1.ConditionFalse {
		c.Reason = healthy.Reason
		c.Message = fmt.Sprintf("The BMC reports a fault; the machine keeps running. See condition %s of IngotHost %s.", healthy.Type, host.Name)
	}
	return c
}

type nodeState struct {
	joined, healthy bool
}

func nodeOf(owner *clusterv1.Machine) nodeState {
	if owner == nil {
		return nodeState{}
	}
	return nodeState{joined: owner.Status.NodeRef.IsDefined(), healthy: conditions.IsTrue(owner, clusterv1.MachineNodeHealthyCondition)}
}

// readiness summarizes the conditions of a machine that is not being deleted, in the order of
// its lifecycle, and returns when the result may change by time alone; 0: never.
//
// After the install there are two exceptions. A healthy Node proves that the server works,
// whatever its BMC reports. And while no Node has joined, an unreachable BMC does not count:
// MachineHealthCheck measures nodeStartupTimeout from InfrastructureReady=True, else from the
// creation of the Machine.
func readiness(machine *infrav1.IngotMachine, node nodeState, now time.Time, delays timing.Timing) (metav1.Condition, time.Duration) {
	ready := metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonReady}
	for _, kind := range []string{infrav1.MachineHostClaimedCondition, infrav1.MachineInstalledCondition} {
		c := conditions.Get(machine, kind)
		if c == nil {
			ready.Status, ready.Reason = metav1.ConditionUnknown, infrav1.ReasonInProgress
			return ready, 0
		}
		if c.Status != metav1.ConditionTrue {
			ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, c.Reason, c.Message
			return ready, 0
		}
	}
	if booted := conditions.Get(machine, infrav1.MachineBootedCondition); booted != nil && booted.Status == metav1.ConditionFalse {
		return countAfter(ready, booted, delays.NodeJoin, now)
	}
	health := conditions.Get(machine, infrav1.MachineHostHealthyCondition)
	switch {
	case health == nil:
		return ready, 0
	case health.Status == metav1.ConditionTrue:
		ready.Message = health.Message
		return ready, 0
	case node.healthy, health.Status == metav1.ConditionUnknown && !node.joined:
		ready.Message = health.Message
		return ready, delays.HostLost // changes of a Machine's conditions do not trigger a reconcile
	}
	return countAfter(ready, health, delays.HostLost, now)
}

// countAfter replaces ready by c if c has lasted for the grace period.
func countAfter(ready metav1.Condition, c *metav1.Condition, grace time.Duration, now time.Time) (metav1.Condition, time.Duration) {
	if left := c.LastTransitionTime.Add(grace).Sub(now); left > 0 {
		return ready, left
	}
	ready.Status, ready.Reason, ready.Message = c.Status, c.Reason, c.Message
	return ready, 0
}
