// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// MachineClaimName is the name of the claim of a machine for an address of its
// networkData. It says the place, which never changes: networkData is immutable.
func MachineClaimName(machine string, place networkdata.Place) string {
	return ClaimName(machine, place.Link+"-"+strconv.Itoa(place.Index))
}

// ClaimForMachine returns the address that a pool gives a machine for a place of its
// networkData, and makes the claim where there is none. The IngotMachine owns the claim:
// it moves with it, and is released with it, which is after its host was confirmed off
// (I7). The API server's failures are errors; all else is a Problem of the answer.
func (p Pools) ClaimForMachine(
	ctx context.Context, machine *infrav1.IngotMachine, cluster string, place networkdata.PoolPlace,
) (networkdata.Given, Answer, error) {
	want := ipamv1.IPPoolReference{APIGroup: place.Pool.APIGroup, Kind: place.Pool.Kind, Name: place.Pool.Name}
	claim := &ipamv1.IPAddressClaim{}
	key := client.ObjectKey{Namespace: machine.Namespace, Name: MachineClaimName(machine.Name, place.Place)}
	err := p.Client.Get(ctx, key, claim)
	switch {
	case isAbsent(err):
		return none(problem(infrav1.ReasonAddressPoolUnusable, "networkData of %s names a pool, and Cluster API's IPAddressClaim is not installed here: "+
			"install Cluster API's core provider and an IPAM provider", machine.Name))
	case apierrors.IsNotFound(err):
		answer, err := p.makeForMachine(ctx, machine, cluster, key, want)
		return networkdata.Given{}, answer, err
	case err != nil:
		return networkdata.Given{}, Answer{}, fmt.Errorf("claim %s: %w", key, err)
	case !claim.DeletionTimestamp.IsZero():
		return none(problem(infrav1.ReasonWaitingForAddress, "IPAddressClaim %s is being deleted; Ingot makes it again when it is gone", key.Name))
	case claim.Spec.PoolRef != want, metav1.GetControllerOf(claim) != nil && !metav1.IsControlledBy(claim, machine):
		return none(problem(infrav1.ReasonAddressConflict, "IPAddressClaim %s belongs to somebody else; delete it, and Ingot makes its own", key.Name))
	}
	if err := p.ownForMachine(ctx, machine, claim); err != nil {
		return networkdata.Given{}, Answer{}, err
	}
	if claim.Status.AddressRef.Name == "" {
		return none(waiting(claim))
	}
	return p.readForMachine(ctx, claim)
}

func none(answer Answer) (networkdata.Given, Answer, error) { return networkdata.Given{}, answer, nil }

func (p Pools) makeForMachine(
	ctx context.Context, machine *infrav1.IngotMachine, cluster string, key client.ObjectKey, want ipamv1.IPPoolReference,
) (Answer, error) {
	claim := &ipamv1.IPAddressClaim{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name,
		Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}}}
	claim.Spec.PoolRef, claim.Spec.ClusterName = want, cluster
	if filter, ok := machine.Labels[clusterv1.WatchLabel]; ok {
		claim.Labels[clusterv1.WatchLabel] = filter
	}
	if err := controllerutil.SetControllerReference(machine, claim, p.Client.Scheme()); err != nil {
		return Answer{}, fmt.Errorf("owner of claim %s: %w", key, err)
	}
	err := p.Client.Create(ctx, claim)
	switch {
	case apierrors.IsAlreadyExists(err): // the cache does not show it yet
		return waiting(claim), nil
	case apierrors.IsInvalid(err):
		return problem(infrav1.ReasonAddressPoolUnusable, "no IPAddressClaim can be made for pool %s: %s. Correct poolRef in networkData", want.Name, err), nil
	case err != nil:
		return Answer{}, fmt.Errorf("make claim %s: %w", key, err)
	}
	answer := waiting(claim)
	answer.Made = true
	return answer, nil
}

// ownForMachine puts back that the claim is the machine's, which a backup may have lost.
func (p Pools) ownForMachine(ctx context.Context, machine *infrav1.IngotMachine, claim *ipamv1.IPAddressClaim) error {
	if metav1.IsControlledBy(claim, machine) {
		return nil
	}
	base := claim.DeepCopy()
	if err := controllerutil.SetControllerReference(machine, claim, p.Client.Scheme()); err != nil {
		return fmt.Errorf("owner of claim %s: %w", claim.Name, err)
	}
	err := p.Client.Patch(ctx, claim, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("owner of claim %s: %w", claim.Name, err)
	}
	return nil
}

// readForMachine checks the address: what a pool gives is somebody else's choice.
func (p Pools) readForMachine(ctx context.Context, claim *ipamv1.IPAddressClaim) (networkdata.Given, Answer, error) {
	given := &ipamv1.IPAddress{}
	key := client.ObjectKey{Namespace: claim.Namespace, Name: claim.Status.AddressRef.Name}
	if err := p.Client.Get(ctx, key, given); err != nil {
		if apierrors.IsNotFound(err) {
			return none(problem(infrav1.ReasonWaitingForAddress, "IPAddress %s, which the pool gave to IPAddressClaim %s, is not there; "+
				"if it stays so, delete the claim to have another address", key.Name, claim.Name))
		}
		return networkdata.Given{}, Answer{}, fmt.Errorf("address %s: %w", key, err)
	}
	pool := claim.Spec.PoolRef.Name
	address, err := netip.ParseAddr(given.Spec.Address)
	prefix := netip.PrefixFrom(address, int(ptr.Deref(given.Spec.Prefix, -1)))
	if err != nil || !prefix.IsValid() {
		return none(problem(infrav1.ReasonAddressPoolUnusable, "pool %s gave %q with prefix length %d, which is no address: correct the pool, then delete IPAddressClaim %s",
			pool, given.Spec.Address, ptr.Deref(given.Spec.Prefix, 0), claim.Name))
	}
	out := networkdata.Given{Address: prefix, From: "pool " + pool}
	if given.Spec.Gateway == "" {
		return out, Answer{Address: address}, nil
	}
	if out.Gateway, err = netip.ParseAddr(given.Spec.Gateway); err != nil || out.Gateway.Is4() != address.Is4() {
		return none(problem(infrav1.ReasonAddressPoolUnusable, "pool %s gave %s with gateway %q, which is no address of its family: correct the pool, then delete IPAddressClaim %s",
			pool, address, given.Spec.Gateway, claim.Name))
	}
	return out, Answer{Address: address}, nil
}
