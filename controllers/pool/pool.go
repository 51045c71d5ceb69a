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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/index"
)

// +kubebuilder:rbac:groups=ipam.cluster.x-k8s.io,resources=ipaddressclaims,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=ipam.cluster.x-k8s.io,resources=ipaddresses,verbs=list;watch

// maxName bounds the name of an object (RFC 1123 subdomain).
const maxName = 253

// Pools claims addresses.
type Pools struct {
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
}

// Installed says whether the contract's definitions are there.
func Installed(mapper meta.RESTMapper) bool {
	_, err := mapper.RESTMapping(ipamv1.GroupVersion.WithKind("IPAddressClaim").GroupKind(), ipamv1.GroupVersion.Version)
	return err == nil
}

// ClaimName is the name of the claim of a host on a network.
func ClaimName(host, network string) string {
	name := host + "-" + network
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
	ref := network.Spec.AddressPoolRef
	want := ipamv1.IPPoolReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	claim := &ipamv1.IPAddressClaim{}
	key := client.ObjectKey{Namespace: host.Namespace, Name: ClaimName(host.Name, network.Name)}
	err := p.Client.Get(ctx, key, claim)
	switch {
	case isAbsent(err):
		return problem(infrav1.ReasonAddressPoolUnusable, "IngotNetwork %s names a pool, and Cluster API's IPAddressClaim is not installed here: "+
			"install Cluster API's core provider and an IPAM provider, or give spec.range instead", network.Name), nil
	case apierrors.IsNotFound(err):
		return p.make(ctx, host, network, key, want)
	case err != nil:
		return Answer{}, fmt.Errorf("claim %s: %w", key, err)
	case !claim.DeletionTimestamp.IsZero():
		return problem(infrav1.ReasonWaitingForAddress, "IPAddressClaim %s is being deleted; Ingot makes it again when it is gone", key.Name), nil
	case claim.Spec.PoolRef != want && !isKept(host, claim):
		return p.remake(ctx, host, claim)
	}
	if problem, err := p.own(ctx, host, claim); err != nil || problem.Problem != "" {
		return problem, err
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

// make makes the claim.
func (p Pools) make(ctx context.Context, host *infrav1.IngotHost, network *infrav1.IngotNetwork, key client.ObjectKey, want ipamv1.IPPoolReference) (Answer, error) {
	claim := &ipamv1.IPAddressClaim{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	claim.Spec.PoolRef = want
	if filter, ok := host.Labels["cluster.x-k8s.io/watch-filter"]; ok {
		claim.Labels = map[string]string{"cluster.x-k8s.io/watch-filter": filter}
	}
	if err := controllerutil.SetControllerReference(host, claim, p.Client.Scheme()); err != nil {
		return Answer{}, fmt.Errorf("owner of claim %s: %w", key, err)
	}
	err := p.Client.Create(ctx, claim)
	switch {
	case apierrors.IsAlreadyExists(err): // the cache does not show it yet
		return waiting(claim), nil
	case apierrors.IsInvalid(err):
		return problem(infrav1.ReasonAddressPoolUnusable, "no IPAddressClaim can be made for pool %s: %s. Correct spec.addressPoolRef of IngotNetwork %s",
			want.Name, err, network.Name), nil
	case err != nil:
		return Answer{}, fmt.Errorf("make claim %s: %w", key, err)
	}
	answer := waiting(claim)
	answer.Made = true
	return answer, nil
}

// remake lets a claim of another pool go, which the network named before.
func (p Pools) remake(ctx context.Context, host *infrav1.IngotHost, claim *ipamv1.IPAddressClaim) (Answer, error) {
	if !metav1.IsControlledBy(claim, host) {
		return notOurs(claim), nil
	}
	if err := p.Client.Delete(ctx, claim); client.IgnoreNotFound(err) != nil {
		return Answer{}, fmt.Errorf("delete claim %s: %w", claim.Name, err)
	}
	return problem(infrav1.ReasonWaitingForAddress, "IPAddressClaim %s is of another pool than spec.addressPoolRef names now; Ingot makes it anew", claim.Name), nil
}

// own puts back that the claim is the host's, which a backup or a person may have
// removed: it would not move with it, nor go with it.
func (p Pools) own(ctx context.Context, host *infrav1.IngotHost, claim *ipamv1.IPAddressClaim) (Answer, error) {
	if metav1.IsControlledBy(claim, host) {
		return Answer{}, nil
	}
	if metav1.GetControllerOf(claim) != nil {
		return notOurs(claim), nil
	}
	base := claim.DeepCopy()
	if err := controllerutil.SetControllerReference(host, claim, p.Client.Scheme()); err != nil {
		return Answer{}, fmt.Errorf("owner of claim %s: %w", claim.Name, err)
	}
	err := p.Client.Patch(ctx, claim, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) {
		return Answer{}, fmt.Errorf("owner of claim %s: %w", claim.Name, err)
	}
	return Answer{}, nil
}

// read checks the address: what a pool gives is somebody else's choice.
func (p Pools) read(ctx context.Context, host *infrav1.IngotHost, network *infrav1.IngotNetwork, claim *ipamv1.IPAddressClaim) (Answer, error) {
	given := &ipamv1.IPAddress{}
	key := client.ObjectKey{Namespace: claim.Namespace, Name: claim.Status.AddressRef.Name}
	if err := p.Client.Get(ctx, key, given); err != nil {
		if apierrors.IsNotFound(err) {
			return problem(infrav1.ReasonWaitingForAddress, "IPAddress %s, which the pool gave to IPAddressClaim %s, is not there; "+
				"if it stays so, delete the claim to have another address", key.Name, claim.Name), nil
		}
		return Answer{}, fmt.Errorf("address %s: %w", key, err)
	}
	subnet, subnetErr := netip.ParsePrefix(network.Spec.Subnet)
	address, err := netip.ParseAddr(given.Spec.Address)
	pool := claim.Spec.PoolRef.Name
	switch {
	case subnetErr != nil || err != nil || !subnet.Contains(address):
		return problem(infrav1.ReasonAddressPoolUnusable, "pool %s gave %q, which is not an address of %s: correct the pool or spec.addressPoolRef of IngotNetwork %s, then delete IPAddressClaim %s",
			pool, given.Spec.Address, network.Spec.Subnet, network.Name, claim.Name), nil
	case isReserved(network.Spec, address):
		return problem(infrav1.ReasonAddressConflict, "pool %s gave %s, which IngotNetwork %s has for something else (router, server, relay, or unknown machines): take it out of the pool, then delete IPAddressClaim %s",
			pool, address, network.Name, claim.Name), nil
	}
	recorded := &infrav1.IngotHardwareList{}
	if err := p.Client.List(ctx, recorded, client.MatchingFields{index.HardwareByIP: network.Name + "/" + address.String()}); err != nil {
		return Answer{}, fmt.Errorf("hardware with address %s: %w", address, err)
	}
	for i := range recorded.Items {
		if other := &recorded.Items[i]; other.Name != host.Name || other.Namespace != host.Namespace {
			return problem(infrav1.ReasonAddressConflict, "pool %s gave %s, which is recorded for IngotHost %s/%s: delete IPAddressClaim %s to have another, "+
				"once the pool knows that the address is taken", pool, address, other.Namespace, other.Name, claim.Name), nil
		}
	}
	return Answer{Address: address}, nil
}

// Release lets the claims go that the host has on other networks.
func (p Pools) Release(ctx context.Context, host *infrav1.IngotHost, network string) error {
	claims := &ipamv1.IPAddressClaimList{}
	err := p.Client.List(ctx, claims, client.InNamespace(host.Namespace))
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("claims of host %s: %w", host.Name, err)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if !metav1.IsControlledBy(claim, host) || claim.Name == ClaimName(host.Name, network) {
			continue
		}
		if err := p.Client.Delete(ctx, claim); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete claim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// Leave lets the claim go that the host has on one network, which it left.
func (p Pools) Leave(ctx context.Context, host *infrav1.IngotHost, network string) error {
	claim := &ipamv1.IPAddressClaim{}
	key := client.ObjectKey{Namespace: host.Namespace, Name: ClaimName(host.Name, network)}
	err := p.Client.Get(ctx, key, claim)
	switch {
	case isAbsent(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("claim %s: %w", key, err)
	case !metav1.IsControlledBy(claim, host):
		return nil
	}
	if err := p.Client.Delete(ctx, claim); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete claim %s: %w", key, err)
	}
	return nil
}

func isReserved(network infrav1.IngotNetworkSpec, address netip.Addr) bool {
	others := slices.Concat([]string{network.Gateway}, network.DNSServers, network.NTPServers, network.Relays)
	for _, route := range network.Routes {
		others = append(others, route.Gateway)
	}
	if slices.Contains(others, address.String()) {
		return true
	}
	if slices.ContainsFunc(network.Reservations, func(r infrav1.NetworkReservation) bool { return r.IP == address.String() }) {
		return true // for an interface whose MAC address is named, and pools know no MAC addresses
	}
	if network.Discover == nil {
		return false
	}
	first, firstErr := netip.ParseAddr(network.Discover.Range.Start)
	last, lastErr := netip.ParseAddr(network.Discover.Range.End)
	return firstErr == nil && lastErr == nil && !address.Less(first) && !last.Less(address)
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

func notOurs(claim *ipamv1.IPAddressClaim) Answer {
	return problem(infrav1.ReasonAddressConflict, "IPAddressClaim %s belongs to somebody else; delete it, or give the host another name", claim.Name)
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
