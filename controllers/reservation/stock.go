// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// readStock reads the inventory of a namespace, from a cache or live.
func readStock(ctx context.Context, reader client.Reader, namespace string, now time.Time) (inventory.Stock, error) {
	hosts, hardware := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}
	machines, reservations := &infrav1.IngotMachineList{}, &infrav1.IngotReservationList{}
	for _, list := range []client.ObjectList{hosts, hardware, machines, reservations} {
		// Nothing of it is changed, and a copy of a large inventory is dear.
		if err := reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return inventory.Stock{}, fmt.Errorf("inventory of namespace %s: %w", namespace, err)
		}
	}
	return inventory.Stock{
		Candidates: inventory.Candidates(hosts.Items, hardware.Items), Machines: machines.Items,
		Reservations: reservations.Items, Now: now,
	}, nil
}
