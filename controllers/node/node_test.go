// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/test/testscheme"
)

const (
	ns       = "metal"
	instance = "00000000-0000-4000-8000-000000000001"
	provider = "ingot://metal/h1/" + instance
	uuid     = "6a1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa"
	zone     = corev1.LabelTopologyZone
)

// installed is the time of the install.
var installed = time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)

// world is a machine in use on host h1 in rack r1 and its Node, in two API servers.
type world struct {
	machine  *infrav1.IngotMachine
	owner    *clusterv1.Machine
	cluster  *clusterv1.Cluster
	infra    *infrav1.IngotCluster
	host     *infrav1.IngotHost
	hardware []client.Object
	nodes    []client.Object
	filter   string
	// unreached: the workload cluster is not connected.
	unreached bool
	clock     *testclock.FakeClock
	// writes counts writes of Nodes.
	writes int
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}}
}

func newWorld() *world {
	w := &world{
		machine: &infrav1.IngotMachine{ObjectMeta: meta("im")}, owner: &clusterv1.Machine{ObjectMeta: meta("m")},
		cluster: &clusterv1.Cluster{ObjectMeta: meta("c")}, infra: &infrav1.IngotCluster{ObjectMeta: meta("ic")}, host: &infrav1.IngotHost{ObjectMeta: meta("h1")},
		hardware: []client.Object{hardware("h1", uuid), hardware("h2", "7b1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa")},
		nodes:    []client.Object{node("n1", provider)},
		clock:    testclock.NewFakeClock(installed.Add(time.Hour)),
	}
	conditions.Set(w.machine, metav1.Condition{Type: infrav1.MachineInstalledCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonInstalled, LastTransitionTime: metav1.NewTime(installed)})
	w.machine.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: "m"}}
	w.machine.Spec.ProviderID, w.machine.Status.Initialization.Provisioned = provider, new(true)
	w.machine.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.5"}}
	w.owner.UID, w.owner.Spec.ClusterName, w.owner.Status.NodeRef.Name = "m", "c", "n1"
	w.owner.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotMachine", Name: "im"}
	w.cluster.Spec.InfrastructureRef.Name = "ic"
	w.infra.Spec.NodeLabels = []string{"dc.example/*"}
	w.host.Labels = map[string]string{infrav1.RackLabel: "r1", "dc.example/gpu": "a100", "other": "x"}
	w.host.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "im"}, InstanceID: instance, State: infrav1.ClaimProvisioned, Hostname: "m"}
	return w
}

func hardware(name, uuid string) *infrav1.IngotHardware {
	h := &infrav1.IngotHardware{ObjectMeta: meta(name)}
	h.Spec.System.UUID = uuid
	return h
}

func node(name, providerID string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kept": "yes"}}}
	n.Spec.ProviderID, n.Status.NodeInfo.SystemUUID = providerID, uuid
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastHeartbeatTime: metav1.NewTime(installed.Add(time.Minute))}}
	return n
}

// start makes the two API servers and the reconciler between them.
func (w *world) start(t *testing.T) (*Reconciler, client.Client, *events.FakeRecorder) {
	t.Helper()
	scheme := testscheme.Scheme(t)
	management := fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.machine, w.owner, w.cluster, w.infra, w.host).WithObjects(w.hardware...).Build()
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.nodes...)
	for _, index := range Indexes() {
		builder = builder.WithIndex(index.Object, index.Field, index.ExtractValue)
	}
	workload := builder.WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			w.writes++
			return c.Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	cluster := client.ObjectKey{Namespace: ns, Name: "c"}
	if w.unreached {
		cluster.Name = "another"
	}
	recorder := events.NewFakeRecorder(10)
	return &Reconciler{Client: management, Recorder: recorder, Clock: w.clock, WatchFilterValue: w.filter,
		Clusters: clustercache.NewFakeClusterCache(workload, cluster, name)}, workload, recorder
}

func reconcileOnce(t *testing.T, r *Reconciler) time.Duration {
	t.Helper()
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: ns, Name: "im"}})
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

// run reconciles twice and returns the Nodes by name.
func (w *world) run(t *testing.T) (map[string]*corev1.Node, *events.FakeRecorder) {
	t.Helper()
	r, workload, recorder := w.start(t)
	for range 2 {
		reconcileOnce(t, r)
	}
	list := &corev1.NodeList{}
	if err := workload.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	found := map[string]*corev1.Node{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	return found, recorder
}

// recorded returns the recorded events.
func recorded(recorder *events.FakeRecorder) string {
	var all []string
	for len(recorder.Events) > 0 {
		all = append(all, <-recorder.Events)
	}
	return strings.Join(all, "\n")
}

func TestLabels(t *testing.T) {
	type labels = map[string]string
	all := labels{"kept": "yes", zone: "r1", "dc.example/gpu": "a100"}
	untouched := labels{"kept": "yes"}
	for name, c := range map[string]struct {
		change  func(*world)
		want    labels
		written string
	}{
		"new Node": {func(*world) {}, all, "dc.example/gpu," + zone},
		"another's zone stays": {func(w *world) { w.nodes[0].(*corev1.Node).Labels = labels{"kept": "yes", zone: "eu-1"} },
			labels{"kept": "yes", zone: "eu-1", "dc.example/gpu": "a100"}, "dc.example/gpu"},
		"Cluster API's label stays": {func(w *world) {
			n := w.nodes[0].(*corev1.Node)
			n.Labels = labels{"kept": "yes", "dc.example/gpu": "t4"}
			n.Annotations = labels{clusterv1.LabelsFromMachineAnnotation: "other,dc.example/gpu", infrav1.LabelsFromHostAnnotation: "dc.example/gpu"}
		}, labels{"kept": "yes", zone: "r1", "dc.example/gpu": "t4"}, zone},
		"the Machine is another IngotMachine's": {func(w *world) { w.owner.Spec.InfrastructureRef.Name = "its-own" }, untouched, ""},
		"a label that is gone everywhere": {func(w *world) {
			w.host.Labels = labels{}
			w.nodes[0].(*corev1.Node).Annotations = labels{infrav1.LabelsFromHostAnnotation: "dc.example/gpu"}
		}, untouched, ""},
		"rack and label changed": {func(w *world) {
			n := w.nodes[0].(*corev1.Node)
			n.Labels = labels{"kept": "yes", zone: "r0", "dc.example/gpu": "t4", "dc.example/old": "1"}
			n.Annotations = labels{infrav1.LabelsFromHostAnnotation: "dc.example/gpu,dc.example/old," + zone}
		}, all, "dc.example/gpu," + zone},
		"another's label stays": {func(w *world) {
			w.host.Labels = labels{}
			w.nodes[0].(*corev1.Node).Labels = labels{"kept": "yes", "dc.example/plugin": "1"}
		}, labels{"kept": "yes", "dc.example/plugin": "1"}, ""},
		"as they should be, by the kubelet": {func(w *world) { w.nodes[0].(*corev1.Node).Labels = all }, all, ""},
		"the last label goes": {func(w *world) {
			w.host.Labels = labels{}
			n := w.nodes[0].(*corev1.Node)
			n.Labels, n.Annotations = labels{"kept": "yes", zone: "r1"}, labels{infrav1.LabelsFromHostAnnotation: zone}
		}, untouched, ""},
		"paused":            {func(w *world) { w.cluster.Spec.Paused = new(true) }, untouched, ""},
		"not provisioned":   {func(w *world) { w.machine.Status.Initialization.Provisioned = nil }, untouched, ""},
		"another's Node":    {func(w *world) { w.nodes[0].(*corev1.Node).Spec.ProviderID = "ingot://metal/h9/" + instance }, untouched, ""},
		"another's host":    {func(w *world) { w.host.Spec.Claim.InstanceID = "00000000-0000-4000-8000-000000000002" }, untouched, ""},
		"another's machine": {func(w *world) { w.filter = "other" }, untouched, ""},
		"not reached":       {func(w *world) { w.unreached = true }, untouched, ""},
		"not found yet":     {func(w *world) { w.owner.Status.NodeRef.Name = "" }, untouched, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.change(w)
			nodes, _ := w.run(t)
			if w.writes > 1 {
				t.Errorf("%d writes", w.writes)
			}
			if diff := cmp.Diff(c.want, nodes["n1"].Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if got := nodes["n1"].Annotations[infrav1.LabelsFromHostAnnotation]; got != c.written {
				t.Errorf("Ingot remembers %q, want %q", got, c.written)
			}
		})
	}
}

// A zone that Ingot did not write stays, with one event.
func TestZoneKept(t *testing.T) {
	w := newWorld()
	w.nodes[0].(*corev1.Node).Labels[zone] = "eu-1"
	_, recorder := w.run(t)
	said := recorded(recorder)
	if strings.Count(said, infrav1.ReasonNodeZoneConflict) != 1 || !strings.Contains(said, "eu-1") || !strings.Contains(said, "r1") {
		t.Errorf("events: %s", said)
	}
}

// The reconcile is scheduled for the earlier of two disputed labels.
func TestFirstOfTwoDisputes(t *testing.T) {
	w := newWorld()
	r, _, _ := w.start(t)
	machine, pause := client.ObjectKeyFromObject(w.machine), r.timing().LabelDispute
	values := map[string]string{"dc.example/gpu": "a100", "dc.example/row": "7"}
	for key, value := range values {
		for range 1 + maxRestores {
			r.memory.wrote(machine, key, value, w.clock.Now(), pause)
		}
	}
	w.clock.Step(pause / 2)
	r.memory.wrote(machine, "dc.example/row", "7", w.clock.Now(), pause)
	for range 8 { // maps have no order
		set := maps.Clone(values)
		if again := r.skipDisputed(&scope{machine: w.machine}, set); again != pause/2 || len(set) != 0 {
			t.Fatalf("comes again after %s with %v, want %s", again, set, pause/2)
		}
	}
}

// A disputed label is restored at once a few times, then at a lower rate, and whenever the host's
// label changes.
func TestDispute(t *testing.T) {
	w := newWorld()
	r, workload, recorder := w.start(t)
	const label = "dc.example/gpu"
	fight := func() time.Duration {
		again := reconcileOnce(t, r)
		n := &corev1.Node{}
		if err := workload.Get(t.Context(), client.ObjectKey{Name: "n1"}, n); err != nil {
			t.Fatal(err)
		}
		if n.Labels[label] != "theirs" {
			n.Labels[label] = "theirs"
			if err := workload.Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		w.clock.Step(time.Second)
		return again
	}
	for range 20 {
		fight()
	}
	if w.writes != 1+maxRestores {
		t.Errorf("%d writes in 20 s, want %d", w.writes, 1+maxRestores)
	}
	if again := fight(); again <= 0 || again > timing.Default().LabelDispute {
		t.Errorf("comes again after %s", again)
	}
	if said := recorded(recorder); strings.Count(said, infrav1.ReasonNodeLabelConflict) != 1 || !strings.Contains(said, "theirs") {
		t.Errorf("events: %s", said)
	}
	for range 3 {
		w.clock.Step(timing.Default().LabelDispute)
		for range 5 {
			fight()
		}
	}
	if w.writes != 1+maxRestores+3 {
		t.Errorf("%d writes, want one for each of three pauses", w.writes)
	}
	host := &infrav1.IngotHost{}
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(w.host), host); err != nil {
		t.Fatal(err)
	}
	host.Labels[label] = "h100"
	if err := r.Client.Update(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	before := w.writes
	if fight(); w.writes != before+1 {
		t.Error("what is changed on the host waits for the end of a dispute about another value")
	}
	if said := recorded(recorder); said != "" {
		t.Errorf("recorded again: %s", said)
	}
}

// A Node whose kubelet has no provider ID.
func TestIdentify(t *testing.T) {
	const others = "ingot://metal/h1/00000000-0000-4000-8000-000000000009"
	earlier := func(n *corev1.Node) *corev1.Node {
		n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(installed.Add(-time.Hour))
		return n
	}
	for name, c := range map[string]struct {
		change func(*world)
		want   map[string]string
		// why is in the event if no Node is certain.
		why string
	}{
		"by UUID and address": {func(*world) {}, map[string]string{"n1": provider, "n2": ""}, ""},
		"by UUID and name": {func(w *world) {
			w.nodes = []client.Object{node("m", ""), node("n2", "")}
			for _, n := range w.nodes {
				n.(*corev1.Node).Status.Addresses = nil
			}
		}, map[string]string{"m": provider, "n2": ""}, ""},
		"two Nodes could be it": {func(w *world) { w.nodes = []client.Object{node("n1", ""), node("n2", "")} }, map[string]string{"n1": "", "n2": ""}, "all fit"},
		"a UUID of two servers": {func(w *world) { w.hardware = append(w.hardware, hardware("h3", uuid)) }, map[string]string{"n1": "", "n2": ""}, "2 servers"},
		"another Node has it": {func(w *world) { w.nodes = append(w.nodes, node("n3", provider)) },
			map[string]string{"n1": "", "n2": "", "n3": provider}, ""},
		"left over from an earlier life": {func(w *world) { w.nodes = []client.Object{earlier(node("n1", ""))} }, map[string]string{"n1": ""}, "not heard since"},
		"left over, and not heard": {func(w *world) {
			n := node("n1", "")
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
			w.nodes = []client.Object{n}
		}, map[string]string{"n1": ""}, "not heard since"},
		"next to one from an earlier install": {func(w *world) { w.nodes = append(w.nodes, earlier(node("n0", ""))) }, map[string]string{"n0": "", "n1": provider, "n2": ""}, ""},
		"no address yet":                      {func(w *world) { w.machine.Status.Addresses = nil }, map[string]string{"n1": "", "n2": ""}, "neither the machine's name nor an address"},
		"not inspected": {func(w *world) { w.hardware = nil }, map[string]string{"n1": "", "n2": ""},
			"may belong to this machine, but that is not certain: Node n1 has the machine's name or an address of it, but its server has no UUID of its own"},
		"not inspected, without an address": {func(w *world) { w.hardware, w.machine.Status.Addresses = nil, nil }, map[string]string{"n1": "", "n2": ""}, ""},
		"a maker's UUID": {func(w *world) {
			const makers = "03000200-0400-0500-0006-000700080009"
			w.hardware = []client.Object{hardware("h1", makers), hardware("h2", makers)}
			w.nodes[0].(*corev1.Node).Status.NodeInfo.SystemUUID = makers
		}, map[string]string{"n1": "", "n2": ""}, "its server has no UUID of its own, by its inspection 03000200-0400-0500-0006-000700080009: tell the kubelet its provider ID by the template"},
		"status lost":                 {func(w *world) { w.machine.Status.Conditions = nil }, map[string]string{"n1": "", "n2": ""}, ""},
		"registered again":            {func(w *world) { w.owner.Status.NodeRef.Name = "n1" }, map[string]string{"n1": provider, "n2": ""}, ""},
		"registered again as another": {func(w *world) { w.owner.Status.NodeRef.Name = "n0" }, map[string]string{"n1": provider, "n2": ""}, ""},
		"found, and without it since an earlier life": {func(w *world) {
			w.owner.Status.NodeRef.Name, w.nodes = "n1", []client.Object{earlier(node("n1", ""))}
		}, map[string]string{"n1": ""}, "not heard since"},
		"found, and another's now": {func(w *world) {
			w.owner.Status.NodeRef.Name, w.nodes = "n1", []client.Object{node("n1", others)}
		}, map[string]string{"n1": others}, others},
		"another's of its name":                          {func(w *world) { w.nodes = []client.Object{node("m", others)} }, map[string]string{"m": others}, others},
		"another's of its name, next to an unknown Node": {func(w *world) { w.nodes[0] = node("m", others) }, map[string]string{"m": others, "n2": ""}, others},
		"another's of its name, which was not needed":    {func(w *world) { w.nodes[1] = node("m", others) }, map[string]string{"m": others, "n1": provider}, ""},
		"another's of another name":                      {func(w *world) { w.nodes = []client.Object{node("n1", others)} }, map[string]string{"n1": others}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.owner.Status.NodeRef.Name = ""
			w.host.Labels = nil // no other writes of Nodes
			unknown := node("n2", "")
			unknown.Status.NodeInfo.SystemUUID = "7b1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa"
			w.nodes = []client.Object{node("n1", ""), unknown}
			c.change(w)
			nodes, recorder := w.run(t)
			got, identified := map[string]string{}, 0
			for name, n := range nodes {
				got[name] = n.Spec.ProviderID
				if n.Spec.ProviderID == provider && name != "n3" {
					identified++
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("provider IDs (-want +got):\n%s", diff)
			}
			said := recorded(recorder)
			if strings.Count(said, infrav1.ReasonNodeIdentified) != identified || w.writes != identified {
				t.Errorf("%d writes, and events: %s", w.writes, said)
			}
			if strings.Contains(said, infrav1.ReasonNodeNotIdentified) != (c.why != "") || strings.Count(said, "\n") > 0 || !strings.Contains(said, c.why) {
				t.Errorf("events %q, want one with %q", said, c.why)
			}
		})
	}
}

// Facts about the machine may arrive after its Node: Ingot retries while a Node has no provider ID.
func TestIdentifyRetries(t *testing.T) {
	w := newWorld()
	w.owner.Status.NodeRef.Name = ""
	w.nodes, w.machine.Status.Addresses = []client.Object{node("n1", "")}, nil
	r, workload, _ := w.start(t)
	if again := reconcileOnce(t, r); again < time.Minute || again > 2*time.Minute {
		t.Fatalf("looks again after %s", again)
	}
	machine := &infrav1.IngotMachine{}
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(w.machine), machine); err != nil {
		t.Fatal(err)
	}
	machine.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.5"}}
	if err := r.Client.Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	if again := reconcileOnce(t, r); again != 0 {
		t.Errorf("looks again after %s", again)
	}
	n := &corev1.Node{}
	if err := workload.Get(t.Context(), client.ObjectKey{Name: "n1"}, n); err != nil || n.Spec.ProviderID != provider {
		t.Errorf("the Node has the provider ID %q: %v", n.Spec.ProviderID, err)
	}
	if again := reconcileOnce(t, r); again != 0 {
		t.Errorf("with no Node that has no name it looks again after %s", again)
	}
}

func TestWhoIsBroughtUp(t *testing.T) {
	w := newWorld()
	scheme := testscheme.Scheme(t)
	indexed := func(o client.Object) []string {
		id, err := infrav1.ParseProviderID(o.(*infrav1.IngotMachine).Spec.ProviderID)
		if err != nil {
			return nil
		}
		return []string{id.Namespace + "/" + id.Host}
	}
	other := &infrav1.IngotMachine{ObjectMeta: meta("im2")}
	r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.machine, other).
		WithIndex(&infrav1.IngotMachine{}, index.MachineByHost, indexed).Build()}
	cluster := client.ObjectKey{Namespace: ns, Name: "c"}
	ownedBy := func(apiVersion string) *infrav1.IngotCluster {
		return &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ic", OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: "Cluster", Name: "c"}}}}
	}
	free := &infrav1.IngotHost{ObjectMeta: meta("h2")}
	unknown := node("n2", "")
	unknown.Status.Addresses = nil
	for name, c := range map[string]struct {
		got  int
		want int
	}{
		"a Node, its machine":                {len(r.ofNode(cluster)(t.Context(), node("n1", provider))), 1},
		"a Node of another namespace's host": {len(r.ofNode(cluster)(t.Context(), node("n1", "ingot://other/h1/"+instance))), 0},
		"a Node of another provider":         {len(r.ofNode(cluster)(t.Context(), node("n1", "aws:///x/i-1"))), 0},
		"a Node without a provider ID":       {len(r.ofNode(cluster)(t.Context(), node("n1", ""))), 1},
		"unlike all machines":                {len(r.ofNode(cluster)(t.Context(), unknown)), 2},
		"an IngotCluster by its label":       {len(r.ofIngotCluster(t.Context(), w.infra)), 2},
		"an IngotCluster by its owner":       {len(r.ofIngotCluster(t.Context(), ownedBy(clusterv1.GroupVersion.String()))), 2},
		"an IngotCluster of another Cluster": {len(r.ofIngotCluster(t.Context(), ownedBy("provisioning.cattle.io/v1"))), 0},
		"an unowned IngotCluster":            {len(r.ofIngotCluster(t.Context(), &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns}})), 0},
		"a host, its machine":                {len(ofHost(t.Context(), w.host)), 1},
		"a free host":                        {len(ofHost(t.Context(), free)), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d requests, want %d", name, c.got, c.want)
		}
	}
	same, relabelled := node("n1", provider), node("n1", provider)
	relabelled.Labels[zone] = "r9"
	beat := node("n1", provider)
	beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	if nodeChanged().Update(event.UpdateEvent{ObjectOld: same, ObjectNew: beat}) {
		t.Error("each heartbeat of a Node brings its machine up")
	}
	if !nodeChanged().Update(event.UpdateEvent{ObjectOld: same, ObjectNew: relabelled}) {
		t.Error("a changed label of a Node triggers no reconcile")
	}
	changes := func(edit func(*infrav1.IngotMachine)) bool {
		after := w.machine.DeepCopy()
		edit(after)
		return provisionedChanged().Update(event.UpdateEvent{ObjectOld: w.machine, ObjectNew: after})
	}
	for name, c := range map[string]struct {
		edit func(*infrav1.IngotMachine)
		want bool
	}{
		"nothing":   {func(*infrav1.IngotMachine) {}, false},
		"addresses": {func(m *infrav1.IngotMachine) { m.Status.Addresses = nil }, true},
		"a pause":   {func(m *infrav1.IngotMachine) { m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }, true},
		"a label":   {func(m *infrav1.IngotMachine) { m.Labels = nil }, false},
	} {
		if got := changes(c.edit); got != c.want {
			t.Errorf("a change of a machine's %s: brought up %v, want %v", name, got, c.want)
		}
	}
}
