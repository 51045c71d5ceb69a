// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// testTimeout is the time limit of a slow machine for each step.
const testTimeout = 5 * time.Minute

// place is one API server as management and workload cluster, with the reconciler in a manager.
type place struct {
	t      *testing.T
	api    client.Client
	events *events.FakeRecorder
	r      *Reconciler
}

func newPlace(t *testing.T) *place {
	scheme := testscheme.Scheme(t)
	cfg := envtest.Start(t, envtest.IngotCRDs(t), envtest.ClusterAPICRDs(t))
	api, err := client.New(cfg, client.Options{Scheme: scheme})
	must(t, err)
	p := &place{t: t, api: api, events: events.NewFakeRecorder(100)}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}})
	must(t, err)
	must(t, index.Setup(t.Context(), mgr.GetFieldIndexer()))
	ctx, cancel := context.WithCancel(context.Background())
	clusters, err := clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient: mgr.GetAPIReader(), Cache: clustercache.CacheOptions{Indexes: Indexes(), DefaultTransform: Transform},
		Client: clustercache.ClientOptions{UserAgent: "test", QPS: 100, Burst: 100},
	}, controller.Options{})
	must(t, err)
	// Retries are an hour away: all reconciles are triggered by events.
	p.r = &Reconciler{Client: mgr.GetClient(), Clusters: clusters, Recorder: p.events, Clock: clock.RealClock{}, Timing: timing.Timing{NodeCheck: time.Hour}}
	must(t, p.r.SetupWithManager(mgr, clusters, controller.Options{}))
	p.cluster(cfg)
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
		if reached, ok := clusters.(interface{ Shutdown() }); ok { // this is the only way to stop the caches
			reached.Shutdown()
		}
	})
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// create creates the object with its status.
func (p *place) create(obj client.Object) {
	p.t.Helper()
	full, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		p.t.Fatalf("%T is no object", obj)
	}
	must(p.t, p.api.Create(p.t.Context(), obj))
	full.SetResourceVersion(obj.GetResourceVersion())
	full.SetUID(obj.GetUID())
	must(p.t, p.api.Status().Update(p.t.Context(), full))
}

// cluster is reached by the kubeconfig that Cluster API would make.
func (p *place) cluster(cfg *rest.Config) {
	p.t.Helper()
	must(p.t, p.api.Create(p.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	w := newWorld()
	w.cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotCluster", Name: "ic"}
	w.cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	p.create(w.infra)
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: cfg.Host, CertificateAuthorityData: cfg.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	})
	must(p.t, err)
	p.create(w.cluster)
	must(p.t, p.api.Create(p.t.Context(), kubeconfig.GenerateSecret(w.cluster, data)))
}

// machine creates a machine whose system was just installed, on a host without a recorded address.
func (p *place) machine() {
	p.t.Helper()
	w := newWorld()
	w.owner.UID = ""
	w.owner.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotMachine", Name: "im"}
	w.owner.Spec.Bootstrap.DataSecretName, w.owner.Status.NodeRef.Name = new("bootstrap"), ""
	p.create(w.owner)
	image := infrav1.Image{URL: "http://images.example/os.raw", Format: infrav1.ImageFormatRaw,
		Checksum: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
	w.host.Labels[infrav1.RackLabel] = "r1"
	w.host.Spec.BMC = &infrav1.BMC{Address: "redfish://192.0.2.1/redfish/v1/Systems/1", CredentialsRef: infrav1.LocalReference{Name: "bmc"}}
	w.host.Spec.BootMACAddress, w.host.Spec.NetworkRef.Name = "52:54:00:00:00:01", "net"
	w.host.Spec.Claim.ClusterName, w.host.Spec.Claim.Attempt, w.host.Spec.Claim.Image, w.host.Spec.Claim.Cleaning = "c", 1, image, infrav1.CleaningMetadata
	p.create(w.host)
	for _, h := range w.hardware {
		must(p.t, p.api.Create(p.t.Context(), h))
	}
	w.machine.OwnerReferences[0].UID = w.owner.UID
	w.machine.Spec.Image = image
	w.machine.Status.Addresses = nil
	conditions.Set(w.machine, metav1.Condition{Type: infrav1.MachineInstalledCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonInstalled, LastTransitionTime: metav1.NewTime(installed)})
	p.create(w.machine)
}

// await waits until the Node meets the condition.
func (p *place) await(name, what string, so func(*corev1.Node) bool) *corev1.Node {
	p.t.Helper()
	n := &corev1.Node{}
	eventually.Wait{Limit: testTimeout, Explain: func() string { return fmt.Sprintf("%+v", n) }}.Until(p.t, what, eventually.Holds(func() bool {
		must(p.t, p.api.Get(p.t.Context(), client.ObjectKey{Name: name}, n))
		return so(n)
	}))
	return n
}

// hasEvent waits for an event with the text.
func (p *place) hasEvent(text string) {
	p.t.Helper()
	for {
		select {
		case event := <-p.events.Events:
			if strings.Contains(event, text) {
				return
			}
		case <-time.After(testTimeout):
			p.t.Fatalf("no event says %q", text)
		}
	}
}

// TestNodeGetsItsProviderID: by Cluster API's cache of the workload cluster, a Node without a
// provider ID gets its own, and not that of an earlier install of the server. Cluster API then
// finds it, and it is labeled.
func TestNodeGetsItsProviderID(t *testing.T) {
	p := newPlace(t)
	p.machine()
	left, lives := node("left", ""), node("n1", "")
	left.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(installed.Add(-time.Hour))
	lives.Status.Images = []corev1.ContainerImage{{Names: []string{"registry.k8s.io/pause"}, SizeBytes: 1}}
	p.create(left)
	p.hasEvent("left has neither the machine's name nor an address")
	p.create(lives)
	p.hasEvent("n1 has neither")
	machine := &infrav1.IngotMachine{}
	must(t, p.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "im"}, machine))
	machine.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.5"}}
	must(t, p.api.Status().Update(t.Context(), machine))
	found := p.await("n1", "its provider ID", func(n *corev1.Node) bool { return n.Spec.ProviderID == provider })
	if len(found.Status.Images) != 1 {
		t.Error("what is not kept of the Node is taken from it")
	}
	p.hasEvent(infrav1.ReasonNodeIdentified)
	if n := p.await("left", "the Node of before", func(*corev1.Node) bool { return true }); n.Spec.ProviderID != "" {
		t.Errorf("the Node of an earlier life is %s", n.Spec.ProviderID)
	}
	owner := &clusterv1.Machine{}
	must(t, p.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "m"}, owner))
	owner.Status.NodeRef.Name = "n1"
	must(t, p.api.Status().Update(t.Context(), owner))
	p.await("n1", "the rack of its host", func(n *corev1.Node) bool { return n.Labels[zone] == "r1" && n.Labels["dc.example/gpu"] == "a100" })
	// Cluster API takes the label over, as it does: label and list in one write.
	n := p.await("n1", "the Node", func(*corev1.Node) bool { return true })
	n.Labels["dc.example/gpu"], n.Annotations[clusterv1.LabelsFromMachineAnnotation] = "t4", "dc.example/gpu"
	must(t, p.api.Update(t.Context(), n))
	n = p.await("n1", "a label let go", func(n *corev1.Node) bool { return n.Annotations[infrav1.LabelsFromHostAnnotation] == zone })
	if n.Labels["dc.example/gpu"] != "t4" {
		t.Errorf("Cluster API's label is %q", n.Labels["dc.example/gpu"])
	}
	must(t, p.api.Delete(t.Context(), n))
	must(t, p.api.Create(t.Context(), node("n1", ""))) // of a Node the status is made with it
	p.await("n1", "its provider ID and its rack again", func(n *corev1.Node) bool { return n.Spec.ProviderID == provider && n.Labels[zone] == "r1" })
}
