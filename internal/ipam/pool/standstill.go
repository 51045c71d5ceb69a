// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// This file pauses the claims of hosts during a move (I10). The claims of machines name their Cluster,
// which is paused; hosts have no Cluster.

// HostClaims are the IPAddressClaims of hosts, by the UID of the host. They belong to the cache and must
// not be changed.
type HostClaims map[types.UID][]*ipamv1.IPAddressClaim

// OfHosts returns the claims of the hosts of a namespace.
func (p Pools) OfHosts(ctx context.Context, namespace string) (HostClaims, error) {
	list := &ipamv1.IPAddressClaimList{}
	err := p.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list claims of namespace %s: %w", namespace, err)
	}
	found := HostClaims{}
	for i := range list.Items {
		claim := &list.Items[i]
		if owner := metav1.GetControllerOf(claim); owner != nil && owner.Kind == "IngotHost" {
			found[owner.UID] = append(found[owner.UID], claim)
		}
	}
	return found, nil
}

// PauseClaim makes providers ignore the claim, on either cluster of a move. Some honor the annotation;
// others, in their periodic reconciles, only a paused Cluster that the claim names: cluster is one, or
// empty. It returns false after a conflict.
func (p Pools) PauseClaim(ctx context.Context, claim *ipamv1.IPAddressClaim, cluster string) (bool, error) {
	if _, stands := claim.Annotations[infrav1.MovePausedAnnotation]; stands {
		return true, nil
	}
	next := claim.DeepCopy()
	if _, paused := claim.Annotations[clusterv1.PausedAnnotation]; !paused { // an operator's annotation stays
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, clusterv1.PausedAnnotation, infrav1.ReasonMovePaused)
	}
	if claim.Spec.ClusterName != "" || claim.Labels[clusterv1.ClusterNameLabel] != "" {
		cluster = ""
	}
	if cluster != "" {
		metav1.SetMetaDataLabel(&next.ObjectMeta, clusterv1.ClusterNameLabel, cluster)
	}
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, infrav1.MovePausedAnnotation, cluster) // the label to remove
	return p.patch(ctx, claim, next)
}

// ResumeClaim reverts PauseClaim. It returns false after a conflict.
func (p Pools) ResumeClaim(ctx context.Context, claim *ipamv1.IPAddressClaim) (bool, error) {
	cluster, stands := claim.Annotations[infrav1.MovePausedAnnotation]
	if !stands {
		return true, nil
	}
	next := claim.DeepCopy()
	delete(next.Annotations, infrav1.MovePausedAnnotation)
	if claim.Annotations[clusterv1.PausedAnnotation] == infrav1.ReasonMovePaused {
		delete(next.Annotations, clusterv1.PausedAnnotation)
	}
	if cluster != "" && claim.Labels[clusterv1.ClusterNameLabel] == cluster {
		delete(next.Labels, clusterv1.ClusterNameLabel)
	}
	return p.patch(ctx, claim, next)
}

func (p Pools) patch(ctx context.Context, before, after *ipamv1.IPAddressClaim) (bool, error) {
	err := p.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return false, nil
	case client.IgnoreNotFound(err) != nil:
		return false, fmt.Errorf("pause claim %s/%s: %w", before.Namespace, before.Name, err)
	}
	return true, nil
}
