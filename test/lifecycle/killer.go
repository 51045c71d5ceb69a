// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"sync"
)

// A Point is a moment in the life of one host: a write of the manager, by its
// label and how often that label came before.
type Point struct {
	Label      string
	Occurrence int
	// After: when the write has been done and its reply has not arrived; else before
	// it is done.
	After bool
}

func (p Point) String() string {
	when := "before"
	if p.After {
		when = "after, reply lost"
	}
	return fmt.Sprintf("%s: %s #%d", when, p.Label, p.Occurrence)
}

// anyWrite is the label of a point that the next write will do for.
const anyWrite = ""

// A Killer kills the manager once for each host, at that host's point, and keeps a
// list of all writes.
type Killer struct {
	// Kill kills the manager; false: it is dead already.
	Kill func() bool

	mu     sync.Mutex
	armed  map[string]Point
	counts map[string]map[string]int
	writes map[string][]Point
	shots  map[string]Point
}

// Arm sets the points of a stage, and forgets what came before it.
func (k *Killer) Arm(points map[string]Point) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed = map[string]Point{}
	for host, point := range points {
		k.armed[host] = point
	}
	k.counts, k.writes, k.shots = map[string]map[string]int{}, map[string][]Point{}, map[string]Point{}
}

// Writes lists the writes about a host since Arm.
func (k *Killer) Writes(host string) []Point {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]Point(nil), k.writes[host]...)
}

// Shots are the points at which the manager was killed since Arm, by host.
func (k *Killer) Shots() map[string]Point {
	k.mu.Lock()
	defer k.mu.Unlock()
	shots := map[string]Point{}
	for host, point := range k.shots {
		shots[host] = point
	}
	return shots
}

// Pending are the hosts whose point has not come. Some writes do not come in every
// life (a server that switches itself off need not be switched off): from now on
// the next write of such a host is its point.
func (k *Killer) Pending() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var hosts []string
	for host := range k.armed {
		k.armed[host] = Point{Label: anyWrite, After: k.armed[host].After}
		hosts = append(hosts, host)
	}
	return hosts
}

// Before implements Witness.
func (k *Killer) Before(w Write) bool {
	k.mu.Lock()
	if k.counts == nil {
		k.mu.Unlock()
		return true
	}
	if k.counts[w.Host] == nil {
		k.counts[w.Host] = map[string]int{}
	}
	k.counts[w.Host][w.Label]++
	n := k.counts[w.Host][w.Label]
	k.writes[w.Host] = append(k.writes[w.Host], Point{Label: w.Label, Occurrence: n})
	k.mu.Unlock()
	return !k.shoot(w, false)
}

// After implements Witness.
func (k *Killer) After(w Write, _ int) bool { return !k.shoot(w, true) }

// shoot kills the manager if this is the host's point. A point that comes while
// the manager is dead already is left for the next time.
func (k *Killer) shoot(w Write, after bool) bool {
	k.mu.Lock()
	point, ok := k.armed[w.Host]
	due := ok && point.After == after &&
		(point.Label == anyWrite || point.Label == w.Label && k.counts[w.Host][w.Label] >= point.Occurrence)
	if due {
		delete(k.armed, w.Host) // nobody else shoots meanwhile
	}
	k.mu.Unlock()
	if !due {
		return false
	}
	hit := k.Kill()
	k.mu.Lock()
	defer k.mu.Unlock()
	if hit {
		point.Label, point.Occurrence = w.Label, k.counts[w.Host][w.Label]
		k.shots[w.Host] = point
	} else {
		k.armed[w.Host] = point
	}
	return hit
}
