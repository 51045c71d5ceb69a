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

// running lists the hosts of other machines whose systems have the address from the pool
// of the claim, and may still run with it. Their own claims may be gone before they are
// off: the garbage collector deletes the claims of an IngotMachine that is deleted in the
// foreground at once, whatever finalizer holds it, and a person may delete any.
func (p Pools) running(ctx context.Context, m ForMachine, claim *ipamv1.IPAddressClaim, address netip.Addr) ([]types.NamespacedName, error) {
	hosts := &infrav1.IngotHostList{}
	if err := p.Client.List(ctx, hosts, client.MatchingFields{index.HostByClaimAddress: address.String()}, client.UnsafeDisableDeepCopy); err != nil { // nothing of it is changed
		return nil, fmt.Errorf("hosts whose systems have %s: %w", address, err)
	}
	ref := infrav1.AddressPoolReference{APIGroup: claim.Spec.PoolRef.APIGroup, Kind: claim.Spec.PoolRef.Kind, Name: claim.Spec.PoolRef.Name}
	var found []types.NamespacedName
	for i := range hosts.Items {
		host := &hosts.Items[i]
		addresses, bond := addressuse.InLedger(host), host.Spec.Claim
		if bond == nil || host.Namespace == m.Machine.Namespace && bond.MachineRef.Name == m.Machine.Name {
			continue // what a quarantine keeps is of no known pool, and what the machine has is its own
		}
		machine := &infrav1.IngotMachine{}
		err := p.Client.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: bond.MachineRef.Name}, machine)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("machine of host %s/%s: %w", host.Namespace, host.Name, err)
		}
		if err != nil || !networkdata.IsGivenBy(ref, machine.Spec.NetworkData, addresses, address) {
			continue
		}
		isOne, err := p.isOnePool(ref, host.Namespace, m.Machine.Namespace)
		if err != nil {
			return nil, err
		}
		if isOne {
			found = append(found, client.ObjectKeyFromObject(host))
		}
	}
	return found, nil
}

// isOnePool says whether the reference means the same pool in two namespaces: most kinds
// of pools have one, and some are for all.
func (p Pools) isOnePool(ref infrav1.AddressPoolReference, a, b string) (bool, error) {
	if a == b {
		return true, nil
	}
	mapping, err := p.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("scope of %s: %w", ref.Kind, err)
	}
	return mapping.Scope.Name() == meta.RESTScopeNameRoot, nil
}

// stillHad says that a pool gave again what a system has from it.
func stillHad(claim *ipamv1.IPAddressClaim, address netip.Addr, hosts string) Answer {
	return problem(infrav1.ReasonAddressConflict, "pool %s gave %s, which the system installed on %s has from it and may still use, though its IPAddressClaim is gone: it is free once that server is released and off; "+
		"to have another address before, have the pool hold this one back, then delete IPAddressClaim %s", claim.Spec.PoolRef.Name, address, hosts, claim.Name)
}
