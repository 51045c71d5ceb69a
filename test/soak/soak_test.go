// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/test/needs"
)

// A size is how big a storm is.
type size struct {
	hosts int
	// share of the hosts that get faults, in percent.
	share int
	// factor by which all waits of the manager are shortened.
	factor int
	// length of the time in which faults begin and machines come and go.
	length time.Duration
	// patience bounds each wait for the end of it all.
	patience time.Duration
	// memory of the manager, resident, in MiB, at most.
	memory float64
}

// sizes: a short storm has few hosts, and so more of them have faults.
func sizes() size {
	s := size{hosts: 30, share: 40, factor: 20, length: 10 * time.Second, patience: 3 * time.Minute, memory: 250}
	if needs.IsFull() {
		s = size{hosts: 500, share: 20, factor: 10, length: 4 * time.Minute, patience: 15 * time.Minute, memory: 400}
	}
	if n := number("INGOT_STORM_HOSTS"); n > 0 {
		s.length = time.Duration(float64(s.length) * max(1, float64(n)/float64(s.hosts)))
		s.hosts = int(n)
	}
	return s
}

// seed of the storm: another one each time, unless it is given.
func seed() uint64 {
	if n := number("INGOT_STORM_SEED"); n > 0 {
		return n
	}
	return uint64(time.Now().UnixNano())%1_000_000 + 1
}

// number is what a variable of the environment says; 0: nothing.
func number(variable string) uint64 {
	n, _ := strconv.ParseUint(os.Getenv(variable), 10, 32) // an empty one is 0
	return n
}

// TestStorm is the whole of it, see the package.
func TestStorm(t *testing.T) {
	if !needs.IsFull() && number("INGOT_STORM_HOSTS") == 0 {
		t.Skip("set INGOT_FULL=1, as make test-full does, or INGOT_STORM_HOSTS=30 for a small storm")
	}
	s, seed := sizes(), seed()
	t.Logf("storm of %d hosts, %d %% with faults, waits shortened by %d, seed %d (INGOT_STORM_SEED)", s.hosts, s.share, s.factor, seed)
	sc := newScene(t, s, seed)
	began := time.Now()
	sc.register(t, sc.early...)
	sc.Await(t, s.patience, "early hosts to be free", sc.allRight(t, nil))
	calm := sc.goroutines(t)

	sc.blow(t)
	ends := map[string]*fault{}
	for host, faultWindow := range sc.stays {
		ends[host] = &faultWindow.fault
	}
	sc.Await(t, s.patience, "every host to come to its end", sc.allRight(t, ends))
	t.Logf("the storm took %s; with the faults that stay:\n%s", time.Since(began).Round(time.Second), report(sc.look(t.Context(), ends)))

	sc.cure(t)
	sc.Await(t, s.patience, "every host to be right without faults", sc.allRight(t, nil))
	t.Logf("without faults:\n%s", report(sc.look(t.Context(), nil)))
	sc.history(t)
	sc.spent(t, calm)
	sc.manager.StopWithin(time.Minute)
	sc.sessions(t)
}

// blow lets the storm come: faults, machines and late hosts, each at its time.
func (sc *scene) blow(t *testing.T) {
	t.Helper()
	sc.gauge = startGauge(sc.manager.MetricsURL)
	t.Cleanup(sc.gauge.end)
	ctx, cancel := context.WithCancel(t.Context())
	injectFaults := make(chan error, 1)
	began := time.Now()
	go func() { injectFaults <- sc.injectFaults(ctx, began) }()
	defer func() {
		cancel()
		if err := <-injectFaults; err != nil {
			t.Error(err)
		}
	}()
	for _, e := range sc.workload {
		time.Sleep(time.Until(began.Add(e.at)))
		switch {
		case e.register != "":
			sc.register(t, e.register)
		case e.claim != "":
			sc.site.Claim(t, e.claim, nil)
			sc.machines[e.claim] = true
		case e.release != "":
			sc.site.Delete(t, e.release)
			sc.machines[e.release] = false
		}
	}
	time.Sleep(time.Until(began.Add(sc.size.length)))
}

// injectFaults begins and ends the faults at their times.
func (sc *scene) injectFaults(ctx context.Context, began time.Time) error {
	sleep := func(until time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Until(began.Add(until))):
			return true
		}
	}
	type change struct {
		at          time.Duration
		faultWindow faultWindow
		over        bool
	}
	var changes []change
	for _, s := range sc.faultWindows {
		changes = append(changes, change{at: s.at, faultWindow: s})
		if s.until > 0 {
			changes = append(changes, change{at: s.until, faultWindow: s, over: true})
		}
	}
	sortBy(changes, func(c change) time.Duration { return c.at })
	for _, c := range changes {
		if !sleep(c.at) {
			return nil
		}
		p := sc.faultyBMCs[c.faultWindow.host]
		if !c.over {
			c.faultWindow.fault.begin(p)
		} else if err := p.cure(); err != nil {
			return fmt.Errorf("cure the BMC of %s: %w", c.faultWindow.host, err)
		}
	}
	return nil
}

// spent compares what the manager uses with what it may.
func (sc *scene) spent(t *testing.T, calm map[string]int) {
	t.Helper()
	var grown []string
	var rest int
	sc.Await(t, time.Minute, "goroutines to end", func(ctx context.Context) (string, error) {
		now := sc.goroutines(t)
		grown = leaks(calm, now, sc.size.hosts)
		if len(grown) > 0 {
			return fmt.Sprint(grown), nil
		}
		rest = total(now)
		return "", nil
	})
	sc.gauge.end()
	t.Logf("goroutines of the manager: %d at rest with %d hosts before the storm, %d at most, %d at rest with %d hosts after it",
		total(calm), len(sc.early), int(sc.gauge.goroutines), rest, sc.size.hosts)
	t.Logf("memory of the manager: %.0f MiB resident at most in %d readings, %.0f are allowed", sc.gauge.memory/(1<<20), sc.gauge.reads, sc.size.memory)
	if sc.gauge.reads == 0 || sc.gauge.memory > sc.size.memory*(1<<20) {
		t.Errorf("memory: %.0f MiB in %d readings (%v)", sc.gauge.memory/(1<<20), sc.gauge.reads, sc.gauge.err)
	}
}

// sessions counts what the manager left at the BMCs, and what it ever had at one.
func (sc *scene) sessions(t *testing.T) {
	t.Helper()
	left, opened, peak, requests, redfish := 0, 0, 0, 0, 0
	for _, name := range sc.names {
		b := sc.site.Server(name).BMC
		if b == nil {
			sc.sessionsByIPMI(t, name)
			continue
		}
		redfish++
		opened, peak, requests = opened+b.OpenedSessions(), max(peak, b.PeakSessions()), requests+b.Reads()+len(b.Writes())
		left += b.Sessions()
		// Whose session was refused (401) opens another, and ends the one before by it.
		atOnce := 1
		if strings.Contains(sc.faultsOf(name), "401") {
			atOnce = 2
		}
		if b.Sessions() > 0 || b.PeakSessions() > atOnce || b.BasicRequests() > 0 {
			t.Errorf("BMC of %s (%s; faults: %s): %d sessions are left, %d were open at once, %d requests with Basic credentials",
				name, b.Address(), sc.faultsOf(name), b.Sessions(), b.PeakSessions(), b.BasicRequests())
		}
	}
	t.Logf("BMCs: %d requests, %d sessions opened, at most %d at once at one BMC, %d left", requests, opened, peak, left)
	if opened < redfish {
		t.Errorf("only %d sessions were ever opened at %d BMCs", opened, redfish)
	}
}

// sessionsByIPMI: a BMC that was silent has sessions that nobody could end, which it
// ends by itself when a minute has passed; at one that was well there are none.
func (sc *scene) sessionsByIPMI(t *testing.T, name string) {
	t.Helper()
	b := sc.site.Server(name).IPMI
	if n := b.Sessions(); n > 0 && sc.faultyBMCs[name] == nil {
		t.Errorf("BMC of %s (%s): %d sessions are left", name, b.Address(), n)
	}
	if len(b.Commands()) == 0 {
		t.Errorf("BMC of %s (%s) was never asked for anything", name, b.Address())
	}
}
