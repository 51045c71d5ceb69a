// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"strings"

	"github.com/ingot-metal/ingot/inventory"
)

// Misfit says what the request asks for and the host does not have any more, as Select
// judges it; empty: nothing. It is for a choice that was made, and that inventory or
// cluster may have left behind since. It does not look at what only the whole inventory
// tells (who else has chosen the host, promises), nor at addresses of networkData, which
// are given out with the claim.
//
// It fails with ErrSelectorInvalid.
func Misfit(request SelectionRequest, candidate Candidate) (string, error) {
	request.Named = nil
	criteria, err := newCriteria(request)
	if err != nil {
		return "", err
	}
	j := judgement{Candidate: candidate}
	criteria.judgePlace(&j)
	criteria.judgeHardware(&j)
	criteria.judgeEndpoint(&j)
	criteria.judgeState(&j)
	details := make([]string, 0, len(j.misses))
	for _, m := range j.misses {
		details = append(details, m.detail)
	}
	return inventory.Truncate(strings.Join(details, "; "), MaxExplanation), nil
}
