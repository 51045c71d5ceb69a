// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// page bounds one answer of the API server, in objects.
const page = 500

// readStock reads the inventory of a namespace from a cache; its hosts from the shelves of
// that cache, where there are any.
func readStock(ctx context.Context, cache client.Reader, shelves *Shelves, namespace string, now time.Time) (allocation.Stock, error) {
	stock, err := readHosts(ctx, cache, shelves, namespace, now)
	if err != nil {
		return stock, err
	}
	machines, reservations := &infrav1.IngotMachineList{}, &infrav1.IngotReservationList{}
	for _, list := range []client.ObjectList{machines, reservations} {
		// Nothing of it is changed, and a copy of a large inventory is dear.
		if err := cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return stock, fmt.Errorf("inventory of namespace %s: %w", namespace, err)
		}
	}
	stock.Machines, stock.Reservations = machines.Items, reservations.Items
	return stock, nil
}

// readStockLive reads live what a promise stands or falls by: what was promised and asked
// for, and which hosts machines have chosen, claimed or not. Hosts and their hardware,
// which are much more, it reads from the cache: one that was claimed since is chosen by a
// machine (decision 0179).
func (b *Book) readStockLive(ctx context.Context, namespace string) (allocation.Stock, error) {
	stock, err := readHosts(ctx, b.Client, b.Shelves, namespace, b.Clock.Now())
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

func readHosts(ctx context.Context, cache client.Reader, shelves *Shelves, namespace string, now time.Time) (allocation.Stock, error) {
	if shelf := shelves.Of(namespace); shelf != nil {
		return allocation.Stock{Shelf: shelf.Freeze(), Now: now}, nil
	}
	hosts, hardware := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}
	for _, list := range []client.ObjectList{hosts, hardware} {
		if err := cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return allocation.Stock{}, fmt.Errorf("inventory of namespace %s: %w", namespace, err)
		}
	}
	return allocation.Stock{Candidates: allocation.Candidates(hosts.Items, hardware.Items), Now: now}, nil
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
