// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	policy "github.com/ingot-metal/ingot/inventory/remediation"
)

func (r *Reconciler) execute(ctx context.Context, s *scope, decision policy.Decision) (time.Duration, error) {
	switch step := decision.Step.(type) {
	case policy.SaveLedger:
		return r.saveLedger(ctx, s, step)
	case policy.DelegateToOwner:
		return wait.Jitter(r.timing().RemediationCheck, waitJitter), r.delegateToOwner(ctx, s, decision)
	case policy.RemoveFinalizer:
		return 0, r.removeFinalizer(ctx, s)
	case policy.Wait:
		return min(wait.Jitter(r.timing().RemediationCheck, waitJitter), max(step.Until.Sub(s.obs.Now), r.timing().Conflict)), nil
	}
	// All objects of the decision are watched, except the Node.
	return wait.Jitter(r.timing().RemediationIdle, waitJitter), nil
}

const waitJitter = 0.2

func (r *Reconciler) saveLedger(ctx context.Context, s *scope, step policy.SaveLedger) (time.Duration, error) {
	host := s.obs.Host.DeepCopy()
	host.Spec.Claim = step.Ledger.Claim
	err := r.Client.Patch(ctx, host, client.MergeFromWithOptions(s.obs.Host, client.MergeFromWithOptimisticLock{}))
	if isStale(err) {
		s.stale = true
		return r.timing().Conflict, nil
	}
	if err != nil {
		return 0, fmt.Errorf("write claim of host %s: %w", host.Name, err)
	}
	s.obs.Host = host
	return r.timing().Conflict, nil
}

// delegateToOwner does what MachineHealthCheck does without external remediation: the owner's
// controller deletes a Machine with HealthCheckSucceeded and OwnerRemediated False, if its own
// rules allow it. MachineHealthCheck sets HealthCheckSucceeded only once, before the
// remediation exists. After a move the condition is missing, and after a crash of
// MachineHealthCheck it may be True. Then Ingot sets it: otherwise the owner would do nothing,
// or remove OwnerRemediated each time that Ingot sets it.
func (r *Reconciler) delegateToOwner(ctx context.Context, s *scope, decision policy.Decision) error {
	err := r.patchMachine(ctx, s.machine, func(m *clusterv1.Machine) {
		conditions.Set(m, metav1.Condition{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, Message: "Waiting for remediation: " + decision.Message,
		})
		v1beta1conditions.MarkFalse(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition,
			clusterv1.WaitingForRemediationV1Beta1Reason, clusterv1.ConditionSeverityWarning, "%s", decision.Message)
		if !conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition) {
			setUnhealthy(m)
		}
	})
	if err != nil {
		return fmt.Errorf("delegate Machine %s to its owner: %w", s.machine.Name, err)
	}
	r.Recorder.Eventf(s.machine, s.related(), corev1.EventTypeWarning, infrav1.ReasonOwnerRemediationRequested, action, "%s", decision.Message)
	return nil
}

func setUnhealthy(m *clusterv1.Machine) {
	const why = "Health check failed: power cycles did not repair the Machine"
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse,
		Reason: clusterv1.MachineHealthCheckUnhealthyMachineReason, Message: why,
	})
	v1beta1conditions.MarkFalse(m, clusterv1.MachineHealthCheckSucceededV1Beta1Condition,
		clusterv1.UnhealthyMachineConditionV1Beta1Reason, clusterv1.ConditionSeverityWarning, why)
}

// removeFinalizer removes the Machine's conditions about the remediation, which MachineHealthCheck
// leaves to Ingot, and then the finalizer. If the Machine becomes unhealthy again at this
// moment, MachineHealthCheck notices with the next change of the Node or the next resync.
func (r *Reconciler) removeFinalizer(ctx context.Context, s *scope) error {
	if s.machine != nil && (conditions.Has(s.machine, clusterv1.MachineExternallyRemediatedCondition) || awaitsReplacement(s.machine)) {
		err := r.patchMachine(ctx, s.machine, func(m *clusterv1.Machine) {
			conditions.Delete(m, clusterv1.MachineExternallyRemediatedCondition)
			if awaitsReplacement(m) {
				conditions.Delete(m, clusterv1.MachineOwnerRemediatedCondition)
				v1beta1conditions.Delete(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition)
			}
		})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove conditions of Machine %s: %w", s.machine.Name, err)
		}
	}
	next := s.remediation.DeepCopy()
	s.gone = true
	if !controllerutil.RemoveFinalizer(next, infrav1.RemediationFinalizer) {
		return nil
	}
	err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(s.remediation, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer of the IngotRemediation: %w", err)
	}
	return nil
}

// awaitsReplacement reports whether Ingot asked the owner to replace the Machine. If an operator ends
// the remediation, the condition must go: the owner would replace the Machine later without
// checking its health again.
func awaitsReplacement(m *clusterv1.Machine) bool {
	return m.DeletionTimestamp.IsZero() && conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)
}

// patchMachine changes the conditions of a Machine. Ingot owns OwnerRemediated and
// ExternallyRemediated. A concurrent change of HealthCheckSucceeded is an error.
func (r *Reconciler) patchMachine(ctx context.Context, machine *clusterv1.Machine, change func(*clusterv1.Machine)) error {
	helper, err := patch.NewHelper(machine, r.Client)
	if err != nil {
		return err
	}
	change(machine)
	return helper.Patch(ctx, machine,
		patch.WithOwnedConditions{Conditions: []string{clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition}},
		patch.WithOwnedV1Beta1Conditions{Conditions: []clusterv1.ConditionType{clusterv1.MachineOwnerRemediatedV1Beta1Condition}})
}

func (s *scope) related() runtime.Object {
	if s.obs.Host == nil {
		return nil
	}
	return s.obs.Host
}
