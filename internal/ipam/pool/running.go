// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory/addressuse"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// running returns the hosts of other machines whose systems have the address from the pool of the claim,
// and may still run. Their own claims may be gone before the hosts are off: an IngotMachine that is
// deleted in the foreground loses its claims at once, whatever its finalizers, and an operator may
// delete any claim.
func (p Pools) running(ctx context.Context, m MachineRequest, claim *ipamv1.IPAddressClaim, address netip.Addr) ([]types.NamespacedName, error) {
	hosts := &infrav1.IngotHostList{}
	if err := p.Client.List(ctx, hosts, client.MatchingFields{index.HostByClaimAddress: address.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list hosts whose systems have %s: %w", address, err)
	}
	ref := infrav1.AddressPoolReference{APIGroup: claim.Spec.PoolRef.APIGroup, Kind: claim.Spec.PoolRef.Kind, Name: claim.Spec.PoolRef.Name}
	var found []types.NamespacedName
	for i := range hosts.Items {
		host := &hosts.Items[i]
		addresses, bound := addressuse.InLedger(host), host.Spec.Claim
		if bound == nil || host.Namespace == m.Machine.Namespace && bound.MachineRef.Name == m.Machine.Name {
			continue // the pool of a quarantined host's address is unknown; the machine's own address is fine
		}
		machine := &infrav1.IngotMachine{}
		err := p.Client.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: bound.MachineRef.Name}, machine)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read machine of host %s/%s: %w", host.Namespace, host.Name, err)
		}
		if err != nil || !networkdata.IsGivenBy(ref, machine.Spec.NetworkData, addresses, address) {
			continue
		}
		isSame, err := p.isSamePool(ref, host.Namespace, m.Machine.Namespace)
		if err != nil {
			return nil, err
		}
		if isSame {
			found = append(found, client.ObjectKeyFromObject(host))
		}
	}
	return found, nil
}

// isSamePool reports whether the reference means the same pool in two namespaces: it does if the pool's
// kind is cluster-scoped.
func (p Pools) isSamePool(ref infrav1.AddressPoolReference, a, b string) (bool, error) {
	if a == b {
		return true, nil
	}
	mapping, err := p.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get scope of %s: %w", ref.Kind, err)
	}
	return mapping.Scope.Name() == meta.RESTScopeNameRoot, nil
}

func inUse(claim *ipamv1.IPAddressClaim, address netip.Addr, hosts string) Answer {
	return problem(infrav1.ReasonAddressConflict, "pool %s assigned %s, which the system on %s may still use without an IPAddressClaim: it is free once that server is released and off. "+
		"To get another address now, exclude this one in the pool, then delete IPAddressClaim %s", claim.Spec.PoolRef.Name, address, hosts, claim.Name)
}
