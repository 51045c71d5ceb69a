// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/test/needs"
	"github.com/ingot-metal/ingot/test/site"
)

const (
	// silence is how long nothing happens once all has arrived (issue: five minutes).
	silence = 5 * time.Minute
	// broken is the server whose disk was pulled out.
	broken = "r2-s3"
	// agentHears is docs/book/tasks/move.md's "sleep 10".
	agentHears = 10 * time.Second
)

// TestMoveWithMetal is I10 with all that a move is made of: clusterctl itself, two
// management clusters with Cluster API and Ingot's managers as processes, and servers
// with BMCs that count what they are told and disks that count their bytes.
//
// There, the operator does nothing before: from the start of the command no BMC is
// told anything, and from the moment that clusterctl is let go on, which is when the
// last agent has heard of it, no disk takes a byte. Back, the operator pauses the
// hosts first, and both hold from the start of the command. Both ways it is silent
// until five minutes after clusterctl has ended and the target's manager is ready.
func TestMoveWithMetal(t *testing.T) {
	needs.Full(t)
	needs.ClusterAPI(t)
	j := newJourney(t)
	j.refused()

	j.cutOff()
	j.plainMove()
	j.silent(func(host *infrav1.IngotHost) string { return atRestOrResting(host, j.cut()) })
	j.goesOn()

	j.from, j.to = j.to, j.from
	j.cutOff()
	j.pausedMove()
	j.silent(func(host *infrav1.IngotHost) string {
		if !conditions.IsTrue(host, infrav1.PausedCondition) {
			return "not paused any more"
		}
		return ""
	})
	j.to.Kubectl(t, "annotate", "ingothosts", "--all", clusterv1.PausedAnnotation+"-")
	j.goesOn()

	j.end()
}

// journey is a namespace that travels.
type journey struct {
	t        *testing.T
	world    *site.World
	gates    *gates
	from, to *site.Site
	cluster  site.Cluster
	// wiping and inspecting are hosts whose agents are cut off.
	wiping, inspecting string
	// before is what was so when nobody should act any more.
	before   map[string]touch
	hosts    map[string]*infrav1.IngotHost
	promised *infrav1.IngotReservation
	commands time.Time
}

// touch is what a server notices.
type touch struct {
	BMCWrites int
	DiskBytes int64
}

func (j *journey) touches() map[string]touch {
	out := map[string]touch{}
	for name, count := range j.world.Counts() {
		out[name] = touch{count.Writes, count.DiskBytes}
	}
	return out
}

// newJourney makes a cluster of three on one of two sites, two free hosts and one in
// quarantine.
func newJourney(t *testing.T) *journey {
	t.Helper()
	j := &journey{t: t, gates: &gates{}}
	j.world = site.NewWorld(t, site.WorldConfig{Racks: 2, ServersPerRack: 3, Simulate: func(name string, c *server.Config) {
		c.Pace = j.gates.pace(name)
	}})
	// An agent that is held is silent for long; and one failure is enough here.
	args := []string{"--agent-deadline=10m", "--max-attempts=1"}
	j.from = site.Start(t, site.Config{World: j.world, Name: "a", ManagerArgs: args, NoManager: true})
	j.to = site.Start(t, site.Config{World: j.world, Name: "b", ManagerArgs: args})
	j.quarantine()
	j.from.StartManager(t)
	var healthy []string
	for _, name := range j.world.Servers() {
		if name != broken {
			healthy = append(healthy, name)
		}
	}
	j.from.Register(t, healthy...)
	j.from.Await(t, "free hosts", j.from.Free(healthy...))
	j.cluster = j.from.CreateCluster(t, site.Cluster{Name: "c1", ControlPlanes: 1, Workers: 1})
	j.from.Await(t, "a cluster", j.from.Running(j.cluster))
	j.promise()
	return j
}

// quarantine registers a server whose agent does not come as far as to open a session,
// with a manager that has little patience.
func (j *journey) quarantine() {
	j.t.Helper()
	pullDisk(j.t, j.world, false)
	j.from.StartManager(j.t, "--agent-deadline=15s")
	j.from.Register(j.t, broken)
	j.from.Await(j.t, "a host in quarantine", j.phase(broken, infrav1.PhaseQuarantined))
	j.from.StopManager()
}

// pullDisk takes the disk out of the broken server, or puts it back.
func pullDisk(t *testing.T, world *site.World, back bool) {
	t.Helper()
	in := world.Server(broken).DiskPath
	from, to := in, in+".out"
	if back {
		from, to = to, in
	}
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func (j *journey) phase(name string, want infrav1.IngotHostPhase) site.Missing {
	return j.from.Hosts([]string{name}, func(host *infrav1.IngotHost) string {
		if host.Status.Phase != want {
			return fmt.Sprintf("it is %s, want %s", host.Status.Phase, want)
		}
		return ""
	})
}

// scale changes the number of workers.
func (j *journey) scale(s *site.Site, workers int) {
	j.t.Helper()
	s.Kubectl(j.t, "scale", "machinedeployment", j.cluster.Name+"-md-0", fmt.Sprintf("--replicas=%d", workers))
	j.cluster.Workers = workers
}

// refused: clusterctl moves no cluster with a machine whose host is being installed,
// and pauses nothing. The machine then comes to its Node.
func (j *journey) refused() {
	j.t.Helper()
	j.gates.hold(everyServer, server.StepWrite, 0)
	j.scale(j.from, 2)
	j.from.Await(j.t, "a machine whose host is being installed", func(ctx context.Context) (string, error) {
		hosts, err := list(ctx, j.from)
		for name, host := range hosts {
			if host.Spec.Order != nil && host.Spec.Order.Kind == infrav1.OrderInstall {
				return j.gates.holds(name, server.StepWrite)(ctx)
			}
		}
		return "no order to install", err
	})
	_, err := j.from.TryClusterctl(j.t.Context(), nil, "move", "--to-kubeconfig="+j.to.Kubeconfig())
	if err == nil || !strings.Contains(err.Error(), "still provisioning the node") {
		j.t.Fatalf("move of a machine without a Node: %v", err)
	}
	cluster := &clusterv1.Cluster{}
	if err := j.from.Client.Get(j.t.Context(), client.ObjectKey{Namespace: j.cluster.Namespace, Name: j.cluster.Name}, cluster); err != nil || ptr.Deref(cluster.Spec.Paused, false) {
		j.t.Fatalf("after the refusal the Cluster is paused: %+v, %v", cluster.Spec.Paused, err)
	}
	j.gates.release()
	j.gates.hurry()
	j.from.Await(j.t, "one worker more", j.from.Running(j.cluster))
}

// cutOff deletes a machine and asks for an inspection, and holds the agents of both
// in the middle of their work.
func (j *journey) cutOff() {
	j.t.Helper()
	if j.cluster.Workers < 2 {
		j.scale(j.from, 2)
		j.from.Await(j.t, "one worker more", j.from.Running(j.cluster))
	}
	j.gates.hold(everyServer, server.StepWrite, 1)
	j.scale(j.from, 1)
	j.from.Await(j.t, "a machine deleted, and an agent that wipes", func(ctx context.Context) (string, error) {
		hosts, err := list(ctx, j.from)
		for name, host := range hosts {
			if host.Spec.Order != nil && host.Spec.Order.Kind == infrav1.OrderClean {
				j.wiping = name
				return site.All(j.gates.holds(name, server.StepWrite), j.from.Running(j.cluster))(ctx)
			}
		}
		return "no order to wipe", err
	})
	hosts, err := list(j.t.Context(), j.from)
	j.check(err)
	for name, host := range hosts {
		if host.Spec.Claim == nil && name != broken {
			j.inspecting = name
		}
	}
	j.gates.hold(j.inspecting, server.StepProbe, 0)
	j.from.Kubectl(j.t, "annotate", "ingothost", j.inspecting, infrav1.InspectAnnotation+"="+time.Now().UTC().Format(time.RFC3339))
	j.from.Await(j.t, "an agent that inspects", site.All(j.gates.holds(j.inspecting, server.StepProbe), j.phase(j.inspecting, infrav1.PhaseInspecting)))
	j.from.Await(j.t, "hosts that block a move", j.from.Hosts(j.world.Servers(), func(host *infrav1.IngotHost) string {
		if _, blocked := host.Annotations[clusterctlv1.BlockMoveAnnotation]; !blocked {
			return "no block-move"
		}
		return ""
	}))
	j.hosts, err = list(j.t.Context(), j.from)
	j.check(err)
}

// cut names the hosts at which work was cut off.
func (j *journey) cut() []string { return []string{j.wiping, j.inspecting} }

// plainMove moves as the book says, the operator having done nothing else.
func (j *journey) plainMove() {
	j.t.Helper()
	start := j.touches()
	done := j.command(func() {
		// Once all are let go on clusterctl has not copied anything yet.
		j.from.Await(j.t, "Clusters that are paused", j.standing(func(host *infrav1.IngotHost) bool {
			return conditions.IsTrue(host, infrav1.PausedCondition)
		}))
		j.gates.release()
		j.from.Await(j.t, "hosts that stand still", j.standing(func(host *infrav1.IngotHost) bool {
			_, blocked := host.Annotations[clusterctlv1.BlockMoveAnnotation]
			return !blocked
		}))
		j.before = j.touches()
		j.t.Logf("%s after its start clusterctl may go on", time.Since(j.commands).Round(time.Second))
	})
	for name, was := range start {
		is := j.before[name]
		j.t.Logf("%s: from the start of the command until then %d BMC writes, %d bytes", name, is.BMCWrites-was.BMCWrites, is.DiskBytes-was.DiskBytes)
		if is.BMCWrites != was.BMCWrites || name != j.wiping && is.DiskBytes != was.DiskBytes {
			j.t.Errorf("%s was touched after the start of the command: %+v, before %+v", name, is, was)
		}
	}
	j.check(<-done)
	j.arrived()
	// A manager that starts is the worst that can happen: it has no memory.
	j.to.StopManager()
	j.to.StartManager(j.t)
}

// pausedMove has an operator pause the hosts first, so that the rule holds from the
// start of the command.
func (j *journey) pausedMove() {
	j.t.Helper()
	j.from.Kubectl(j.t, "annotate", "ingothosts", "--all", clusterv1.PausedAnnotation+"=")
	j.from.Kubectl(j.t, "wait", "ingothosts", "--all", "--for=condition=Paused", "--timeout=2m")
	j.gates.release()
	time.Sleep(agentHears)
	j.before = j.touches()
	j.check(<-j.command(func() {}))
	j.arrived()
}

// command starts clusterctl move, does something meanwhile, and returns where its end
// is told.
func (j *journey) command(meanwhile func()) <-chan error {
	j.t.Helper()
	done := make(chan error, 1)
	j.commands = time.Now()
	go func() {
		_, err := j.from.TryClusterctl(j.t.Context(), nil, "move", "--to-kubeconfig="+j.to.Kubeconfig())
		done <- err
	}()
	meanwhile()
	return done
}

// standing says which host of the source is not yet as it should be.
func (j *journey) standing(still func(*infrav1.IngotHost) bool) site.Missing {
	return j.from.Hosts(j.world.Servers(), func(host *infrav1.IngotHost) string {
		if !still(host) {
			return "it does not stand still"
		}
		return ""
	})
}

// arrived: nothing is left on the source, and on the target the ledger is what it was.
func (j *journey) arrived() {
	j.t.Helper()
	j.t.Logf("clusterctl move took %s", time.Since(j.commands).Round(100*time.Millisecond))
	j.untouched()
	if left := j.from.Kubectl(j.t, "get", "ingothosts,ingothardwares,ingotmachines,clusters,machines", "--output=name"); left != "" {
		j.t.Errorf("left behind on the source:\n%s", left)
	}
	hosts, err := list(j.t.Context(), j.to)
	j.check(err)
	for name, was := range j.hosts {
		if hosts[name] == nil {
			j.t.Fatalf("host %s has not arrived", name)
		}
		if diff := cmp.Diff(was.Spec, hosts[name].Spec); diff != "" {
			j.t.Errorf("spec of %s (-before +after):\n%s", name, diff)
		}
	}
}

// untouched fails if a server was touched since nobody should act.
func (j *journey) untouched() {
	j.t.Helper()
	if diff := cmp.Diff(j.before, j.touches()); diff != "" {
		j.t.Fatalf("touched %s after the start of the command (-before +after):\n%s", time.Since(j.commands).Round(time.Second), diff)
	}
}

// silent: the status of all is built again, hosts are as lack says, and for five
// minutes more no server is touched.
func (j *journey) silent(lack func(*infrav1.IngotHost) string) {
	j.t.Helper()
	began := time.Now()
	j.to.Await(j.t, "the cluster on the target", j.to.Running(j.cluster))
	rebuilt := j.to.Hosts(j.world.Servers(), func(host *infrav1.IngotHost) string {
		if want := j.hosts[host.Name].Status.Phase; host.Status.Phase != want {
			return fmt.Sprintf("it is %q, want %q", host.Status.Phase, want)
		}
		return lack(host)
	})
	j.to.Await(j.t, "the status of all hosts", rebuilt)
	for time.Since(began) < silence {
		j.untouched()
		time.Sleep(time.Second)
	}
	j.to.Await(j.t, "the status of all hosts, still", rebuilt)
	j.promiseArrived()
	j.untouched()
	for name, is := range j.touches() {
		j.t.Logf("%s (%s): 0 BMC writes and 0 bytes in %s; %d and %d before", name, j.hosts[name].Status.Phase,
			time.Since(j.commands).Round(time.Second), is.BMCWrites, is.DiskBytes)
	}
}

// atRestOrResting is what a host lacks where it has arrived: one at which work was cut
// off is still paused, all others are not.
func atRestOrResting(host *infrav1.IngotHost, cut []string) string {
	rests := false
	for _, name := range cut {
		rests = rests || host.Name == name
	}
	if conditions.IsTrue(host, infrav1.PausedCondition) != rests {
		return fmt.Sprintf("paused: %s", conditions.GetMessage(host, infrav1.PausedCondition))
	}
	return ""
}

// goesOn: what was cut off begins anew and ends well, without a failure, and nobody
// else is touched.
func (j *journey) goesOn() {
	j.t.Helper()
	j.gates.hurry()
	j.to.Await(j.t, "the cleaning and the inspection", site.All(j.to.Free(j.cut()...), j.to.Wiped(j.wiping)))
	for name, is := range j.touches() {
		worked := name == j.wiping || name == j.inspecting
		if was := j.before[name]; (is.BMCWrites != was.BMCWrites) != worked || (is.DiskBytes != was.DiskBytes) != (name == j.wiping) {
			j.t.Errorf("%s: %+v, before %+v", name, is, was)
		}
	}
	if was, is := j.hosts[j.inspecting].Spec.Record.InspectedTime, j.to.Host(j.t, j.inspecting).Spec.Record.InspectedTime; !was.Before(&is) {
		j.t.Errorf("%s was inspected at %s, before the move at %s", j.inspecting, is, was)
	}
}

// end: the cluster grows where it came from, and leaves clean servers behind; the
// broken one is repaired.
func (j *journey) end() {
	j.t.Helper()
	s := j.to
	j.scale(s, 2)
	s.Await(j.t, "one worker more", s.Running(j.cluster))
	s.Kubectl(j.t, "delete", "cluster", j.cluster.Name, "--wait=false")
	s.Await(j.t, "the cluster's end", s.Gone(j.cluster))
	pullDisk(j.t, j.world, true)
	s.Kubectl(j.t, "annotate", "ingothost", broken, infrav1.ClearQuarantineAnnotation+"="+time.Now().UTC().Format(time.RFC3339))
	s.Await(j.t, "hosts given back, wiped", site.All(s.Free(j.world.Servers()...), s.Wiped(j.world.Servers()...)))
}

func (j *journey) check(err error) {
	j.t.Helper()
	if err != nil {
		j.t.Fatal(err)
	}
}

// list returns a site's hosts by name.
func list(ctx context.Context, s *site.Site) (map[string]*infrav1.IngotHost, error) {
	hosts := &infrav1.IngotHostList{}
	if err := s.Client.List(ctx, hosts, client.InNamespace(s.Namespace)); err != nil {
		return nil, err
	}
	out := map[string]*infrav1.IngotHost{}
	for i := range hosts.Items {
		out[hosts.Items[i].Name] = &hosts.Items[i]
	}
	return out, nil
}
