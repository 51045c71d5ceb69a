// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/timeline"
)

// lookEvery is how often the recorder looks, and so how wrong a mark may be that nobody
// else keeps the time of.
const lookEvery = time.Second

// A recorder notes when the servers of machines reached what. Its own clock counts only
// where neither BMC, boot server, installed system nor Node tells the time.
type recorder struct {
	mu sync.Mutex
	// lives by instance ID, and when each of its marks was reached.
	lives map[string]*timeline.Machine
	// workload is nil until there is one.
	workload *workloadCluster
}

// record looks at hosts and Nodes until the test ends, and then prints and writes the
// timeline.
func record(t *testing.T, s *stage) *recorder {
	t.Helper()
	r := &recorder{lives: map[string]*timeline.Machine{}}
	t.Cleanup(func() {
		machines := r.machines()
		t.Logf("seconds from the claim:\n%s", timeline.Text(machines))
		s.write(t, "timeline.txt", []byte(timeline.Text(machines)))
		asJSON, err := timeline.JSON(machines)
		check(t, err)
		s.write(t, "timeline.json", asJSON)
		s.write(t, "timeline.svg", timeline.SVG("Machines of "+t.Name()+", "+s.first()+" "+s.upgraded, machines))
	})
	// Apart, because an API server that is away must not hide the hosts.
	every(t, lookEvery, func(ctx context.Context) { r.lookAtHosts(ctx, s) })
	every(t, lookEvery, r.lookAtNodes)
	return r
}

// every does something again and again beside the scenes.
func every(t *testing.T, pause time.Duration, do func(context.Context)) {
	t.Helper()
	beside(t, func(ctx context.Context) { wait.UntilWithContext(ctx, do, pause) })
}

// beside does something beside the scenes, until the test ends: before what was
// registered with t.Cleanup until now.
func beside(t *testing.T, do func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var doing sync.WaitGroup
	doing.Go(func() { do(ctx) })
	t.Cleanup(func() {
		cancel()
		doing.Wait()
	})
}

// watch has it look at the Nodes of a cluster, too.
func (r *recorder) watch(w *workloadCluster) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workload = w
}

func (r *recorder) lookAtHosts(ctx context.Context, s *stage) {
	list := &infrav1.IngotHostList{}
	if s.site.Client.List(ctx, list, client.InNamespace(s.site.Namespace)) != nil {
		return // the next look may tell
	}
	now := time.Now()
	for i := range list.Items {
		host := &list.Items[i]
		var on []time.Time
		for _, w := range s.world.Server(host.Name).BMC.Writes() {
			if strings.HasPrefix(w.Action, "Reset On") || strings.HasPrefix(w.Action, "Reset ForceOn") {
				on = append(on, w.At)
			}
		}
		r.host(now, host, on)
	}
}

func (r *recorder) lookAtNodes(ctx context.Context) {
	r.mu.Lock()
	w := r.workload
	r.mu.Unlock()
	if w == nil {
		return
	}
	nodes, err := w.nodes(ctx)
	if err != nil {
		return // the next look may tell
	}
	for i := range nodes {
		r.node(&nodes[i])
	}
}

// reach notes a mark the first time it is reached.
func (r *recorder) reach(instance, mark string, at time.Time) {
	life := r.lives[instance]
	if life == nil || at.IsZero() || slices.ContainsFunc(life.Marks, func(m timeline.Mark) bool { return m.Name == mark }) {
		return
	}
	life.Marks = append(life.Marks, timeline.Mark{Name: mark, At: at})
}

// host notes what is seen of one; on is when its BMC was told to switch it on.
func (r *recorder) host(now time.Time, host *infrav1.IngotHost, on []time.Time) {
	claim := host.Spec.Claim
	if claim == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := claim.InstanceID
	if r.lives[id] == nil {
		r.lives[id] = &timeline.Machine{Name: claim.MachineRef.Name, Host: host.Name}
	}
	r.reach(id, "claim", now)
	claimed := r.lives[id].Marks[0].At
	for _, at := range on {
		if at.After(claimed.Add(-lookEvery)) {
			r.reach(id, "power", at)
		}
	}
	for _, boot := range slices.Backward(host.Status.Boots) {
		for _, stage := range boot.Stages {
			at := boot.StartTime.Add(time.Duration(*stage.AfterMilliseconds) * time.Millisecond)
			if name := map[string]string{"DHCP": "DHCP", "Agent": "agent"}[stage.Name]; name != "" && at.After(claimed) {
				r.reach(id, name, at)
			}
		}
	}
	if o := host.Status.Operation; o != nil && o.Kind == infrav1.OrderInstall &&
		slices.Contains([]agentapi.Step{agentapi.StepVerify, agentapi.StepSeed}, agentapi.Step(o.Step)) {
		r.reach(id, "image", now)
	}
	if claim.State == infrav1.ClaimProvisioned {
		r.reach(id, "reboot", now)
	}
	if b := host.Status.Booted; b != nil && b.InstanceID == id {
		r.reach(id, "cloud-init", b.ReportTime.Time)
	}
}

// node notes what is seen of one.
func (r *recorder) node(n *corev1.Node) {
	id, err := infrav1.ParseProviderID(n.Spec.ProviderID)
	if err != nil {
		return // it has none yet
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reach(id.InstanceID, "Node registered", n.CreationTimestamp.Time)
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			r.reach(id.InstanceID, "Ready", c.LastTransitionTime.Time)
		}
	}
}

// always are the marks that each machine leaves. That its image was written is seen only by
// who looks in the second between it and the reboot.
var always = []string{"claim", "power", "DHCP", "agent", "reboot", "cloud-init", "Node registered", "Ready"}

// lacking are marks that machines do not have whose Nodes were ready.
func (r *recorder) lacking() (out []string) {
	for _, m := range r.machines() {
		has := func(name string) bool {
			return slices.ContainsFunc(m.Marks, func(mark timeline.Mark) bool { return mark.Name == name })
		}
		for _, name := range always {
			if has("Ready") && !has(name) {
				out = append(out, m.Name+": "+name)
			}
		}
	}
	return out
}

// machines are all that were seen.
func (r *recorder) machines() []timeline.Machine {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []timeline.Machine
	for _, life := range r.lives {
		all = append(all, timeline.Machine{Name: life.Name, Host: life.Host, Marks: slices.Clone(life.Marks)})
	}
	return all
}

// TestRecorder: each mark is noted once, when it was reached first, under its instance;
// what was before the claim is not its own.
func TestRecorder(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	const id = "6a1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa"
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Name: "h1"}}
	r := &recorder{lives: map[string]*timeline.Machine{}}
	r.host(at(0), host, nil)
	host.Spec.Claim = &infrav1.HostClaim{InstanceID: id, State: infrav1.ClaimProvisioning}
	host.Spec.Claim.MachineRef.Name = "m1"
	boot := func(from int, stages ...string) infrav1.BootRecord {
		b := infrav1.BootRecord{StartTime: metav1.NewMicroTime(at(from))}
		for i, name := range stages {
			b.Stages = append(b.Stages, infrav1.BootStage{Name: name, AfterMilliseconds: new(int64(i * 1000))})
		}
		return b
	}
	host.Status.Boots = []infrav1.BootRecord{boot(3, "DHCP", "Kernel", "Agent"), boot(-90, "DHCP", "Agent")}
	r.host(at(1), host, []time.Time{at(-100), at(2)})
	host.Status.Operation = &infrav1.HostOperation{Kind: infrav1.OrderInstall, Step: string(agentapi.StepWrite)}
	r.host(at(10), host, nil)
	host.Status.Operation.Step = string(agentapi.StepSeed)
	r.host(at(20), host, nil)
	host.Spec.Claim.State, host.Status.Operation = infrav1.ClaimProvisioned, nil
	host.Status.Booted = &infrav1.BootedStatus{InstanceID: "of the claim before", ReportTime: metav1.NewTime(at(-50))}
	r.host(at(21), host, nil)
	host.Status.Booted = &infrav1.BootedStatus{InstanceID: id, ReportTime: metav1.NewTime(at(40))}
	r.host(at(41), host, []time.Time{at(35)})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at(38))}}
	r.node(node)
	node.Spec.ProviderID = "ingot://default/h1/" + id
	r.node(node)
	if got := r.lacking(); got != nil {
		t.Errorf("before it is ready it lacks %q", got)
	}
	for _, ready := range []int{50, 90} {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(ready))}}
		r.node(node)
	}
	want := []timeline.Machine{{Name: "m1", Host: "h1", Marks: []timeline.Mark{
		{Name: "claim", At: at(1)}, {Name: "power", At: at(2)}, {Name: "DHCP", At: at(3)}, {Name: "agent", At: at(5)},
		{Name: "image", At: at(20)}, {Name: "reboot", At: at(21)}, {Name: "cloud-init", At: at(40)},
		{Name: "Node registered", At: at(38)}, {Name: "Ready", At: at(50)},
	}}}
	if diff := cmp.Diff(want, r.machines()); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
	if got := r.lacking(); got != nil {
		t.Errorf("with all marks it lacks %q", got)
	}
	r.lives[id].Marks = slices.DeleteFunc(r.lives[id].Marks, func(m timeline.Mark) bool { return m.Name == "DHCP" || m.Name == "image" })
	if diff := cmp.Diff([]string{"m1: DHCP"}, r.lacking()); diff != "" {
		t.Errorf("lacking (-want +got):\n%s", diff)
	}
}
