// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/internal/v1beta1conditions"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotmachinetemplates;ingotclusters;ingothosts;ingothardwares;ingotimages,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotmachinetemplates/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list;watch

// Reconciler reconciles IngotMachineTemplates. Client is required.
type Reconciler struct {
	Client client.Client
	// WatchFilterValue selects the objects to reconcile by label; empty: all.
	WatchFilterValue string
}

// Reconcile updates the capacity and node info of a template.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	template := &infrav1.IngotMachineTemplate{}
	if err := r.Client.Get(ctx, req.NamespacedName, template); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, moved := template.Annotations[clusterctlv1.DeleteForMoveAnnotation]; moved || !template.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if r.WatchFilterValue != "" && !labels.HasWatchLabel(template, r.WatchFilterValue) {
		return ctrl.Result{}, nil // M41; a watched object triggered this
	}
	owner, err := util.GetOwnerCluster(ctx, r.Client, template.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read Cluster of the template: %w", err)
	}
	base := template.DeepCopy()
	isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, owner, template) // M43, M44
	if err != nil || (requeue && !isPaused) {
		return ctrl.Result{}, err
	}
	if !isPaused {
		if template.Status.Capacity, template.Status.NodeInfo, err = r.capacityOf(ctx, template, owner); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.saveStatus(ctx, template, base)
}

func (r *Reconciler) saveStatus(ctx context.Context, template, base *infrav1.IngotMachineTemplate) error {
	if !conditions.IsTrue(template, infrav1.PausedCondition) {
		template.Status.ObservedGeneration = base.Generation
	}
	template.SetV1Beta1Conditions(v1beta1conditions.Conditions(template.Status.Conditions))
	if equality.Semantic.DeepEqual(base.Status, template.Status) {
		return nil
	}
	patched := base.DeepCopy()
	patched.Status = template.Status
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, patched, client.MergeFrom(base)))
}

// capacityOf returns the minimum capacity of the hosts that the template can select (M65). It is
// empty if no host is known or the selector is invalid, which the machines' conditions show.
func (r *Reconciler) capacityOf(ctx context.Context, template *infrav1.IngotMachineTemplate, owner *clusterv1.Cluster) (corev1.ResourceList, infrav1.NodeInfo, error) {
	var none infrav1.NodeInfo
	cluster := &infrav1.IngotCluster{}
	if owner != nil {
		found, err := kubeutil.Find[infrav1.IngotCluster](ctx, r.Client, template.Namespace, owner.Spec.InfrastructureRef.Name)
		if err != nil {
			return nil, none, err
		}
		cluster = cmp.Or(found, cluster)
	}
	candidates, err := r.candidates(ctx, template.Namespace)
	if err != nil {
		return nil, none, err
	}
	image, err := r.imageOf(ctx, template)
	if err != nil {
		return nil, none, err
	}
	capacity, ok, err := allocation.TemplateCapacity(template, cluster, image, candidates)
	if errors.Is(err, allocation.ErrSelectorInvalid) || !ok {
		return nil, none, nil
	}
	if err != nil {
		return nil, none, err
	}
	return resources(capacity), infrav1.NodeInfo{Architecture: capacity.Architecture, OperatingSystem: "linux"}, nil
}

func (r *Reconciler) imageOf(ctx context.Context, template *infrav1.IngotMachineTemplate) (*infrav1.IngotImage, error) {
	ref := template.Spec.Template.Spec.ImageRef
	if ref == nil {
		return nil, nil
	}
	return kubeutil.Find[infrav1.IngotImage](ctx, r.Client, "", ref.Name)
}

// resources returns the known resources. Pods and ephemeral storage depend on the kubelet's
// settings and the image's partitions.
func resources(capacity allocation.Capacity) corev1.ResourceList {
	list := corev1.ResourceList{}
	if capacity.CPUs > 0 {
		list[corev1.ResourceCPU] = *resource.NewQuantity(capacity.CPUs, resource.DecimalSI)
	}
	if capacity.MemoryBytes > 0 {
		list[corev1.ResourceMemory] = *resource.NewQuantity(capacity.MemoryBytes, resource.BinarySI)
	}
	return list
}

func (r *Reconciler) candidates(ctx context.Context, namespace string) ([]allocation.Candidate, error) {
	hosts, facts := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}
	for _, list := range []client.ObjectList{hosts, facts} {
		// Read-only: copying a large inventory is expensive.
		if err := r.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list inventory of namespace %s: %w", namespace, err)
		}
	}
	return allocation.Candidates(hardware.FilterByWatchLabel(hosts.Items, r.WatchFilterValue), facts.Items), nil
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	log := mgr.GetLogger().WithValues("controller", "ingotmachinetemplate")
	spec := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IngotMachineTemplate{}).
		Watches(&infrav1.IngotHardware{}, index.EnqueueDelayed(r.templatesOfNamespace), builder.WithPredicates(index.FactsChanged())).
		Watches(&infrav1.IngotHost{}, index.EnqueueDelayed(r.templatesOfNamespace), builder.WithPredicates(predicate.Or(predicate.LabelChangedPredicate{}, desiredSettingsChanged()))).
		Watches(&infrav1.IngotCluster{}, handler.EnqueueRequestsFromMapFunc(r.templatesOfNamespace), builder.WithPredicates(spec)). // its hostSelector
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.templatesOfNamespace), builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), log))).
		Watches(&infrav1.IngotImage{}, handler.EnqueueRequestsFromMapFunc(r.templatesOfImage), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithEventFilter(hardware.WatchFilter(mgr.GetScheme(), log, r.WatchFilterValue)).
		WithOptions(options).
		Complete(r)
}

// desiredSettingsChanged passes hosts whose desired settings changed, such as root device hints or
// boot method. Claim, record and order do not matter to a template.
func desiredSettingsChanged() predicate.Predicate {
	return kubeutil.OnUpdate(func(before, after *infrav1.IngotHost) bool { return !allocation.SameDesiredSettings(before, after) })
}

func (r *Reconciler) templatesOfImage(ctx context.Context, o client.Object) []reconcile.Request {
	return index.RequestsIf(ctx, r.Client, &infrav1.IngotMachineTemplateList{}, func(template *infrav1.IngotMachineTemplate) bool {
		ref := template.Spec.Template.Spec.ImageRef
		return ref != nil && ref.Name == o.GetName()
	})
}

func (r *Reconciler) templatesOfNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return index.Requests(ctx, r.Client, &infrav1.IngotMachineTemplateList{}, client.InNamespace(o.GetNamespace()))
}
