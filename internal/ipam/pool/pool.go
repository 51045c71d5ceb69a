// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/addressuse"
)

// +kubebuilder:rbac:groups=ipam.cluster.x-k8s.io,resources=ipaddressclaims,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=ipam.cluster.x-k8s.io,resources=ipaddresses,verbs=list;watch

// maxName bounds the name of an object (RFC 1123 subdomain).
const maxName = 253

// Pools claims addresses.
type Pools struct {
	// Client has the indexes of internal/index.
	Client client.Client
}

// Answer is an address, or why there is none.
type Answer struct {
	// Address is valid if Problem is empty.
	Address netip.Addr
	// Reason is a condition reason, and Problem a message with a remedy.
	Reason, Problem string
	// Created: the claim was missing, and was created.
	Created bool
	// Unanswered is the creation time of the claim, on this cluster, of an address in use that its
	// pool has not answered; else zero.
	Unanswered time.Time
}

// Installed reports whether the contract's CRDs are installed.
func Installed(mapper meta.RESTMapper) bool {
	_, err := mapper.RESTMapping(ipamv1.GroupVersion.WithKind("IPAddressClaim").GroupKind(), ipamv1.GroupVersion.Version)
	return err == nil
}

// ClaimName returns the name of a host's claim on a network.
func ClaimName(host, network string) string { return bounded(host + "-" + network) }

// bounded cuts a name to maxName, and keeps it unique.
func bounded(name string) string {
	if len(name) <= maxName {
		return name
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name))
	suffix := fmt.Sprintf("-%016x", sum.Sum64())
	return name[:maxName-len(suffix)-1] + "x" + suffix // no dot before the dash
}

// Claim returns the address that the network's pool assigns to the host, and creates the claim if needed.
// It replaces a claim of another pool, which the network named before, unless the host is in use: that
// pool would assign the address of a running system. It returns errors of the API server only; other
// failures are a Problem.
func (p Pools) Claim(ctx context.Context, host *infrav1.IngotHost, network *infrav1.IngotNetwork) (Answer, error) {
	a := ask{owner: host, kind: "IngotHost", name: ClaimName(host.Name, network.Name), pool: *network.Spec.AddressPoolRef,
		filter: host.Labels[clusterv1.WatchLabel],
		absent: "IngotNetwork " + network.Name + " names a pool", alternative: ", or set spec.range instead",
		field: "spec.addressPoolRef of IngotNetwork " + network.Name}
	claim, answer, err := p.find(ctx, a)
	switch {
	case claim == nil:
		return answer, err
	case claim.Spec.PoolRef != a.want() && !isKept(host, claim):
		return p.replace(ctx, a, claim)
	}
	if answer, err := p.own(ctx, a, claim); err != nil || answer.Problem != "" {
		return answer, err
	}
	if claim.Status.AddressRef.Name == "" {
		return waiting(claim), nil
	}
	return p.read(ctx, host, network, claim)
}

// isKept reports whether the host may use the address of the claim.
func isKept(host *infrav1.IngotHost, claim *ipamv1.IPAddressClaim) bool {
	return (host.Spec.Claim != nil || host.Spec.Order != nil) && claim.Status.AddressRef.Name != ""
}

// replace deletes a claim of a pool that the network no longer names.
func (p Pools) replace(ctx context.Context, a ask, claim *ipamv1.IPAddressClaim) (Answer, error) {
	if !metav1.IsControlledBy(claim, a.owner) {
		return foreign(a, claim), nil
	}
	if err := p.Client.Delete(ctx, claim); client.IgnoreNotFound(err) != nil {
		return Answer{}, fmt.Errorf("delete claim %s: %w", claim.Name, err)
	}
	return problem(infrav1.ReasonWaitingForAddress, "IPAddressClaim %s names another pool than spec.addressPoolRef; Ingot creates it again", claim.Name), nil
}

// read reads and checks the address.
func (p Pools) read(ctx context.Context, host *infrav1.IngotHost, network *infrav1.IngotNetwork, claim *ipamv1.IPAddressClaim) (Answer, error) {
	given, answer, err := p.given(ctx, claim)
	if given == nil {
		return answer, err
	}
	subnet, subnetErr := netip.ParsePrefix(network.Spec.Subnet)
	address, err := netip.ParseAddr(given.Spec.Address)
	pool := claim.Spec.PoolRef.Name
	switch {
	case subnetErr != nil || err != nil || !subnet.Contains(address):
		return problem(infrav1.ReasonAddressPoolUnusable, "pool %s assigned %q, which is not an address of %s: correct the pool or spec.addressPoolRef of IngotNetwork %s, then delete IPAddressClaim %s",
			pool, given.Spec.Address, network.Spec.Subnet, network.Name, claim.Name), nil
	case addressuse.Of(network.Spec, address, host.Spec.BootMACAddress) != addressuse.None:
		return isKeptByNetwork(claim, address, network.Name), nil
	}
	held, err := index.OwnersOf(ctx, p.Client, address)
	if err != nil {
		return Answer{}, err
	}
	self := client.ObjectKeyFromObject(host)
	if others := held.OwnersExcept(address, self); len(others) > 0 {
		return isTaken(claim, address, inventory.ListHosts(host.Namespace, others)), nil
	}
	// An address that the host has already is its own: a Cluster may have been created later, with
	// that endpoint.
	if !held.Has(address, self) {
		endpoints, err := index.EndpointAt(ctx, p.Client, address)
		if err != nil {
			return Answer{}, err
		}
		if endpoints.Kept(network.Spec, host.Spec.BootMACAddress)[address] {
			return isEndpoint(claim, address, inventory.ListClusters(host.Namespace, endpoints[address])), nil
		}
	}
	return Answer{Address: address}, nil
}

// given reads the address of a claim. If there is none, it returns nil and the reason in the answer.
func (p Pools) given(ctx context.Context, claim *ipamv1.IPAddressClaim) (*ipamv1.IPAddress, Answer, error) {
	given := &ipamv1.IPAddress{}
	key := client.ObjectKey{Namespace: claim.Namespace, Name: claim.Status.AddressRef.Name}
	err := p.Client.Get(ctx, key, given)
	switch {
	case apierrors.IsNotFound(err):
		return nil, problem(infrav1.ReasonWaitingForAddress, "IPAddress %s of IPAddressClaim %s does not exist; "+
			"if this persists, delete the claim to get another address", key.Name, claim.Name), nil
	case err != nil:
		return nil, Answer{}, fmt.Errorf("read address %s: %w", key, err)
	}
	return given, Answer{}, nil
}

// The functions below describe an address that a pool must not assign.

func isKeptByNetwork(claim *ipamv1.IPAddressClaim, address netip.Addr, network string) Answer {
	return problem(infrav1.ReasonAddressConflict, "pool %s assigned %s, which IngotNetwork %s uses otherwise (router, server, relay, static lease, range, or unknown machines): "+
		"exclude it in the pool, then delete IPAddressClaim %s", claim.Spec.PoolRef.Name, address, network, claim.Name)
}

func isTaken(claim *ipamv1.IPAddressClaim, address netip.Addr, others string) Answer {
	return problem(infrav1.ReasonAddressConflict, "pool %s assigned %s, an address of %s (recorded, in an installed system, or since a forced release): "+
		"exclude it in the pool, then delete IPAddressClaim %s", claim.Spec.PoolRef.Name, address, others, claim.Name)
}

func isEndpoint(claim *ipamv1.IPAddressClaim, address netip.Addr, clusters string) Answer {
	return problem(infrav1.ReasonAddressConflict, "pool %s assigned %s, the control plane endpoint of %s: exclude it in the pool, then delete IPAddressClaim %s",
		claim.Spec.PoolRef.Name, address, clusters, claim.Name)
}

// Release deletes the host's claims on networks other than the given one; with "" all of them.
func (p Pools) Release(ctx context.Context, host *infrav1.IngotHost, network string) error {
	claims := &ipamv1.IPAddressClaimList{}
	err := p.Client.List(ctx, claims, client.InNamespace(host.Namespace), client.UnsafeDisableDeepCopy)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list claims of host %s: %w", host.Name, err)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if !metav1.IsControlledBy(claim, host) || network != "" && claim.Name == ClaimName(host.Name, network) {
			continue
		}
		if err := p.Client.Delete(ctx, claim); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete claim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// waiting reports the state that the pool's provider shows in the claim.
func waiting(claim *ipamv1.IPAddressClaim) Answer {
	state := "its provider has not answered yet"
	if ready := conditions.Get(claim, ipamv1.IPAddressClaimReadyCondition); ready != nil && ready.Status == metav1.ConditionFalse {
		state = "its provider reports " + ready.Reason + ": " + ready.Message
		if ready.Reason == ipamv1.IPAddressClaimReadyPoolExhaustedReason {
			return problem(infrav1.ReasonAddressesExhausted, "pool %s has no address for IPAddressClaim %s (%s): enlarge the pool, or delete unused hosts",
				claim.Spec.PoolRef.Name, claim.Name, state)
		}
	}
	return problem(infrav1.ReasonWaitingForAddress, "IPAddressClaim %s waits for an address of pool %s: %s. Check that the pool exists (in this namespace, if it is namespaced) and its provider runs",
		claim.Name, claim.Spec.PoolRef.Name, state)
}

func problem(reason, format string, args ...any) Answer {
	return Answer{Reason: reason, Problem: fmt.Sprintf(format, args...)}
}

// isAbsent reports whether the CRDs are not installed.
func isAbsent(err error) bool {
	if meta.IsNoMatchError(err) {
		return true
	}
	failed, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err)
	return ok && slices.ContainsFunc(discoveryErrors(failed), apierrors.IsNotFound)
}

func discoveryErrors(failed *discovery.ErrGroupDiscoveryFailed) (errs []error) {
	for _, err := range failed.Groups {
		errs = append(errs, err)
	}
	return errs
}
