// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// TestCluster runs all tests that need an API server on one.
func TestCluster(t *testing.T) {
	scheme := testscheme.Scheme(t)
	cfg := envtest.Start(t, envtest.IngotCRDs(t), envtest.ClusterAPICRDs(t))
	for name, run := range map[string]func(*site){
		"endpoint": testEndpoint, "endpoint taken": testEndpointTaken, "racks": testRacks, "deletion": testDeletion, "pause": testPause, "left alone": testUntouchedClusters, "given away": testExternallyManagedLater,
		"old contract": testV1Beta1Conditions, "control plane racks": testControlPlaneRacks, "watch filter": testWatchFilter,
	} {
		t.Run(name, func(t *testing.T) {
			api := envtest.NewIndexed(t, cfg, scheme)
			s := &site{t: t, ctx: t.Context(), api: api, events: events.NewFakeRecorder(100), ns: strings.ReplaceAll(name, " ", "-")}
			s.must(index.Setup(t.Context(), api))
			s.Reconciler = &Reconciler{Client: api, Recorder: s.events}
			s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}})
			run(s)
		})
	}
	t.Run("watches", func(t *testing.T) {
		api := envtest.NewIndexed(t, cfg, scheme)
		s := &site{t: t, ctx: t.Context(), api: api, events: events.NewFakeRecorder(100), ns: "watches"}
		s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}})
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
		s.must(err)
		s.must(index.Setup(t.Context(), mgr.GetFieldIndexer()))
		s.must((&Reconciler{Client: mgr.GetClient(), Recorder: s.events}).SetupWithManager(t.Context(), mgr, controller.Options{}))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- mgr.Start(ctx) }()
		testWatches(s)
		cancel()
		s.must(<-done)
	})
}

// site is a test namespace with a reconciler.
type site struct {
	*Reconciler
	t      *testing.T
	ctx    context.Context
	ns     string
	api    *envtest.Indexed
	events *events.FakeRecorder
	hosts  int
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) create(obj client.Object) {
	s.t.Helper()
	s.must(s.api.Create(s.ctx, obj))
}

// cluster creates a Cluster with its IngotCluster.
func (s *site) cluster(name string, changes ...func(*clusterv1.Cluster, *infrav1.IngotCluster)) {
	s.t.Helper()
	owner := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	owner.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotCluster", Name: name}
	object := &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	for _, change := range changes {
		change(owner, object)
	}
	s.create(owner)
	object.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: name, UID: owner.UID}}
	s.create(object)
}

func endpoint(_ *clusterv1.Cluster, c *infrav1.IngotCluster) {
	c.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: "192.0.2.1", Port: 6443}
}

func (s *site) host(name, rack string, changes ...func(*infrav1.IngotHost)) {
	s.t.Helper()
	s.hosts++
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name, Labels: map[string]string{infrav1.RackLabel: rack}}}
	host.Spec.BootMACAddress = fmt.Sprintf("52:54:00:00:00:%02x", s.hosts)
	host.Spec.NetworkRef.Name = "net"
	host.Spec.BMC = &infrav1.BMC{Address: "redfish://" + name, CredentialsRef: infrav1.LocalReference{Name: "bmc"}}
	host.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Now()}
	for _, change := range changes {
		change(host)
	}
	s.create(host)
}

func (s *site) machine(name, cluster string) *infrav1.IngotMachine {
	s.t.Helper()
	return s.machineWith(name, cluster, func(*infrav1.IngotMachine) {})
}

func (s *site) machineWith(name, cluster string, change func(*infrav1.IngotMachine)) *infrav1.IngotMachine {
	s.t.Helper()
	machine := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}}}
	machine.Spec.Image = s.image()
	change(machine)
	s.create(machine)
	return machine
}

func (s *site) image() infrav1.Image {
	return infrav1.Image{URL: "http://x.example/i", Checksum: "sha256:" + strings.Repeat("0", 64), Format: infrav1.ImageFormatRaw}
}

func (s *site) get(name string) *infrav1.IngotCluster {
	s.t.Helper()
	object := &infrav1.IngotCluster{}
	err := s.api.Get(s.ctx, client.ObjectKey{Namespace: s.ns, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must(err)
	return object
}

// settle reconciles until nothing is written.
func (s *site) settle(name string) *infrav1.IngotCluster {
	s.t.Helper()
	for range 8 {
		before := s.get(name)
		result, err := s.Reconcile(s.ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.ns, Name: name}})
		s.must(err)
		after := s.get(name)
		if after != nil && conditions.IsTrue(after, infrav1.ReadyCondition) && after.DeletionTimestamp.IsZero() && !conditions.IsTrue(after, infrav1.PausedCondition) &&
			(result.RequeueAfter < recheckInterval || result.RequeueAfter > 2*recheckInterval) {
			s.t.Errorf("looked at again after %s", result.RequeueAfter)
		}
		if after == nil || before.ResourceVersion == after.ResourceVersion {
			if after != nil && conditions.Has(after, infrav1.ReadyCondition) && !conditions.IsTrue(after, infrav1.PausedCondition) && after.Status.ObservedGeneration != after.Generation {
				s.t.Errorf("status.observedGeneration is %d, metadata.generation %d", after.Status.ObservedGeneration, after.Generation)
			}
			return after
		}
	}
	s.t.Fatalf("the cluster is written to again and again: %+v", s.get(name).Status)
	return nil
}

func (s *site) want(name, kind string, status metav1.ConditionStatus, reason, says string) {
	s.t.Helper()
	c := conditions.Get(s.get(name), kind)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, says) {
		s.t.Errorf("condition %s = %+v, want %s %s with %q", kind, c, status, reason, says)
	}
}

// C06, C07: provisioned permanently once the IngotCluster or the Cluster has an endpoint.
func testEndpoint(s *site) {
	s.cluster("here", endpoint)
	s.cluster("there", func(o *clusterv1.Cluster, _ *infrav1.IngotCluster) {
		o.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.1", Port: 6443}
	})
	s.cluster("none")
	for _, name := range []string{"here", "there"} {
		if c := s.settle(name); !ptr.Deref(c.Status.Initialization.Provisioned, false) {
			s.t.Errorf("%s is not provisioned: %+v", name, c.Status)
		}
		s.want(name, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReasonReady, "")
	}
	if c := s.settle("none"); c.Status.Initialization.Provisioned != nil {
		s.t.Error("provisioned without an endpoint")
	}
	s.want("none", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonWaitingForEndpoint, "spec.controlPlaneEndpoint")
	if c := s.get("here"); len(c.Finalizers) != 1 {
		s.t.Errorf("finalizers = %v", c.Finalizers)
	}
}

// C09: the racks of the hosts, and which of them can have control plane machines.
func testRacks(s *site) {
	s.cluster("c", endpoint, func(_ *clusterv1.Cluster, c *infrav1.IngotCluster) {
		c.Spec.HostSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "not-ours", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	})
	s.settle("c")
	s.want("c", infrav1.ClusterFailureDomainsReadyCondition, metav1.ConditionTrue, infrav1.ReasonNoFailureDomains, infrav1.RackLabel)
	s.host("free", "b")
	s.host("broken", "a", func(h *infrav1.IngotHost) { h.Spec.Maintenance = ptr.To(true) })
	s.host("foreign", "z", func(h *infrav1.IngotHost) { h.Labels["not-ours"] = "" })
	want := []clusterv1.FailureDomain{{Name: "a", ControlPlane: ptr.To(false)}, {Name: "b", ControlPlane: ptr.To(true)}}
	if diff := cmp.Diff(want, s.settle("c").Status.FailureDomains); diff != "" {
		s.t.Errorf("failure domains (-want +got):\n%s", diff)
	}
	for i := range 101 {
		s.host(fmt.Sprintf("many-%d", i), fmt.Sprintf("rack-%d", i))
	}
	if c := s.settle("c"); len(c.Status.FailureDomains) != 0 {
		s.t.Errorf("%d failure domains", len(c.Status.FailureDomains))
	}
	s.want("c", infrav1.ClusterFailureDomainsReadyCondition, metav1.ConditionFalse, infrav1.ReasonTooManyFailureDomains, "narrow spec.hostSelector")
	// Cluster API does not check machines of a cluster that is not ready.
	s.want("c", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReasonReady, "")
	if n := len(s.events.Events); n != 1 {
		s.t.Errorf("%d events", n)
	}
	if c := s.get("c"); !ptr.Deref(c.Status.Initialization.Provisioned, false) {
		s.t.Error("no longer provisioned")
	}
}

// A cluster stays while machines remain, and shows it.
func testDeletion(s *site) {
	s.cluster("c", endpoint)
	s.settle("c")
	machine := s.machine("m", "c")
	s.machine("other", "another-cluster")
	s.must(s.api.Delete(s.ctx, s.get("c")))
	if s.settle("c") == nil {
		s.t.Fatal("gone while a machine remains")
	}
	s.want("c", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonMachinesRemain, "Waiting for 1 IngotMachines of Cluster c, such as m, to be deleted. Delete their Machines, and IngotMachines without a Machine.")
	s.must(s.api.Delete(s.ctx, machine))
	if c := s.settle("c"); c != nil {
		s.t.Errorf("stays without machines: %+v", c)
	}
	if n := len(s.events.Events); n != 1 {
		s.t.Errorf("%d events", n)
	}
	// An IngotCluster without a Cluster is deleted too.
	s.cluster("orphan", endpoint)
	s.settle("orphan")
	s.must(s.api.Delete(s.ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "orphan"}}))
	s.must(s.api.Delete(s.ctx, s.get("orphan")))
	if c := s.settle("orphan"); c != nil {
		s.t.Errorf("an orphan stays: %+v", c)
	}
}

// M43, M44: also during a deletion.
func testPause(s *site) {
	s.cluster("c", endpoint, func(o *clusterv1.Cluster, _ *infrav1.IngotCluster) { o.Spec.Paused = ptr.To(true) })
	if c := s.settle("c"); c.Status.Initialization.Provisioned != nil {
		s.t.Error("provisioned while paused")
	}
	s.want("c", infrav1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason, "paused")
	s.must(s.api.Delete(s.ctx, s.get("c")))
	if s.settle("c") == nil {
		s.t.Fatal("let go while paused")
	}
	owner := &clusterv1.Cluster{}
	s.must(s.api.Get(s.ctx, client.ObjectKey{Namespace: s.ns, Name: "c"}, owner))
	owner.Spec.Paused = nil
	s.must(s.api.Update(s.ctx, owner))
	if c := s.settle("c"); c != nil {
		s.t.Errorf("stays after the pause: %+v", c)
	}
}

// C13, C14, I9: externally managed, unowned and moved clusters are not touched.
func testUntouchedClusters(s *site) {
	objects := map[string]map[string]string{
		"external": {clusterv1.ManagedByAnnotation: "terraform"},
		"moved":    {clusterctlv1.DeleteForMoveAnnotation: ""},
	}
	for name, annotations := range objects {
		s.cluster(name, endpoint, func(_ *clusterv1.Cluster, c *infrav1.IngotCluster) { c.Annotations = annotations })
	}
	s.create(&infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "unowned"}})
	for _, name := range []string{"external", "moved", "unowned"} {
		if c := s.settle(name); len(c.Finalizers) != 0 || len(c.Status.Conditions) != 0 {
			s.t.Errorf("%s was touched: %+v", name, c)
		}
	}
}

// C13: a cluster that becomes externally managed can be deleted: Ingot removes its finalizer.
func testExternallyManagedLater(s *site) {
	s.cluster("c", endpoint)
	c := s.settle("c")
	c.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "terraform"}
	s.must(s.api.Update(s.ctx, c))
	s.must(s.api.Delete(s.ctx, c))
	if c := s.settle("c"); c != nil {
		s.t.Errorf("stays: %+v", c)
	}
}

func testWatches(s *site) {
	s.cluster("c")
	s.eventually("waits for its endpoint", func(c *infrav1.IngotCluster) bool {
		return conditions.IsFalse(c, infrav1.ClusterEndpointReadyCondition)
	})
	owner := &clusterv1.Cluster{}
	s.must(s.api.Get(s.ctx, client.ObjectKey{Namespace: s.ns, Name: "c"}, owner))
	owner.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.1", Port: 6443}
	s.must(s.api.Update(s.ctx, owner))
	s.eventually("takes the Cluster's endpoint", func(c *infrav1.IngotCluster) bool {
		return conditions.IsTrue(c, infrav1.ReadyCondition)
	})
	c := s.get("c")
	c.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: "192.0.2.79", Port: 6443}
	s.must(s.api.Update(s.ctx, c))
	foreign := s.recorded("default", "foreign", "192.0.2.79")
	shows := func(reason string) func(*infrav1.IngotCluster) bool {
		return func(c *infrav1.IngotCluster) bool {
			return conditions.GetReason(c, infrav1.ClusterEndpointReadyCondition) == reason
		}
	}
	s.eventually("shows that a host of another namespace has its endpoint", shows(infrav1.ReasonEndpointInUse))
	s.must(s.api.Delete(s.ctx, foreign))
	s.eventually("shows that the host is gone", shows(infrav1.ReasonEndpointSet))
	s.host("h", "a")
	s.eventually("lists the rack", func(c *infrav1.IngotCluster) bool { return len(c.Status.FailureDomains) == 1 })
	// The host without known hardware does not meet the requirements of the control plane.
	serves := func(c *infrav1.IngotCluster) bool { return ptr.Deref(c.Status.FailureDomains[0].ControlPlane, false) }
	s.eventually("offers the rack to a control plane", serves)
	s.machineWith("cp", "another-one", func(m *infrav1.IngotMachine) { m.Labels[clusterv1.MachineControlPlaneLabel] = "" })
	machine := s.machineWith("m", "c", func(m *infrav1.IngotMachine) { m.Labels[clusterv1.MachineControlPlaneLabel] = "" })
	s.eventually("withdraws it", func(c *infrav1.IngotCluster) bool { return !serves(c) })
	s.hardware("h", 64)
	s.eventually("offers it again", serves)
	promise := &infrav1.IngotReservation{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "rival"}}
	promise.Spec.Groups = []infrav1.ReservedGroup{{Name: "md", Count: 1}}
	s.create(promise)
	s.eventually("withdraws what is promised", func(c *infrav1.IngotCluster) bool { return !serves(c) })
	s.must(s.api.Delete(s.ctx, promise))
	s.eventually("offers it when the promise is gone", serves)
	// The next machine's image is for an architecture that the rack lacks, as the IngotImage shows
	// once it exists.
	next := s.machineWith("m-next", "c", func(m *infrav1.IngotMachine) {
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
		m.Spec.Image, m.Spec.ImageRef = infrav1.Image{}, &infrav1.ImageReference{Name: "arm"}
	})
	arm := &infrav1.IngotImage{ObjectMeta: metav1.ObjectMeta{Name: "arm"}, Spec: infrav1.IngotImageSpec{
		KubernetesVersion: "v1.37.0", OS: "debian-13", Architecture: "arm64", URL: s.image().URL, Checksum: s.image().Checksum, Format: s.image().Format}}
	s.create(arm)
	s.eventually("withdraws what the image is not for", func(c *infrav1.IngotCluster) bool { return !serves(c) })
	s.must(s.api.Delete(s.ctx, arm))
	s.eventually("offers it when nothing is known of the image", serves)
	s.must(s.api.Delete(s.ctx, next))
	s.testNetworkWatch(serves)
	given := s.get("c") // externally managed: it is deleted anyway
	before := given.DeepCopy()
	given.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "terraform"}
	s.must(s.api.Patch(s.ctx, given, client.MergeFrom(before)))
	s.must(s.api.Delete(s.ctx, given))
	s.eventually("waits for its machines", func(c *infrav1.IngotCluster) bool {
		return conditions.GetReason(c, infrav1.ReadyCondition) == infrav1.ReasonMachinesRemain
	})
	s.must(s.api.Delete(s.ctx, machine))
	s.eventually("goes", func(c *infrav1.IngotCluster) bool { return c == nil })
}

func (s *site) testNetworkWatch(serves func(*infrav1.IngotCluster) bool) {
	s.t.Helper()
	host, facts := &infrav1.IngotHost{}, &infrav1.IngotHardware{}
	s.must(s.api.Get(s.ctx, client.ObjectKey{Namespace: s.ns, Name: "h"}, host))
	s.must(s.api.Get(s.ctx, client.ObjectKey{Namespace: s.ns, Name: "h"}, facts))
	mac := host.Spec.BootMACAddress
	facts.Spec.NICs = []infrav1.HardwareNIC{{MAC: mac, Name: "eth0"}}
	facts.Spec.Address = &infrav1.RecordedAddress{NetworkName: "net", MAC: mac, IP: "10.10.0.20"}
	s.must(s.api.Update(s.ctx, facts))
	machine := s.machineWith("m-net", "c", func(m *infrav1.IngotMachine) {
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
		m.Spec.NetworkData = &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{{Name: "uplink0", NIC: infrav1.NICSelector{BootNIC: infrav1.BootNICOnly},
			LinkConfig: infrav1.LinkConfig{Addresses: []infrav1.LinkAddress{{Source: infrav1.AddressRecorded}}}}}}
	})
	s.eventually("withdraws what has no address", func(c *infrav1.IngotCluster) bool { return !serves(c) })
	network := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "net"}, Spec: infrav1.IngotNetworkSpec{
		Subnet: "10.10.0.0/24", Range: infrav1.AddressRange{Start: "10.10.0.10", End: "10.10.0.99"}}}
	s.create(network)
	s.eventually("offers it when the network has the address", serves)
	s.must(s.api.Delete(s.ctx, machine))
	s.must(s.api.Delete(s.ctx, network))
}

func (s *site) eventually(what string, done func(*infrav1.IngotCluster) bool) {
	s.t.Helper()
	explain := func() string { return fmt.Sprintf("%+v", s.get("c")) }
	eventually.Wait{Explain: explain}.Until(s.t, "a cluster that "+what, eventually.Holds(func() bool { return done(s.get("c")) }))
}
