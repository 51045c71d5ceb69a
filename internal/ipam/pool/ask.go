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

// ask is an IPAddressClaim as its owner needs it.
type ask struct {
	// owner is the owner of the claim, in the claim's namespace, and kind its kind.
	owner client.Object
	kind  string
	// name is the name of the claim, pool the pool that it names.
	name string
	pool infrav1.AddressPoolReference
	// cluster is the Cluster of the address, filter the owner's watch-filter label; empty: none.
	cluster, filter string
	// Parts of messages: absent says which object names a pool, alternative what to do other than to
	// install the CRDs, and field which field names the pool.
	absent, alternative, field string
}

func (a ask) key() client.ObjectKey {
	return client.ObjectKey{Namespace: a.owner.GetNamespace(), Name: a.name}
}

func (a ask) want() ipamv1.IPPoolReference {
	return ipamv1.IPPoolReference{APIGroup: a.pool.APIGroup, Kind: a.pool.Kind, Name: a.pool.Name}
}

// find reads the claim, and creates it if it is missing. If it returns no claim, the answer or the error
// says why.
func (p Pools) find(ctx context.Context, a ask) (*ipamv1.IPAddressClaim, Answer, error) {
	claim := &ipamv1.IPAddressClaim{}
	err := p.Client.Get(ctx, a.key(), claim)
	switch {
	case isAbsent(err):
		return nil, problem(infrav1.ReasonAddressPoolUnusable, "%s, but Cluster API's IPAddressClaim is not installed: "+
			"install Cluster API's core provider and an IPAM provider%s", a.absent, a.alternative), nil
	case apierrors.IsNotFound(err):
		answer, err := p.create(ctx, a)
		return nil, answer, err
	case err != nil:
		return nil, Answer{}, fmt.Errorf("read claim %s: %w", a.key(), err)
	case !claim.DeletionTimestamp.IsZero():
		return nil, problem(infrav1.ReasonWaitingForAddress, "IPAddressClaim %s is being deleted; Ingot creates it again afterwards", a.name), nil
	}
	return claim, Answer{}, nil
}

func (p Pools) create(ctx context.Context, a ask) (Answer, error) {
	claim := &ipamv1.IPAddressClaim{ObjectMeta: metav1.ObjectMeta{Namespace: a.owner.GetNamespace(), Name: a.name}}
	claim.Spec.PoolRef, claim.Spec.ClusterName = a.want(), a.cluster
	for label, value := range map[string]string{clusterv1.WatchLabel: a.filter, clusterv1.ClusterNameLabel: a.cluster} {
		if value != "" {
			metav1.SetMetaDataLabel(&claim.ObjectMeta, label, value)
		}
	}
	if err := controllerutil.SetControllerReference(a.owner, claim, p.Client.Scheme()); err != nil {
		return Answer{}, fmt.Errorf("set owner of claim %s: %w", a.key(), err)
	}
	err := p.Client.Create(ctx, claim)
	switch {
	case apierrors.IsAlreadyExists(err): // the cache does not show it yet
		return waiting(claim), nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return problem(infrav1.ReasonNamespaceTerminating, "the namespace is being deleted; to release the host, annotate it with %s",
			inventory.CommandText(infrav1.ForceReleaseAnnotation)), nil
	case apierrors.IsInvalid(err):
		return problem(infrav1.ReasonAddressPoolUnusable, "cannot create an IPAddressClaim for pool %s: %s. Correct %s", a.pool.Name, err, a.field), nil
	case err != nil:
		return Answer{}, fmt.Errorf("create claim %s: %w", a.key(), err)
	}
	answer := waiting(claim)
	answer.Created = true
	return answer, nil
}

// own restores the owner of the claim, which a backup or an operator may have removed: the claim would
// neither move with its owner nor be deleted with it. A Problem means that it belongs to another owner.
func (p Pools) own(ctx context.Context, a ask, claim *ipamv1.IPAddressClaim) (Answer, error) {
	if metav1.IsControlledBy(claim, a.owner) {
		return Answer{}, nil
	}
	if metav1.GetControllerOf(claim) != nil {
		return foreign(a, claim), nil
	}
	base := claim.DeepCopy()
	if err := controllerutil.SetControllerReference(a.owner, claim, p.Client.Scheme()); err != nil {
		return Answer{}, fmt.Errorf("set owner of claim %s: %w", claim.Name, err)
	}
	err := p.Client.Patch(ctx, claim, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) {
		return Answer{}, fmt.Errorf("set owner of claim %s: %w", claim.Name, err)
	}
	return Answer{}, nil
}

// foreign describes the owner of a claim that is not the asker's. Ingot never deletes such a claim:
// another host or machine may use its address.
func foreign(a ask, claim *ipamv1.IPAddressClaim) Answer {
	owner := metav1.GetControllerOf(claim)
	switch {
	case owner == nil:
		return problem(infrav1.ReasonAddressConflict, "IPAddressClaim %s names another pool and has no owner; if nothing uses its address, delete it, and Ingot creates its own", claim.Name)
	case owner.Kind == a.kind && owner.Name == a.owner.GetName():
		return problem(infrav1.ReasonWaitingForAddress, "IPAddressClaim %s belongs to a deleted %s of this name; Ingot creates its own after the claim is deleted", claim.Name, owner.Kind)
	case owner.Kind == "IngotHost" || owner.Kind == "IngotMachine":
		return problem(infrav1.ReasonAddressConflict, "IPAddressClaim %s belongs to %s %s, which has its address: keep it, and give %s %s another name",
			claim.Name, owner.Kind, owner.Name, a.kind, a.owner.GetName())
	}
	return problem(infrav1.ReasonAddressConflict, "IPAddressClaim %s belongs to %s %s; if nothing uses its address, delete it, and Ingot creates its own",
		claim.Name, owner.Kind, owner.Name)
}
