// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/server"
)

// CheckDisk compares the log of a host's disk with the history of its ledger, and
// lists what is wrong: an install that became complete twice, one of an instance or
// attempt that the ledger never had, a write after the ledger said Provisioned and
// before it said Releasing. installs is how many complete writes it saw.
func CheckDisk(host string, log []server.DiskEvent, versions []Version) (installs int, wrong []string) {
	known, provisioned, releasing := lives(host, versions)
	complete := map[server.Install]int{}
	for i, e := range log {
		install := server.Install{InstanceID: e.Marker.InstanceID, Attempt: e.Marker.Attempt}
		switch e.Kind {
		case server.MarkerDamaged:
			wrong = append(wrong, fmt.Sprintf("%s: event %d leaves a damaged marker", host, i))
			continue
		case server.InstallComplete:
			installs++
			complete[install]++
		}
		if !known[install] {
			wrong = append(wrong, fmt.Sprintf("%s: event %d (%s) is of %v, which the ledger never ordered", host, i, e.Kind, install))
		}
		for _, before := range log[:i] {
			of := server.Install{InstanceID: before.Marker.InstanceID, Attempt: before.Marker.Attempt}
			committed := before.Kind == server.InstallComplete && provisioned[of]
			if committed && of.InstanceID == install.InstanceID && (e.Kind != server.MarkerRemoved || !releasing[of.InstanceID]) {
				wrong = append(wrong, fmt.Sprintf("%s: event %d (%s %v) comes after %v was committed", host, i, e.Kind, install, of))
			}
		}
	}
	for install, n := range complete {
		if n != 1 {
			wrong = append(wrong, fmt.Sprintf("%s: %v became complete %d times", host, install, n))
		}
	}
	for install := range provisioned {
		if complete[install] != 1 {
			wrong = append(wrong, fmt.Sprintf("%s: %v is Provisioned in the ledger and was written %d times", host, install, complete[install]))
		}
	}
	return installs, wrong
}

// lives lists the installs that the ledger of a host ordered, those that it says
// are done, and the instances that were released.
func lives(host string, versions []Version) (known, provisioned map[server.Install]bool, releasing map[string]bool) {
	known, provisioned, releasing = map[server.Install]bool{}, map[server.Install]bool{}, map[string]bool{}
	for _, v := range versions {
		if v.Host == nil || v.Host.Name != host || v.Host.Spec.Claim == nil {
			continue
		}
		claim := v.Host.Spec.Claim
		install := server.Install{InstanceID: claim.InstanceID, Attempt: claim.Attempt}
		known[install] = known[install] || claim.Attempt > 0
		switch claim.State {
		case infrav1.ClaimProvisioned:
			provisioned[install] = true
		case infrav1.ClaimReleasing:
			releasing[claim.InstanceID] = true
		}
	}
	return known, provisioned, releasing
}
