// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/test/site"
)

// A meter notes every request to every BMC, of whatever kind, with its time.
type meter struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu sync.Mutex
	// seen are the requests of each server, in order.
	seen map[string][]time.Time
}

// tick is how often the meter looks; requests within one have the same time.
const tick = 100 * time.Millisecond

// startMeter starts a meter of what each counter counts, which runs until it is ended.
func startMeter(counters map[string]func() int) *meter {
	ctx, cancel := context.WithCancel(context.Background())
	m := &meter{stop: cancel, seen: map[string][]time.Time{}}
	counts := map[string]int{}
	for name, count := range counters {
		counts[name] = count()
	}
	m.done.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				m.look(counters, counts, now)
			}
		}
	})
	return m
}

// requests counts those of each BMC, logins and logouts too.
func requests(world *site.World) map[string]func() int {
	counters := map[string]func() int{}
	for _, name := range world.Servers() {
		b := world.Server(name).BMC
		counters[name] = func() int { return b.Reads() + len(b.Writes()) }
	}
	return counters
}

func (m *meter) look(counters map[string]func() int, counts map[string]int, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, before := range counts {
		counts[name] = counters[name]()
		for range counts[name] - before {
			m.seen[name] = append(m.seen[name], now)
		}
	}
}

// end stops the meter; what it saw stays.
func (m *meter) end() {
	m.stop()
	m.done.Wait()
}

// between are the requests of a server in a window.
func (m *meter) between(server string, w window) []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []time.Time
	for _, at := range m.seen[server] {
		if at.After(w.from) && at.Before(w.to) {
			out = append(out, at)
		}
	}
	return out
}

// A window is a time in which nobody did anything.
type window struct{ from, to time.Time }

func (w window) minutes() float64 { return w.to.Sub(w.from).Minutes() }

// A load is what the BMCs were asked in a window.
type load struct {
	// servers is their number, total that of all requests.
	servers, total int
	// busiest is the server with the most requests.
	busiest string
	most    int
	// seconds counts the requests by their second of the minute, the first minute's
	// on top of the second's.
	seconds [60]int
	// peak is the most requests of all servers in one second.
	peak int
	// gap is the shortest time between two requests of one server; 0 if none has two.
	gap time.Duration
}

// loadOf adds up what a meter saw.
func loadOf(m *meter, servers []string, w window) load {
	l := load{servers: len(servers)}
	second := map[int64]int{}
	for _, name := range servers {
		asked := m.between(name, w)
		l.total += len(asked)
		if len(asked) > l.most {
			l.busiest, l.most = name, len(asked)
		}
		for i, at := range asked {
			if i > 0 && (l.gap == 0 || at.Sub(asked[i-1]) < l.gap) {
				l.gap = at.Sub(asked[i-1])
			}
			l.seconds[at.Second()]++
			second[at.Unix()]++
		}
	}
	for _, n := range second {
		l.peak = max(l.peak, n)
	}
	return l
}

// report says what there is to know, for people.
func (l load) report(w window) string {
	var b strings.Builder
	fmt.Fprintf(&b, "BMC requests in %.1f minutes: %d by %d servers; per host and minute %.2f in the mean, %.2f at most (%s, %d)",
		w.minutes(), l.total, l.servers, float64(l.total)/float64(l.servers)/w.minutes(), float64(l.most)/w.minutes(), l.busiest, l.most)
	fmt.Fprintf(&b, "\nshortest time between two of one host: %s", l.gap.Round(time.Second))
	fmt.Fprintf(&b, "\nat most %d in one second; by second of the minute, all minutes added up:", l.peak)
	for from := range slices.Chunk(l.seconds[:], 10) {
		fmt.Fprintf(&b, "\n%v", from)
	}
	return b.String()
}
