// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccredentials

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
)

// Withdraw removes a host from the Secrets that it owns and no longer names; without spec.bmc, from all
// of them. A Secret that was named by mistake, such as an application's with the usual keys, would be
// deleted or moved with the host. If no host names the Secret any more, it is released too. Package
// inuse releases the Secrets that no host owns: a host cannot know which of them it named before, and
// looking through all of them in each reconcile of each host takes minutes with thousands of hosts.
func (f *Finder) Withdraw(ctx context.Context, host *infrav1.IngotHost) error {
	current := ""
	if host.Spec.BMC != nil {
		current = host.Spec.BMC.CredentialsRef.Name
	}
	secrets := &corev1.SecretList{}
	err := f.Client.List(ctx, secrets, client.InNamespace(host.Namespace), client.MatchingFields{index.SecretByHost: host.Name},
		client.UnsafeDisableDeepCopy) // disown copies what it changes
	if err != nil {
		return fmt.Errorf("list Secrets of host %s: %w", host.Name, err)
	}
	for i := range secrets.Items {
		if secrets.Items[i].Name == current {
			continue
		}
		if err := f.disown(ctx, host, &secrets.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (f *Finder) disown(ctx context.Context, host *infrav1.IngotHost, secret *corev1.Secret) error {
	named, err := f.isNamed(ctx, secret)
	if err != nil {
		return err
	}
	changed := secret.DeepCopy()
	changed.OwnerReferences = slices.DeleteFunc(changed.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return isHost(ref) && ref.Name == host.Name
	})
	if !named {
		Release(changed)
	}
	return f.patchShared(ctx, secret, changed, keepAsIs)
}

// Release removes Ingot's labels and finalizer from a Secret that no host names: Ingot neither watches
// nor moves it then. It leaves a Secret that a host owns as it is, because the cache has labeled
// Secrets only, and that host could not withdraw.
func Release(secret client.Object) {
	if slices.ContainsFunc(secret.GetOwnerReferences(), isHost) {
		return
	}
	labels := secret.GetLabels()
	if creator, shared := labels[infrav1.BMCCredentialsSharedLabel]; shared && creator != movedByCreator {
		delete(labels, clusterctlv1.ClusterctlMoveLabel)
	}
	delete(labels, infrav1.BMCCredentialsSharedLabel)
	delete(labels, infrav1.BMCCredentialsLabel)
	secret.SetLabels(labels)
	controllerutil.RemoveFinalizer(secret, infrav1.InUseFinalizer)
}

// isNamed reports whether a host names the Secret for its password or its CA.
func (f *Finder) isNamed(ctx context.Context, secret client.Object) (bool, error) {
	users, err := f.users(ctx, secret, 1)
	if err != nil || users > 0 {
		return true, err
	}
	hosts := &infrav1.IngotHostList{}
	err = f.Client.List(ctx, hosts, client.MatchingFields{index.HostByCASecret: secret.GetNamespace() + "/" + secret.GetName()},
		client.Limit(1), client.UnsafeDisableDeepCopy)
	if err != nil {
		return true, fmt.Errorf("list hosts whose CA is in Secret %s: %w", secret.GetName(), err)
	}
	return len(hosts.Items) > 0, nil
}
