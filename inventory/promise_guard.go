// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// keeper says which hosts a machine may have while the promises to Clusters, its own
// among them, stay as good as they are. nil allows all.
type keeper struct {
	of      []int
	allowed []bool
}

// newKeeper looks at the machine's claim as the next of all: the promise of its own
// Cluster is one host smaller then. A host may be taken if, without it, no more machines
// of promises go without than now. free says which hosts there are to give.
func newKeeper(c *criteria, candidates []Candidate, free func(*infrav1.IngotHost) bool) *keeper {
	now, own := c.promised()
	left := 0
	for i := range now {
		left += now[i].need
	}
	if own >= 0 {
		left--
	}
	if left <= 0 {
		return nil // nothing is promised but what the machine takes
	}
	kinds := sortHosts(c.Machine.Namespace, candidates, free, now)
	then := slices.Clone(now)
	if own >= 0 {
		then[own].need--
	}
	after := newMatching(then, kinds.list)
	after.fill()
	if own >= 0 {
		// One machine fewer to serve. Had it gone without, nobody loses by its claim.
		before := newMatching(now, kinds.list)
		before.fill()
		if before.total() == after.total() {
			return nil
		}
	}
	return &keeper{of: kinds.of, allowed: after.spare()}
}

// promised lists the groups of all promises, and says which of them the machine is one
// of; -1: of none.
func (c *criteria) promised() (groups []group, own int) {
	own = -1
	for _, p := range c.Promises {
		if p.Namespace != c.Machine.Namespace {
			continue
		}
		mine := ""
		if at := groupOf(p.Spec, c.Machine.Labels); p.ClusterName == c.ClusterName && at >= 0 {
			mine = p.Spec.Groups[at].Name
		}
		for _, g := range p.groups() {
			if mine != "" && g.reserved.Name == mine {
				own = len(groups)
			}
			groups = append(groups, g)
		}
	}
	return groups, own
}

// allows says whether the host, by its place among the candidates, may be taken.
func (k *keeper) allows(candidate int) bool {
	return k == nil || k.of[candidate] < 0 || k.allowed[k.of[candidate]]
}

// KeepsPromises says whether the machine of the request may have the host: what Select
// decides, once more, when more is known. A host that is no candidate may not.
//
// It fails with ErrSelectorInvalid.
func KeepsPromises(request SelectionRequest, candidates []Candidate, host string) (bool, error) {
	c, err := newCriteria(request)
	if err != nil {
		return false, err
	}
	k := newKeeper(c, candidates, claimableBut(c.Named))
	if k == nil {
		return true, nil
	}
	for i, candidate := range candidates {
		if candidate.Host.Namespace == request.Machine.Namespace && candidate.Host.Name == host {
			return k.allows(i), nil
		}
	}
	return false, nil
}
