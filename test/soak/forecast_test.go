// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A faultWindow is a fault of one host for a time.
type faultWindow struct {
	host  string
	fault fault
	// at is since the beginning of the storm; until is 0 for one that stays.
	at, until time.Duration
}

// A deck deals faults so that each comes before any comes again.
type deck struct {
	all  func() []fault
	left []fault
	rng  *rand.Rand
}

func (d *deck) deal() fault {
	if len(d.left) == 0 {
		d.left = d.all()
		d.rng.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	f := d.left[0]
	d.left = d.left[1:]
	return f
}

// forecast gives every host of the list one or two faults of a catalog within the length:
// one that passes in the first part of the storm, and to four of five one that stays in
// the second. It depends on the source only.
func forecast(rng *rand.Rand, hosts []string, length time.Duration, all func() []fault) (faultWindows []faultWindow) {
	pass, stay := deck{all: all, rng: rng}, deck{all: staying(all), rng: rng}
	some := func(from, to float64) time.Duration {
		return time.Duration((from + rng.Float64()*(to-from)) * float64(length))
	}
	for i, host := range hosts {
		stays := i%5 != 4
		if !stays || rng.IntN(2) == 0 {
			at := some(0, 0.4)
			faultWindows = append(faultWindows, faultWindow{host: host, fault: pass.deal(), at: at, until: at + some(0.05, 0.15)})
		}
		if stays {
			faultWindows = append(faultWindows, faultWindow{host: host, fault: stay.deal(), at: some(0.56, 0.9)})
		}
	}
	slices.SortStableFunc(faultWindows, func(a, b faultWindow) int { return cmp.Compare(a.at, b.at) })
	return faultWindows
}

// A workItem is something that a user does at a point in time.
type workItem struct {
	at time.Duration
	// what is one of the three.
	register, claim, release string
}

// workload is all that users do during the storm: hosts that are registered late,
// machines that come, and of those some that go again. machines is how many there
// are at most at once.
func workload(rng *rand.Rand, late []string, machines int, length time.Duration) (out []workItem) {
	some := func(from, to float64) time.Duration {
		return time.Duration((from + rng.Float64()*(to-from)) * float64(length))
	}
	for _, host := range late {
		out = append(out, workItem{at: some(0, 0.5), register: host})
	}
	for i := range machines + machines/4 {
		name, at := fmt.Sprintf("m-%03d", i), some(0, 0.5)
		if i >= machines {
			at = some(0.8, 1)
		}
		out = append(out, workItem{at: at, claim: name})
		if i < machines && i%5 < 2 {
			out = append(out, workItem{at: at + some(0.2, 0.5), release: name})
		}
	}
	slices.SortStableFunc(out, func(a, b workItem) int { return cmp.Compare(a.at, b.at) })
	return out
}

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// TestForecast: in a whole storm each fault comes, and comes to stay if it can; no
// host has two at once; the same seed gives the same storm.
func TestForecast(t *testing.T) {
	t.Run("Redfish", func(t *testing.T) { testForecast(t, catalogue) })
	t.Run("IPMI", func(t *testing.T) { testForecast(t, ipmiCatalogue) })
}

func testForecast(t *testing.T, all func() []fault) {
	t.Helper()
	const length = 100 * time.Second
	var hosts []string
	for i := range 100 {
		hosts = append(hosts, fmt.Sprint(i))
	}
	faultWindows := forecast(source(7), hosts, length, all)
	came, stayed, last := map[string]bool{}, map[string]bool{}, map[string]faultWindow{}
	for i, s := range faultWindows {
		came[s.fault.name] = true
		if s.until == 0 {
			stayed[s.fault.name] = true
		}
		if before, ok := last[s.host]; ok && (before.until == 0 || before.until > s.at) {
			t.Errorf("host %s has two faults at once: %+v and %+v", s.host, before, s)
		}
		last[s.host] = s
		if s.at < 0 || s.at > length || s.until > length || i > 0 && faultWindows[i-1].at > s.at {
			t.Errorf("faultWindow %d at %s until %s", i, s.at, s.until)
		}
	}
	for _, f := range all() {
		if !came[f.name] || stayed[f.name] == f.passes {
			t.Errorf("%s came: %v, stayed: %v", f.name, came[f.name], stayed[f.name])
		}
	}
	if len(last) != len(hosts) {
		t.Errorf("%d hosts of %d have a fault", len(last), len(hosts))
	}
	for i, s := range forecast(source(7), hosts, length, all) {
		if s.host != faultWindows[i].host || s.at != faultWindows[i].at || s.fault.name != faultWindows[i].fault.name {
			t.Fatalf("another storm by the same seed, from faultWindow %d on", i)
		}
	}
}

// TestErrands: nobody is let go before he came, and at most so many are there.
func TestErrands(t *testing.T) {
	late := []string{"x", "y"}
	there, registered, released, most := map[string]bool{}, 0, 0, 0
	for _, e := range workload(source(7), late, 40, time.Minute) {
		switch {
		case e.register != "":
			registered++
		case e.claim != "":
			there[e.claim] = true
		case !there[e.release]:
			t.Errorf("%s is released before it came", e.release)
		default:
			released++
			delete(there, e.release)
		}
		most = max(most, len(there))
	}
	if registered != 2 || released != 16 || most > 40 || len(there) != 34 {
		t.Errorf("%d registered, %d released, at most %d at once, %d in the end", registered, released, most, len(there))
	}
}
