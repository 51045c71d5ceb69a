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

// Withdraw takes a host off the Secrets that it named before, all of them where it has no
// BMC any more. One that was named by
// mistake, as an application's with the usual keys, would be deleted with the host, and
// clusterctl would take it along. Who leaves last takes the labels off, too, and whoever
// comes by those of one that is nobody's: Ingot neither watches nor moves what no host names.
func (f *Finder) Withdraw(ctx context.Context, host *infrav1.IngotHost) error {
	names := ""
	if host.Spec.BMC != nil {
		names = host.Spec.BMC.CredentialsRef.Name
	}
	for _, of := range []client.MatchingFields{{index.SecretByHost: host.Name}, {index.SecretOfMany: index.Any}} {
		secrets := &corev1.SecretList{}
		if err := f.Client.List(ctx, secrets, client.InNamespace(host.Namespace), of, client.UnsafeDisableDeepCopy); err != nil { // what is changed is copied
			return fmt.Errorf("secrets that host %s may have named: %w", host.Name, err)
		}
		for i := range secrets.Items {
			if secrets.Items[i].Name == names {
				continue
			}
			if err := f.disown(ctx, host, &secrets.Items[i]); err != nil {
				return err
			}
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
	// As long as one owns it the labels stay: without them the cache does not show it, and
	// no other host would find that it is to leave.
	owned := slices.ContainsFunc(changed.OwnerReferences, isHost)
	if !named && !owned {
		if creator, shared := changed.Labels[infrav1.BMCCredentialsSharedLabel]; shared && creator != movedByCreator {
			delete(changed.Labels, clusterctlv1.ClusterctlMoveLabel)
		}
		delete(changed.Labels, infrav1.BMCCredentialsSharedLabel)
		delete(changed.Labels, infrav1.BMCCredentialsLabel)
		controllerutil.RemoveFinalizer(changed, infrav1.InUseFinalizer)
	} else if len(changed.OwnerReferences) == len(secret.OwnerReferences) {
		return nil // others use it, and it was not this host's
	}
	return f.patchShared(ctx, secret, changed, keepAsIs)
}

// isNamed says whether a host has its password or its CA in the Secret.
func (f *Finder) isNamed(ctx context.Context, secret client.Object) (bool, error) {
	users, err := f.users(ctx, secret, 1)
	if err != nil || users > 0 {
		return true, err
	}
	hosts := &infrav1.IngotHostList{}
	err = f.Client.List(ctx, hosts, client.MatchingFields{index.HostByCASecret: secret.GetNamespace() + "/" + secret.GetName()},
		client.Limit(1), client.UnsafeDisableDeepCopy) // nothing of them is changed
	if err != nil {
		return true, fmt.Errorf("hosts whose CA is in Secret %s: %w", secret.GetName(), err)
	}
	return len(hosts.Items) > 0, nil
}
