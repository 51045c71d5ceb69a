// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"maps"
	"net/netip"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/inventory/addressuse"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotnetworks;ingothosts;ingothardwares;ingotclusters,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotnetworks/status,verbs=patch

// Reconciler reconciles IngotNetworks. Client is required; its cache has the indexes of index.Setup.
type Reconciler struct {
	Client client.Client
}

// Reconcile updates the status of a network. Networks belong to no Cluster and are never paused.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	network := &infrav1.IngotNetwork{}
	if err := r.Client.Get(ctx, req.NamespacedName, network); err != nil || !network.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	seen, err := r.observe(ctx, network)
	if err != nil {
		return ctrl.Result{}, err
	}
	base := network.DeepCopy()
	summarize(network, seen)
	if equality.Semantic.DeepEqual(base.Status, network.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.Client.Status().Patch(ctx, network, client.MergeFrom(base)))
}

// observation is the input of summarize.
type observation struct {
	// hosts is the number of hosts on the network. Of these, noIPv4 and noIPv6 have no recorded
	// address of that family. discovered wait for approval.
	hosts, noIPv4, noIPv6, discovered int
	ipv4, ipv6                        *infrav1.AddressUsage
}

func (r *Reconciler) observe(ctx context.Context, network *infrav1.IngotNetwork) (observation, error) {
	var seen observation
	hosts := &infrav1.IngotHostList{}
	if err := r.Client.List(ctx, hosts, client.MatchingFields{index.HostByNetwork: network.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return seen, fmt.Errorf("list the hosts of the network: %w", err)
	}
	discovered := &infrav1.IngotHostList{}
	if err := r.Client.List(ctx, discovered, client.MatchingFields{index.HostByEnrollment: network.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return seen, fmt.Errorf("list the discovered hosts of the network: %w", err)
	}
	elsewhere, err := r.takenElsewhere(ctx, network)
	if err != nil {
		return seen, err
	}
	ipv4, noIPv4, err := r.taken(ctx, network.Name, index.HardwareByNetwork, hosts.Items, elsewhere)
	if err != nil {
		return seen, err
	}
	ipv6, noIPv6, err := r.taken(ctx, network.Name, index.HardwareByIPv6Network, hosts.Items, elsewhere)
	if err != nil {
		return seen, err
	}
	return observation{
		hosts: len(hosts.Items), noIPv4: noIPv4, noIPv6: noIPv6, discovered: len(discovered.Items),
		ipv4: addressuse.UsageIPv4(network.Spec, ipv4), ipv6: addressuse.UsageIPv6(network.Spec, ipv6),
	}, nil
}

// takenElsewhere returns the endpoints of clusters and the static leases of other networks.
func (r *Reconciler) takenElsewhere(ctx context.Context, network *infrav1.IngotNetwork) (map[netip.Addr]bool, error) {
	endpoints, err := index.Endpoints(ctx, r.Client)
	if err != nil {
		return nil, err
	}
	taken := map[netip.Addr]bool{}
	for address := range endpoints {
		taken[address] = true
	}
	others, err := index.Networks(ctx, r.Client)
	if err != nil {
		return nil, err
	}
	for name, other := range others {
		if name == network.Name {
			continue
		}
		for _, lease := range other.StaticLeases {
			if address, err := netip.ParseAddr(lease.IP); err == nil {
				taken[address] = true
			}
		}
	}
	return taken, nil
}

// taken returns the addresses that no other host can get, by the index by, and the number of hosts
// without a recorded address.
func (r *Reconciler) taken(ctx context.Context, network, by string, hosts []infrav1.IngotHost, elsewhere map[netip.Addr]bool) (map[netip.Addr]bool, int, error) {
	owners, err := index.OwnersOfNetwork(ctx, r.Client, by, network)
	if err != nil {
		return nil, 0, err
	}
	have := map[types.NamespacedName]bool{}
	for _, list := range owners {
		for _, owner := range list {
			have[owner.Host] = have[owner.Host] || owner.MAC != "" // recorded, and not only of its system
		}
	}
	without := 0
	for i := range hosts {
		if !have[client.ObjectKeyFromObject(&hosts[i])] {
			without++
		}
	}
	taken := owners.Taken(types.NamespacedName{})
	maps.Copy(taken, elsewhere)
	return taken, without, nil
}

// summarize computes the status.
func summarize(network *infrav1.IngotNetwork, seen observation) {
	status := &network.Status
	status.ObservedGeneration = network.Generation
	status.Hosts = ptr.To(int32(seen.hosts))
	status.IPv4, status.IPv6 = seen.ipv4, seen.ipv6
	condition := metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonReady, ObservedGeneration: network.Generation}
	switch {
	case isExhausted(seen.ipv4, seen.noIPv4):
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, infrav1.ReasonAddressesExhausted, exhausted(seen.noIPv4, "spec.range")
	case isExhausted(seen.ipv6, seen.noIPv6):
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, infrav1.ReasonAddressesExhausted, exhausted(seen.noIPv6, "spec.ipv6.range")
	case seen.discovered > 0:
		condition.Message = fmt.Sprintf("%d discovered hosts wait for approval.", seen.discovered)
		if limit := network.Spec.Discover; limit != nil && seen.discovered >= int(limit.MaxHosts) {
			condition.Message = fmt.Sprintf("%d discovered hosts wait for approval, as many as spec.discover.maxHosts allows. Ingot registers no more servers until you approve or delete some.", seen.discovered)
		}
	}
	conditions.Set(network, condition)
}

// isExhausted reports whether hosts wait for an address and none is free.
func isExhausted(usage *infrav1.AddressUsage, waiting int) bool {
	return usage != nil && usage.Free != nil && *usage.Free == 0 && waiting > 0
}

func exhausted(waiting int, field string) string {
	return fmt.Sprintf("No address of %s is free, and %d hosts have none. Ingot does not boot them. Enlarge %s, or delete hosts that no longer exist.", field, waiting, field)
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IngotNetwork{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.IngotHost{}, index.EnqueueDelayed(networksOf), builder.WithPredicates(kubeutil.OnUpdate(hostChanged))).
		Watches(&infrav1.IngotHardware{}, index.EnqueueDelayed(networksOf), builder.WithPredicates(kubeutil.OnUpdate(hardwareChanged))).
		Watches(&infrav1.IngotCluster{}, index.EnqueueDelayed(r.allNetworks), builder.WithPredicates(predicate.GenerationChangedPredicate{})). // its endpoint
		WithOptions(options).
		Complete(r)
}

// networksOf returns the networks of an IngotHost or of an IngotHardware's addresses.
func networksOf(_ context.Context, object client.Object) []reconcile.Request {
	names := map[string]bool{}
	switch o := object.(type) {
	case *infrav1.IngotHost:
		names[o.Spec.NetworkRef.Name] = true
	case *infrav1.IngotHardware:
		for _, address := range []*infrav1.RecordedAddress{o.Spec.Address, o.Spec.IPv6Address} {
			if address != nil {
				names[address.NetworkName] = true
			}
		}
	}
	var requests []reconcile.Request
	for name := range names {
		requests = append(requests, kubeutil.Request("", name)...)
	}
	return requests
}

// allNetworks requests all networks: an endpoint may be in each.
func (r *Reconciler) allNetworks(ctx context.Context, _ client.Object) []reconcile.Request {
	return index.Requests(ctx, r.Client, &infrav1.IngotNetworkList{})
}

// hostChanged reports whether the host's network, approval or system addresses changed.
func hostChanged(before, after *infrav1.IngotHost) bool {
	return before.Spec.NetworkRef != after.Spec.NetworkRef ||
		!equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(addressuse.InLedger(before), addressuse.InLedger(after))
}

func hardwareChanged(before, after *infrav1.IngotHardware) bool {
	return !equality.Semantic.DeepEqual(before.Spec.Address, after.Spec.Address) ||
		!equality.Semantic.DeepEqual(before.Spec.IPv6Address, after.Spec.IPv6Address)
}
