// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Networks returns the specs of all IngotNetworks by name. They belong to the cache and must not be
// changed.
func Networks(ctx context.Context, reader client.Reader) (map[string]infrav1.IngotNetworkSpec, error) {
	list := &infrav1.IngotNetworkList{}
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list networks: %w", err)
	}
	networks := map[string]infrav1.IngotNetworkSpec{}
	for i := range list.Items {
		networks[list.Items[i].Name] = list.Items[i].Spec
	}
	return networks, nil
}
