// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// surges reports, by name of the group, which groups create a machine before they delete one. Only
// control planes of kubeadm are known to surge. The topology and its class take precedence over the
// existing objects, because they may change together with the version.
func (i Inventory) surges(ctx context.Context, cluster *clusterv1.Cluster, p part) (map[string]bool, error) {
	out := map[string]bool{}
	class, err := i.class(ctx, cluster)
	if err != nil || class == nil {
		return out, err
	}
	if p.controlPlane {
		if out[controlPlaneGroup], err = i.controlPlaneSurges(ctx, cluster, class); err != nil {
			return nil, err
		}
	}
	if !p.workers {
		return out, nil
	}
	list := &clusterv1.MachineDeploymentList{}
	if err := i.Live.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: cluster.Name, clusterv1.ClusterTopologyOwnedLabel: "",
	}); err != nil {
		return nil, fmt.Errorf("list the MachineDeployments of Cluster %s: %w", cluster.Name, err)
	}
	for _, md := range list.Items {
		name := md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel]
		kind, maxSurge := md.Spec.Rollout.Strategy.Type, md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge
		if strategy := strategyOf(cluster, class, name); strategy != nil {
			kind, maxSurge = strategy.Type, strategy.RollingUpdate.MaxSurge
		}
		out[name] = kind != clusterv1.OnDeleteMachineDeploymentStrategyType && surge(maxSurge, md.Spec.Replicas)
	}
	return out, nil
}

// strategyOf returns the rollout strategy of a MachineDeployment from the topology or its class, or
// nil if neither sets one. Cluster API applies no patches to it.
func strategyOf(cluster *clusterv1.Cluster, class *clusterv1.ClusterClass, name string) *clusterv1.MachineDeploymentTopologyRolloutStrategy {
	for _, deployment := range cluster.Spec.Topology.Workers.MachineDeployments {
		if deployment.Name != name {
			continue
		}
		if deployment.Rollout.Strategy.Type != "" {
			return &deployment.Rollout.Strategy
		}
		if c := deploymentClass(class, deployment.Class); c != nil && c.Rollout.Strategy.Type != "" {
			strategy := &clusterv1.MachineDeploymentTopologyRolloutStrategy{Type: c.Rollout.Strategy.Type}
			strategy.RollingUpdate.MaxSurge = c.Rollout.Strategy.RollingUpdate.MaxSurge
			return strategy
		}
	}
	return nil
}

// controlPlaneSurges reports whether the control plane surges, by the existing KubeadmControlPlane
// with its patches, or by the template of the class if the class now has another one.
func (i Inventory) controlPlaneSurges(ctx context.Context, cluster *clusterv1.Cluster, class *clusterv1.ClusterClass) (bool, error) {
	ref := cluster.Spec.ControlPlaneRef
	if ref.Kind != "KubeadmControlPlane" || ref.APIGroup != controlplanev1.GroupVersion.Group {
		return false, nil
	}
	kcp := &controlplanev1.KubeadmControlPlane{}
	if err := i.Live.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: ref.Name}, kcp); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return false, nil
		}
		return false, fmt.Errorf("get KubeadmControlPlane %s: %w", ref.Name, err)
	}
	maxSurge := kcp.Spec.Rollout.Strategy.RollingUpdate.MaxSurge
	is := class.Spec.ControlPlane.TemplateRef
	if was := kcp.Annotations[clusterv1.TemplateClonedFromNameAnnotation]; was != "" && was != is.Name && groupOf(is.APIVersion) == controlplanev1.GroupVersion.Group {
		template := &controlplanev1.KubeadmControlPlaneTemplate{}
		err := i.Live.Get(ctx, client.ObjectKey{Namespace: class.Namespace, Name: is.Name}, template)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("get KubeadmControlPlaneTemplate %s: %w", is.Name, err)
		}
		if err == nil {
			maxSurge = template.Spec.Template.Spec.Rollout.Strategy.RollingUpdate.MaxSurge
		}
	}
	return surge(maxSurge, kcp.Spec.Replicas), nil
}

// surge reports whether maxSurge allows an additional machine. Cluster API's default is one.
func surge(maxSurge *intstr.IntOrString, replicas *int32) bool {
	count := int(ptr.Deref(replicas, 1))
	if count == 0 || maxSurge == nil {
		return count != 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(maxSurge, count, true)
	return err != nil || n > 0
}
