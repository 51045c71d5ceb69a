// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/webhooks/bmcaddress"
)

// Indexes of the manager's cache. The prefix keeps them apart from those of the
// controllers, which share the cache.
const (
	indexBootMAC    = "webhooks.bootMACAddress"
	indexBMCHost    = "webhooks.bmcHost"
	indexNetworkRef = "webhooks.networkRef"
)

// indexFuncs says how each index is made, for the cache and for tests.
func indexFuncs() map[string]client.IndexerFunc {
	return map[string]client.IndexerFunc{
		indexBootMAC: func(o client.Object) []string {
			return []string{o.(*v1beta2.IngotHost).Spec.BootMACAddress}
		},
		indexBMCHost: func(o client.Object) []string {
			bmc := o.(*v1beta2.IngotHost).Spec.BMC
			if bmc == nil {
				return nil
			}
			address, err := bmcaddress.Parse(bmc.Address)
			if err != nil { // let in before this rule existed: no other host can equal it
				return nil
			}
			return []string{address.Host}
		},
		indexNetworkRef: func(o client.Object) []string {
			return []string{o.(*v1beta2.IngotHost).Spec.NetworkRef.Name}
		},
	}
}

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for name, f := range indexFuncs() {
		if err := indexer.IndexField(ctx, &v1beta2.IngotHost{}, name, f); err != nil {
			return fmt.Errorf("index IngotHosts by %s: %w", name, err)
		}
	}
	return nil
}
