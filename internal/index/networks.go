// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Networks are what all IngotNetworks are like, by their names, as the pure rooms ask for
// them. They are the cache's own: nothing of them may be changed.
func Networks(ctx context.Context, reader client.Reader) (map[string]infrav1.IngotNetworkSpec, error) {
	list := &infrav1.IngotNetworkList{}
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("networks: %w", err)
	}
	networks := map[string]infrav1.IngotNetworkSpec{}
	for i := range list.Items {
		networks[list.Items[i].Name] = list.Items[i].Spec
	}
	return networks, nil
}
