// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/site"
	"github.com/ingot-metal/ingot/test/timeline"
)

const (
	// networkAway is how long the manager's network is away.
	networkAway = time.Minute
	// lineMargin is what a line may take beyond the time of the shortest one yet, in which
	// a cut may fall: what follows Ready counts too.
	lineMargin = 1.1
)

// TestPowerCuts cuts the power of one worker's server, at moments of its line that a seed
// chooses, and once the network of the manager: each time a Ready Node comes of it, by
// Ingot's own retries, by a power cycle or by another Machine.
//
// INGOT_CLUSTER_CUTS is how many cuts, INGOT_CLUSTER_SEED the seed (make
// e2e-power-cuts). INGOT_CLUSTER_FIRST_CUT leaves out those before it: for a run that goes
// on where another ended.
func TestPowerCuts(t *testing.T) {
	cuts, _ := strconv.Atoi(os.Getenv("INGOT_CLUSTER_CUTS"))
	o := fromEnvironment()
	if o.version == "" || cuts < 1 {
		t.Skip("set INGOT_CLUSTER_VERSION to the version of a node image and INGOT_CLUSTER_CUTS to a number, as make e2e-power-cuts does; needs root")
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("INGOT_CLUSTER_SEED"), "1"), 10, 64)
	check(t, err)
	s := setUp(t, o)
	s.play(t, beginning[:2])
	host := hostOf(t, s.workers(t)[0])
	s.site.AwaitFor(t, patience, "the marks of the worker", func(context.Context) (string, error) {
		if shortest(s.recorder.machines(), host) == 0 {
			return "Ready", nil
		}
		return "", nil
	})
	line := shortest(s.recorder.machines(), host)
	s.healQuickly(t, line)
	first, _ := strconv.Atoi(os.Getenv("INGOT_CLUSTER_FIRST_CUT"))
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range cuts {
		share := rng.Float64() * lineMargin
		if i+1 < first {
			continue
		}
		s.cut(t, fmt.Sprintf("cut %d of %d", i+1, cuts), part(share, shortest(s.recorder.machines(), host)), s.cutPower)
	}
	s.cut(t, "the manager's network", part(rng.Float64(), shortest(s.recorder.machines(), host)), s.cutNetwork)
	remove(t, s)
	played := cuts - max(first-1, 0)
	t.Logf("power cuts: %d of %d ended with a Ready Node, seed %d, line of %.0f s, %.0f s", played, played, seed, shortest(s.recorder.machines(), host).Seconds(), time.Since(s.began).Seconds())
}

// shortest is how long a machine on a host takes from its claim to a Ready Node when nothing
// hinders it: the first does so beside a control plane that begins, and others are cut off.
// Zero: none has been ready.
func shortest(machines []timeline.Machine, host string) (line time.Duration) {
	for _, m := range machines {
		last := m.Marks[len(m.Marks)-1]
		if took := last.At.Sub(m.Marks[0].At); m.Host == host && last.Name == "Ready" && (line == 0 || took < line) {
			line = took
		}
	}
	return line
}

func part(share float64, of time.Duration) time.Duration {
	return time.Duration(share * float64(of))
}

// TestShortest: of the lines on the host that came to their end.
func TestShortest(t *testing.T) {
	line := func(host string, marks map[string]int) timeline.Machine {
		m := timeline.Machine{Host: host, Marks: []timeline.Mark{{Name: "claim", At: time.Unix(1000, 0)}}}
		for name, second := range marks {
			m.Marks = append(m.Marks, timeline.Mark{Name: name, At: time.Unix(1000+int64(second), 0)})
		}
		return m
	}
	lines := []timeline.Machine{
		line("h1", nil), line("h1", map[string]int{"cloud-init": 90}), line("h1", map[string]int{"Ready": 200}),
		line("h1", map[string]int{"Ready": 150}), line("h1", map[string]int{"Ready": 400}), line("h2", map[string]int{"Ready": 100}),
	}
	for want, of := range map[time.Duration][]timeline.Machine{0: lines[:2], 200 * time.Second: lines[:3], 150 * time.Second: lines} {
		if got := shortest(of, "h1"); got != want {
			t.Errorf("shortest of %d lines: %s, want %s", len(of), got, want)
		}
	}
}

// healQuickly has the workers' health check call for power cycles: for a Node that is
// lost after half a minute, and for a Machine without one a line after it was installed,
// which is twice what is left of its line then.
func (s *stage) healQuickly(t *testing.T, line time.Duration) {
	t.Helper()
	template := &infrav1.IngotRemediationTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.site.Namespace, Name: "power-cycle"}}
	template.Spec.Template.Spec = infrav1.IngotRemediationSpec{
		RetryLimit: ptr.To[int32](2), TimeoutSeconds: int32(3 * line.Seconds()), FailedHost: infrav1.FailedHostReuse,
	}
	s.site.Create(t, template)
	s.patch(t, "machinehealthcheck", s.cluster.Name+"-md-0", `{"spec":{"checks":{"nodeStartupTimeoutSeconds":%d,"unhealthyNodeConditions":[`+
		`{"type":"Ready","status":"Unknown","timeoutSeconds":30},{"type":"Ready","status":"False","timeoutSeconds":900}]},`+
		`"remediation":{"templateRef":{"apiVersion":%q,"kind":"IngotRemediationTemplate","name":%q}}}}`,
		int(line.Seconds()), infrav1.GroupVersion.String(), template.Name)
}

// cut lets a worker's line begin anew, does harm at a moment of it, and waits for the
// Node, and first for what the harm says is missing after it.
func (s *stage) cut(t *testing.T, name string, moment time.Duration, harm func(*testing.T, string) site.Missing) {
	t.Helper()
	played := t.Run(name, func(t *testing.T) {
		host := hostOf(t, s.workers(t)[0])
		s.scaleTo(t, 0)
		s.site.AwaitFor(t, patience, "the host given back", s.site.Free(host))
		s.scaleTo(t, 1)
		s.site.AwaitFor(t, patience, "a claim", s.site.Hosts([]string{host}, func(h *infrav1.IngotHost) string {
			if h.Spec.Claim == nil {
				return "nobody has it"
			}
			return ""
		}))
		time.Sleep(moment) // since the claim
		before := s.site.Host(t, host)
		missing := harm(t, host)
		began := time.Now()
		s.site.AwaitFor(t, patience, "an end of the harm", missing)
		s.awaitCluster(t)
		now := s.site.Host(t, host)
		t.Logf("%.0f s after the claim, at %s: a Ready Node after %.0f s, %s", moment.Seconds(), where(before), time.Since(began).Seconds(), how(before, now))
	})
	if !played {
		s.explain(t)
		s.hold(t)
		t.FailNow()
	}
}

func (s *stage) scaleTo(t *testing.T, workers int) {
	t.Helper()
	s.site.Kubectl(t, "scale", "machinedeployment", s.cluster.Name+"-md-0", "--replicas="+strconv.Itoa(workers))
	s.cluster.Workers = workers
	s.site.AwaitFor(t, patience, strconv.Itoa(workers)+" workers", func(ctx context.Context) (string, error) {
		_, machines, err := s.site.Machines(ctx, s.cluster)
		if err != nil || len(machines) == workers {
			return "", err
		}
		return fmt.Sprintf("%d there", len(machines)), nil
	})
}

// cutPower pulls the plug of a server. A Node that it was until then says for a while yet
// that it is ready: it must have booted anew, or be gone.
func (s *stage) cutPower(t *testing.T, host string) site.Missing {
	t.Helper()
	check(t, s.world.Server(host).VM.PowerOff())
	before, err := s.workload.nodes(t.Context())
	check(t, err)
	dead := map[string]bool{}
	for _, n := range before {
		if _, controlPlane := n.Labels["node-role.kubernetes.io/control-plane"]; !controlPlane {
			dead[n.Status.NodeInfo.BootID] = true
		}
	}
	return func(ctx context.Context) (string, error) {
		nodes, err := s.workload.nodes(ctx)
		for _, n := range nodes {
			if dead[n.Status.NodeInfo.BootID] {
				return n.Name + " has not booted again", nil
			}
		}
		return "", err
	}
}

// cutNetwork takes the manager off the servers' network for a minute.
func (s *stage) cutNetwork(t *testing.T, _ string) site.Missing {
	t.Helper()
	check(t, s.tap.Down())
	time.Sleep(networkAway)
	check(t, s.tap.Up())
	return site.All()
}

// where says in a few words how far a host is.
func where(h *infrav1.IngotHost) string {
	words := []string{string(h.Status.Phase)}
	if o := h.Status.Operation; o != nil {
		words = append(words, o.Step)
	}
	if b := h.Status.Booted; h.Spec.Claim != nil && b != nil && b.InstanceID == h.Spec.Claim.InstanceID {
		words = append(words, "booted")
	}
	return strings.Join(words, " ")
}

// how says in a few words by what a host got over its cut; message is what it says.
func how(before, now *infrav1.IngotHost) string {
	if before.Spec.Claim == nil || now.Spec.Claim == nil || before.Spec.Claim.InstanceID != now.Spec.Claim.InstanceID {
		return "by another instance: " + conditions.GetMessage(now, infrav1.ReadyCondition)
	}
	text := fmt.Sprintf("by attempt %d of the same instance", now.Spec.Claim.Attempt)
	if cycle := now.Spec.Claim.PowerCycle; cycle != nil {
		text += fmt.Sprintf(", power cycle %d", cycle.Count)
	}
	return text
}
