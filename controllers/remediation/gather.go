// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	policy "github.com/ingot-metal/ingot/inventory/remediation"
)

// gather reads what the decision is made on: Machine and host live, since a power cycle
// cannot be taken back.
func (r *Reconciler) gather(ctx context.Context, remediation *infrav1.IngotRemediation) (*scope, error) {
	s := &scope{remediation: remediation}
	s.obs.Now, s.obs.MaxAttempts = r.Clock.Now(), r.MaxAttempts
	if err := r.readMachine(ctx, s); err != nil {
		return nil, err
	}
	if err := r.readCluster(ctx, s); err != nil || s.machine == nil {
		return s, err
	}
	machine, err := r.infraMachine(ctx, s)
	if err != nil {
		return nil, err
	}
	s.obs.Machine.LeftAlone = leftAlone(s.machine, machine)
	if machine == nil {
		s.another = r.others(s.machine)
		return s, nil
	}
	s.another = r.others(machine)
	if err := r.readHost(ctx, s, machine); err != nil {
		return nil, err
	}
	s.obs.Node = r.readNode(ctx, s.machine)
	return s, nil
}

// others: the object is another manager's (M41).
func (r *Reconciler) others(o metav1.Object) bool {
	return r.WatchFilterValue != "" && !labels.HasWatchLabel(o, r.WatchFilterValue)
}

// readMachine reads the owner. One of another UID is another Machine of the same name:
// Cluster API corrects the owners of what it moves before it creates it.
func (r *Reconciler) readMachine(ctx context.Context, s *scope) error {
	ref := inventory.FindOwner(s.remediation, machineKind())
	if ref == nil {
		s.obs.Machine.Missing = true
		return nil
	}
	machine := &clusterv1.Machine{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.remediation.Namespace, Name: ref.Name}, machine)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("machine %s: %w", ref.Name, err)
	}
	if err != nil || machine.UID != ref.UID {
		s.obs.Machine.Deleting = true // gone; what it owns is collected
		return nil
	}
	s.machine = machine
	s.obs.Machine = policy.Machine{
		Deleting:       !machine.DeletionTimestamp.IsZero(),
		HandedOver:     conditions.IsFalse(machine, clusterv1.MachineHealthCheckSucceededCondition) && conditions.IsFalse(machine, clusterv1.MachineOwnerRemediatedCondition),
		Marked:         annotations.HasRemediateMachine(machine),
		Joined:         machine.Status.NodeRef.IsDefined(),
		LeavesSentinel: policy.LeavesSentinel(machine),
		ControlPlane:   util.IsControlPlaneMachine(machine),
	}
	if healthy := conditions.Get(machine, clusterv1.MachineHealthCheckSucceededCondition); healthy != nil && healthy.Status == metav1.ConditionTrue {
		s.obs.Machine.HealthySince = healthy.LastTransitionTime.Time
	}
	return nil
}

// leftAlone names the annotation that has MachineHealthCheck pass the Machine by, or Ingot
// its IngotMachine, if there is one.
func leftAlone(owner *clusterv1.Machine, machine *infrav1.IngotMachine) string {
	switch {
	case annotations.HasSkipRemediation(owner):
		return clusterv1.MachineSkipRemediationAnnotation + " of the Machine"
	case annotations.HasPaused(owner):
		return clusterv1.PausedAnnotation + " of the Machine"
	case machine != nil && annotations.HasPaused(machine):
		return clusterv1.PausedAnnotation + " of IngotMachine " + machine.Name
	}
	return ""
}

// machineKind is what owns a remediation, and an IngotMachine.
func machineKind() schema.GroupKind { return clusterv1.GroupVersion.WithKind("Machine").GroupKind() }

// readCluster reads the Cluster, by the Machine or by the label that Cluster API sets.
func (r *Reconciler) readCluster(ctx context.Context, s *scope) error {
	name := s.remediation.Labels[clusterv1.ClusterNameLabel]
	if s.machine != nil {
		name = s.machine.Spec.ClusterName
	}
	if name == "" {
		return nil
	}
	cluster := &clusterv1.Cluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.remediation.Namespace, Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cluster %s: %w", name, err)
	}
	s.cluster = cluster
	return nil
}

// infraMachine reads the IngotMachine; nil: the Machine has none, not yet or for good.
func (r *Reconciler) infraMachine(ctx context.Context, s *scope) (*infrav1.IngotMachine, error) {
	ref := s.machine.Spec.InfrastructureRef
	if ref.APIGroup != infrav1.GroupVersion.Group || ref.Kind != "IngotMachine" {
		s.obs.Machine.Foreign = ref.Kind
		return nil, nil
	}
	machine := &infrav1.IngotMachine{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.machine.Namespace, Name: ref.Name}, machine)
	if apierrors.IsNotFound(err) {
		s.obs.HostLost = ptr.Deref(s.machine.Status.Initialization.InfrastructureProvisioned, false)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", ref.Name, err)
	}
	return machine, nil
}

// readHost reads the host that the machine has claimed: it must name this machine and
// this instance in turn (I1).
func (r *Reconciler) readHost(ctx context.Context, s *scope, machine *infrav1.IngotMachine) error {
	id, err := infrav1.ParseProviderID(machine.Spec.ProviderID)
	if err != nil || id.Namespace != machine.Namespace {
		return nil // none is chosen yet
	}
	s.obs.HostLost = ptr.Deref(machine.Status.Initialization.Provisioned, false)
	host := &infrav1.IngotHost{}
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Host}, host)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("host %s: %w", id.Host, err)
	}
	claim := host.Spec.Claim
	if claim != nil && claim.MachineRef.Name == machine.Name && claim.InstanceID == id.InstanceID {
		s.obs.Host, s.obs.HostLost = host, false
	}
	return nil
}

// maxBootID is the longest boot ID that a claim keeps; Linux's have 36 characters.
const maxBootID = 128

// readNode reads the Node where the workload cluster answers; that it does not is no
// error, since a Machine that is unhealthy may be what it runs on.
func (r *Reconciler) readNode(ctx context.Context, machine *clusterv1.Machine) policy.Node {
	name := machine.Status.NodeRef.Name
	log := ctrl.LoggerFrom(ctx).WithValues("Machine", machine.Name, "Node", name)
	reader, err := r.Workloads.GetReader(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.ClusterName})
	if err != nil {
		log.V(1).Info("The workload cluster is not reached", "reason", err.Error())
		return policy.Node{Unreachable: true}
	}
	if name == "" {
		return policy.Node{}
	}
	node := &corev1.Node{}
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		log.V(1).Info("The Node is not read", "reason", err.Error())
		return policy.Node{Unreachable: !apierrors.IsNotFound(err)}
	}
	known := policy.Node{BootID: node.Status.NodeInfo.BootID}
	if len(known.BootID) > maxBootID {
		known.BootID = "" // a kubelet's word is a tenant's, and this one no claim takes
	}
	for _, c := range node.Status.Conditions {
		so := c.Status == corev1.ConditionTrue
		known.Ready = known.Ready || so && c.Type == corev1.NodeReady
		known.Ill = known.Ill || so && c.Type != corev1.NodeReady
	}
	return known
}
