// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// moveOnly refuses that an object is taken away without a word (see isLetGo) where no move is
// under way: clusterctl pauses every Cluster of the namespace before it copies anything, and
// deletes the Clusters too.
func moveOnly(ctx context.Context, reader client.Reader, object client.Object) (field.ErrorList, error) {
	clusters := &clusterv1.ClusterList{}
	err := reader.List(ctx, clusters, client.InNamespace(object.GetNamespace()), client.UnsafeDisableDeepCopy) // nothing of it is changed
	if meta.IsNoMatchError(err) {
		return nil, nil // Cluster API is not installed, so that there is no Cluster
	}
	if err != nil {
		return nil, fmt.Errorf("clusters of namespace %s: %w", object.GetNamespace(), err)
	}
	for i := range clusters.Items {
		if cluster := &clusters.Items[i]; cluster.Spec.Paused == nil || !*cluster.Spec.Paused {
			return field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations").Key(clusterctlv1.DeleteForMoveAnnotation), fmt.Sprintf(
				"only clusterctl move sets this, when every Cluster of the namespace is paused, and Cluster %s is not: remove the annotation; to release a host, delete its Machine",
				cluster.Name))}, nil
		}
	}
	return nil, nil
}
