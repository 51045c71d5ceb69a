// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// surges says, by name of the group, which of them make a machine before they give one
// up. Control planes of other kinds than kubeadm's are not known to. What the topology
// and its class say counts before what is there: both may change with the version.
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
		return nil, fmt.Errorf("MachineDeployments of Cluster %s: %w", cluster.Name, err)
	}
	for _, md := range list.Items {
		name := md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel]
		kind, most := md.Spec.Rollout.Strategy.Type, md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge
		if asked := strategyOf(cluster, class, name); asked != nil {
			kind, most = asked.Type, asked.RollingUpdate.MaxSurge
		}
		out[name] = kind != clusterv1.OnDeleteMachineDeploymentStrategyType && surge(most, md.Spec.Replicas)
	}
	return out, nil
}

// strategyOf is how a MachineDeployment is to roll out, where the topology or else its
// class says so: Cluster API takes it as it stands, without patches. nil: neither does.
func strategyOf(cluster *clusterv1.Cluster, class *clusterv1.ClusterClass, name string) *clusterv1.MachineDeploymentTopologyRolloutStrategy {
	for _, deployment := range cluster.Spec.Topology.Workers.MachineDeployments {
		if deployment.Name != name {
			continue
		}
		if deployment.Rollout.Strategy.Type != "" {
			return &deployment.Rollout.Strategy
		}
		if of := deploymentClass(class, deployment.Class); of != nil && of.Rollout.Strategy.Type != "" {
			strategy := &clusterv1.MachineDeploymentTopologyRolloutStrategy{Type: of.Rollout.Strategy.Type}
			strategy.RollingUpdate.MaxSurge = of.Rollout.Strategy.RollingUpdate.MaxSurge
			return strategy
		}
	}
	return nil
}

// controlPlaneSurges looks at the control plane as it is, with what patches made of it;
// at the template of the class where that is another one now.
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
		return false, fmt.Errorf("KubeadmControlPlane %s: %w", ref.Name, err)
	}
	most := kcp.Spec.Rollout.Strategy.RollingUpdate.MaxSurge
	is := class.Spec.ControlPlane.TemplateRef
	if was := kcp.Annotations[clusterv1.TemplateClonedFromNameAnnotation]; was != "" && was != is.Name && groupOf(is.APIVersion) == controlplanev1.GroupVersion.Group {
		template := &controlplanev1.KubeadmControlPlaneTemplate{}
		err := i.Live.Get(ctx, client.ObjectKey{Namespace: class.Namespace, Name: is.Name}, template)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("KubeadmControlPlaneTemplate %s: %w", is.Name, err)
		}
		if err == nil {
			most = template.Spec.Template.Spec.Rollout.Strategy.RollingUpdate.MaxSurge
		}
	}
	return surge(most, kcp.Spec.Replicas), nil
}

// surge says whether maxSurge lets a rollout begin with a machine more. Cluster API's
// default is one.
func surge(most *intstr.IntOrString, replicas *int32) bool {
	if replicas != nil && *replicas == 0 {
		return false
	}
	if most == nil {
		return true
	}
	of := 1
	if replicas != nil {
		of = int(*replicas)
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(most, of, true)
	return err != nil || n > 0
}
