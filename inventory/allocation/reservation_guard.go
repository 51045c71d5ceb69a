// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"slices"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// reservationGuard says which hosts a machine may have while the promises to Clusters, its own
// among them, stay as good as they are. nil allows all.
type reservationGuard struct{ rules []guardRule }

// guardRule is what one class of promises allows.
type guardRule struct {
	// of is the kind of each candidate, by its place; -1: of another namespace.
	of      []int
	allowed []bool
}

// newReservationGuard looks at the machine's claim twice: first as if there were promises for
// upgrades only, so that a host which a Cluster gave up comes back to it, whoever else is
// short; then with all promises. Both have to allow a host. Where the machine's own group
// can have a host at all there is one that both allow: a greatest matching of the first
// class can be extended to a greatest of all.
func newReservationGuard(c *criteria, candidates []Candidate, free func(*infrav1.IngotHost) bool) *reservationGuard {
	all, own := c.promised()
	first, ownFirst := ofUpgrades(all, own)
	k := &reservationGuard{}
	for _, class := range []struct {
		groups []group
		own    int
	}{{first, ownFirst}, {all, own}} {
		if rule, ok := newGuardRule(c, class.groups, class.own, candidates, free); ok {
			k.rules = append(k.rules, rule)
		}
	}
	if len(k.rules) == 0 {
		return nil
	}
	return k
}

// ofUpgrades are the groups that are promised for upgrades, and which of them is own;
// none where all are, since those say it already.
func ofUpgrades(all []group, own int) (first []group, ownFirst int) {
	ownFirst = -1
	for i := range all {
		if !all[i].upgrade {
			continue
		}
		if i == own {
			ownFirst = len(first)
		}
		first = append(first, all[i])
	}
	if len(first) == len(all) {
		return nil, -1
	}
	return first, ownFirst
}

// newGuardRule looks at the machine's claim as the next of all: the promise of its own
// Cluster is one host smaller then. A host may be taken if, without it, no more machines
// of promises go without than now. free says which hosts there are to give; not ok: any
// may be taken.
func newGuardRule(c *criteria, now []group, own int, candidates []Candidate, free func(*infrav1.IngotHost) bool) (rule guardRule, ok bool) {
	left := 0
	for i := range now {
		left += now[i].need
	}
	if own >= 0 {
		left--
	}
	if left <= 0 {
		return rule, false // nothing is promised but what the machine takes
	}
	profiles, at := groupByProfile(c.Machine.Namespace, candidates, free, now)
	sides := joinProfiles(now, profiles, func(group int) bool { return group == own })
	then := slices.Clone(sides.groups)
	if own >= 0 {
		then[sides.at[own]].need--
	}
	after := newMatching(then, sides.kinds)
	after.fill()
	if own >= 0 {
		// One machine fewer to serve. Had it gone without, nobody loses by its claim.
		before := newMatching(sides.groups, sides.kinds)
		before.fill()
		if before.total() == after.total() {
			return rule, false
		}
	}
	rule = guardRule{of: at, allowed: after.spare()}
	for i, profile := range at {
		if profile >= 0 {
			rule.of[i] = sides.of[profile]
		}
	}
	return rule, true
}

// promised lists the groups of all promises, and says which of them the machine is one
// of; -1: of none.
func (c *criteria) promised() (groups []group, own int) {
	own = -1
	asks := asking{}
	for _, p := range c.Promises {
		if p.Namespace != c.Machine.Namespace {
			continue
		}
		mine := ""
		if at := groupOf(p.Spec, c.Machine.Labels); p.ClusterName == c.ClusterName && at >= 0 {
			mine = p.Spec.Groups[at].Name
		}
		for _, g := range p.groups(asks) {
			if mine != "" && g.reserved.Name == mine {
				own = len(groups)
			}
			groups = append(groups, g)
		}
	}
	return groups, own
}

// allows says whether the host, by its place among the candidates, may be taken.
func (k *reservationGuard) allows(candidate int) bool {
	if k == nil {
		return true
	}
	return !slices.ContainsFunc(k.rules, func(rule guardRule) bool {
		kind := rule.of[candidate]
		return kind >= 0 && !rule.allowed[kind]
	})
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
	k := newReservationGuard(c, candidates, claimableBut(c.Named))
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
