// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import "slices"

// matching assigns free hosts to machines: groups of equal machines on one side, kinds of equal
// hosts on the other. An augmenting path never takes a host from an earlier group, so that the
// order of the groups alone decides which group lacks hosts (the sets of machines that can be
// served are a transversal matroid).
type matching struct {
	groups []group
	kinds  []kind
	// fits has the kinds that suit each group.
	fits [][]int
	// given is the number of hosts of a kind that a group has. room is the number of unassigned
	// ones.
	given [][]int
	room  []int
	met   []int
}

func newMatching(groups []group, kinds []kind) *matching {
	m := &matching{
		groups: groups, kinds: kinds, fits: make([][]int, len(groups)),
		given: make([][]int, len(groups)), room: make([]int, len(kinds)), met: make([]int, len(groups)),
	}
	for k := range kinds {
		m.room[k] = kinds[k].free
	}
	for g := range groups {
		m.given[g] = make([]int, len(kinds))
		for k := range kinds {
			if kinds[k].suits[g] {
				m.fits[g] = append(m.fits[g], k)
			}
		}
	}
	return m
}

func (m *matching) unmet(g int) int { return m.groups[g].need - m.met[g] }

// total returns the number of machines with a host.
func (m *matching) total() int {
	total := 0
	for _, n := range m.met {
		total += n
	}
	return total
}

// fill assigns hosts to the groups in order.
func (m *matching) fill() {
	for g := range m.groups {
		for _, k := range m.fits[g] { // without a change for other groups
			n := min(m.room[k], m.unmet(g))
			m.give(g, k, n)
			m.met[g] += n
		}
		for m.unmet(g) > 0 && m.augment(g) {
		}
	}
}

func (m *matching) give(g, k, n int) {
	m.room[k] -= n
	m.given[g][k] += n
}

// augment finds a host for one more machine of the group by reassigning hosts of others: a shortest
// path from the group to a kind with room, breadth first.
func (m *matching) augment(from int) bool {
	// reached is the group from which a kind was reached; left, the kind from which a group was.
	reached, left := slices.Repeat([]int{-1}, len(m.kinds)), slices.Repeat([]int{-1}, len(m.groups))
	seen := make([]bool, len(m.groups))
	seen[from] = true
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		g := queue[0]
		for _, k := range m.fits[g] {
			if reached[k] >= 0 {
				continue
			}
			reached[k] = g
			if m.room[k] > 0 {
				m.shift(k, reached, left)
				m.met[from]++
				return true
			}
			for other := range m.groups {
				if !seen[other] && m.given[other][k] > 0 {
					seen[other], left[other] = true, k
					queue = append(queue, other)
				}
			}
		}
	}
	return false
}

// shift moves one host along the path that ends at the kind with room.
func (m *matching) shift(k int, reached, left []int) {
	m.room[k]--
	for {
		g := reached[k]
		m.given[g][k]++
		if k = left[g]; k < 0 {
			return
		}
		m.given[g][k]--
	}
}

// spare reports for each kind whether the maximum matching keeps its size without one free host of
// the kind: one is unused, or a group that has one can have another host instead.
func (m *matching) spare() []bool {
	spare := make([]bool, len(m.kinds))
	var queue []int
	for k := range m.kinds {
		if m.room[k] > 0 {
			spare[k] = true
			queue = append(queue, k)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for g := range m.groups {
			if !m.kinds[queue[0]].suits[g] {
				continue
			}
			for _, k := range m.fits[g] {
				if !spare[k] && m.given[g][k] > 0 {
					spare[k] = true
					queue = append(queue, k)
				}
			}
		}
	}
	return spare
}
