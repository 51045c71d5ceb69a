// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
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
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/inventory"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines;ingothosts;ingotclusters;ingothardwares,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const action = "LabelNode" // of all events

// Clusters connects to workload clusters. Cluster API's ClusterCache implements it.
type Clusters interface {
	GetClient(ctx context.Context, cluster client.ObjectKey) (client.Client, error)
	Watch(ctx context.Context, cluster client.ObjectKey, watcher clustercache.Watcher) error
}

const jitter = 0.2

// Reconciler labels the Nodes of IngotMachines. Client, Clusters, Recorder and Clock are required.
// The cache of Clusters needs the Indexes of this package.
type Reconciler struct {
	Client   client.Client
	Clusters Clusters
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// WatchFilterValue selects the IngotMachines by label (M41).
	WatchFilterValue string
	Timing           timing.Timing

	controller controller.Controller
	memory     memory
}

func (r *Reconciler) timing() timing.Timing { return r.Timing.WithDefaults() }

type scope struct {
	machine      *infrav1.IngotMachine
	owner        *clusterv1.Machine
	cluster      *clusterv1.Cluster
	ingotCluster *infrav1.IngotCluster
	host         *infrav1.IngotHost
	workload     client.Client
}

// Reconcile updates the Node of one IngotMachine.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s, err := r.gather(ctx, req)
	if err != nil || s == nil {
		return ctrl.Result{}, err
	}
	s.workload, err = r.connect(ctx, s.cluster)
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return ctrl.Result{}, nil // the connection triggers a reconcile
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	node, err := r.nodeOf(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	if node == nil {
		after, err := r.identify(ctx, s)
		return ctrl.Result{RequeueAfter: after}, err
	}
	after, err := r.label(ctx, s, node)
	return ctrl.Result{RequeueAfter: after}, err
}

// gather reads the machine and its related objects; nil: there is nothing to do.
func (r *Reconciler) gather(ctx context.Context, req ctrl.Request) (*scope, error) {
	s := &scope{machine: &infrav1.IngotMachine{}}
	if err := r.Client.Get(ctx, req.NamespacedName, s.machine); err != nil {
		if apierrors.IsNotFound(err) {
			r.memory.forget(req.NamespacedName)
		}
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
	if !inventory.RefersToMachine(s.owner, s.machine) {
		return nil, nil // the Machine refers to another IngotMachine
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

// withHost reads the host; nil: the machine does not claim it.
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

// nodeOf reads the Node that Cluster API found; nil: none, or it is gone, or it has another
// provider ID, since it may have registered again without one.
func (r *Reconciler) nodeOf(ctx context.Context, s *scope) (*corev1.Node, error) {
	name := s.owner.Status.NodeRef.Name
	if name == "" {
		return nil, nil
	}
	node, err := kubeutil.Find[corev1.Node](ctx, s.workload, "", name)
	if err != nil || node == nil || node.Spec.ProviderID != s.machine.Spec.ProviderID {
		return nil, err
	}
	return node, nil
}

// label copies the host's labels to the Node and returns when to reconcile again.
func (r *Reconciler) label(ctx context.Context, s *scope, node *corev1.Node) (time.Duration, error) {
	wanted := inventory.NodeLabels(s.host, s.ingotCluster)
	change := inventory.CompareLabels(wanted, inventory.LabelledNode{
		Labels: node.Labels, Written: list(node.Annotations[infrav1.LabelsFromHostAnnotation]),
		Synced: list(node.Annotations[clusterv1.LabelsFromMachineAnnotation]),
	})
	if change.ZoneKept {
		r.warnZoneKept(s, node, wanted[corev1.LabelTopologyZone])
	}
	after := r.skipDisputed(s, change.Set)
	if change.IsEmpty() {
		return after, nil
	}
	err := s.workload.Patch(ctx, labelled(node, change), client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{}))
	if isStale(err) {
		return r.timing().Conflict, nil
	}
	if err != nil {
		return 0, fmt.Errorf("label Node %s: %w", node.Name, err)
	}
	r.warnDisputed(s, node, change.Set)
	ctrl.LoggerFrom(ctx).Info("Labeled the Node", "Node", node.Name, "set", change.Set, "removed", change.Remove)
	return after, nil
}

func list(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' })
}

func labelled(node *corev1.Node, change inventory.LabelChange) *corev1.Node {
	node = node.DeepCopy()
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	maps.Copy(node.Labels, change.Set)
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
	return node
}

// skipDisputed removes disputed labels from set, and returns when the first may be written again.
func (r *Reconciler) skipDisputed(s *scope, set map[string]string) (after time.Duration) {
	for key, value := range set {
		if left := r.memory.disputedFor(client.ObjectKeyFromObject(s.machine), key, value, r.Clock.Now(), r.timing().LabelDispute); left > 0 {
			delete(set, key)
			if after == 0 || left < after {
				after = left
			}
		}
	}
	return after
}

// warnDisputed remembers the labels that were set, and warns once about each that becomes disputed.
func (r *Reconciler) warnDisputed(s *scope, before *corev1.Node, set map[string]string) {
	machine, pause := client.ObjectKeyFromObject(s.machine), r.timing().LabelDispute
	for key, value := range set {
		if !r.memory.wrote(machine, key, value, r.Clock.Now(), pause) || !r.memory.isNew(machine, infrav1.ReasonNodeLabelConflict+" "+key, value) {
			continue
		}
		r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeWarning, infrav1.ReasonNodeLabelConflict, action,
			"Another client changes label %s of Node %s to %q; IngotHost %s has %q. Ingot restores it every %s. Remove it from the host or from spec.nodeLabels, or stop the other client.",
			key, before.Name, before.Labels[key], s.host.Name, value, pause)
	}
}

// warnZoneKept warns once that the Node's zone differs from the rack of its host.
func (r *Reconciler) warnZoneKept(s *scope, node *corev1.Node, rack string) {
	why := fmt.Sprintf("Node %s keeps its zone %s, though its IngotHost is in rack %s: volumes may be bound to the zone. To change it, remove label %s from the Node.",
		node.Name, node.Labels[corev1.LabelTopologyZone], rack, corev1.LabelTopologyZone)
	if r.memory.isNew(client.ObjectKeyFromObject(s.machine), infrav1.ReasonNodeZoneConflict, why) {
		r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeWarning, infrav1.ReasonNodeZoneConflict, action, "%s", why)
	}
}

func isStale(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }
