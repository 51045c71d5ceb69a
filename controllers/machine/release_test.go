// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A control plane's server that nobody can switch off holds up the whole control plane:
// its machine says so, and what a person can do.
func TestWaitingForFence(t *testing.T) {
	machine := &infrav1.IngotMachine{}
	worker := waitingForFence(machine, "h1")
	machine.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	controlPlane := waitingForFence(machine, "h1")
	for name, message := range map[string]string{"worker": worker, "control plane": controlPlane} {
		if !strings.Contains(message, "IngotHost h1") || !strings.Contains(message, infrav1.ForceReleaseAnnotation) {
			t.Errorf("%s: %q names neither the host nor the remedy", name, message)
		}
	}
	if strings.Contains(worker, "control plane") || !strings.Contains(controlPlane, "no other machine of the control plane") {
		t.Errorf("worker: %q\ncontrol plane: %q", worker, controlPlane)
	}
}
