// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/test/needs"
)

const (
	// killSeeds is how many hosts go through a life in which the manager is killed
	// once in each stage for each of them.
	// The full number is above twice the writes of any stage: each write is hit
	// before it is done and between it and its reply.
	killSeeds      = 60
	shortKillSeeds = 5
	// calibration is the host whose undisturbed life shows which writes there are.
	calibration = "calibration"
)

// testKills: the manager is killed before a write, or between a write and its
// reply, at a point of its own for each host in each stage; what is left at the
// end is what would be there without kills (I1, I3, I4, I17).
func testKills(t *testing.T, plane *Plane) {
	seeds := shortKillSeeds
	if needs.IsFull() {
		seeds = killSeeds
	}
	var names []string
	for seed := range seeds {
		names = append(names, fmt.Sprintf("seed-%02d", seed))
	}
	killer := &Killer{}
	site := plane.NewSite(t, SiteOptions{Servers: append([]string{calibration}, names...), Witness: killer})
	// A host that loses its manager again and again is not a host that fails.
	manager := site.StartManager(t, ManagerOptions{Name: "manager", Witness: killer, Args: []string{"--max-attempts=20", "--v=1"}})
	killer.Kill = manager.Kill
	site.CreateCluster(t)

	// Each kill is a new start of the manager, one after the other.
	limit := patience + time.Duration(seeds)*10*time.Second
	for _, stage := range []struct {
		name  string
		must  []string
		begin func(name string)
		await func(names ...string)
	}{
		{"inspect", []string{"spec.order.kind=Inspect", "spec.order.result"}, func(name string) { site.Register(t, name) },
			func(names ...string) { site.AwaitFor(t, limit, "hosts inspected", site.Free(names...)) }},
		{"install", []string{"spec.providerID", "spec.claim.clusterName", "spec.claim.state=Provisioned"}, func(name string) { site.Claim(t, name, theHost(name)) },
			func(names ...string) { site.AwaitFor(t, limit, "hosts installed", site.Installed(names...)) }},
		{"wipe", []string{"spec.claim.state=Releasing", "spec.claim.fencedTime", "spec.order.result"}, func(name string) { site.Delete(t, name) },
			func(names ...string) { site.AwaitFor(t, limit, "hosts wiped", site.Free(names...)) }},
	} {
		if stage.name == "wipe" {
			defer undisturbed(t, site, append([]string{calibration}, names...))()
		}
		killer.Arm(nil)
		stage.begin(calibration)
		stage.await(calibration)
		writes := killer.Writes(calibration)
		points := spread(t, writes, names, stage.must)
		killer.Arm(points)
		began := time.Now()
		for _, name := range names {
			stage.begin(name)
		}
		stage.await(names...)
		if pending := killer.Pending(); len(pending) > 0 {
			t.Logf("%s: %v did not come to their points; their status is emptied, and the manager killed when it writes it", stage.name, pending)
			site.EmptyStatus(t, pending...)
			site.Await(t, "kills of those that were late", func(context.Context) (string, error) { return strings.Join(killer.Pending(), " "), nil })
			if stage.name == "install" {
				site.AwaitFor(t, limit, "hosts still installed", site.Provisioned(names...)) // the report of the boot was in status
			} else {
				stage.await(names...)
			}
		}
		report(t, stage.name, points, killer.Shots(), time.Since(began))
		covered(t, stage.name, writes, killer.Shots())
	}
	check(t, manager.Await(t.Context()))
	proveLives(t, site, append([]string{calibration}, names...))
	if manager.Kills() < 3*seeds {
		t.Errorf("the manager was killed %d times: %d are needed", manager.Kills(), 3*seeds)
	}
}

// spread gives each host a point, so that together they cover the writes of the
// stage evenly, before the write or between write and reply. Which ones is decided
// by the number of hosts alone, so that a run can be repeated. The first hosts get
// the replies that must be lost: to the writes that nothing can take back.
func spread(t *testing.T, writes []Point, names, must []string) map[string]Point {
	t.Helper()
	var all []Point
	for _, w := range writes {
		after := w
		after.After = true
		all = append(all, w, after)
	}
	source := rand.New(rand.NewPCG(uint64(len(names)), 1))
	points := map[string]Point{}
	for i, words := range must {
		at := slices.IndexFunc(writes, func(p Point) bool { return strings.Contains(p.Label, words) })
		if at < 0 {
			t.Fatalf("there is no write of %s: %v", words, writes)
		}
		after := writes[at]
		after.After = true
		points[names[i]] = after
	}
	names = names[len(must):]
	for i, name := range names {
		low, high := i*len(all)/len(names), (i+1)*len(all)/len(names)
		points[name] = all[low+source.IntN(max(high-low, 1))]
	}
	return points
}

// report prints where the manager was killed, and fails if it was not.
func report(t *testing.T, stage string, points, shots map[string]Point, took time.Duration) {
	t.Helper()
	after := 0
	for name, point := range points {
		shot, ok := shots[name]
		if !ok {
			t.Errorf("%s: host %s never came to %s", stage, name, point)
			continue
		}
		if shot.After {
			after++
		}
		t.Logf("%s %s: killed %s", stage, name, shot)
	}
	t.Logf("%s: %d kills (%d between write and reply), %s", stage, len(shots), after, took.Round(time.Second))
}

// covered prints how many of the different writes of a stage were hit, and with
// the full number of seeds fails if they are few.
func covered(t *testing.T, stage string, writes []Point, shots map[string]Point) {
	t.Helper()
	hit := map[bool]map[string]bool{false: {}, true: {}}
	for _, shot := range shots {
		hit[shot.After][shot.Label] = true
	}
	labels, before, after := map[string]bool{}, 0, 0
	for _, w := range writes {
		if labels[w.Label] {
			continue
		}
		labels[w.Label] = true
		if hit[false][w.Label] {
			before++
		}
		if hit[true][w.Label] {
			after++
		}
	}
	// A host that other hosts' kills made repeat a step writes other things than the
	// undisturbed one did, so not every point can be met to the letter.
	if needs.IsFull() && before+after < len(labels) {
		t.Errorf("%s: of %d different writes only %d were hit before and %d after", stage, len(labels), before, after)
	}
	t.Logf("%s: of %d different writes %d were hit before and %d between write and reply", stage, len(labels), before, after)
}

// undisturbed notes how much was written to the disks; what it returns fails if
// the marker's log shows more before the release.
func undisturbed(t *testing.T, site *Site, names []string) func() {
	t.Helper()
	before := map[string]int64{}
	for _, name := range names {
		written, zeroed := site.Server(name).Simulated.Disks()[0].BytesWritten()
		before[name] = written + zeroed
	}
	return func() {
		for _, name := range names {
			for _, e := range site.Server(name).Simulated.Disks()[0].Log() {
				if strings.HasPrefix(string(e.Kind), "Install") && e.Written+e.Zeroed > before[name] {
					t.Errorf("%s: %s %v after it was provisioned", name, e.Kind, e.Marker)
				}
			}
		}
	}
}

// proveLives checks what all lives left behind: claims, disks, servers.
func proveLives(t *testing.T, site *Site, names []string) {
	t.Helper()
	site.History.Settle(t)
	versions := site.History.Versions(t)
	claims, wrong := CheckClaims(site.Namespace, versions)
	if claims < len(names) {
		wrong = append(wrong, fmt.Sprintf("the history has %d claims of %d hosts", claims, len(names)))
	}
	installs := 0
	for _, name := range names {
		one := site.Server(name)
		n, bad := CheckDisk(name, one.Simulated.Disks()[0].Log(), versions)
		if n == 0 {
			bad = append(bad, name+": its disk was never written")
		}
		installs += n
		wrong = append(wrong, bad...)
		state, err := one.Disk()
		check(t, err)
		if state.Marker != nil || state.PartitionTable || one.Powered() {
			wrong = append(wrong, fmt.Sprintf("%s: it should be wiped and off: %+v, on %t", name, state, one.Powered()))
		}
	}
	for _, text := range wrong {
		t.Error(text)
	}
	t.Logf("%d versions of hosts and machines, %d claims, %d complete writes on %d disks: %d breaches", len(versions), claims, installs, len(names), len(wrong))
}
