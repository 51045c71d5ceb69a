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

// snapshotSource is where the inventory of a namespace is read from.
type snapshotSource struct {
	cache client.Reader
	// kept hosts of that cache; nil: they are listed.
	kept *HostCache
	// filter is the label of the hosts that count (M41); empty: all.
	filter string
	now    time.Time
}

// read reads the inventory of a namespace. None of it is to be changed.
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

// hosts reads the hosts with their hardware. Machines are read after them: a host that is
// claimed in between counts as free, and as chosen by its machine.
func (s snapshotSource) hosts(ctx context.Context, namespace string) (allocation.Snapshot, error) {
	snapshot, err := s.kept.get(namespace, func() ([]allocation.Candidate, error) {
		hosts, facts := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}
		if err := s.list(ctx, namespace, hosts, facts); err != nil {
			return nil, err
		}
		if s.filter != "" { // which copies each host
			hosts.Items = slices.DeleteFunc(hosts.Items, func(host infrav1.IngotHost) bool { return !counts(&host, s.filter) })
		}
		return allocation.Candidates(hosts.Items, facts.Items), nil
	})
	snapshot.Now = s.now
	return snapshot, err
}

// list lists without copies, which are dear of a large inventory.
func (s snapshotSource) list(ctx context.Context, namespace string, lists ...client.ObjectList) error {
	for _, list := range lists {
		if err := s.cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("inventory of namespace %s: %w", namespace, err)
		}
	}
	return nil
}

// counts says whether a host is one to promise, or is a Cluster's already. One that is
// neither, for want of --watch-filter's label, no machine of this manager gets (M41).
func counts(host *infrav1.IngotHost, filter string) bool {
	return filter == "" || host.Spec.Claim != nil || labels.HasWatchLabel(host, filter)
}

func (p *Planner) snapshotSource() snapshotSource {
	return snapshotSource{cache: p.Client, kept: p.Hosts, filter: p.WatchFilterValue, now: p.Clock.Now()}
}

// Snapshot reads the inventory of a namespace from the cache. None of it is to be changed.
func (p *Planner) Snapshot(ctx context.Context, namespace string) (allocation.Snapshot, error) {
	return p.snapshotSource().read(ctx, namespace)
}

// readSnapshotLive reads live what a promise stands or falls by: what was promised and asked
// for, and which hosts machines have chosen, claimed or not. Hosts and their hardware,
// which are much more, it reads from the cache: one that was claimed since is chosen by a
// machine (decision 0179).
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
