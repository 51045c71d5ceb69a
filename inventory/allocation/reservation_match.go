// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

// matching gives free hosts to machines: groups of equal machines on one side, kinds of
// equal hosts on the other. Every augmenting path leaves the groups before at what they
// have, so that which group goes short depends on the order of the groups alone, not on
// that of the hosts (the sets of machines that can be served are a transversal matroid).
type matching struct {
	groups []group
	kinds  []kind
	// fits lists the kinds that suit a group.
	fits [][]int
	// given counts the hosts of a kind that a group has; room those that nobody has.
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

// total counts the machines that have a host.
func (m *matching) total() int {
	total := 0
	for _, n := range m.met {
		total += n
	}
	return total
}

// fill gives hosts to the groups in their order, as many as there are.
func (m *matching) fill() {
	for g := range m.groups {
		for _, k := range m.fits[g] { // what is to be had without asking anybody
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

// augment finds a host for one more machine of the group, others making room for it:
// a shortest path from the group to a kind with room, breadth first.
func (m *matching) augment(from int) bool {
	// reached is by whom a kind was reached, left where a group came from.
	reached, left := filled(len(m.kinds), -1), filled(len(m.groups), -1)
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

// spare says of each kind whether the matching, which is a greatest one, could be as
// great without one of its free hosts: one is unused, or a group that has one can have
// another instead.
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

func filled(n, value int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = value
	}
	return list
}
