// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// page bounds one answer of the API server, in objects.
const page = 500

// stockroom is where the inventory of a namespace is read from.
type stockroom struct {
	cache client.Reader
	// shelves of that cache; nil: its hosts are listed.
	shelves *Shelves
	// filter is the label of the hosts that count (M41); empty: all.
	filter string
	now    time.Time
}

// read reads the inventory of a namespace. None of it is to be changed.
func (s stockroom) read(ctx context.Context, namespace string) (allocation.Stock, error) {
	stock, err := s.hosts(ctx, namespace)
	if err != nil {
		return stock, err
	}
	machines, reservations := &infrav1.IngotMachineList{}, &infrav1.IngotReservationList{}
	for _, list := range []client.ObjectList{machines, reservations} {
		// Nothing of it is changed, and a copy of a large inventory is dear.
		if err := s.cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return stock, fmt.Errorf("inventory of namespace %s: %w", namespace, err)
		}
	}
	stock.Machines, stock.Reservations = machines.Items, reservations.Items
	return stock, nil
}

func (s stockroom) hosts(ctx context.Context, namespace string) (allocation.Stock, error) {
	if shelf := s.shelves.Of(namespace); shelf != nil {
		return allocation.Stock{Shelf: shelf.Freeze(), Now: s.now}, nil
	}
	hosts, facts := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}
	for _, list := range []client.ObjectList{hosts, facts} {
		if err := s.cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return allocation.Stock{}, fmt.Errorf("inventory of namespace %s: %w", namespace, err)
		}
	}
	if s.filter != "" { // which copies each host
		hosts.Items = slices.DeleteFunc(hosts.Items, func(host infrav1.IngotHost) bool { return !counts(&host, s.filter) })
	}
	return allocation.Stock{Candidates: allocation.Candidates(hosts.Items, facts.Items), Now: s.now}, nil
}

// counts says whether a host is one to promise, or is a Cluster's already. One that is
// neither, for want of --watch-filter's label, no machine of this manager gets (M41).
func counts(host *infrav1.IngotHost, filter string) bool {
	return filter == "" || host.Spec.Claim != nil || labels.HasWatchLabel(host, filter)
}

func (b *Book) stockroom() stockroom {
	return stockroom{cache: b.Client, shelves: b.Shelves, filter: b.WatchFilterValue, now: b.Clock.Now()}
}

// Stock reads the inventory of a namespace from the cache. None of it is to be changed.
func (b *Book) Stock(ctx context.Context, namespace string) (allocation.Stock, error) {
	return b.stockroom().read(ctx, namespace)
}

// readStockLive reads live what a promise stands or falls by: what was promised and asked
// for, and which hosts machines have chosen, claimed or not. Hosts and their hardware,
// which are much more, it reads from the cache: one that was claimed since is chosen by a
// machine (decision 0179).
func (b *Book) readStockLive(ctx context.Context, namespace string) (allocation.Stock, error) {
	stock, err := b.stockroom().hosts(ctx, namespace)
	if err != nil {
		return stock, err
	}
	machines, reservations := &infrav1.IngotMachineList{}, &infrav1.IngotReservationList{}
	if err := pages(ctx, b.Live, namespace, machines, func() { stock.Machines = append(stock.Machines, machines.Items...) }); err != nil {
		return stock, err
	}
	err = pages(ctx, b.Live, namespace, reservations, func() { stock.Reservations = append(stock.Reservations, reservations.Items...) })
	return stock, err
}

// pages lists in pages, which together are one state of the API server's, and calls taken
// after each.
func pages(ctx context.Context, live client.Reader, namespace string, list client.ObjectList, taken func()) error {
	for more := ""; ; {
		// The list is emptied, or what the next page decodes into would be shared with it.
		list.SetContinue("")
		if err := meta.SetList(list, nil); err != nil {
			return fmt.Errorf("inventory of namespace %s: %w", namespace, err)
		}
		if err := live.List(ctx, list, client.InNamespace(namespace), client.Limit(page), client.Continue(more)); err != nil {
			return fmt.Errorf("inventory of namespace %s: %w", namespace, err)
		}
		taken()
		if more = list.GetContinue(); more == "" {
			return nil
		}
	}
}
