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

// objects finds the cache's own objects, which callers must not change: copies of a host and its
// hardware would be most of the cost of an answer. It returns nil for missing objects.
type objects interface {
	// host returns the host with this boot MAC address in lower case, unless there are several.
	host(ctx context.Context, mac string) (*infrav1.IngotHost, error)
	hardware(ctx context.Context, of *infrav1.IngotHost) *infrav1.IngotHardware
	network(ctx context.Context, name string) *infrav1.IngotNetwork
	// hostsByFile returns the hosts whose claim names a file with this checksum.
	hostsByFile(ctx context.Context, checksum string) (iter.Seq[*infrav1.IngotHost], error)
}

// reader implements objects by any cache.
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

// only returns the one host with a boot NIC, or nil if there is none or several (I8). If there are
// several, a host without claim that clusterctl moves away does not count.
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

func (r reader) hostsByFile(ctx context.Context, checksum string) (iter.Seq[*infrav1.IngotHost], error) {
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

// stores implements objects by the stores of the cache's informers. The options, selectors and
// reflection of a client.Reader cost several times as much.
type stores struct{ hosts, hardwares, networks toolscache.Indexer }

// byMAC and byImage are the stores' own indexes. The form of index.HostByMAC and index.HostByImage in
// the stores is internal to controller-runtime.
const (
	byMAC   = "ingot-boot-mac"
	byImage = "ingot-boot-image"
)

// Follow makes the Directory use the stores of the cache's informers, which is faster than
// Options.Cache and as current. Call it once, before the first lookup; it waits until a running cache
// has filled the stores. It does nothing for a cache of selected namespaces, which has no single
// store.
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
			return fmt.Errorf("get informer of %T: %w", kind.object, err)
		}
		one, ok := informer.(interface{ GetIndexer() toolscache.Indexer })
		if !ok {
			return nil
		}
		if err := informer.AddIndexers(kind.indexes); err != nil {
			return fmt.Errorf("add index for %T: %w", kind.object, err)
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

func (s stores) hostsByFile(_ context.Context, checksum string) (iter.Seq[*infrav1.IngotHost], error) {
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

// parsedNetwork is the result of parseNetwork.
type parsedNetwork struct {
	// object is the parsed object. After a change the cache has another object.
	object *infrav1.IngotNetwork
	host   pxe.Host
	ok     bool
}

// parsedNetwork returns the result of parseNetwork. Networks are few and change seldom, so that they
// are not parsed for each packet.
func (d *Directory) parsedNetwork(network *infrav1.IngotNetwork) (pxe.Host, bool) {
	if known, found := d.networks.Load(network.Name); found && known.(*parsedNetwork).object == network {
		return known.(*parsedNetwork).host, known.(*parsedNetwork).ok
	}
	parsed := &parsedNetwork{object: network}
	parsed.host, parsed.ok = parseNetwork(network)
	// The slices are shared, and addIPv6 appends to them.
	parsed.host.DNS, parsed.host.NTP = slices.Clip(parsed.host.DNS), slices.Clip(parsed.host.NTP)
	d.networks.Store(network.Name, parsed)
	return parsed.host, parsed.ok
}
