// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/management"
	"github.com/ingot-metal/ingot/test/site"
)

const (
	// gap is the least time between the last renewal of the managers' Lease in the snapshot
	// and the restore, by which it is noticed; commands are older by then as well.
	gap = 150 * time.Second
	// steady is how long all hosts have to stay as they are to be at rest: many polls, and
	// more than an agent is waited for.
	steady = 25 * time.Second
	// atRest bounds the wait for that.
	atRest = 6 * time.Minute
)

// TestRestore is the drill: see the package's comment.
func TestRestore(t *testing.T) {
	if os.Getenv("INGOT_RESTORE") == "" {
		t.Skip("set INGOT_RESTORE=1, as make test-restore does")
	}
	d := newDrill(t)
	d.bringAll()
	file := filepath.Join(t.TempDir(), "etcd.snapshot")
	d.must(d.plane.Snapshot(t.Context(), file))
	saved := time.Now()
	d.goOn()
	if wait := time.Until(saved.Add(gap)); wait > 0 {
		time.Sleep(wait)
	}

	total := &tally{}
	d.second(file, total)
	d.restored(file, total)
	fmt.Println(total)
	if total.safe != total.states || total.disks != 0 || total.switched != 0 {
		t.Error(total)
	}
}

// bringAll brings every host to its state, all at once at the end.
func (d *drill) bringAll() {
	d.register()
	var free, tenants, machines []string
	for _, s := range d.states {
		if s.early == nil && s.name != "moved" {
			free = append(free, s.host)
		}
	}
	d.wait("free hosts", site.All(d.Free(append(free, d.first)...), d.moving.Free(d.named("moved"))))
	d.createClusters()
	for _, s := range d.states {
		if s.tenant {
			d.claim(s)
			tenants, machines = append(tenants, s.host), append(machines, s.machine())
		}
	}
	d.wait("clusters and machines that run", site.All(d.runsCluster(d.cluster), d.runsCluster(d.other), d.runs(machines...)))
	d.wait("systems that have booted", d.used(append(tenants, d.first, d.named("remediation"), d.named("moved"))...))
	for _, s := range d.states {
		if s.bring != nil {
			s.bring(d, s)
		}
	}
	d.wait("hosts in their states", func(ctx context.Context) (string, error) {
		var missing []string
		for _, s := range d.states {
			lack, err := d.of(s).Hosts([]string{s.host}, func(h *infrav1.IngotHost) string { return s.reached(d, s, h) })(ctx)
			if err != nil {
				return "", err
			}
			if lack != "" {
				missing = append(missing, s.name+": "+lack)
			}
		}
		return strings.Join(missing, "; "), nil
	})
}

// used reports which of the servers are not in use.
func (d *drill) used(names ...string) site.Missing {
	return func(context.Context) (string, error) {
		for _, name := range names {
			if lack := inUse(d.World.Server(name)); lack != "" {
				return name + ": " + lack, nil
			}
		}
		return "", nil
	}
}

// goOn lets the world go past the snapshot: at its end every server is in use.
func (d *drill) goOn() {
	for _, s := range d.states {
		if s.resume != nil {
			s.resume(d, s)
		}
	}
	var same, free, next, all []string
	for _, s := range d.states {
		all = append(all, s.host)
		switch {
		case s.ends == nextTenant:
			free = append(free, s.host)
		case s.name != "remediation" && s.name != "moved":
			same = append(same, s.machine())
			if s.ends == handedOver {
				free = append(free, s.host)
			}
		}
	}
	d.wait("the machines of the snapshot", site.All(d.runs(same...), d.runsCluster(d.cluster), d.runsCluster(d.other)))
	for _, s := range d.states {
		if s.ends == handedOver {
			d.release(s)
		}
	}
	d.wait("hosts for the next tenants", d.Free(free...))
	for _, host := range free {
		name := "next-" + host
		next = append(next, name)
		d.claimAs(name, host)
	}
	d.wait("the machines of the next tenants", d.runs(next...))
	d.wait("servers in use", d.used(append(all, d.first)...))
}

// second starts a second management cluster on the snapshot, while the first one is at work.
func (d *drill) second(file string, total *tally) {
	t := d.t
	plane, err := d.plane.StartCopy(t.Context(), filepath.Join(t.TempDir(), "second"), file)
	d.must(err)
	defer plane.Stop()
	other := d.Fork(t, "second", plane)
	d.begin()
	other.StartManager(t, after...)
	d.restart()
	if d.settle("second management cluster", other) {
		d.rebootAll()
		d.wait("the first management cluster unmoved", d.runs(d.running()...))
	}
	d.count("second cluster", other, total)
	other.StopManager()
}

// running are the Machines that run on the servers.
func (d *drill) running() []string {
	var names []string
	for _, s := range d.states {
		switch {
		case s.ends != sameTenant:
			names = append(names, "next-"+s.host)
		case s.name != "remediation" && s.name != "moved":
			names = append(names, s.machine())
		}
	}
	return names
}

// restored stops the managers, restores etcd in place, and starts all again.
func (d *drill) restored(file string, total *tally) {
	t := d.t
	d.StopManager()
	d.begin()
	d.must(d.plane.Restore(t.Context(), file))
	for _, s := range d.states {
		if s.dark {
			cutPower(d, s)
		}
	}
	began := time.Now()
	d.StartManager(t, after...)
	ran := d.restart()
	later := func(s *state) bool { return s.later != nil && s.laterReason != infrav1.ReasonAvailable }
	if d.settle("restored hosts", d.Site) {
		d.gapShown(began)
		for s, before := range ran {
			if agents(d.server(s)) == before {
				t.Errorf("%s: its server restarted, and no agent came of the order", s.name)
			}
		}
		d.rebootAll()
		for _, s := range d.states {
			if later(s) {
				s.later(d, s)
				s.phase, s.reason = s.laterPhase, s.laterReason
			}
		}
		d.settle("restored hosts, later", d.Site)
	}
	if d.count("restored", d.Site, total); t.Failed() {
		return
	}
	for _, s := range d.states { // a person answers
		if s.later != nil && !later(s) {
			s.later(d, s)
			d.wait("a host that was held, and goes on", d.Free(s.host))
		}
	}
}

// gapShown: the managers' Lease has begun again.
func (d *drill) gapShown(began time.Time) {
	d.t.Helper()
	lease := &coordinationv1.Lease{}
	d.must(d.Client.Get(d.t.Context(), client.ObjectKey{Namespace: management.Namespace, Name: "ingot-continuity"}, lease))
	if at := lease.Spec.AcquireTime; at == nil || at.Time.Before(began) {
		d.t.Errorf("the Lease of the managers begins at %s, before they were started at %s", at, began)
	}
}

// begin counts from here on.
func (d *drill) begin() {
	for _, s := range d.states {
		if lack := inUse(d.server(s)); lack != "" {
			d.t.Errorf("%s: its server is not in use: %s", s.name, lack)
		}
		s.mark = markOf(d.server(s))
	}
}

// harmed reports whether a server took what no server may.
func (d *drill) harmed() bool {
	return slices.ContainsFunc(d.states, func(s *state) bool {
		return s.mark.written(d.server(s)) > 0 || len(s.mark.switched(d.server(s))) > 0
	})
}

func (d *drill) hosts() []string {
	var names []string
	for _, s := range d.states {
		names = append(names, s.host)
	}
	return names
}

// restart restarts the servers that do so by themselves as soon as the managers are back. It
// returns how many agents had run on them before.
func (d *drill) restart() map[*state]int {
	ran := map[*state]int{}
	for _, s := range d.states {
		if s.restarts {
			ran[s] = agents(d.server(s))
			d.reboot(s)
		}
	}
	return ran
}

func (d *drill) reboot(s *state) { d.must(d.server(s).Simulated.Power(d.t.Context(), bmc.Reboot)) }

// rebootAll restarts every server by its own system, once all hosts are held: each ends in its
// system again, and none of them runs the agent for it.
func (d *drill) rebootAll() {
	booted, ran := map[string]int{}, map[string]int{}
	for _, s := range d.states {
		if !d.server(s).Simulated.Powered() {
			continue
		}
		booted[s.host], ran[s.host] = boots(d.server(s)), agents(d.server(s))
		d.reboot(s)
	}
	d.wait("servers that have restarted", func(context.Context) (string, error) {
		for _, s := range d.states {
			if d.server(s).Spec.Name != d.named("releasing, powering off") && boots(d.server(s)) <= booted[s.host] {
				return s.name + ": it has not booted from its disk", nil
			}
		}
		return d.used(d.hosts()...)(d.t.Context())
	})
	for _, s := range d.states {
		if n := agents(d.server(s)) - ran[s.host]; n > 0 {
			d.t.Errorf("%s: the server was given the agent %d times when it restarted", s.name, n)
		}
	}
}

// settle waits until every host is as wanted, and for some time after. It reports false, and
// ends early, if a server was harmed.
func (d *drill) settle(what string, at *site.Site) bool {
	d.t.Helper()
	since := time.Time{}
	limit := time.Now().Add(atRest)
	last := ""
	for time.Now().Before(limit) && !d.harmed() {
		lack := d.wrong(at)
		switch {
		case lack != "":
			since, last = time.Time{}, lack
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > steady:
			d.t.Logf("%s: at rest", what)
			return true
		}
		time.Sleep(500 * time.Millisecond)
	}
	d.t.Errorf("%s: not at rest: %s", what, last)
	return false
}

// wrong lists the hosts that are not as wanted.
func (d *drill) wrong(at *site.Site) string {
	var wrong []string
	for _, s := range d.states {
		if lack := d.is(at, s, s.phase, s.reason); lack != "" {
			wrong = append(wrong, s.name+": "+lack)
		}
	}
	return strings.Join(wrong, "; ")
}

// is reports how the host differs from what is wanted.
func (d *drill) is(at *site.Site, s *state, phase infrav1.IngotHostPhase, reason string) string {
	in := *at
	if s.name == "moved" {
		in.Namespace = movingNamespace
	}
	found := ""
	lack, err := in.Hosts([]string{s.host}, func(h *infrav1.IngotHost) string {
		condition := infrav1.ReadyCondition
		if reason == infrav1.ReasonMovePaused {
			condition = infrav1.PausedCondition
		}
		if got := conditions.GetReason(h, condition); got != reason || h.Status.Phase != phase {
			found = fmt.Sprintf("it is %s, %s (%s), want %s, %s", h.Status.Phase, got, conditions.GetMessage(h, condition), phase, reason)
		}
		return found
	})(d.t.Context())
	if err != nil {
		return err.Error()
	}
	if found != "" {
		return found
	}
	return lack
}

// A tally counts what was done to the servers.
type tally struct{ states, safe, disks, switched int }

// String is the last line of the drill.
func (c *tally) String() string {
	return fmt.Sprintf("restore: %d of %d states safe, %d disks written, %d servers switched", c.safe, c.states, c.disks, c.switched)
}

// count prints a line for each state.
func (d *drill) count(what string, at *site.Site, total *tally) {
	for _, s := range d.states {
		total.states++
		bytes, orders, wrong := s.mark.written(d.server(s)), s.mark.switched(d.server(s)), d.is(at, s, s.phase, s.reason)
		if bytes > 0 {
			total.disks++
		}
		if len(orders) > 0 {
			total.switched++
		}
		verdict := "safe"
		switch lack := inUse(d.server(s)); {
		case bytes > 0 || len(orders) > 0:
			verdict = "NOT SAFE"
		case lack != "":
			verdict = lack
		case wrong != "":
			verdict = wrong
		default:
			total.safe++
		}
		fmt.Printf("restore: %s: %s: %s, %s; %d bytes written, switched %v: %s\n", what, s.name, s.phase, s.reason, bytes, orders, verdict)
	}
}
