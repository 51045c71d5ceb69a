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

// This file has the claims of hosts stand still during a move (I10). Those of machines
// carry the name of their Cluster, which is paused; a host is of none.

// HostClaims are the IPAddressClaims of hosts by the UID of the host. Nothing of them may
// be changed.
type HostClaims map[types.UID][]*ipamv1.IPAddressClaim

// OfHosts finds those of a namespace.
func (p Pools) OfHosts(ctx context.Context, namespace string) (HostClaims, error) {
	list := &ipamv1.IPAddressClaimList{}
	err := p.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("claims of namespace %s: %w", namespace, err)
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

// StandStill has providers leave the claim as it is, on whatever cluster it is.
// Some heed the annotation, and some, in what they look at by themselves, only a paused
// Cluster that the claim names: cluster is one, or empty. false: somebody wrote meanwhile.
func (p Pools) StandStill(ctx context.Context, claim *ipamv1.IPAddressClaim, cluster string) (bool, error) {
	if _, stands := claim.Annotations[infrav1.MovePausedAnnotation]; stands {
		return true, nil
	}
	next := claim.DeepCopy()
	if _, paused := claim.Annotations[clusterv1.PausedAnnotation]; !paused { // a person's stays a person's
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, clusterv1.PausedAnnotation, infrav1.ReasonMovePaused)
	}
	if claim.Spec.ClusterName != "" || claim.Labels[clusterv1.ClusterNameLabel] != "" {
		cluster = ""
	}
	if cluster != "" {
		metav1.SetMetaDataLabel(&next.ObjectMeta, clusterv1.ClusterNameLabel, cluster)
	}
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, infrav1.MovePausedAnnotation, cluster) // whose label it is
	return p.patch(ctx, claim, next)
}

// GoOn takes away what StandStill has written, here or where the claim came from.
func (p Pools) GoOn(ctx context.Context, claim *ipamv1.IPAddressClaim) (bool, error) {
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
		return false, fmt.Errorf("pause of claim %s/%s: %w", before.Namespace, before.Name, err)
	}
	return true, nil
}
