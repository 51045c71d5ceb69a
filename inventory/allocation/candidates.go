// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Candidates joins the hosts of one namespace with their hardware, by name.
func Candidates(hosts []infrav1.IngotHost, hardware []infrav1.IngotHardware) []Candidate {
	facts := make(map[string]*infrav1.IngotHardware, len(hardware))
	for i := range hardware {
		facts[hardware[i].Name] = &hardware[i]
	}
	candidates := make([]Candidate, 0, len(hosts))
	for i := range hosts {
		candidates = append(candidates, Candidate{Host: &hosts[i], Hardware: facts[hosts[i].Name]})
	}
	return candidates
}
