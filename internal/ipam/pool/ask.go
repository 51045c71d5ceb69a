// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// ask is an IPAddressClaim as its owner wants it.
type ask struct {
	// owner of the claim, an object of its namespace, and the kind of it.
	owner client.Object
	kind  string
	// name of the claim, and the pool that it names.
	name string
	pool infrav1.AddressPoolReference
	// cluster is the Cluster that the address is for, and filter the value of the owner's
	// watch label; empty: none.
	cluster, filter string
	// absent says who names a pool, instead what might be done other than to install the
	// contract's definitions, and wrong which field names the pool: for people.
	absent, instead, wrong string
}

func (a ask) key() client.ObjectKey {
	return client.ObjectKey{Namespace: a.owner.GetNamespace(), Name: a.name}
}

func (a ask) want() ipamv1.IPPoolReference {
	return ipamv1.IPPoolReference{APIGroup: a.pool.APIGroup, Kind: a.pool.Kind, Name: a.pool.Name}
}

// find reads the claim, and makes it where there is none. nil: there is none that can be
// looked at yet, and the answer, or the API server's error, says why.
func (p Pools) find(ctx context.Context, a ask) (*ipamv1.IPAddressClaim, Answer, error) {
	claim := &ipamv1.IPAddressClaim{}
	err := p.Client.Get(ctx, a.key(), claim)
	switch {
	case isAbsent(err):
		return nil, problem(infrav1.ReasonAddressPoolUnusable, "%s, and Cluster API's IPAddressClaim is not installed here: "+
			"install Cluster API's core provider and an IPAM provider%s", a.absent, a.instead), nil
	case apierrors.IsNotFound(err):
		answer, err := p.make(ctx, a)
		return nil, answer, err
	case err != nil:
		return nil, Answer{}, fmt.Errorf("claim %s: %w", a.key(), err)
	case !claim.DeletionTimestamp.IsZero():
		return nil, problem(infrav1.ReasonWaitingForAddress, "IPAddressClaim %s is being deleted; Ingot makes it again when it is gone", a.name), nil
	}
	return claim, Answer{}, nil
}

func (p Pools) make(ctx context.Context, a ask) (Answer, error) {
	claim := &ipamv1.IPAddressClaim{ObjectMeta: metav1.ObjectMeta{Namespace: a.owner.GetNamespace(), Name: a.name}}
	claim.Spec.PoolRef, claim.Spec.ClusterName = a.want(), a.cluster
	for label, value := range map[string]string{clusterv1.WatchLabel: a.filter, clusterv1.ClusterNameLabel: a.cluster} {
		if value != "" {
			metav1.SetMetaDataLabel(&claim.ObjectMeta, label, value)
		}
	}
	if err := controllerutil.SetControllerReference(a.owner, claim, p.Client.Scheme()); err != nil {
		return Answer{}, fmt.Errorf("owner of claim %s: %w", a.key(), err)
	}
	err := p.Client.Create(ctx, claim)
	switch {
	case apierrors.IsAlreadyExists(err): // the cache does not show it yet
		return waiting(claim), nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return problem(infrav1.ReasonNamespaceTerminating, "the namespace is being deleted, and no IPAddressClaim can be made in it; to let the host go, annotate it with %s",
			inventory.CommandText(infrav1.ForceReleaseAnnotation)), nil
	case apierrors.IsInvalid(err):
		return problem(infrav1.ReasonAddressPoolUnusable, "no IPAddressClaim can be made for pool %s: %s. Correct %s", a.pool.Name, err, a.wrong), nil
	case err != nil:
		return Answer{}, fmt.Errorf("make claim %s: %w", a.key(), err)
	}
	answer := waiting(claim)
	answer.Made = true
	return answer, nil
}

// own puts back that the claim is its owner's, which a backup or a person may have
// removed: it would not move with it, nor go with it. A Problem: it is somebody else's.
func (p Pools) own(ctx context.Context, a ask, claim *ipamv1.IPAddressClaim) (Answer, error) {
	if metav1.IsControlledBy(claim, a.owner) {
		return Answer{}, nil
	}
	if metav1.GetControllerOf(claim) != nil {
		return strange(a, claim), nil
	}
	base := claim.DeepCopy()
	if err := controllerutil.SetControllerReference(a.owner, claim, p.Client.Scheme()); err != nil {
		return Answer{}, fmt.Errorf("owner of claim %s: %w", claim.Name, err)
	}
	err := p.Client.Patch(ctx, claim, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) {
		return Answer{}, fmt.Errorf("owner of claim %s: %w", claim.Name, err)
	}
	return Answer{}, nil
}

// strange says whose the claim of the name is. To delete that of another host or machine
// would give away the address that this one runs with.
func strange(a ask, claim *ipamv1.IPAddressClaim) Answer {
	owner := metav1.GetControllerOf(claim)
	switch {
	case owner == nil:
		return problem(infrav1.ReasonAddressConflict, "IPAddressClaim %s is of another pool, and nobody's; if nothing uses its address, delete it, and Ingot makes its own", claim.Name)
	case owner.Kind == a.kind && owner.Name == a.owner.GetName():
		return problem(infrav1.ReasonWaitingForAddress, "IPAddressClaim %s is that of an earlier %s of this name, and goes as that has gone; Ingot then makes its own", claim.Name, owner.Kind)
	case owner.Kind == "IngotHost" || owner.Kind == "IngotMachine":
		return problem(infrav1.ReasonAddressConflict, "IPAddressClaim %s is that of %s %s, which has its address: leave it, and give %s %s another name",
			claim.Name, owner.Kind, owner.Name, a.kind, a.owner.GetName())
	}
	return problem(infrav1.ReasonAddressConflict, "IPAddressClaim %s belongs to somebody else (%s %s); if nothing uses its address, delete it, and Ingot makes its own",
		claim.Name, owner.Kind, owner.Name)
}
