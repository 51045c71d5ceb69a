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
	// reportInterval is the minimum time between two reports of one machine. It is shorter than
	// any wait that Ingot asks for.
	reportInterval = time.Second
	// rememberFor is how long a machine is remembered: longer than its token is valid.
	rememberFor = 15 * time.Minute
	// maxMachines bounds the machines that are remembered.
	maxMachines = 4096
	// readsPerEnrollment is how many reads of the API server are allowed for each enrollment that
	// spec.discover.perMinute allows: waiting machines ask again.
	readsPerEnrollment = 4
	// reportFullAgain is the minimum time between two events about a full network.
	reportFullAgain = 10 * time.Minute
)

// RateLimiter limits the cost of reports by unknown machines: their tokens are valid for minutes,
// and other work waits for reads of the API server too. The zero value is ready, and nil does not
// limit. It is safe for concurrent use.
type RateLimiter struct {
	mu           sync.Mutex
	machines     ttlset.Map[machine, visit]
	networks     map[string]*rate.Limiter
	reportedFull ttlset.Set[string]
}

// machine is an unknown machine on a network, by the MAC address that booted.
type machine struct{ network, mac string }

// visit holds the key of a machine's first report, and when the machine may report again.
type visit struct {
	key  string
	next time.Time
}

// checkReport returns an error unless a report is accepted now. The token belongs to the first key
// that used it: another agent that read the token on the network is rejected.
func (l *RateLimiter) checkReport(report Report, now time.Time) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.machines.Max = maxMachines
	id := machine{report.Network, report.MAC}
	known, until, ok := l.machines.Get(id, now)
	switch {
	case !ok:
		if !l.machines.Put(id, visit{key: report.Key, next: now.Add(reportInterval)}, now, rememberFor) {
			return retryError{retryFull, "too many machines report themselves"}
		}
		return nil
	case known.key != report.Key:
		return fmt.Errorf("%w: another agent has used this token", ErrRejected)
	case now.Before(known.next):
		return retryError{max(known.next.Sub(now), reportInterval), "reported again too soon"}
	}
	known.next = now.Add(reportInterval)
	l.machines.Put(id, known, now, until.Sub(now))
	return nil
}

// checkRead returns an error unless the API server may be read for a network now. There are as many
// limiters as IngotNetworks.
func (l *RateLimiter) checkRead(network string, perMinute int32, now time.Time) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	burst := int(max(perMinute, 1)) * readsPerEnrollment
	limiter := l.networks[network]
	if limiter == nil {
		limiter = rate.NewLimiter(0, burst)
		if l.networks == nil {
			l.networks = map[string]*rate.Limiter{}
		}
		l.networks[network] = limiter
	}
	limiter.SetBurstAt(now, burst)
	limiter.SetLimitAt(now, rate.Limit(burst)/60)
	if !limiter.AllowN(now, 1) {
		return retryError{retrySoon, "too many machines at once"}
	}
	return nil
}

// shouldReportFull reports whether an event about the full network is due.
func (l *RateLimiter) shouldReportFull(network string, now time.Time) bool {
	return l == nil || l.reportedFull.Add(network, now, reportFullAgain)
}
