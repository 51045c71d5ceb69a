// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// identify gives the machine's Node its provider ID where the kubelet was not told: then
// Cluster API finds it. The Node is labelled when Cluster API says that it is the
// Machine's.
func (r *Reconciler) identify(ctx context.Context, s *scope) (*corev1.Node, error) {
	nodes := &corev1.NodeList{}
	if err := s.workload.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("nodes of cluster %s: %w", s.cluster.Name, err)
	}
	var nameless []*corev1.Node
	for i := range nodes.Items {
		switch nodes.Items[i].Spec.ProviderID {
		case s.machine.Spec.ProviderID:
			return nil, nil // it has it, and Cluster API will see
		case "":
			nameless = append(nameless, &nodes.Items[i])
		}
	}
	if len(nameless) == 0 {
		return nil, nil
	}
	machine, uuids, err := r.systems(ctx, s)
	if err != nil {
		return nil, err
	}
	var found []*corev1.Node
	for _, node := range nameless {
		if inventory.SameSystem(machine, systemOf(node), uuids) {
			found = append(found, node)
		}
	}
	if len(found) != 1 {
		return nil, nil
	}
	return nil, r.name(ctx, s, found[0])
}

// name writes the provider ID, on the version of the Node that was looked at.
func (r *Reconciler) name(ctx context.Context, s *scope, node *corev1.Node) error {
	before := node.DeepCopy()
	node.Spec.ProviderID = s.machine.Spec.ProviderID
	err := s.workload.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the change brings us here again
	}
	if err != nil {
		return fmt.Errorf("provider ID of node %s: %w", node.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Gave the Node its provider ID", "Node", node.Name, "providerID", node.Spec.ProviderID)
	r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeNormal, infrav1.ReasonNodeIdentified, action,
		"Node %s had no provider ID and is this machine by the UUID of its server: Ingot has set it. Let the kubelet be told by the template instead", node.Name)
	return nil
}

// systems is what the machine's server is by its inspection, and the UUIDs of all that
// were inspected, in whatever namespace: two of a UUID tell nothing.
func (r *Reconciler) systems(ctx context.Context, s *scope) (inventory.System, []string, error) {
	all := &infrav1.IngotHardwareList{}
	if err := r.Client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return inventory.System{}, nil, fmt.Errorf("hardware of the inventory: %w", err)
	}
	machine := inventory.System{Name: s.host.Spec.Claim.Hostname}
	var uuids []string
	for i := range all.Items {
		hardware := &all.Items[i]
		uuids = append(uuids, hardware.Spec.System.UUID)
		if hardware.Namespace == s.host.Namespace && hardware.Name == s.host.Name {
			machine.UUID = hardware.Spec.System.UUID
		}
	}
	for _, address := range s.machine.Status.Addresses {
		machine.Addresses = append(machine.Addresses, address.Address)
	}
	return machine, uuids, nil
}

// systemOf is what a Node tells of its server.
func systemOf(node *corev1.Node) inventory.System {
	system := inventory.System{UUID: node.Status.NodeInfo.SystemUUID, Name: node.Name}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			system.Addresses = append(system.Addresses, address.Address)
		}
	}
	return system
}
