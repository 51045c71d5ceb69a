// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

import (
	"context"
	"fmt"
	"iter"
	"slices"

	toolscache "k8s.io/client-go/tools/cache"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/pxe"
)

// objects finds the cache's own objects, which nobody may change: a copy of a host and
// its hardware costs more than all the rest of an answer. What is not there is nil.
type objects interface {
	// host is the one with this boot MAC address in lower case, unless there are several.
	host(ctx context.Context, mac string) (*infrav1.IngotHost, error)
	hardware(ctx context.Context, of *infrav1.IngotHost) *infrav1.IngotHardware
	network(ctx context.Context, name string) *infrav1.IngotNetwork
	// naming are the hosts whose claim names a file with this checksum.
	naming(ctx context.Context, checksum string) (iter.Seq[*infrav1.IngotHost], error)
}

// reader finds them in any cache.
type reader struct{ client.Reader }

func (r reader) host(ctx context.Context, mac string) (*infrav1.IngotHost, error) {
	hosts := &infrav1.IngotHostList{}
	if err := r.List(ctx, hosts, client.MatchingFields{index.HostByMAC: mac}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	found := make([]*infrav1.IngotHost, 0, 1)
	for i := range hosts.Items {
		found = append(found, &hosts.Items[i])
	}
	return only(found), nil
}

// only returns the one host that a boot NIC is; nil: there is none, or nobody knows which
// (I8). What clusterctl takes away counts only where there is no other, or it is in use.
func only(hosts []*infrav1.IngotHost) *infrav1.IngotHost {
	if len(hosts) > 1 {
		hosts = slices.DeleteFunc(hosts, func(h *infrav1.IngotHost) bool {
			_, moved := h.Annotations[clusterctlv1.DeleteForMoveAnnotation]
			return moved && h.Spec.Claim == nil
		})
	}
	if len(hosts) != 1 {
		return nil
	}
	return hosts[0]
}

func (r reader) hardware(ctx context.Context, of *infrav1.IngotHost) *infrav1.IngotHardware {
	found := &infrav1.IngotHardware{}
	if err := r.Get(ctx, client.ObjectKeyFromObject(of), found, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	return found
}

func (r reader) network(ctx context.Context, name string) *infrav1.IngotNetwork {
	found := &infrav1.IngotNetwork{}
	if err := r.Get(ctx, client.ObjectKey{Name: name}, found, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	return found
}

func (r reader) naming(ctx context.Context, checksum string) (iter.Seq[*infrav1.IngotHost], error) {
	hosts := &infrav1.IngotHostList{}
	if err := r.List(ctx, hosts, client.MatchingFields{index.HostByImage: checksum}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return func(yield func(*infrav1.IngotHost) bool) {
		for i := range hosts.Items {
			if !yield(&hosts.Items[i]) {
				return
			}
		}
	}, nil
}

// stores finds them where the informers of a cache keep them: what a reader does besides,
// with options, selectors and reflection, costs several times as much. They are the
// same objects at the same moment.
type stores struct{ hosts, hardwares, networks toolscache.Indexer }

// byMAC and byImage are the indexes of hosts by their boot MAC address and by the files of
// their claim, beside index.HostByMAC and index.HostByImage, whose form in the store is the
// reader's own affair.
const (
	byMAC   = "ingot-boot-mac"
	byImage = "ingot-boot-image"
)

// Follow has the Directory look up hosts in the stores of the cache's informers, which is
// faster than by Options.Cache and as fresh. It is called once, before the first look-up,
// and waits until a cache that runs has filled them. A cache of chosen namespaces has no
// one store, and is read as before. Errors are those of the cache, and of an index that it
// does not take.
func (d *Directory) Follow(ctx context.Context, informers cache.Informers) error {
	var s stores
	for _, kind := range []struct {
		object  client.Object
		store   *toolscache.Indexer
		indexes toolscache.Indexers
	}{
		{&infrav1.IngotHost{}, &s.hosts, toolscache.Indexers{byMAC: bootMAC, byImage: claimFiles}},
		{&infrav1.IngotHardware{}, &s.hardwares, nil},
		{&infrav1.IngotNetwork{}, &s.networks, nil},
	} {
		informer, err := informers.GetInformer(ctx, kind.object)
		if err != nil {
			return fmt.Errorf("informer of %T: %w", kind.object, err)
		}
		one, ok := informer.(interface{ GetIndexer() toolscache.Indexer })
		if !ok {
			return nil
		}
		if err := informer.AddIndexers(kind.indexes); err != nil {
			return fmt.Errorf("index %T: %w", kind.object, err)
		}
		*kind.store = one.GetIndexer()
	}
	d.objects = s
	return nil
}

func bootMAC(object any) ([]string, error) {
	if host, ok := object.(*infrav1.IngotHost); ok && host.Spec.BootMACAddress != "" {
		return []string{host.Spec.BootMACAddress}, nil
	}
	return nil, nil
}

func claimFiles(object any) ([]string, error) {
	if host, ok := object.(*infrav1.IngotHost); ok {
		return index.ClaimFiles(host), nil
	}
	return nil, nil
}

func (s stores) host(_ context.Context, mac string) (*infrav1.IngotHost, error) {
	found, err := s.hosts.ByIndex(byMAC, mac)
	if err != nil {
		return nil, err
	}
	hosts := make([]*infrav1.IngotHost, 0, 1)
	for _, object := range found {
		if host, ok := object.(*infrav1.IngotHost); ok {
			hosts = append(hosts, host)
		}
	}
	return only(hosts), nil
}

func (s stores) hardware(_ context.Context, of *infrav1.IngotHost) *infrav1.IngotHardware {
	found, _, _ := s.hardwares.GetByKey(of.Namespace + "/" + of.Name) // it never fails
	hardware, _ := found.(*infrav1.IngotHardware)
	return hardware
}

func (s stores) network(_ context.Context, name string) *infrav1.IngotNetwork {
	found, _, _ := s.networks.GetByKey(name)
	network, _ := found.(*infrav1.IngotNetwork)
	return network
}

func (s stores) naming(_ context.Context, checksum string) (iter.Seq[*infrav1.IngotHost], error) {
	found, err := s.hosts.ByIndex(byImage, checksum)
	if err != nil {
		return nil, err
	}
	return func(yield func(*infrav1.IngotHost) bool) {
		for _, object := range found {
			if host, ok := object.(*infrav1.IngotHost); ok && !yield(host) {
				return
			}
		}
	}, nil
}

// read is what was read of a network.
type read struct {
	// from is the object itself: one that changes is another one in the cache.
	from *infrav1.IngotNetwork
	host pxe.Host
	ok   bool
}

// given is what onNetwork says. Networks are few and change seldom, and so are not read for
// each packet.
func (d *Directory) given(network *infrav1.IngotNetwork) (pxe.Host, bool) {
	if known, there := d.networks.Load(network.Name); there && known.(*read).from == network {
		return known.(*read).host, known.(*read).ok
	}
	now := &read{from: network}
	now.host, now.ok = onNetwork(network)
	// They are shared, and appended to (addIPv6).
	now.host.DNS, now.host.NTP = slices.Clip(now.host.DNS), slices.Clip(now.host.NTP)
	d.networks.Store(network.Name, now)
	return now.host, now.ok
}
