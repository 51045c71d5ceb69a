// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// This file is a host whose address comes from a pool, and an IPAM provider in each
// management cluster.

// pooled is the host, and its network.
const pooled = "pooled"

// firstOfPool is the lowest address of the pool in each management cluster.
var firstOfPool = netip.MustParseAddr("198.51.100.10")

// ipam answers claims as the in-cluster provider does: each with the lowest address that
// none of the IPAddresses has, which has the name of the claim. It heeds a pause of the
// claim where that changes, and that of its Cluster always: an IPAddress of the claim that
// changes or goes has it look at the claim as well.
type ipam struct {
	p  *plane
	mu sync.Mutex
	// gave are the addresses that it chose.
	gave []string
	// has are the claims for which there was an address at the last look.
	has map[string]bool
}

// provide starts the provider.
func (p *plane) provide() *ipam {
	p.t.Helper()
	i := &ipam{p: p, has: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := i.look(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
				p.t.Errorf("%s: provider: %v", p.name, err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	p.t.Cleanup(func() { cancel(); <-done })
	return i
}

// look answers each claim for which an event would bring it up.
func (i *ipam) look(ctx context.Context) error {
	claims, addresses := &ipamv1.IPAddressClaimList{}, &ipamv1.IPAddressList{}
	if err := i.p.client.List(ctx, claims); err != nil {
		return err
	}
	if err := i.p.client.List(ctx, addresses); err != nil {
		return err
	}
	for n := range claims.Items {
		claim := &claims.Items[n]
		stands, err := i.isOfPaused(ctx, claim)
		if err != nil {
			return err
		}
		if !i.isNews(claim, addresses.Items) || stands {
			continue
		}
		if err := i.answer(ctx, claim, addresses.Items); err != nil {
			return err
		}
	}
	return nil
}

// isNews says whether the claim is not paused, or its address has come or gone.
func (i *ipam) isNews(claim *ipamv1.IPAddressClaim, addresses []ipamv1.IPAddress) bool {
	key := claim.Namespace + "/" + claim.Name
	has := slices.ContainsFunc(addresses, func(a ipamv1.IPAddress) bool { return a.Namespace+"/"+a.Name == key })
	had := i.has[key]
	i.has[key] = has
	return !annotations.HasPaused(claim) || had != has
}

// isOfPaused says whether the Cluster that the claim names is paused, or not there.
func (i *ipam) isOfPaused(ctx context.Context, claim *ipamv1.IPAddressClaim) (bool, error) {
	name := claim.Labels[clusterv1.ClusterNameLabel]
	if name == "" {
		return false, nil
	}
	cluster := &clusterv1.Cluster{}
	err := i.p.client.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && ptr.Deref(cluster.Spec.Paused, false), err
}

func (i *ipam) answer(ctx context.Context, claim *ipamv1.IPAddressClaim, addresses []ipamv1.IPAddress) error {
	if !slices.ContainsFunc(addresses, func(a ipamv1.IPAddress) bool { return a.Namespace == claim.Namespace && a.Name == claim.Name }) {
		free := firstOfPool
		for slices.ContainsFunc(addresses, func(a ipamv1.IPAddress) bool { return a.Spec.Address == free.String() }) {
			free = free.Next()
		}
		given := addressOf(claim.Namespace, claim.Name, free.String())
		if err := controllerutil.SetControllerReference(claim, given, i.p.client.Scheme()); err != nil {
			return err
		}
		if err := i.p.client.Create(ctx, given); err != nil {
			return err
		}
		i.mu.Lock()
		i.gave = append(i.gave, claim.Name+" "+free.String())
		i.mu.Unlock()
	}
	if claim.Status.AddressRef.Name == claim.Name {
		return nil
	}
	claim.Status.AddressRef.Name = claim.Name
	return i.p.client.Status().Update(ctx, claim)
}

func (i *ipam) chose() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.gave)
}

// chosen are the addresses that the providers have chosen so far.
func (y *yard) chosen() map[string][]string {
	out := map[string][]string{}
	for name, i := range y.ipams {
		out[name] = i.chose()
	}
	return out
}

func addressOf(namespace, claim, address string) *ipamv1.IPAddress {
	given := &ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claim}}
	given.Spec = ipamv1.IPAddressSpec{ClaimRef: ipamv1.IPAddressClaimReference{Name: claim}, Address: address, Prefix: ptr.To[int32](24),
		PoolRef: ipamv1.IPPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "GlobalInClusterIPPool", Name: pooled}}
	return given
}

// pooled registers the host. Another namespace of its management cluster has the lowest
// address of the pool, and nobody has it in the other management cluster.
func (y *yard) pooled(p *plane) {
	y.t.Helper()
	p.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "another"}})
	p.create(addressOf("another", "x", firstOfPool.String()))
	p.create(&infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: pooled}, Spec: infrav1.IngotNetworkSpec{
		Mode: infrav1.DHCPModeReserve, Subnet: "198.51.100.0/24",
		AllowedNamespaces: &infrav1.NetworkNamespaces{Selector: &metav1.LabelSelector{}},
		AddressPoolRef:    &infrav1.AddressPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "GlobalInClusterIPPool", Name: pooled}}})
	host := y.add(pooled, &metal{})
	host.Spec.NetworkRef.Name, host.Spec.Record = pooled, &infrav1.HostRecord{InspectedTime: past()}
	p.create(host)
	p.create(y.hardwareOf(p, host))
}

// poolHolds says what is wrong with what the pool has for the host: it is the address that
// is recorded, and nothing of the move is left on its claim.
func poolHolds(p *plane) string {
	p.t.Helper()
	facts := &infrav1.IngotHardware{}
	claim, given := &ipamv1.IPAddressClaim{}, &ipamv1.IPAddress{}
	name := pooled + "-" + pooled
	if !p.get(facts, pooled) || facts.Spec.Address == nil || !p.get(claim, name) || !p.get(given, name) {
		return "an address of the pool is not there"
	}
	type holds struct {
		Recorded, Held, Claimed string
		Annotations, Labels     int
	}
	want := holds{Recorded: firstOfPool.Next().String(), Held: firstOfPool.Next().String(), Claimed: name}
	got := holds{facts.Spec.Address.IP, given.Spec.Address, claim.Status.AddressRef.Name, len(claim.Annotations), len(claim.Labels)}
	return cmp.Diff(want, got)
}
