// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/bmcaddress"
)

// peers remembers which IP addresses the DNS names of BMCs led to when they were last
// connected to, so that two hosts whose addresses differ only in the name are recognized
// as the same server (I8, I22). It may be lost: the next connection fills it. The zero
// value is ready.
type peers struct {
	mu sync.Mutex
	m  map[types.NamespacedName]peer
}

// peer is where the address of a host's BMC led to.
type peer struct {
	uid types.UID
	// written is spec.bmc.address, and resolved the same with an IP address.
	written  string
	resolved bmcaddress.Address
}

func (p *peers) keep(host *infrav1.IngotHost, to peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m == nil {
		p.m = map[types.NamespacedName]peer{}
	}
	p.m[keyOf(host)] = to
}

func (p *peers) forget(host types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.m, host)
}

// of returns where the host's BMC is: what its name led to, or the IP address that its
// spec has. Not known: the name has not been connected to yet.
func (p *peers) of(host *infrav1.IngotHost) (bmcaddress.Address, bool) {
	if host.Spec.BMC == nil {
		return bmcaddress.Address{}, false
	}
	p.mu.Lock()
	known, ok := p.m[keyOf(host)]
	p.mu.Unlock()
	if ok && known.uid == host.UID && known.written == host.Spec.BMC.Address {
		return known.resolved, true
	}
	address, err := bmcaddress.Parse(host.Spec.BMC.Address)
	if err != nil {
		return address, false
	}
	_, err = netip.ParseAddr(address.Host)
	return address, err == nil
}

// with lists the hosts other than one whose names led to a BMC.
func (p *peers) with(key string, but types.NamespacedName) []types.NamespacedName {
	p.mu.Lock()
	defer p.mu.Unlock()
	var hosts []types.NamespacedName
	for host, known := range p.m {
		if host != but && known.resolved.Key() == key {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// samePeer finds the other hosts whose BMC addresses lead to the same system by other
// names. Those with the same name the index finds.
func (r *Reconciler) samePeer(ctx context.Context, host *infrav1.IngotHost) ([]*infrav1.IngotHost, error) {
	where, known := r.peers.of(host)
	if !known {
		return nil, nil
	}
	var found []*infrav1.IngotHost
	add := func(other *infrav1.IngotHost) {
		if there, known := r.peers.of(other); known && keyOf(other) != keyOf(host) && where.SameSystem(there) && !hasLeft(other) && !index.SameBMC(host, other) {
			found = append(found, other)
		}
	}
	literal := &infrav1.IngotHostList{}
	if err := r.Client.List(ctx, literal, client.MatchingFields{index.HostByBMC: where.Key()}); err != nil {
		return nil, fmt.Errorf("hosts with the BMC %s: %w", where.Host, err)
	}
	for i := range literal.Items {
		add(&literal.Items[i])
	}
	for _, key := range r.peers.with(where.Key(), keyOf(host)) {
		other := &infrav1.IngotHost{}
		err := r.Client.Get(ctx, key, other)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("host with the BMC %s: %w", where.Host, err)
		}
		if err == nil && other.Spec.BMC != nil && index.BMC(other) != where.Key() { // listed above
			add(other)
		}
	}
	return found, nil
}

// precedes reports whether another host keeps a BMC that the host leads to by another
// name. A name alone must not take a server from the host that has it: the one in use
// precedes, then the older one.
func precedes(other, host *infrav1.IngotHost) bool {
	if (other.Spec.Claim != nil) != (host.Spec.Claim != nil) {
		return other.Spec.Claim != nil
	}
	if isEnrolled(other) != isEnrolled(host) {
		return isEnrolled(host)
	}
	if !other.CreationTimestamp.Equal(&host.CreationTimestamp) {
		return other.CreationTimestamp.Before(&host.CreationTimestamp)
	}
	return keyOf(other).String() < keyOf(host).String()
}

// takenError refuses a connection to the BMC of another host: nothing was sent.
type takenError struct{ by string }

// Error implements error.
func (e *takenError) Error() string {
	return "spec.bmc.address leads to the BMC of " + e.by + "; correct the address, or the name's address in DNS"
}

// Is makes errors.Is(err, bmc.ErrAddress) true.
func (*takenError) Is(target error) bool { return target == bmc.ErrAddress }

// connecting remembers where the BMC of a host is, and refuses the connection if another
// host has that BMC.
func (r *Reconciler) connecting(ctx context.Context, host *infrav1.IngotHost) func(string, netip.AddrPort) error {
	written, err := bmcaddress.Parse(host.Spec.BMC.Address)
	if err != nil {
		return nil // the dialer says what is wrong with it
	}
	// A session that is kept may connect again while a later reconcile changes the host.
	host = &infrav1.IngotHost{ObjectMeta: *host.ObjectMeta.DeepCopy(), Spec: host.Spec}
	return func(_ string, to netip.AddrPort) error {
		resolved := written
		resolved.Host = to.Addr().String()
		if resolved.Host != written.Host {
			r.peers.keep(host, peer{uid: host.UID, written: host.Spec.BMC.Address, resolved: resolved})
		}
		others, err := r.samePeer(ctx, host)
		if err != nil {
			return fmt.Errorf("%w: %w", bmc.ErrBusy, err)
		}
		var taken []types.NamespacedName
		for _, other := range others {
			if other.DeletionTimestamp.IsZero() && precedes(other, host) {
				taken = append(taken, keyOf(other))
			}
		}
		if len(taken) > 0 {
			return &takenError{by: inventory.ListHosts(host.Namespace, taken)}
		}
		return nil
	}
}
