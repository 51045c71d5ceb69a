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
	"github.com/ingot-metal/ingot/inventory"
)

// namelessField is the index of the Nodes that have no provider ID.
const namelessField = "ingot.nameless"

// Indexes are those of Nodes that the cache of workload clusters needs: thousands of
// machines look for theirs in one cluster.
func Indexes() []clustercache.CacheOptionsIndex {
	return []clustercache.CacheOptionsIndex{clustercache.NodeProviderIDIndex, {
		Object: &corev1.Node{}, Field: namelessField,
		ExtractValue: func(o client.Object) []string {
			if node, ok := o.(*corev1.Node); ok && node.Spec.ProviderID == "" {
				return []string{"true"}
			}
			return nil
		},
	}}
}

// Transform leaves out of what the cache of workload clusters keeps of a Node the list of
// its images, half of it. Nothing here writes that.
func Transform(o any) (any, error) {
	if node, ok := o.(*corev1.Node); ok {
		node.Status.Images = nil
	}
	return o, nil
}

// identify gives the machine's Node its provider ID where the kubelet was not told: then
// Cluster API finds it, and the Node is labelled. A Node that was deleted and registers
// again has none either, and Cluster API goes on looking for it by that. It returns when
// to look again: what is known of machine and server may come later than the Node, and a
// Node with another's ID does not bring the machine here; 0: a Node has the ID.
func (r *Reconciler) identify(ctx context.Context, s *scope) (time.Duration, error) {
	named := &corev1.NodeList{}
	err := s.workload.List(ctx, named, client.MatchingFields{clustercache.NodeProviderIDIndex.Field: s.machine.Spec.ProviderID}, client.UnsafeDisableDeepCopy)
	if err != nil || len(named.Items) > 0 { // it has it, and Cluster API will see
		return 0, wrap(err, "named nodes of cluster "+s.cluster.Name)
	}
	nameless := &corev1.NodeList{}
	if err := s.workload.List(ctx, nameless, client.MatchingFields{namelessField: "true"}, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("nameless nodes of cluster %s: %w", s.cluster.Name, err)
	}
	again := wait.Jitter(r.timing().NodeCheck, jitter)
	installed := conditions.Get(s.machine, infrav1.MachineInstalledCondition)
	if installed == nil || installed.Status != metav1.ConditionTrue {
		return again, nil // its status is lost, and will be there again
	}
	if len(nameless.Items) == 0 {
		return again, r.tellAnother(ctx, s)
	}
	system, uuids, err := r.systems(ctx, s)
	if err != nil {
		return 0, err
	}
	nodes := make([]inventory.NamelessNode, 0, len(nameless.Items))
	for i := range nameless.Items {
		nodes = append(nodes, inventory.NamelessNode{System: systemOf(&nameless.Items[i]), Heard: heard(&nameless.Items[i])})
	}
	at, why := inventory.WhichNode(inventory.InstalledSystem{System: system, Since: installed.LastTransitionTime.Time}, nodes, uuids)
	if at >= 0 {
		return r.name(ctx, s, &nameless.Items[at])
	}
	if why == "" {
		return again, r.tellAnother(ctx, s)
	}
	if r.memory.news(client.ObjectKeyFromObject(s.machine), infrav1.ReasonNodeNotIdentified, why) {
		r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeWarning, infrav1.ReasonNodeNotIdentified, action,
			"A Node without a provider ID may be this machine's, and it is not certain: %s. Ingot looks again every minute", why)
	}
	return again, nil
}

// tellAnother tells once of a Node that has the machine's name and another's provider ID.
// A kubelet takes such a Node for its own and leaves the ID as it is, so that Cluster API
// never finds the machine's Node.
func (r *Reconciler) tellAnother(ctx context.Context, s *scope) error {
	name := cmp.Or(s.owner.Status.NodeRef.Name, s.host.Spec.Claim.Hostname)
	node := &corev1.Node{}
	if err := s.workload.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return wrap(client.IgnoreNotFound(err), "node "+name)
	}
	if node.Spec.ProviderID == "" || !r.memory.news(client.ObjectKeyFromObject(s.machine), infrav1.ReasonNodeNotIdentified, name+" "+node.Spec.ProviderID) {
		return nil
	}
	r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeWarning, infrav1.ReasonNodeNotIdentified, action,
		"Node %s has the name of this machine's, and the provider ID %s of another; this machine's is %s. If it is left over from an earlier life of the server, delete it and restart the server's kubelet; "+
			"if the kubelet was told that ID, correct the template. Ingot looks again every minute", name, node.Spec.ProviderID, s.machine.Spec.ProviderID)
	return nil
}

func wrap(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// name writes the provider ID, on the version of the Node that was looked at.
func (r *Reconciler) name(ctx context.Context, s *scope, found *corev1.Node) (time.Duration, error) {
	node := found.DeepCopy() // what the cache gave is its own
	node.Spec.ProviderID = s.machine.Spec.ProviderID
	err := s.workload.Patch(ctx, node, client.MergeFromWithOptions(found.DeepCopy(), client.MergeFromWithOptimisticLock{}))
	if isStale(err) {
		return r.timing().Conflict, nil
	}
	if err != nil {
		return 0, fmt.Errorf("provider ID of node %s: %w", node.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Gave the Node its provider ID", "Node", node.Name, "providerID", node.Spec.ProviderID)
	r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeNormal, infrav1.ReasonNodeIdentified, action,
		"Node %s had no provider ID and is this machine by the UUID of its server: Ingot has set it. Let the kubelet be told by the template instead", node.Name)
	return 0, nil
}

// systems is what the machine's server is by its inspection, and the UUIDs of all that
// were inspected, in whatever namespace: two of a UUID tell nothing.
func (r *Reconciler) systems(ctx context.Context, s *scope) (inventory.System, []string, error) {
	all := &infrav1.IngotHardwareList{}
	if err := r.Client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return inventory.System{}, nil, fmt.Errorf("hardware of the inventory: %w", err)
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

// systemOfMachine is what the machine itself tells of its system.
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

// heard is when the kubelet reported last, as it does every five minutes at least. Of one
// that is not heard the cluster says soon that it does not know.
func heard(node *corev1.Node) time.Time {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionUnknown {
			return c.LastHeartbeatTime.Time
		}
	}
	return time.Time{}
}
