// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/inventory"
)

// withoutIDField is the index of the Nodes without a provider ID.
const withoutIDField = "ingot.withoutProviderID"

// Indexes returns the indexes of Nodes that the cache of workload clusters needs: thousands of
// machines may look for their Nodes in one cluster.
func Indexes() []clustercache.CacheOptionsIndex {
	return []clustercache.CacheOptionsIndex{clustercache.NodeProviderIDIndex, {
		Object: &corev1.Node{}, Field: withoutIDField,
		ExtractValue: func(o client.Object) []string {
			if node, ok := o.(*corev1.Node); ok && node.Spec.ProviderID == "" {
				return []string{"true"}
			}
			return nil
		},
	}}
}

// Transform removes the list of images from cached Nodes: half of their size.
func Transform(o any) (any, error) {
	if node, ok := o.(*corev1.Node); ok {
		node.Status.Images = nil
	}
	return o, nil
}

// identify writes the provider ID to the machine's Node if the kubelet does not have it, also after
// the Node registered again. Cluster API then finds the Node. It returns when to try again: facts
// about machine and server may arrive after the Node, and a Node with another ID triggers no
// reconcile. 0 means that a Node has the ID.
func (r *Reconciler) identify(ctx context.Context, s *scope) (time.Duration, error) {
	named := &corev1.NodeList{}
	err := s.workload.List(ctx, named, client.MatchingFields{clustercache.NodeProviderIDIndex.Field: s.machine.Spec.ProviderID}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return 0, fmt.Errorf("list Nodes by provider ID in Cluster %s: %w", s.cluster.Name, err)
	}
	if len(named.Items) > 0 {
		return 0, nil
	}
	unnamed := &corev1.NodeList{}
	if err := s.workload.List(ctx, unnamed, client.MatchingFields{withoutIDField: "true"}, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list Nodes without provider ID in Cluster %s: %w", s.cluster.Name, err)
	}
	after := wait.Jitter(r.timing().NodeCheck, jitter)
	installed := conditions.Get(s.machine, infrav1.MachineInstalledCondition)
	if installed == nil || installed.Status != metav1.ConditionTrue {
		return after, nil // the status was lost and is rebuilt soon
	}
	if len(unnamed.Items) == 0 {
		return after, r.warnOtherID(ctx, s)
	}
	system, uuids, err := r.systems(ctx, s)
	if err != nil {
		return 0, err
	}
	nodes := make([]inventory.UnmatchedNode, 0, len(unnamed.Items))
	for i := range unnamed.Items {
		nodes = append(nodes, inventory.UnmatchedNode{System: systemOf(&unnamed.Items[i]), Heard: heard(&unnamed.Items[i])})
	}
	at, why := inventory.MatchNode(inventory.InstalledSystem{System: system, Since: installed.LastTransitionTime.Time}, nodes, uuids)
	if at >= 0 {
		return r.writeProviderID(ctx, s, &unnamed.Items[at])
	}
	if why == "" {
		return after, r.warnOtherID(ctx, s)
	}
	if r.memory.isNew(client.ObjectKeyFromObject(s.machine), infrav1.ReasonNodeNotIdentified, why) {
		r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeWarning, infrav1.ReasonNodeNotIdentified, action,
			"A Node without a provider ID may belong to this machine, but that is not certain: %s. Ingot checks again every minute.", why)
	}
	return after, nil
}

// warnOtherID warns once about a Node with the machine's name and another provider ID. The
// machine's kubelet adopts such a Node and keeps the ID, so that Cluster API never finds it.
func (r *Reconciler) warnOtherID(ctx context.Context, s *scope) error {
	name := cmp.Or(s.owner.Status.NodeRef.Name, s.host.Spec.Claim.Hostname)
	node, err := kubeutil.Find[corev1.Node](ctx, s.workload, "", name)
	if err != nil || node == nil {
		return err
	}
	if node.Spec.ProviderID == "" || !r.memory.isNew(client.ObjectKeyFromObject(s.machine), infrav1.ReasonNodeNotIdentified, name+" "+node.Spec.ProviderID) {
		return nil
	}
	r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeWarning, infrav1.ReasonNodeNotIdentified, action,
		"Node %s has provider ID %s instead of this machine's %s. If the Node is from an earlier install of the server, delete it and restart the server's kubelet; "+
			"if the kubelet was configured with that ID, correct the template.", name, node.Spec.ProviderID, s.machine.Spec.ProviderID)
	return nil
}

// writeProviderID writes the provider ID by optimistic lock.
func (r *Reconciler) writeProviderID(ctx context.Context, s *scope, found *corev1.Node) (time.Duration, error) {
	node := found.DeepCopy()
	node.Spec.ProviderID = s.machine.Spec.ProviderID
	err := s.workload.Patch(ctx, node, client.MergeFromWithOptions(found.DeepCopy(), client.MergeFromWithOptimisticLock{}))
	if isStale(err) {
		return r.timing().Conflict, nil
	}
	if err != nil {
		return 0, fmt.Errorf("write provider ID of Node %s: %w", node.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Set the provider ID of the Node", "Node", node.Name, "providerID", node.Spec.ProviderID)
	r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeNormal, infrav1.ReasonNodeIdentified, action,
		"Set the missing provider ID of Node %s, which runs on this machine by the server's UUID. Configure the kubelet's provider ID in the template.", node.Name)
	return 0, nil
}

// systems returns the machine's server by its inspection, and the UUIDs of all inspected servers of
// all namespaces: a UUID that two servers have identifies none.
func (r *Reconciler) systems(ctx context.Context, s *scope) (inventory.System, []string, error) {
	all := &infrav1.IngotHardwareList{}
	if err := r.Client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return inventory.System{}, nil, fmt.Errorf("list hardware: %w", err)
	}
	machine := systemOfMachine(s.machine)
	machine.Name = s.host.Spec.Claim.Hostname
	var uuids []string
	for i := range all.Items {
		hardware := &all.Items[i]
		uuids = append(uuids, hardware.Spec.System.UUID)
		if hardware.Namespace == s.host.Namespace && hardware.Name == s.host.Name {
			machine.UUID = hardware.Spec.System.UUID
		}
	}
	return machine, uuids, nil
}

func systemOfMachine(machine *infrav1.IngotMachine) inventory.System {
	var system inventory.System
	for _, address := range machine.Status.Addresses {
		if address.Type == clusterv1.MachineHostName {
			system.Name = address.Address
		}
		system.Addresses = append(system.Addresses, address.Address)
	}
	return system
}

func systemOf(node *corev1.Node) inventory.System {
	system := inventory.System{UUID: node.Status.NodeInfo.SystemUUID, Name: node.Name}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			system.Addresses = append(system.Addresses, address.Address)
		}
	}
	return system
}

// heard returns the kubelet's last report; kubelets report at least every five minutes. Zero: the
// kubelet is silent, so the cluster set Ready to Unknown.
func heard(node *corev1.Node) time.Time {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionUnknown {
			return c.LastHeartbeatTime.Time
		}
	}
	return time.Time{}
}
