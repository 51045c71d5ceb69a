// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"context"
	"fmt"
	"net/netip"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/addressuse"
)

// endpoint returns the address of a cluster's control plane endpoint.
func endpoint(o client.Object) []string {
	cluster, ok := o.(*infrav1.IngotCluster)
	if !ok {
		return nil
	}
	if address := addressuse.EndpointOf(cluster); address.IsValid() {
		return []string{address.String()}
	}
	return nil
}

// AddressesOf returns the addresses that an IngotHost's claim has assigned, or that an IngotHardware
// records, as in ClusterByEndpoint.
func AddressesOf(o client.Object) []string {
	return append(claimAddresses(o), recordedAddresses(o)...)
}

// Endpoints returns the endpoints of all IngotClusters. Use it for rare events in the life of a host or
// machine; the cost of EndpointAt does not grow with the number of clusters.
func Endpoints(ctx context.Context, reader client.Reader) (addressuse.Endpoints, error) {
	return endpoints(ctx, reader)
}

// EndpointAt returns the endpoints at one address. reader must have the indexes of SetupDirectory.
func EndpointAt(ctx context.Context, reader client.Reader, address netip.Addr) (addressuse.Endpoints, error) {
	return endpoints(ctx, reader, client.MatchingFields{ClusterByEndpoint: address.String()})
}

func endpoints(ctx context.Context, reader client.Reader, which ...client.ListOption) (addressuse.Endpoints, error) {
	list := &infrav1.IngotClusterList{}
	if err := reader.List(ctx, list, append(which, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("list cluster endpoints: %w", err)
	}
	found := addressuse.Endpoints{}
	for i := range list.Items {
		found.Add(addressuse.EndpointOf(&list.Items[i]), client.ObjectKeyFromObject(&list.Items[i]))
	}
	return found, nil
}
