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

// followHealth shows whether the server of the machine works (M27).
func (r *Reconciler) followHealth(_ context.Context, s *scope) (outcome, error) {
	if c := hostHealth(s.host); c != nil {
		s.set(c.Type, c.Status, c.Reason, c.Message)
	}
	return next, nil
}

// doubted are reasons of a host's Ready with which its BMC's word about power is not that of
// the machine's server.
var doubted = []string{infrav1.ReasonWrongServer, infrav1.ReasonDuplicate}

// hostHealth derives HostHealthy from what the host's controller shows. It returns nil while
// nobody has looked at the server: the condition then stays as it is. A part that fails is
// told, and makes no server unhealthy: machines go on, as hosts do.
func hostHealth(host *infrav1.IngotHost) *metav1.Condition {
	reachable := conditions.Get(host, infrav1.HostBMCReachableCondition)
	if _, moving := host.Annotations[infrav1.MovePausedAnnotation]; moving || reachable == nil || annotations.HasPaused(host) {
		return nil
	}
	c := &metav1.Condition{Type: infrav1.MachineHostHealthyCondition, Status: metav1.ConditionUnknown}
	valid, healthy := conditions.Get(host, infrav1.HostCredentialsValidCondition), conditions.Get(host, infrav1.HostHealthyCondition)
	ready := conditions.Get(host, infrav1.ReadyCondition)
	silent := func(of *metav1.Condition) *metav1.Condition {
		c.Reason = of.Reason
		c.Message = fmt.Sprintf("Ingot cannot ask the BMC whether the server is on. See condition %s of IngotHost %s.", of.Type, host.Name)
		return c
	}
	switch {
	case reachable.Status != metav1.ConditionTrue:
		return silent(reachable)
	case valid != nil && valid.Status != metav1.ConditionTrue:
		return silent(valid)
	case ready != nil && slices.Contains(doubted, ready.Reason):
		return silent(ready)
	case host.Status.Power == infrav1.PowerStateOff:
		c.Status, c.Reason = metav1.ConditionFalse, infrav1.ReasonPoweredOff
		c.Message = fmt.Sprintf("The server is off. Ingot does not switch it on unasked. Set spec.power of IngotHost %s to On, or delete the Machine.", host.Name)
		return c
	}
	c.Status, c.Reason = metav1.ConditionTrue, infrav1.ReasonHealthOK
	if healthy != nil && healthy.Status == metav1.ConditionFalse {
		c.Reason = healthy.Reason
		c.Message = fmt.Sprintf("The BMC reports a fault; the machine keeps running. See condition %s of IngotHost %s.", healthy.Type, host.Name)
	}
	return c
}

// nodeState is what Cluster API says of a machine's Node.
type nodeState struct {
	joined, healthy bool
}

func nodeOf(owner *clusterv1.Machine) nodeState {
	if owner == nil {
		return nodeState{}
	}
	return nodeState{joined: owner.Status.NodeRef.IsDefined(), healthy: conditions.IsTrue(owner, clusterv1.MachineNodeHealthyCondition)}
}

// readiness sums up the conditions of a machine that stays, in the order in which it passes
// them, and returns how soon the sum may change by time alone; 0: it does not.
//
// What comes after the install counts with two reservations (decision 0356). A Node that
// Cluster API finds healthy proves that the server works, whatever its BMC says or does not
// say. And as long as no Node has joined, a silent BMC is no reason: MachineHealthCheck counts
// its nodeStartupTimeout from InfrastructureReady=True, and from the Machine's creation else.
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
		return since(ready, booted, delays.NodeJoin, now)
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
		return ready, delays.HostLost // changes of a Machine's conditions wake nobody
	}
	return since(ready, health, delays.HostLost, now)
}

// since lets a condition that is not True count once it has lasted.
func since(ready metav1.Condition, c *metav1.Condition, lasting time.Duration, now time.Time) (metav1.Condition, time.Duration) {
	if left := c.LastTransitionTime.Add(lasting).Sub(now); left > 0 {
		return ready, left
	}
	ready.Status, ready.Reason, ready.Message = c.Status, c.Reason, c.Message
	return ready, 0
}
