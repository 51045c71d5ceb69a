// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package enrollment

import (
	"fmt"
	"sync"
	"time"
)

const (
	// between is how soon one machine may report again: less than it is asked to wait.
	between = time.Second
	// remembered is how long a machine is: longer than its token is valid.
	remembered = 15 * time.Minute
	// maxMachines bounds those that are remembered.
	maxMachines = 4096
	// looksPerEnrolment is how often the API server is read for each enrolment that the
	// network's pace allows: machines that wait for their turn ask again.
	looksPerEnrolment = 4
	// toldAgain is how long it is not said again that a network takes nobody in.
	toldAgain = 10 * time.Minute
)

// Pace bounds what reports may cost, whoever sends them: each is a stranger's, its token
// is valid for minutes, and reading the API server is what all else waits for. It is for
// one process, and the zero value is ready. It is safe for concurrent use.
type Pace struct {
	mu       sync.Mutex
	machines map[machine]*visit
	networks map[string]*looks
}

// machine is one on a network, by the MAC address that booted.
type machine struct{ network, mac string }

// visit is what is remembered of a machine: whose key came with its token first, and when
// it may report next.
type visit struct {
	key         string
	next, until time.Time
}

// looks is how often the API server may still be read for a network, at a time.
type looks struct {
	left   float64
	filled time.Time
	told   time.Time
}

// enter says whether a report is heard now. The token is the first key's: who has
// overheard it has come too late.
func (p *Pace) enter(report Report, now time.Time) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := machine{report.Network, report.MAC}
	known := p.machines[id]
	switch {
	case known == nil || !now.Before(known.until):
		if known == nil && !p.room(now) {
			return later{full, "too many machines report themselves"}
		}
		p.machines[id] = &visit{key: report.Key, next: now.Add(between), until: now.Add(remembered)}
		return nil
	case known.key != report.Key:
		return fmt.Errorf("%w: another agent has come with this token", ErrRefused)
	case now.Before(known.next):
		return later{max(known.next.Sub(now), between), "asked again too soon"}
	}
	known.next = now.Add(between)
	return nil
}

// room makes some, and says whether there is any.
func (p *Pace) room(now time.Time) bool {
	if p.machines == nil {
		p.machines = map[machine]*visit{}
	}
	if len(p.machines) < maxMachines {
		return true
	}
	for id, known := range p.machines {
		if !now.Before(known.until) {
			delete(p.machines, id)
		}
	}
	return len(p.machines) < maxMachines
}

// look says whether the API server may be read for a network now.
func (p *Pace) look(network string, perMinute int32, now time.Time) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	most := float64(max(perMinute, 1)) * looksPerEnrolment
	l := p.of(network, most, now)
	l.left = min(most, l.left+now.Sub(l.filled).Minutes()*most)
	l.filled = now
	if l.left < 1 {
		return later{soon, "too many machines at once"}
	}
	l.left--
	return nil
}

// tell says whether it is time to say that the network takes nobody in.
func (p *Pace) tell(network string, now time.Time) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.of(network, 1, now)
	if now.Before(l.told) {
		return false
	}
	l.told = now.Add(toldAgain)
	return true
}

// of are the looks of a network, of which there are as many as IngotNetworks.
func (p *Pace) of(network string, left float64, now time.Time) *looks {
	if p.networks == nil {
		p.networks = map[string]*looks{}
	}
	if p.networks[network] == nil {
		p.networks[network] = &looks{left: left, filled: now}
	}
	return p.networks[network]
}
