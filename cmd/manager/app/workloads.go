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

// What workload clusters are reached by: their kubeconfig Secrets, read when a
// connection is made, and never cached (see plainKubeconfigs).
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get

// WorkloadOptions are how workload clusters are reached. The flags are those of Cluster
// API's managers.
type WorkloadOptions struct {
	Concurrency int
	QPS         float32
	Burst       int
}

// workloadUserAgent is what workload clusters are told.
const workloadUserAgent = "ingot-manager"

// addWorkloads connects to the workload clusters on Ingot's metal: to read their Nodes,
// and to label them.
func addWorkloads(ctx context.Context, mgr manager.Manager, o *Options) (clustercache.ClusterCache, error) {
	clusters, err := clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient:     plainKubeconfigs{mgr.GetAPIReader()},
		WatchFilterValue: o.WatchFilter,
		ClusterFilter:    onMetal,
		Cache:            clustercache.CacheOptions{DefaultTransform: slim, Indexes: node.Indexes()},
		Client:           clustercache.ClientOptions{QPS: o.Workloads.QPS, Burst: o.Workloads.Burst, UserAgent: workloadUserAgent},
	}, workers(o.Workloads.Concurrency))
	if err != nil {
		return nil, fmt.Errorf("workload clusters: %w", err)
	}
	return clusters, nil
}

// slim leaves out of what is kept of workload clusters what nobody here reads.
func slim(o any) (any, error) {
	o, err := cache.TransformStripManagedFields()(o)
	if err != nil {
		return nil, err
	}
	return node.Transform(o)
}

// onMetal: the Cluster's infrastructure is Ingot's.
func onMetal(cluster *clusterv1.Cluster) bool {
	ref := cluster.Spec.InfrastructureRef
	return ref.APIGroup == infrav1.GroupVersion.Group && ref.Kind == "IngotCluster"
}
