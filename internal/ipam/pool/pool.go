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
	// Address is valid when there is one, and Problem is empty then.
	Address netip.Addr
	// Reason is that of a condition, Problem says for people what happened and what
	// they can do.
	Reason, Problem string
	// Made: the claim was not there, and is made anew.
	Made bool
	// Unanswered is since when the claim of an address that is in use is there, here or
	// after a move, and its pool has not answered it; zero: otherwise.
	Unanswered time.Time
}

// Installed says whether the contract's definitions are there.
func Installed(mapper meta.RESTMapper) bool {
	_, err := mapper.RESTMapping(ipamv1.GroupVersion.WithKind("IPAddressClaim").GroupKind(), ipamv1.GroupVersion.Version)
	return err == nil
}

// ClaimName is the name of the claim of a host on a network.
func ClaimName(host, network string) string { return bounded(host + "-" + network) }

// bounded keeps a name within what objects may have.
func bounded(name string) string {
	if len(name) <= maxName {
		return name
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name)) // it never fails
	suffix := fmt.Sprintf("-%016x", sum.Sum64())
	return name[:maxName-len(suffix)-1] + "x" + suffix // no dot before the dash
}

// Claim returns the address that the pool of the network gives the host, and makes the
// claim where there is none. A claim of another pool, which the network named before,
// is made anew, but for a host in use: its pool would give away the address that a
// system runs with. The API server's failures are errors; all else is a Problem.
func (p Pools) Claim(ctx context.Context, host *infrav1.IngotHost, network *infrav1.IngotNetwork) (Answer, error) {
	a := ask{owner: host, kind: "IngotHost", name: ClaimName(host.Name, network.Name), pool: *network.Spec.AddressPoolRef,
		filter: host.Labels[clusterv1.WatchLabel],
		absent: "IngotNetwork " + network.Name + " names a pool", instead: ", or give spec.range instead",
		wrong: "spec.addressPoolRef of IngotNetwork " + network.Name}
	claim, answer, err := p.find(ctx, a)
	switch {
	case claim == nil:
		return answer, err
	case claim.Spec.PoolRef != a.want() && !isKept(host, claim):
		return p.remake(ctx, a, claim)
	}
	if answer, err := p.own(ctx, a, claim); err != nil || answer.Problem != "" {
		return answer, err
	}
	if claim.Status.AddressRef.Name == "" {
		return waiting(claim), nil
	}
	return p.read(ctx, host, network, claim)
}

// isKept says whether the host may run with the address of the claim.
func isKept(host *infrav1.IngotHost, claim *ipamv1.IPAddressClaim) bool {
	return (host.Spec.Claim != nil || host.Spec.Order != nil) && claim.Status.AddressRef.Name != ""
}

// remake lets a claim of another pool go, which the network named before.
func (p Pools) remake(ctx context.Context, a ask, claim *ipamv1.IPAddressClaim) (Answer, error) {
	if !metav1.IsControlledBy(claim, a.owner) {
		return strange(a, claim), nil
	}
	if err := p.Client.Delete(ctx, claim); client.IgnoreNotFound(err) != nil {
		return Answer{}, fmt.Errorf("delete claim %s: %w", claim.Name, err)
	}
	return problem(infrav1.ReasonWaitingForAddress, "IPAddressClaim %s is of another pool than spec.addressPoolRef names now; Ingot makes it anew", claim.Name), nil
}

// read checks the address: what a pool gives is somebody else's choice.
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
		return problem(infrav1.ReasonAddressPoolUnusable, "pool %s gave %q, which is not an address of %s: correct the pool or spec.addressPoolRef of IngotNetwork %s, then delete IPAddressClaim %s",
			pool, given.Spec.Address, network.Spec.Subnet, network.Name, claim.Name), nil
	case addressuse.Of(network.Spec, address, host.Spec.BootMACAddress) != addressuse.None:
		return kept(claim, address, network.Name), nil
	}
	held, err := index.HoldersOf(ctx, p.Client, address)
	if err != nil {
		return Answer{}, err
	}
	self := client.ObjectKeyFromObject(host)
	if others := held.Besides(address, self); len(others) > 0 {
		return taken(claim, address, inventory.ListHosts(host.Namespace, others)), nil
	}
	// What the host has is its own: its Cluster may be reached by that, and so be made
	// after the host was given it.
	if !held.Has(address, self) {
		endpoints, err := index.EndpointAt(ctx, p.Client, address)
		if err != nil {
			return Answer{}, err
		}
		if endpoints.Kept(network.Spec, host.Spec.BootMACAddress)[address] {
			return reached(claim, address, inventory.ListClusters(host.Namespace, endpoints[address])), nil
		}
	}
	return Answer{Address: address}, nil
}

// given reads the address of a claim; nil: it is not there, and the answer says so.
func (p Pools) given(ctx context.Context, claim *ipamv1.IPAddressClaim) (*ipamv1.IPAddress, Answer, error) {
	given := &ipamv1.IPAddress{}
	key := client.ObjectKey{Namespace: claim.Namespace, Name: claim.Status.AddressRef.Name}
	err := p.Client.Get(ctx, key, given)
	switch {
	case apierrors.IsNotFound(err):
		return nil, problem(infrav1.ReasonWaitingForAddress, "IPAddress %s, which the pool gave to IPAddressClaim %s, is not there; "+
			"if it stays so, delete the claim to have another address", key.Name, claim.Name), nil
	case err != nil:
		return nil, Answer{}, fmt.Errorf("address %s: %w", key, err)
	}
	return given, Answer{}, nil
}

// kept says that a pool gave what a network has for something else.
func kept(claim *ipamv1.IPAddressClaim, address netip.Addr, network string) Answer {
	return problem(infrav1.ReasonAddressConflict, "pool %s gave %s, which IngotNetwork %s has for something else (router, server, relay, a reservation, its range, or unknown machines): "+
		"take it out of the pool, then delete IPAddressClaim %s", claim.Spec.PoolRef.Name, address, network, claim.Name)
}

// taken says that a pool gave what others have.
func taken(claim *ipamv1.IPAddressClaim, address netip.Addr, others string) Answer {
	return problem(infrav1.ReasonAddressConflict, "pool %s gave %s, which is the address of %s, by record, by the claim of the system installed there, or since that was released by force and may still run: delete IPAddressClaim %s to have another, "+
		"once the pool knows that the address is taken", claim.Spec.PoolRef.Name, address, others, claim.Name)
}

// reached says that a pool gave the endpoint of control planes.
func reached(claim *ipamv1.IPAddressClaim, address netip.Addr, clusters string) Answer {
	return problem(infrav1.ReasonAddressConflict, "pool %s gave %s, by which the control plane of %s is reached: take it out of the pool, then delete IPAddressClaim %s",
		claim.Spec.PoolRef.Name, address, clusters, claim.Name)
}

// Release lets the claims go that the host has on networks other than the one given,
// whether their pools have answered or not; with "" all of them.
func (p Pools) Release(ctx context.Context, host *infrav1.IngotHost, network string) error {
	claims := &ipamv1.IPAddressClaimList{}
	err := p.Client.List(ctx, claims, client.InNamespace(host.Namespace), client.UnsafeDisableDeepCopy) // nothing of it is changed
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("claims of host %s: %w", host.Name, err)
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

// waiting says what the pool's provider says.
func waiting(claim *ipamv1.IPAddressClaim) Answer {
	said := "its provider has not answered yet"
	if ready := conditions.Get(claim, ipamv1.IPAddressClaimReadyCondition); ready != nil && ready.Status == metav1.ConditionFalse {
		said = "its provider says " + ready.Reason + ": " + ready.Message
		if ready.Reason == ipamv1.IPAddressClaimReadyPoolExhaustedReason {
			return problem(infrav1.ReasonAddressExhausted, "pool %s has no address for IPAddressClaim %s (%s): make the pool larger, or delete hosts that are gone",
				claim.Spec.PoolRef.Name, claim.Name, said)
		}
	}
	return problem(infrav1.ReasonWaitingForAddress, "IPAddressClaim %s waits for an address of pool %s: %s. Does the pool exist, in this namespace if it is namespaced, and its provider run?",
		claim.Name, claim.Spec.PoolRef.Name, said)
}

func problem(reason, format string, args ...any) Answer {
	return Answer{Reason: reason, Problem: fmt.Sprintf(format, args...)}
}

// isAbsent says whether the definitions are not installed.
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
