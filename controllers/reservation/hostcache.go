// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"fmt"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// HostCache keeps the hosts of each namespace, indexed for plans, until one of them changes. A
// plan over 5,000 listed hosts takes 9 ms of CPU, and the runtime extension answers up to 200
// calls per second. The zero value is ready to use.
type HostCache struct {
	mu sync.Mutex
	// changes counts the events of a namespace.
	changes map[string]int
	kept    map[string]allocation.Snapshot
	// reading is held while hosts are listed, so that concurrent calls list them once.
	reading sync.Mutex
}

// Watch invalidates the hosts of a namespace when a host or its hardware changes. It does not
// wait for the informers.
func (c *HostCache) Watch(ctx context.Context, informers cache.Informers) error {
	for _, object := range []client.Object{&infrav1.IngotHost{}, &infrav1.IngotHardware{}} {
		informer, err := informers.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T for plans: %w", object, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: c.changed, UpdateFunc: func(_, object any) { c.changed(object) }, DeleteFunc: c.changed,
		}); err != nil {
			return fmt.Errorf("watch %T for plans: %w", object, err)
		}
	}
	return nil
}

func (c *HostCache) changed(object any) {
	name, err := toolscache.DeletionHandlingObjectToName(object)
	if err != nil {
		return // not an object
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes == nil {
		c.changes = map[string]int{}
	}
	c.changes[name.Namespace]++
	delete(c.kept, name.Namespace)
}

// get returns the hosts of a namespace and calls list if they are not kept. A nil HostCache keeps
// none.
func (c *HostCache) get(namespace string, list func() ([]allocation.Candidate, error)) (allocation.Snapshot, error) {
	if c == nil {
		candidates, err := list()
		return allocation.Snapshot{Candidates: candidates}, err
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	c.mu.Lock()
	hosts, kept := c.kept[namespace]
	changes := c.changes[namespace]
	c.mu.Unlock()
	if kept {
		return hosts, nil
	}
	candidates, err := list()
	if err != nil {
		return allocation.Snapshot{}, err
	}
	hosts = allocation.Snapshot{Candidates: candidates, Index: allocation.NewHostIndex(namespace, candidates)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes[namespace] == changes {
		if c.kept == nil {
			c.kept = map[string]allocation.Snapshot{}
		}
		c.kept[namespace] = hosts
	}
	return hosts, nil
}
