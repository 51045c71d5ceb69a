// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package enrollment

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/ingot-metal/ingot/internal/ttlset"
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
	// toldAgain is how long an event about a full network is not repeated.
	toldAgain = 10 * time.Minute
)

// Pace bounds what reports of unknown clients may cost: their tokens are valid for minutes,
// and everything else waits for reads of the API server too. The zero value is ready. It is
// safe for concurrent use.
type Pace struct {
	mu       sync.Mutex
	machines ttlset.Map[machine, visit]
	networks map[string]*rate.Limiter
	told     ttlset.Set[string]
}

// machine is an unknown client on a network, by the MAC address that booted.
type machine struct{ network, mac string }

// visit is what is remembered of a machine: the key that came with its token first, and when
// it may report next.
type visit struct {
	key  string
	next time.Time
}

// enter returns an error unless a report is accepted now. The token belongs to the first key
// that came with it: an agent that has overheard the token is refused.
func (p *Pace) enter(report Report, now time.Time) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.machines.Max = maxMachines
	id := machine{report.Network, report.MAC}
	known, until, ok := p.machines.Get(id, now)
	switch {
	case !ok:
		if !p.machines.Put(id, visit{key: report.Key, next: now.Add(between)}, now, remembered) {
			return later{full, "too many machines report themselves"}
		}
		return nil
	case known.key != report.Key:
		return fmt.Errorf("%w: another agent has come with this token", ErrRefused)
	case now.Before(known.next):
		return later{max(known.next.Sub(now), between), "asked again too soon"}
	}
	known.next = now.Add(between)
	p.machines.Put(id, known, now, until.Sub(now))
	return nil
}

// look returns an error unless the API server may be read for a network now. There are as
// many limiters as IngotNetworks.
func (p *Pace) look(network string, perMinute int32, now time.Time) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	burst := int(max(perMinute, 1)) * looksPerEnrolment
	limiter := p.networks[network]
	if limiter == nil {
		limiter = rate.NewLimiter(0, burst)
		if p.networks == nil {
			p.networks = map[string]*rate.Limiter{}
		}
		p.networks[network] = limiter
	}
	limiter.SetBurstAt(now, burst)
	limiter.SetLimitAt(now, rate.Limit(burst)/60)
	if !limiter.AllowN(now, 1) {
		return later{soon, "too many machines at once"}
	}
	return nil
}

// tell reports whether it is time to report that the network takes in no machines.
func (p *Pace) tell(network string, now time.Time) bool {
	return p == nil || p.told.Add(network, now, toldAgain)
}
