// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// This file is the machine's controller in the world of the walks.

// claimHost is the machine's controller, by its rules (I1, I12).
func (w *world) claimHost(cluster string, cleaning infrav1.CleaningMode) {
	if ok, _ := IsClaimable(w.host); !ok {
		return
	}
	if last := w.host.Spec.Record.LastClusterName; last != "" && last != cluster {
		return
	}
	w.checkClaim(cluster)
	w.machine, w.draining = true, false
	w.lives++
	var live *infrav1.LiveSystem
	if w.live && w.lives%2 == 1 {
		live = &infrav1.LiveSystem{}
	}
	w.write(func(h *infrav1.IngotHost) {
		h.Spec.Claim = &infrav1.HostClaim{
			MachineRef: infrav1.LocalReference{Name: "m"}, ClusterName: cluster, InstanceID: w.id(),
			State: infrav1.ClaimProvisioning, Cleaning: cleaning, Live: live, Image: infrav1.Image{Checksum: "sha256:1"},
		}
	})
}

// machineStep: a deleted machine releases its claim, then goes once it is fenced.
func (w *world) deleteMachine() {
	w.write(func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing })
}

func (w *world) machineLeaves() { w.machine = false }
