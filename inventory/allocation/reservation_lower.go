// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Lowered returns the groups of a reservation as far as a topology asks for them still:
// without MachineDeployments that are gone, and with no more machines than it says. It
// never raises a count, and leaves one alone where the topology does not say how many:
// then an autoscaler does. An upgrade has one machine more than that for its surge.
func Lowered(spec infrav1.IngotReservationSpec, topology clusterv1.Topology) []infrav1.ReservedGroup {
	most := map[string]*int32{}
	for i := range topology.Workers.MachineDeployments {
		most[topology.Workers.MachineDeployments[i].Name] = topology.Workers.MachineDeployments[i].Replicas
	}
	surge := int32(0)
	if spec.Purpose == infrav1.ReservationUpgrade {
		surge = 1
	}
	var left []infrav1.ReservedGroup
	for _, g := range spec.Groups {
		asked, known := most[g.Name]
		if g.ControlPlane != nil && *g.ControlPlane {
			asked, known = topology.ControlPlane.Replicas, true
		}
		if !known || asked != nil && *asked == 0 {
			continue
		}
		if asked != nil {
			g.Count = min(g.Count, *asked+surge)
		}
		left = append(left, g)
	}
	return left
}
