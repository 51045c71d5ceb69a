// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines;ingothosts;ingotclusters;ingothardwares,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// action of the events of this package: what the controller was doing.
const action = "LabelNode"

// Clusters are the workload clusters: Cluster API's ClusterCache.
type Clusters interface {
	GetClient(ctx context.Context, cluster client.ObjectKey) (client.Client, error)
	Watch(ctx context.Context, cluster client.ObjectKey, watcher clustercache.Watcher) error
}

// Reconciler labels the Nodes of IngotMachines. Client, Clusters and Recorder are needed.
type Reconciler struct {
	Client   client.Client
	Clusters Clusters
	Recorder events.EventRecorder
	// WatchFilterValue selects the IngotMachines by label (M41).
	WatchFilterValue string

	controller controller.Controller
}

// scope is what one reconcile knows.
type scope struct {
	machine      *infrav1.IngotMachine
	owner        *clusterv1.Machine
	cluster      *clusterv1.Cluster
	ingotCluster *infrav1.IngotCluster
	host         *infrav1.IngotHost
	workload     client.Client
}

// Reconcile looks after the Node of one IngotMachine.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s, err := r.gather(ctx, req)
	if err != nil || s == nil {
		return ctrl.Result{}, err
	}
	s.workload, err = r.connect(ctx, s.cluster)
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return ctrl.Result{}, nil // its connection brings us here again
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	node, err := r.nodeOf(ctx, s)
	if err != nil || node == nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.label(ctx, s, node)
}

// gather reads the machine and what belongs to it; nil: there is nothing to be done.
func (r *Reconciler) gather(ctx context.Context, req ctrl.Request) (*scope, error) {
	s := &scope{machine: &infrav1.IngotMachine{}}
	if err := r.Client.Get(ctx, req.NamespacedName, s.machine); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	_, moved := s.machine.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	provisioned := s.machine.Status.Initialization.Provisioned
	if moved || !s.machine.DeletionTimestamp.IsZero() || provisioned == nil || !*provisioned ||
		r.WatchFilterValue != "" && !labels.HasWatchLabel(s.machine, r.WatchFilterValue) {
		return nil, nil
	}
	var err error
	if s.owner, err = util.GetOwnerMachine(ctx, r.Client, s.machine.ObjectMeta); err != nil || s.owner == nil {
		return nil, client.IgnoreNotFound(err)
	}
	s.cluster = &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.machine.Namespace, Name: s.owner.Spec.ClusterName}, s.cluster); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if annotations.IsPaused(s.cluster, s.machine) {
		return nil, nil
	}
	s.ingotCluster = &infrav1.IngotCluster{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.machine.Namespace, Name: s.cluster.Spec.InfrastructureRef.Name}, s.ingotCluster); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return r.withHost(ctx, s)
}

// withHost reads the host; nil: it is not, or not any more, the machine's.
func (r *Reconciler) withHost(ctx context.Context, s *scope) (*scope, error) {
	id, err := infrav1.ParseProviderID(s.machine.Spec.ProviderID)
	if err != nil || id.Namespace != s.machine.Namespace {
		return nil, nil
	}
	s.host = &infrav1.IngotHost{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Host}, s.host); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	claim := s.host.Spec.Claim
	if claim == nil || claim.MachineRef.Name != s.machine.Name || claim.InstanceID != id.InstanceID {
		return nil, nil
	}
	return s, nil
}

// nodeOf finds the Node; nil: there is none yet, or none that is certain.
func (r *Reconciler) nodeOf(ctx context.Context, s *scope) (*corev1.Node, error) {
	name := s.owner.Status.NodeRef.Name
	if name == "" {
		return r.identify(ctx, s)
	}
	node := &corev1.Node{}
	err := s.workload.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	if node.Spec.ProviderID != s.machine.Spec.ProviderID {
		return nil, nil // another's, under the name of ours
	}
	return node, nil
}

// label brings the Node's labels in step with the host's.
func (r *Reconciler) label(ctx context.Context, s *scope, node *corev1.Node) error {
	written := strings.FieldsFunc(node.Annotations[infrav1.LabelsFromHostAnnotation], func(c rune) bool { return c == ',' })
	change := inventory.CompareLabels(inventory.NodeLabels(s.host, s.ingotCluster), node.Labels, written)
	if change.Empty() {
		return nil
	}
	before := node.DeepCopy()
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	for key, value := range change.Set {
		node.Labels[key] = value
	}
	for _, key := range change.Remove {
		delete(node.Labels, key)
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[infrav1.LabelsFromHostAnnotation] = strings.Join(change.Written, ",")
	if len(change.Written) == 0 {
		delete(node.Annotations, infrav1.LabelsFromHostAnnotation)
	}
	if err := s.workload.Patch(ctx, node, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labels of node %s: %w", node.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Labelled the Node as its host", "Node", node.Name, "set", change.Set, "removed", change.Remove)
	return nil
}
