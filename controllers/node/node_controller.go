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
	"github.com/ingot-metal/ingot/internal/timing"
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

// jitter is by how much of itself a wait is drawn out, so that not all come at once.
const jitter = 0.2

// Reconciler labels the Nodes of IngotMachines. Client, Clusters, Recorder and Clock are
// needed; the Clusters' cache has the Indexes of this package.
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
	if err != nil {
		return ctrl.Result{}, err
	}
	if node == nil {
		again, err := r.identify(ctx, s)
		return ctrl.Result{RequeueAfter: again}, err
	}
	again, err := r.label(ctx, s, node)
	return ctrl.Result{RequeueAfter: again}, err
}

// gather reads the machine and what belongs to it; nil: there is nothing to be done.
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
	if !inventory.RefersTo(s.owner, s.machine) {
		return nil, nil // the Machine's Node is another's
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

// nodeOf reads the Node that Cluster API has found; nil: it has not, or the Node is gone,
// or has not our provider ID: it may have registered again since, without one.
func (r *Reconciler) nodeOf(ctx context.Context, s *scope) (*corev1.Node, error) {
	name := s.owner.Status.NodeRef.Name
	if name == "" {
		return nil, nil
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
		return nil, nil
	}
	return node, nil
}

// label brings the Node's labels in step with the host's, and returns when to come again.
func (r *Reconciler) label(ctx context.Context, s *scope, node *corev1.Node) (time.Duration, error) {
	wanted := inventory.NodeLabels(s.host, s.ingotCluster)
	change := inventory.CompareLabels(wanted, inventory.LabelledNode{
		Labels: node.Labels, Written: list(node.Annotations[infrav1.LabelsFromHostAnnotation]),
		Synced: list(node.Annotations[clusterv1.LabelsFromMachineAnnotation]),
	})
	if change.ZoneKept {
		r.tellZone(s, node, wanted[corev1.LabelTopologyZone])
	}
	again := r.yield(s, change.Set)
	if change.Empty() {
		return again, nil
	}
	err := s.workload.Patch(ctx, labelled(node, change), client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{}))
	if isStale(err) {
		return r.timing().Conflict, nil
	}
	if err != nil {
		return 0, fmt.Errorf("labels of node %s: %w", node.Name, err)
	}
	r.wrote(s, node, change.Set)
	ctrl.LoggerFrom(ctx).Info("Labelled the Node as its host", "Node", node.Name, "set", change.Set, "removed", change.Remove)
	return again, nil
}

// list reads a list of label keys in an annotation.
func list(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' })
}

// labelled is the Node as it is to be.
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

// yield takes out of what is to be set the labels that somebody else changes each time
// they are written, and returns when to come again for the first of them.
func (r *Reconciler) yield(s *scope, set map[string]string) (again time.Duration) {
	for key, value := range set {
		if left := r.memory.yields(client.ObjectKeyFromObject(s.machine), key, value, r.Clock.Now(), r.timing().LabelDispute); left > 0 {
			delete(set, key)
			if again == 0 || left < again {
				again = left
			}
		}
	}
	return again
}

// wrote remembers what was set, and tells once of a label that yields from now on.
func (r *Reconciler) wrote(s *scope, before *corev1.Node, set map[string]string) {
	machine, pause := client.ObjectKeyFromObject(s.machine), r.timing().LabelDispute
	for key, value := range set {
		if !r.memory.wrote(machine, key, value, r.Clock.Now(), pause) || !r.memory.news(machine, infrav1.ReasonNodeLabelDisputed+" "+key, value) {
			continue
		}
		r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeWarning, infrav1.ReasonNodeLabelDisputed, action,
			"The label %s of Node %s is %q by IngotHost %s, and something else changes it to %q each time: Ingot puts it back every %s only. Take it out of the host's labels or of spec.nodeLabels, or have the other leave it",
			key, before.Name, value, s.host.Name, before.Labels[key], pause)
	}
}

// tellZone tells once that the Node is not in the zone that its host's rack is.
func (r *Reconciler) tellZone(s *scope, node *corev1.Node, rack string) {
	why := fmt.Sprintf("Node %s has the zone %s, which Ingot did not write, and its IngotHost is in rack %s. The zone stays, since volumes may be bound to it; remove the label %s from the Node to have the rack there",
		node.Name, node.Labels[corev1.LabelTopologyZone], rack, corev1.LabelTopologyZone)
	if r.memory.news(client.ObjectKeyFromObject(s.machine), infrav1.ReasonNodeZoneKept, why) {
		r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeWarning, infrav1.ReasonNodeZoneKept, action, "%s", why)
	}
}

// isStale says whether a write lost against another: the reconcile starts over.
func isStale(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }
