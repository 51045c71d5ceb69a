// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/addressuse"
)

// checkEndpoint: the infrastructure is provisioned as soon as an endpoint is known, here or
// in the Cluster (C06, C07). That a host has it for its address is told, and holds nothing
// up: it may be meant, and nothing is taken from a host.
func (r *Reconciler) checkEndpoint(ctx context.Context, object *infrav1.IngotCluster, owner *clusterv1.Cluster) error {
	here, there := object.Spec.ControlPlaneEndpoint, owner.Spec.ControlPlaneEndpoint
	if (here.Host == "" || here.Port == 0) && (there.Host == "" || there.Port == 0) {
		set(object, infrav1.ClusterEndpointReadyCondition, metav1.ConditionFalse, infrav1.ReasonWaitingForEndpoint,
			"Ingot makes no load balancer: set spec.controlPlaneEndpoint (host and port) here or in the Cluster")
		return nil
	}
	object.Status.Initialization.Provisioned = ptr.To(true)
	address := addressuse.ParseEndpoint(cmp.Or(here.Host, there.Host))
	others, err := r.hostsAt(ctx, address, owner)
	if err != nil {
		return err
	}
	if len(others) == 0 {
		set(object, infrav1.ClusterEndpointReadyCondition, metav1.ConditionTrue, infrav1.ReasonEndpointSet, "")
		return nil
	}
	message := fmt.Sprintf("%s is the address of %s too, by record or by the claim of the system installed there: while that server runs, the API server may not be reached. "+
		"Release that host, delete it and register it again, to give it another address; leave it if a load balancer runs there, or the only control plane", address, inventory.ListHosts(object.Namespace, others))
	if set(object, infrav1.ClusterEndpointReadyCondition, metav1.ConditionTrue, infrav1.ReasonEndpointTaken, message) {
		r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, infrav1.ReasonEndpointTaken, action, "%s", message)
	}
	return nil
}

// hostsAt are those that have an address, but for the one that the only control plane of
// the Cluster runs on: then the endpoint is that server's own address.
func (r *Reconciler) hostsAt(ctx context.Context, address netip.Addr, owner *clusterv1.Cluster) ([]types.NamespacedName, error) {
	if !address.IsValid() {
		return nil, nil // a name
	}
	held, err := index.HoldersOf(ctx, r.Client, address)
	if err != nil || len(held) == 0 {
		return nil, err
	}
	only, err := r.onlyControlPlane(ctx, owner)
	return held.Besides(address, only), err
}

// onlyControlPlane is the host of the only machine of a Cluster's control plane; zero:
// there are more, or none, or it has no host.
func (r *Reconciler) onlyControlPlane(ctx context.Context, owner *clusterv1.Cluster) (types.NamespacedName, error) {
	machines := &infrav1.IngotMachineList{}
	err := r.Client.List(ctx, machines, client.InNamespace(owner.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: owner.Name},
		client.HasLabels{clusterv1.MachineControlPlaneLabel}, client.UnsafeDisableDeepCopy) // nothing of it is changed
	if err != nil {
		return types.NamespacedName{}, fmt.Errorf("control plane of Cluster %s: %w", owner.Name, err)
	}
	if len(machines.Items) != 1 {
		return types.NamespacedName{}, nil
	}
	id, err := infrav1.ParseProviderID(machines.Items[0].Spec.ProviderID)
	if err != nil {
		return types.NamespacedName{}, nil // it has chosen no host yet
	}
	return types.NamespacedName{Namespace: id.Namespace, Name: id.Host}, nil
}
