// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/node"
)

// The kubeconfig Secrets of workload clusters are read for each connection and never cached.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get

// WorkloadOptions limits the connections to workload clusters. The flags are those of Cluster
// API's managers.
type WorkloadOptions struct {
	Concurrency int
	QPS         float32
	Burst       int
}

const workloadUserAgent = "ingot-manager"

// addWorkloads adds the connections to Ingot's workload clusters, for reading and labeling Nodes.
func addWorkloads(ctx context.Context, mgr manager.Manager, o *Options) (clustercache.ClusterCache, error) {
	clusters, err := clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient:     plainKubeconfigs{mgr.GetAPIReader()},
		WatchFilterValue: o.WatchFilter,
		ClusterFilter:    isIngotCluster,
		Cache:            clustercache.CacheOptions{DefaultTransform: slimWorkload, Indexes: node.Indexes()},
		Client:           clustercache.ClientOptions{QPS: o.Workloads.QPS, Burst: o.Workloads.Burst, UserAgent: workloadUserAgent},
	}, workers(o.Workloads.Concurrency))
	if err != nil {
		return nil, fmt.Errorf("set up the cache of workload clusters: %w", err)
	}
	return clusters, nil
}

// slimWorkload removes unused fields from the cached objects of workload clusters.
func slimWorkload(o any) (any, error) {
	o, err := cache.TransformStripManagedFields()(o)
	if err != nil {
		return nil, err
	}
	return node.Transform(o)
}

// isIngotCluster reports whether the infrastructure of a Cluster is an IngotCluster.
func isIngotCluster(cluster *clusterv1.Cluster) bool {
	ref := cluster.Spec.InfrastructureRef
	return ref.APIGroup == infrav1.GroupVersion.Group && ref.Kind == "IngotCluster"
}
