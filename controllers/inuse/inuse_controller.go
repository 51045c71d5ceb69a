// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inuse

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/bmccredentials"
	"github.com/ingot-metal/ingot/internal/index"
)

// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothardwares,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts,verbs=get;list;watch

// Reconciler removes InUseFinalizer from objects that no host needs. All fields are required.
type Reconciler struct {
	Client client.Client
	// Live reads objects that are not in the cache from the API server.
	Live client.Reader
}

// kind is a kind of object that hosts need.
type kind struct {
	name  string
	empty func() client.Object
	// fields are the indexes of hosts by the object; none: the host has the object's name.
	fields []string
	// named returns the names of the objects that a host needs.
	named func(host *infrav1.IngotHost) []string
}

func kinds() []kind {
	return []kind{
		{name: "hold-hardware", empty: func() client.Object { return &infrav1.IngotHardware{} },
			named: func(host *infrav1.IngotHost) []string { return []string{host.Name} }},
		{name: "hold-secret", empty: func() client.Object { return &corev1.Secret{} }, named: secretsOf,
			fields: []string{index.HostByCredentials, index.HostByCASecret}},
		{name: "hold-configmap", empty: func() client.Object { return &corev1.ConfigMap{} }, named: configMapOf,
			fields: []string{index.HostByCABundle}},
	}
}

func secretsOf(host *infrav1.IngotHost) []string {
	if host.Spec.BMC == nil {
		return nil
	}
	names := []string{host.Spec.BMC.CredentialsRef.Name}
	if ref := host.Spec.BMC.CABundleRef; ref != nil && ref.Kind == infrav1.CABundleSecret {
		names = append(names, ref.Name)
	}
	return names
}

func configMapOf(host *infrav1.IngotHost) []string {
	if host.Spec.BMC == nil || host.Spec.BMC.CABundleRef == nil || host.Spec.BMC.CABundleRef.Kind == infrav1.CABundleSecret {
		return nil
	}
	return []string{host.Spec.BMC.CABundleRef.Name}
}

// isForgotten reports whether a host is being deleted and Ingot removed its finalizer.
func isForgotten(host *infrav1.IngotHost) bool {
	return !host.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(host, infrav1.HostFinalizer)
}

func (r *Reconciler) reconcile(ctx context.Context, k kind, req ctrl.Request) (ctrl.Result, error) {
	object := k.empty()
	err := r.Client.Get(ctx, req.NamespacedName, object)
	if apierrors.IsNotFound(err) { // the cache has labeled Secrets and ConfigMaps only
		err = r.Live.Get(ctx, req.NamespacedName, object)
	}
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !controllerutil.ContainsFinalizer(object, infrav1.InUseFinalizer) {
		return ctrl.Result{}, nil
	}
	needed, err := r.isNeeded(ctx, k, object)
	if err != nil || needed {
		return ctrl.Result{}, err
	}
	base, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return ctrl.Result{}, fmt.Errorf("%T is no object", object)
	}
	if _, isShared := object.GetLabels()[infrav1.BMCCredentialsSharedLabel]; isShared {
		bmccredentials.Release(object)
	}
	controllerutil.RemoveFinalizer(object, infrav1.InUseFinalizer)
	err = r.Client.Patch(ctx, object, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: retry}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("remove finalizer of %T %s: %w", object, req.NamespacedName, err)
	}
	ctrl.LoggerFrom(ctx).Info("Removed the finalizer of an object that no host needs", "kind", k.name, "object", req.NamespacedName)
	return ctrl.Result{}, nil
}

func (r *Reconciler) isNeeded(ctx context.Context, k kind, object client.Object) (bool, error) {
	if len(k.fields) == 0 {
		host := &infrav1.IngotHost{}
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(object), host); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		owner := metav1.GetControllerOf(object)
		return (owner == nil || owner.UID == host.UID) && !isForgotten(host), nil
	}
	for _, field := range k.fields {
		hosts := &infrav1.IngotHostList{}
		err := r.Client.List(ctx, hosts, client.MatchingFields{field: object.GetNamespace() + "/" + object.GetName()},
			client.UnsafeDisableDeepCopy) // read-only
		if err != nil {
			return false, fmt.Errorf("list hosts that use %s: %w", client.ObjectKeyFromObject(object), err)
		}
		for i := range hosts.Items {
			if !isForgotten(&hosts.Items[i]) {
				return true, nil
			}
		}
	}
	return false, nil
}
