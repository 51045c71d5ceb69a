// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"context"

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
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/inventory"
	policy "github.com/ingot-metal/ingot/inventory/remediation"
)

// gather reads the input of the decision. Machine and host are read live, since a power cycle
// cannot be undone.
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
	s.obs.Machine.PausedBy = leftAlone(s.machine, machine)
	if machine == nil {
		s.unselected = r.isUnselected(s.machine)
		return s, nil
	}
	s.unselected = r.isUnselected(machine)
	if err := r.readHost(ctx, s, machine); err != nil {
		return nil, err
	}
	s.obs.Node = r.readNode(ctx, s.machine)
	return s, nil
}

// isUnselected reports whether another manager reconciles the object (M41).
func (r *Reconciler) isUnselected(o metav1.Object) bool {
	return r.WatchFilterValue != "" && !labels.HasWatchLabel(o, r.WatchFilterValue)
}

// readMachine reads the owner. A different UID is another Machine of the same name: clusterctl
// corrects owner references before it creates moved objects.
func (r *Reconciler) readMachine(ctx context.Context, s *scope) error {
	ref := inventory.FindOwner(s.remediation, machineKind())
	if ref == nil {
		s.obs.Machine.Missing = true
		return nil
	}
	machine, err := kubeutil.Find[clusterv1.Machine](ctx, r.Live, s.remediation.Namespace, ref.Name)
	if err != nil {
		return err
	}
	if machine == nil || machine.UID != ref.UID {
		s.obs.Machine.Deleting = true // gone; this remediation is garbage-collected
		return nil
	}
	s.machine = machine
	s.obs.Machine = policy.Machine{
		Deleting:             !machine.DeletionTimestamp.IsZero(),
		Delegated:            conditions.IsFalse(machine, clusterv1.MachineHealthCheckSucceededCondition) && conditions.IsFalse(machine, clusterv1.MachineOwnerRemediatedCondition),
		RemediationRequested: annotations.HasRemediateMachine(machine),
		Joined:               machine.Status.NodeRef.IsDefined(),
		LeavesSentinel:       policy.LeavesSentinel(machine),
		ControlPlane:         util.IsControlPlaneMachine(machine),
	}
	if healthy := conditions.Get(machine, clusterv1.MachineHealthCheckSucceededCondition); healthy != nil && healthy.Status == metav1.ConditionTrue {
		s.obs.Machine.HealthySince = healthy.LastTransitionTime.Time
	}
	return nil
}

// leftAlone names the annotation by which MachineHealthCheck skips the Machine, or Ingot the
// IngotMachine; empty: none.
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

// machineKind is the kind that owns remediations and IngotMachines.
func machineKind() schema.GroupKind { return clusterv1.GroupVersion.WithKind("Machine").GroupKind() }

// readCluster reads the Cluster by the Machine or by the label that Cluster API sets.
func (r *Reconciler) readCluster(ctx context.Context, s *scope) (err error) {
	name := s.remediation.Labels[clusterv1.ClusterNameLabel]
	if s.machine != nil {
		name = s.machine.Spec.ClusterName
	}
	if name != "" {
		s.cluster, err = kubeutil.Find[clusterv1.Cluster](ctx, r.Client, s.remediation.Namespace, name)
	}
	return err
}

// infraMachine reads the IngotMachine; nil: the Machine has none.
func (r *Reconciler) infraMachine(ctx context.Context, s *scope) (*infrav1.IngotMachine, error) {
	ref := s.machine.Spec.InfrastructureRef
	if ref.APIGroup != infrav1.GroupVersion.Group || ref.Kind != "IngotMachine" {
		s.obs.Machine.Foreign = ref.Kind
		return nil, nil
	}
	machine, err := kubeutil.Find[infrav1.IngotMachine](ctx, r.Live, s.machine.Namespace, ref.Name)
	if err == nil && machine == nil {
		s.obs.HostLost = ptr.Deref(s.machine.Status.Initialization.InfrastructureProvisioned, false)
	}
	return machine, err
}

// readHost reads the host that the machine claimed. The claim must name this machine and instance
// (I1).
func (r *Reconciler) readHost(ctx context.Context, s *scope, machine *infrav1.IngotMachine) error {
	id, err := infrav1.ParseProviderID(machine.Spec.ProviderID)
	if err != nil || id.Namespace != machine.Namespace {
		return nil // no host selected yet
	}
	s.obs.HostLost = ptr.Deref(machine.Status.Initialization.Provisioned, false)
	host, err := kubeutil.Find[infrav1.IngotHost](ctx, r.Live, id.Namespace, id.Host)
	if err != nil || host == nil {
		return err
	}
	claim := host.Spec.Claim
	if claim != nil && claim.MachineRef.Name == machine.Name && claim.InstanceID == id.InstanceID {
		s.obs.Host, s.obs.HostLost = host, false
	}
	return nil
}

// maxBootID is the maximum length of a boot ID in a claim; Linux's have 36 characters.
const maxBootID = 128

// readNode reads the Node. An unreachable workload cluster is no error: the unhealthy Machine may
// be part of its control plane.
func (r *Reconciler) readNode(ctx context.Context, machine *clusterv1.Machine) policy.Node {
	name := machine.Status.NodeRef.Name
	log := ctrl.LoggerFrom(ctx).WithValues("Machine", machine.Name, "Node", name)
	reader, err := r.Workloads.GetReader(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.ClusterName})
	if err != nil {
		log.V(1).Info("Cannot reach the workload cluster", "reason", err.Error())
		return policy.Node{Unreachable: true}
	}
	if name == "" {
		return policy.Node{}
	}
	node := &corev1.Node{}
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		log.V(1).Info("Cannot read the Node", "reason", err.Error())
		return policy.Node{Unreachable: !apierrors.IsNotFound(err)}
	}
	known := policy.Node{BootID: node.Status.NodeInfo.BootID}
	if len(known.BootID) > maxBootID {
		known.BootID = "" // the kubelet belongs to a tenant and may report any text
	}
	for _, c := range node.Status.Conditions {
		isTrue := c.Status == corev1.ConditionTrue
		known.Ready = known.Ready || isTrue && c.Type == corev1.NodeReady
		known.HasProblem = known.HasProblem || isTrue && c.Type != corev1.NodeReady
	}
	return known
}
