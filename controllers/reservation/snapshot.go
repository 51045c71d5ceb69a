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

const pageSize = 500

// snapshotSource reads the inventory of a namespace from a cache.
type snapshotSource struct {
	cache client.Reader
	// kept hosts; nil: they are listed.
	kept *HostCache
	// filter is the label of the hosts that count (M41); empty: all.
	filter string
	now    time.Time
}

// read reads the inventory of a namespace, which must not be changed.
func (s snapshotSource) read(ctx context.Context, namespace string) (allocation.Snapshot, error) {
	snapshot, err := s.hosts(ctx, namespace)
	if err != nil {
		return snapshot, err
	}
	machines, reservations := &infrav1.IngotMachineList{}, &infrav1.IngotReservationList{}
	err = s.list(ctx, namespace, machines, reservations)
	snapshot.Machines, snapshot.Reservations = machines.Items, reservations.Items
	return snapshot, err
}

// hosts reads the hosts with their hardware. Callers read machines afterwards, so that a host
// claimed in between counts as free and as selected by its machine.
func (s snapshotSource) hosts(ctx context.Context, namespace string) (allocation.Snapshot, error) {
	snapshot, err := s.kept.get(namespace, func() ([]allocation.Candidate, error) {
		hosts, facts := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}
		if err := s.list(ctx, namespace, hosts, facts); err != nil {
			return nil, err
		}
		if s.filter != "" { // the callback copies each host
			hosts.Items = slices.DeleteFunc(hosts.Items, func(host infrav1.IngotHost) bool { return !counts(&host, s.filter) })
		}
		return allocation.Candidates(hosts.Items, facts.Items), nil
	})
	snapshot.Now = s.now
	return snapshot, err
}

// list lists without copies, which are expensive for a large inventory.
func (s snapshotSource) list(ctx context.Context, namespace string, lists ...client.ObjectList) error {
	for _, list := range lists {
		if err := s.cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list inventory of namespace %s: %w", namespace, err)
		}
	}
	return nil
}

// counts reports whether a host is claimed or has the label of --watch-filter: no machine of this
// manager gets other hosts (M41).
func counts(host *infrav1.IngotHost, filter string) bool {
	return filter == "" || host.Spec.Claim != nil || labels.HasWatchLabel(host, filter)
}

func (p *Planner) snapshotSource() snapshotSource {
	return snapshotSource{cache: p.Client, kept: p.Hosts, filter: p.WatchFilterValue, now: p.Clock.Now()}
}

// Snapshot reads the inventory of a namespace from the cache. The result must not be changed.
func (p *Planner) Snapshot(ctx context.Context, namespace string) (allocation.Snapshot, error) {
	return p.snapshotSource().read(ctx, namespace)
}

// readSnapshotLive reads reservations and machines live. Hosts and their hardware, which are much
// larger, are read from the cache: a host claimed since then is selected by a machine.
func (p *Planner) readSnapshotLive(ctx context.Context, namespace string) (allocation.Snapshot, error) {
	snapshot, err := p.snapshotSource().hosts(ctx, namespace)
	if err != nil {
		return snapshot, err
	}
	machines, reservations := &infrav1.IngotMachineList{}, &infrav1.IngotReservationList{}
	if err := pages(ctx, p.Live, namespace, machines, func() { snapshot.Machines = append(snapshot.Machines, machines.Items...) }); err != nil {
		return snapshot, err
	}
	err = pages(ctx, p.Live, namespace, reservations, func() { snapshot.Reservations = append(snapshot.Reservations, reservations.Items...) })
	return snapshot, err
}

// pages lists in pages, which together are one consistent state, and calls use after each.
func pages(ctx context.Context, live client.Reader, namespace string, list client.ObjectList, use func()) error {
	for more := ""; ; {
		// Empty the list: the next page must not be decoded into the memory of this one.
		list.SetContinue("")
		if err := meta.SetList(list, nil); err != nil {
			return fmt.Errorf("list inventory of namespace %s: %w", namespace, err)
		}
		if err := live.List(ctx, list, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(more)); err != nil {
			return fmt.Errorf("list inventory of namespace %s: %w", namespace, err)
		}
		use()
		if more = list.GetContinue(); more == "" {
			return nil
		}
	}
}
