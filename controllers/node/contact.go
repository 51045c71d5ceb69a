// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// heardTimeout bounds the first read of the Nodes of a cluster; later reads are from the cache.
const heardTimeout = 5 * time.Second

// Reports returns when kubelets last reported.
type Reports struct{ Clusters Clusters }

// LastReport returns when the kubelet of the Node with the claim's provider ID last reported, by
// the kubelet's clock. Zero: there is no such Node, its kubelet stopped reporting, or its cluster
// is not connected.
func (r Reports) LastReport(ctx context.Context, host *infrav1.IngotHost) (time.Time, error) {
	claim := host.Spec.Claim
	if claim == nil {
		return time.Time{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, heardTimeout)
	defer cancel()
	workload, err := r.Clusters.GetClient(ctx, client.ObjectKey{Namespace: host.Namespace, Name: claim.ClusterName})
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("connect to Cluster %s: %w", claim.ClusterName, err)
	}
	id := infrav1.ProviderID{Namespace: host.Namespace, Host: host.Name, InstanceID: claim.InstanceID}.String()
	nodes := &corev1.NodeList{}
	if err := workload.List(ctx, nodes, client.MatchingFields{clustercache.NodeProviderIDIndex.Field: id}, client.UnsafeDisableDeepCopy); err != nil {
		return time.Time{}, fmt.Errorf("list Nodes of Cluster %s: %w", claim.ClusterName, err)
	}
	var last time.Time
	for i := range nodes.Items {
		if at := heard(&nodes.Items[i]); at.After(last) {
			last = at
		}
	}
	return last, nil
}
