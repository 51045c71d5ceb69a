// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/index"
)

const (
	ns       = "metal"
	instance = "00000000-0000-4000-8000-000000000001"
	provider = "ingot://metal/h1/" + instance
	uuid     = "6a1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa"
	zone     = corev1.LabelTopologyZone
)

// world is a machine in use on host h1 in rack r1, and its Node, in two API servers.
type world struct {
	machine  *infrav1.IngotMachine
	owner    *clusterv1.Machine
	cluster  *clusterv1.Cluster
	infra    *infrav1.IngotCluster
	host     *infrav1.IngotHost
	hardware []client.Object
	nodes    []client.Object
	filter   string
	// unreached: the workload cluster does not answer.
	unreached bool
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
	}
	w.machine.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: "m"}}
	w.machine.Spec.ProviderID, w.machine.Status.Initialization.Provisioned = provider, new(true)
	w.machine.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.5"}}
	w.owner.UID, w.owner.Spec.ClusterName, w.owner.Status.NodeRef.Name = "m", "c", "n1"
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
	return n
}

// run reconciles twice and returns the Nodes by name.
func (w *world) run(t *testing.T) (map[string]*corev1.Node, *events.FakeRecorder) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	management := fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.machine, w.owner, w.cluster, w.infra, w.host).WithObjects(w.hardware...).Build()
	workload := fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.nodes...).Build()
	cluster := client.ObjectKey{Namespace: ns, Name: "c"}
	if w.unreached {
		cluster.Name = "another"
	}
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Client: management, Recorder: recorder, WatchFilterValue: w.filter, Clusters: clustercache.NewFakeClusterCache(workload, cluster, name)}
	for range 2 {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: ns, Name: "im"}}); err != nil {
			t.Fatal(err)
		}
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
			if diff := cmp.Diff(c.want, nodes["n1"].Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if got := nodes["n1"].Annotations[infrav1.LabelsFromHostAnnotation]; got != c.written {
				t.Errorf("Ingot remembers %q, want %q", got, c.written)
			}
		})
	}
}

// A Node whose kubelet was not told who it is.
func TestIdentify(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		want   map[string]string
	}{
		"by UUID and address": {func(*world) {}, map[string]string{"n1": provider, "n2": ""}},
		"by UUID and name": {func(w *world) {
			w.nodes = []client.Object{node("m", ""), node("n2", "")}
			for _, n := range w.nodes {
				n.(*corev1.Node).Status.Addresses = nil
			}
		}, map[string]string{"m": provider, "n2": ""}},
		"two Nodes could be it": {func(w *world) { w.nodes = []client.Object{node("n1", ""), node("n2", "")} }, map[string]string{"n1": "", "n2": ""}},
		"a UUID of two servers": {func(w *world) { w.hardware = append(w.hardware, hardware("h3", uuid)) }, map[string]string{"n1": "", "n2": ""}},
		"another Node has it": {func(w *world) { w.nodes = append(w.nodes, node("n3", provider)) },
			map[string]string{"n1": "", "n2": "", "n3": provider}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.owner.Status.NodeRef.Name = ""
			stranger := node("n2", "")
			stranger.Status.NodeInfo.SystemUUID = "7b1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa"
			w.nodes = []client.Object{node("n1", ""), stranger}
			c.change(w)
			nodes, recorder := w.run(t)
			got, said := map[string]string{}, 0
			for name, n := range nodes {
				got[name] = n.Spec.ProviderID
				if n.Spec.ProviderID == provider && name != "n3" {
					said++
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("provider IDs (-want +got):\n%s", diff)
			}
			if len(recorder.Events) != said {
				t.Errorf("%d events, want %d", len(recorder.Events), said)
			}
		})
	}
}

func TestWhoIsBroughtUp(t *testing.T) {
	w := newWorld()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
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
	owned := &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ic", OwnerReferences: []metav1.OwnerReference{{Kind: "Cluster", Name: "c"}}}}
	free := &infrav1.IngotHost{ObjectMeta: meta("h2")}
	for name, c := range map[string]struct {
		got  int
		want int
	}{
		"a Node, its machine":                {len(r.ofNode(cluster)(t.Context(), node("n1", provider))), 1},
		"a Node of another namespace's host": {len(r.ofNode(cluster)(t.Context(), node("n1", "ingot://other/h1/"+instance))), 0},
		"a Node of another provider":         {len(r.ofNode(cluster)(t.Context(), node("n1", "aws:///x/i-1"))), 0},
		"a Node without a provider ID, all":  {len(r.ofNode(cluster)(t.Context(), node("n1", ""))), 2},
		"an IngotCluster by its label":       {len(r.ofIngotCluster(t.Context(), w.infra)), 2},
		"an IngotCluster by its owner":       {len(r.ofIngotCluster(t.Context(), owned)), 2},
		"an IngotCluster of nobody":          {len(r.ofIngotCluster(t.Context(), &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns}})), 0},
		"a host, its machine":                {len(ofHost(t.Context(), w.host)), 1},
		"a free host, nobody":                {len(ofHost(t.Context(), free)), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d requests, want %d", name, c.got, c.want)
		}
	}
	same, relabelled := node("n1", provider), node("n1", provider)
	relabelled.Labels[zone] = "r9"
	beat := node("n1", provider)
	beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	if strays().Update(event.UpdateEvent{ObjectOld: same, ObjectNew: beat}) {
		t.Error("each heartbeat of a Node brings its machine up")
	}
	if !strays().Update(event.UpdateEvent{ObjectOld: same, ObjectNew: relabelled}) {
		t.Error("a label that somebody changed on a Node brings nobody up")
	}
}
