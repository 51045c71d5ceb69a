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

// endpoint is the address by which a cluster's control plane is reached.
func endpoint(o client.Object) []string {
	cluster, ok := o.(*infrav1.IngotCluster)
	if !ok {
		return nil
	}
	address := addressuse.EndpointOf(cluster)
	if !address.IsValid() {
		return nil
	}
	return []string{address.String()}
}

// AddressesOf are those that an IngotHost's claim has given, or that an IngotHardware
// records, as ClusterByEndpoint has them.
func AddressesOf(o client.Object) []string {
	return append(claimAddresses(o), recordedAddresses(o)...)
}

// Endpoints finds the endpoints of all IngotClusters, of all namespaces. It is for what
// happens once in the life of a host or a machine; EndpointAt costs the same however many
// clusters there are.
func Endpoints(ctx context.Context, reader client.Reader) (addressuse.Endpoints, error) {
	return endpoints(ctx, reader)
}

// EndpointAt finds those at one address. reader has the indexes of SetupDirectory.
func EndpointAt(ctx context.Context, reader client.Reader, address netip.Addr) (addressuse.Endpoints, error) {
	return endpoints(ctx, reader, client.MatchingFields{ClusterByEndpoint: address.String()})
}

func endpoints(ctx context.Context, reader client.Reader, which ...client.ListOption) (addressuse.Endpoints, error) {
	list := &infrav1.IngotClusterList{}
	if err := reader.List(ctx, list, append(which, client.UnsafeDisableDeepCopy)...); err != nil { // nothing of it is changed
		return nil, fmt.Errorf("endpoints of clusters: %w", err)
	}
	found := addressuse.Endpoints{}
	for i := range list.Items {
		found.Add(addressuse.EndpointOf(&list.Items[i]), client.ObjectKeyFromObject(&list.Items[i]))
	}
	return found, nil
}
