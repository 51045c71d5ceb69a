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

// checkEndpoint marks the infrastructure as provisioned once the IngotCluster or the Cluster has an
// endpoint (C06, C07). It warns if a host has the same address, which may be intended.
func (r *Reconciler) checkEndpoint(ctx context.Context, object *infrav1.IngotCluster, owner *clusterv1.Cluster) error {
	here, there := object.Spec.ControlPlaneEndpoint, owner.Spec.ControlPlaneEndpoint
	if (here.Host == "" || here.Port == 0) && (there.Host == "" || there.Port == 0) {
		set(object, infrav1.ClusterEndpointReadyCondition, metav1.ConditionFalse, infrav1.ReasonWaitingForEndpoint,
			"Set spec.controlPlaneEndpoint (host and port) of the IngotCluster or of the Cluster. Ingot creates no load balancer.")
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
	message := fmt.Sprintf("Endpoint %s is also the address of %s. Clients may not reach the API server. "+
		"Unless the host runs the load balancer, release it, delete it and register it again.", address, inventory.ListHosts(object.Namespace, others))
	if set(object, infrav1.ClusterEndpointReadyCondition, metav1.ConditionTrue, infrav1.ReasonEndpointInUse, message) {
		r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, infrav1.ReasonEndpointInUse, action, "%s", message)
	}
	return nil
}

// hostsAt returns the hosts that have the address, except the host of the Cluster's only control
// plane machine: then the endpoint is that server's own address.
func (r *Reconciler) hostsAt(ctx context.Context, address netip.Addr, owner *clusterv1.Cluster) ([]types.NamespacedName, error) {
	if !address.IsValid() {
		return nil, nil // a DNS name
	}
	owners, err := index.OwnersOf(ctx, r.Client, address)
	if err != nil || len(owners) == 0 {
		return nil, err
	}
	only, err := r.onlyControlPlane(ctx, owner)
	return owners.OwnersExcept(address, only), err
}

// onlyControlPlane returns the host of the Cluster's only control plane machine; zero: none,
// several, or it has no host.
func (r *Reconciler) onlyControlPlane(ctx context.Context, owner *clusterv1.Cluster) (types.NamespacedName, error) {
	machines := &infrav1.IngotMachineList{}
	err := r.Client.List(ctx, machines, client.InNamespace(owner.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: owner.Name},
		client.HasLabels{clusterv1.MachineControlPlaneLabel}, client.UnsafeDisableDeepCopy) // read-only
	if err != nil {
		return types.NamespacedName{}, fmt.Errorf("list control plane machines of Cluster %s: %w", owner.Name, err)
	}
	if len(machines.Items) != 1 {
		return types.NamespacedName{}, nil
	}
	id, err := infrav1.ParseProviderID(machines.Items[0].Spec.ProviderID)
	if err != nil {
		return types.NamespacedName{}, nil // no host selected yet
	}
	return types.NamespacedName{Namespace: id.Namespace, Name: id.Host}, nil
}
