// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestLowered(t *testing.T) {
	controlPlane := infrav1.ReservedGroup{Name: "control plane", ControlPlane: new(true), Count: 3}
	topology := func(controlPlane *int32, deployments ...clusterv1.MachineDeploymentTopology) clusterv1.Topology {
		return clusterv1.Topology{ControlPlane: clusterv1.ControlPlaneTopology{Replicas: controlPlane},
			Workers: clusterv1.WorkersTopology{MachineDeployments: deployments}}
	}
	md := func(name string, replicas *int32) clusterv1.MachineDeploymentTopology {
		return clusterv1.MachineDeploymentTopology{Name: name, Replicas: replicas}
	}
	three, one := controlPlane, controlPlane
	one.Count = 1
	for name, tc := range map[string]struct {
		purpose  infrav1.ReservationPurpose
		groups   []infrav1.ReservedGroup
		topology clusterv1.Topology
		want     []infrav1.ReservedGroup
	}{
		"as it was":                  {"", []infrav1.ReservedGroup{three, workers("md", 5)}, topology(new(int32(3)), md("md", new(int32(5)))), []infrav1.ReservedGroup{three, workers("md", 5)}},
		"scaled down":                {"", []infrav1.ReservedGroup{three, workers("md", 5)}, topology(new(int32(1)), md("md", new(int32(2)))), []infrav1.ReservedGroup{one, workers("md", 2)}},
		"scaled up":                  {"", []infrav1.ReservedGroup{one, workers("md", 5)}, topology(new(int32(3)), md("md", new(int32(9)))), []infrav1.ReservedGroup{one, workers("md", 5)}},
		"removed":                    {"", []infrav1.ReservedGroup{three, workers("md", 5)}, topology(new(int32(3)), md("other", new(int32(5)))), []infrav1.ReservedGroup{three}},
		"to nothing":                 {"", []infrav1.ReservedGroup{workers("md", 5)}, topology(new(int32(3)), md("md", new(int32(0)))), nil},
		"how many is not said":       {"", []infrav1.ReservedGroup{three, workers("md", 5)}, topology(nil, md("md", nil)), []infrav1.ReservedGroup{three, workers("md", 5)}},
		"an upgrade with its surge":  {infrav1.ReservationUpgrade, []infrav1.ReservedGroup{workers("md", 6)}, topology(nil, md("md", new(int32(5)))), []infrav1.ReservedGroup{workers("md", 6)}},
		"an upgrade, scaled down":    {infrav1.ReservationUpgrade, []infrav1.ReservedGroup{workers("md", 6)}, topology(nil, md("md", new(int32(2)))), []infrav1.ReservedGroup{workers("md", 3)}},
		"an upgrade of what is gone": {infrav1.ReservationUpgrade, []infrav1.ReservedGroup{workers("md", 6)}, topology(nil), nil},
	} {
		t.Run(name, func(t *testing.T) {
			spec := infrav1.IngotReservationSpec{Purpose: tc.purpose, Groups: tc.groups}
			before := spec.DeepCopy()
			if diff := cmp.Diff(tc.want, LowerToTopology(spec, tc.topology)); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(*before, spec); diff != "" {
				t.Errorf("the reservation itself was changed: %s", diff)
			}
		})
	}
}
