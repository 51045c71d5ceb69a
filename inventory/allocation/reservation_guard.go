// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"slices"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// reservationGuard decides which hosts a machine may have without harm to the reservations of
// Clusters, including its own. Nil allows all.
type reservationGuard struct{ rules []guardRule }

// guardRule is the decision for one class of reservations.
type guardRule struct {
	// of is the kind of each candidate, by its index. -1: of another namespace.
	of      []int
	allowed []bool
}

// newReservationGuard checks the machine's claim twice: against the reservations for upgrades only, so
// that a Cluster gets the hosts back that it released for its upgrade, and against all
// reservations. Both must allow a host. If the machine's own group can have a host at all, both
// allow one: a maximum matching of the first class can be extended to a maximum one of all.
func newReservationGuard(c *criteria, candidates []Candidate, free func(*infrav1.IngotHost) bool) *reservationGuard {
	all, own := c.reserved()
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

// ofUpgrades returns the groups of reservations for upgrades, and the index of own among them. It
// returns none if all groups are, because the check of all groups covers them.
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

// newGuardRule checks the machine's claim as the next one: the reservation of its own Cluster then
// needs one host less. The machine may take a host if, without it, no more reserved machines lack
// a host than now. free reports which hosts are free. Not ok: the machine may take any.
func newGuardRule(c *criteria, now []group, own int, candidates []Candidate, free func(*infrav1.IngotHost) bool) (rule guardRule, ok bool) {
	left := 0
	for i := range now {
		left += now[i].need
	}
	if own >= 0 {
		left--
	}
	if left <= 0 {
		return rule, false // only the machine's own host is reserved
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
		// If the machine would have got no host, its claim harms no other machine.
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

// reserved returns the groups of all reservations, and the index of the machine's group. -1: none.
func (c *criteria) reserved() (groups []group, own int) {
	own = -1
	asks := asking{}
	for _, p := range c.Reservations {
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

// allows reports whether the machine may take the candidate, by its index.
func (k *reservationGuard) allows(candidate int) bool {
	if k == nil {
		return true
	}
	return !slices.ContainsFunc(k.rules, func(rule guardRule) bool {
		kind := rule.of[candidate]
		return kind >= 0 && !rule.allowed[kind]
	})
}

// KeepsReservations reports whether the reservations allow the machine to have the host, as Select decides.
// It is false for a host that is no candidate.
//
// It fails with ErrSelectorInvalid.
func KeepsReservations(request SelectionRequest, candidates []Candidate, host string) (bool, error) {
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
