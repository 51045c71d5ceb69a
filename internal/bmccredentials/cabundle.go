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

// caBundle reads the CA certificates for the BMC's certificate.
func (f *Finder) caBundle(ctx context.Context, host *infrav1.IngotHost, out Access) (Access, error) {
	ref := host.Spec.BMC.CABundleRef
	kind, bundle := infrav1.CABundleConfigMap, client.Object(&corev1.ConfigMap{})
	if ref.Kind == infrav1.CABundleSecret {
		kind, bundle = ref.Kind, &corev1.Secret{}
	}
	err := f.markCA(ctx, host, ref.Name, bundle)
	switch {
	case apierrors.IsNotFound(err):
		return out.missing(lifecycle.BMCCAMissing, "%s %q does not exist in namespace %q.", kind, ref.Name, host.Namespace), nil
	case err != nil:
		return out, fmt.Errorf("read CA bundle of the BMC: %w", err)
	case missingKey(bundle, infrav1.CAKey) != "":
		return out.missing(lifecycle.BMCCAMissing, "%s %q has no key %q, or its value is empty.", kind, ref.Name, infrav1.CAKey), nil
	}
	out.Target.CABundle = dataOf(bundle)[infrav1.CAKey]
	return out, nil
}

// markCA reads a Secret or ConfigMap with certificates, and labels it to be watched and, if
// mayMove is true, to be moved. Others may verify with the same CA, so that no host owns the object,
// and it stays when its hosts are deleted. An earlier version made hosts its owners.
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
		addFinalizer(bundle)
	}
	if mayMove(bundle) {
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

// mayMove reports whether clusterctl should move an object with certificates. clusterctl overwrites an
// object of the same name at the target, and deletes the one at the source. So these stay: the root CA
// that each cluster publishes, objects that a controller manages (and creates at the target too),
// Secrets with a private key or token, and objects without CAKey, which were named by mistake.
func mayMove(bundle client.Object) bool {
	if missingKey(bundle, infrav1.CAKey) != "" || bundle.GetName() == infrav1.RootCAConfigMap || isManaged(bundle) {
		return false
	}
	secret, ok := bundle.(*corev1.Secret)
	return !ok || secret.Type == "" || secret.Type == corev1.SecretTypeOpaque
}

// isCredentials reports whether a host also has its password in the object, and so may own it.
func (f *Finder) isCredentials(ctx context.Context, bundle client.Object) (bool, error) {
	if _, ok := bundle.(*corev1.Secret); !ok {
		return false, nil
	}
	users, err := f.users(ctx, bundle, 1)
	return users > 0, err
}

// isHost reports whether an owner is an IngotHost, of any version.
func isHost(ref metav1.OwnerReference) bool {
	return inventory.IsOwner(ref, infrav1.GroupVersion.WithKind("IngotHost").GroupKind())
}
