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

// OwnersOf returns the hosts of all namespaces that have any of the addresses. reader must have the
// indexes of Setup.
func OwnersOf(ctx context.Context, reader client.Reader, addresses ...netip.Addr) (addressuse.Owners, error) {
	held := addressuse.Owners{}
	for _, address := range addresses {
		if err := recorded(ctx, reader, held, client.MatchingFields{HardwareByAddress: address.String()}); err != nil {
			return nil, err
		}
		if err := claimed(ctx, reader, held, client.MatchingFields{HostByClaimAddress: address.String()}); err != nil {
			return nil, err
		}
	}
	return held, nil
}

// OwnersOfNetwork returns the hosts of all addresses that are recorded on a network, by the index by
// (HardwareByNetwork or HardwareByIPv6Network), and of all addresses of installed systems, on any
// network.
func OwnersOfNetwork(ctx context.Context, reader client.Reader, by, network string) (addressuse.Owners, error) {
	held := addressuse.Owners{}
	if err := recorded(ctx, reader, held, client.MatchingFields{by: network}); err != nil {
		return nil, err
	}
	return held, claimed(ctx, reader, held, client.MatchingFields{HostWithClaimAddress: Any})
}

func recorded(ctx context.Context, reader client.Reader, held addressuse.Owners, which client.MatchingFields) error {
	list := &infrav1.IngotHardwareList{}
	if err := reader.List(ctx, list, which, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list recorded addresses: %w", err)
	}
	for i := range list.Items {
		held.Recorded(&list.Items[i])
	}
	return nil
}

func claimed(ctx context.Context, reader client.Reader, held addressuse.Owners, which client.MatchingFields) error {
	list := &infrav1.IngotHostList{}
	if err := reader.List(ctx, list, which, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list addresses of installed systems: %w", err)
	}
	for i := range list.Items {
		held.Claimed(&list.Items[i])
	}
	return nil
}
