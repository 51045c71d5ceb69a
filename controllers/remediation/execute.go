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

// execute takes the step, and returns when to come again.
func (r *Reconciler) execute(ctx context.Context, s *scope, decision policy.Decision) (time.Duration, error) {
	switch step := decision.Step.(type) {
	case policy.SaveLedger:
		return r.saveLedger(ctx, s, step)
	case policy.HandOver:
		return wait.Jitter(r.timing().RemediationCheck, restJitter), r.handOver(ctx, s, decision)
	case policy.LetGo:
		return 0, r.letGo(ctx, s)
	case policy.Wait:
		return min(wait.Jitter(r.timing().RemediationCheck, restJitter), max(step.Until.Sub(s.obs.Now), r.timing().Conflict)), nil
	}
	// Nothing is waited for but what is watched: Machine, IngotMachine, host, and that the
	// cluster is reached. Only of the Node nobody is told.
	return wait.Jitter(r.timing().RemediationIdle, restJitter), nil
}

// restJitter is by how much of itself a wait is drawn out, so that not all come at once.
const restJitter = 0.2

// saveLedger writes the claim on the version of the host that was decided on.
func (r *Reconciler) saveLedger(ctx context.Context, s *scope, step policy.SaveLedger) (time.Duration, error) {
	host := s.obs.Host.DeepCopy()
	host.Spec.Claim = step.Ledger.Claim
	err := r.Client.Patch(ctx, host, client.MergeFromWithOptions(s.obs.Host, client.MergeFromWithOptimisticLock{}))
	if isStale(err) {
		s.stale = true
		return r.timing().Conflict, nil
	}
	if err != nil {
		return 0, fmt.Errorf("writing the claim of host %s: %w", host.Name, err)
	}
	s.obs.Host = host
	return r.timing().Conflict, nil
}

// handOver does what MachineHealthCheck does where there is no external remediation: the
// owner's controller deletes a Machine with HealthCheckSucceeded and OwnerRemediated
// False, as far as its own rules let it. The first MachineHealthCheck has set; but not
// again on a Machine that has a remediation already, so that it is missing after a move,
// and still True where MachineHealthCheck was cut off before that write. Then the owner
// would do nothing, or take OwnerRemediated away again for as long as Ingot sets it.
func (r *Reconciler) handOver(ctx context.Context, s *scope, decision policy.Decision) error {
	err := r.patchMachine(ctx, s.machine, func(m *clusterv1.Machine) {
		conditions.Set(m, metav1.Condition{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, Message: "Waiting for remediation: " + decision.Message,
		})
		v1beta1conditions.MarkFalse(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition,
			clusterv1.WaitingForRemediationV1Beta1Reason, clusterv1.ConditionSeverityWarning, "%s", decision.Message)
		if !conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition) {
			unhealthy(m)
		}
	})
	if err != nil {
		return fmt.Errorf("handing Machine %s over: %w", s.machine.Name, err)
	}
	r.Recorder.Eventf(s.machine, s.related(), corev1.EventTypeWarning, infrav1.ReasonHandedOver, action, "%s", decision.Message)
	return nil
}

// unhealthy says what MachineHealthCheck found when it made the remediation.
func unhealthy(m *clusterv1.Machine) {
	const why = "Health check failed: the Machine has a remediation that did not help"
	conditions.Set(m, metav1.Condition{
		Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse,
		Reason: clusterv1.MachineHealthCheckUnhealthyMachineReason, Message: why,
	})
	v1beta1conditions.MarkFalse(m, clusterv1.MachineHealthCheckSucceededV1Beta1Condition,
		clusterv1.UnhealthyMachineConditionV1Beta1Reason, clusterv1.ConditionSeverityWarning, why)
}

// letGo takes away what MachineHealthCheck said of a remediation that there is no more,
// as it leaves to us, and the finalizer. In that order, for a crash in between. A Machine
// that falls ill again just now is looked at by MachineHealthCheck with the next change
// of its Node, or with the next resync: nothing written here would bring it sooner.
func (r *Reconciler) letGo(ctx context.Context, s *scope) error {
	if s.machine != nil && (conditions.Has(s.machine, clusterv1.MachineExternallyRemediatedCondition) || isPardoned(s.machine)) {
		err := r.patchMachine(ctx, s.machine, func(m *clusterv1.Machine) {
			conditions.Delete(m, clusterv1.MachineExternallyRemediatedCondition)
			if isPardoned(m) {
				conditions.Delete(m, clusterv1.MachineOwnerRemediatedCondition)
				v1beta1conditions.Delete(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition)
			}
		})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("condition of Machine %s: %w", s.machine.Name, err)
		}
	}
	let := s.remediation.DeepCopy()
	s.gone = true
	if !controllerutil.RemoveFinalizer(let, infrav1.RemediationFinalizer) {
		return nil
	}
	err := r.Client.Patch(ctx, let, client.MergeFromWithOptions(s.remediation, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("finalizer of the IngotRemediation: %w", err)
	}
	return nil
}

// isPardoned says whether the owner was told to replace a Machine whose remediation ends
// without that: a person has ended it. Left as it is, the owner would replace the Machine
// whenever it comes to it, well or not: nobody looks at its health after that.
func isPardoned(m *clusterv1.Machine) bool {
	return m.DeletionTimestamp.IsZero() && conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)
}

// patchMachine changes the two conditions that are ours to change; what others write
// meanwhile stays. Of HealthCheckSucceeded, which is not, a change of another's in the same
// moment is an error, and the next reconcile looks at that.
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

// related is the host, for events; nil: there is none.
func (s *scope) related() runtime.Object {
	if s.obs.Host == nil {
		return nil
	}
	return s.obs.Host
}
