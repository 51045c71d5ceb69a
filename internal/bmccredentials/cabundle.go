// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccredentials

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// caBundle reads the certificates that the BMC's is verified with.
func (f *Finder) caBundle(ctx context.Context, host *infrav1.IngotHost, out Access) (Access, error) {
	ref := host.Spec.BMC.CABundleRef
	kind, bundle := infrav1.CABundleConfigMap, client.Object(&corev1.ConfigMap{})
	if ref.Kind == infrav1.CABundleSecret {
		kind, bundle = ref.Kind, &corev1.Secret{}
	}
	err := f.markCA(ctx, host, ref.Name, bundle)
	switch {
	case apierrors.IsNotFound(err):
		return out.missing(lifecycle.BMCCAMissing, "%s %q does not exist in namespace %q", kind, ref.Name, host.Namespace), nil
	case err != nil:
		return out, fmt.Errorf("CA bundle of the BMC: %w", err)
	case missingKey(bundle, infrav1.CAKey) != "":
		return out.missing(lifecycle.BMCCAMissing, "%s %q has no key %q, or it is empty", kind, ref.Name, infrav1.CAKey), nil
	}
	out.Target.CABundle = dataOf(bundle)[infrav1.CAKey]
	return out, nil
}

// markCA reads a Secret or ConfigMap with certificates, and labels it: to be watched,
// and to be moved where it travels. A CA is not the host's own, as its password is:
// others verify with it, and it may be the cluster's. So no host owns it, nor did one
// for long that an earlier version made an owner; it stays when its hosts go.
func (f *Finder) markCA(ctx context.Context, host *infrav1.IngotHost, name string, bundle client.Object) error {
	if err := f.read(ctx, host, name, bundle); err != nil || !host.DeletionTimestamp.IsZero() {
		return err
	}
	base, err := copyOf(bundle)
	if err != nil {
		return err
	}
	label(bundle, infrav1.BMCCredentialsLabel)
	if missingKey(bundle, infrav1.CAKey) == "" {
		hold(bundle)
	}
	if travels(bundle) {
		label(bundle, clusterctlv1.ClusterctlMoveLabel)
	}
	isPassword, err := f.isCredentials(ctx, bundle)
	if err != nil {
		return err
	}
	if !isPassword {
		bundle.SetOwnerReferences(slices.DeleteFunc(bundle.GetOwnerReferences(), isHost))
	}
	if equality.Semantic.DeepEqual(base, bundle) {
		return nil
	}
	return f.patchShared(ctx, base, bundle, keepAsIs)
}

// travels says whether clusterctl is to take an object with certificates along with the
// hosts that name it: by a label on the object, since nobody who travels owns it. Where
// the target has an object of that name clusterctl writes over it, and on the source it
// deletes it. So these stay: what each cluster publishes for itself, what a controller
// keeps, which makes it at the target too, what holds a private key or a token, and
// what was named by mistake.
func travels(bundle client.Object) bool {
	if missingKey(bundle, infrav1.CAKey) != "" || bundle.GetName() == infrav1.RootCAConfigMap || isKept(bundle) {
		return false
	}
	secret, ok := bundle.(*corev1.Secret)
	return !ok || secret.Type == "" || secret.Type == corev1.SecretTypeOpaque
}

// isCredentials says whether some host has its password in the object, too: it is that
// host's then.
func (f *Finder) isCredentials(ctx context.Context, bundle client.Object) (bool, error) {
	if _, ok := bundle.(*corev1.Secret); !ok {
		return false, nil
	}
	users, err := f.users(ctx, bundle, 1)
	return users > 0, err
}

// isHost says whether an owner is an IngotHost, of whatever version.
func isHost(ref metav1.OwnerReference) bool {
	return inventory.IsOwner(ref, infrav1.GroupVersion.WithKind("IngotHost").GroupKind())
}
