// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// TestRemediation runs all tests that need an API server on one.
func TestRemediation(t *testing.T) {
	scheme := testscheme.Scheme(t)
	cfg := envtest.Start(t, envtest.IngotCRDs(t), envtest.ClusterAPICRDs(t))
	for i, c := range []struct {
		name string
		run  func(*site)
	}{
		{"power cycles, then handed over", testHandedOver}, {"healthy again", testHealthyAgain}, {"pardoned", testEndedRemediationIsNotDelegated}, {"ended while the host is cut off", testEnded},
		{"paused", testPaused}, {"moved", testMoved}, {"status lost", testStatusLost}, {"a stale view of the host", testConflict},
		{"another's Machine", testWatchFilter}, {"of no Machine", testNoMachine}, {"host lost", testHostLost}, {"a person at work", testPerson},
		{"left alone", testLeftAlone}, {"the cluster is not reached", testUnreachable}, {"back without a condition", testBack}, {"older than the process", testOlder},
		{"handed over after a move", testDelegatedWith("")}, {"handed over as it was healthy long ago", testDelegatedWith(metav1.ConditionTrue)},
		{"delegated without a condition", testDelegatedWith(metav1.ConditionUnknown)}, {"the IngotMachine is gone", testInfraGone},
		{"of another provider", testForeign}, {"marked by a person", testMarked}, {"a boot ID that no claim takes", testBootID}, {"quiet", testQuiet},
		{"an installation that cannot end", testFailedInstallIsReplaced},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(newSite(t, cfg, scheme, fmt.Sprintf("site-%d", i))) })
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is a test namespace with a Machine in use, its remediation and a reconciler.
type site struct {
	*Reconciler
	t        *testing.T
	ctx      context.Context
	ns       string
	api      client.Client
	clock    *testclock.FakeClock
	events   *events.FakeRecorder
	workload client.Client
	// writes counts those of the reconciler.
	writes int
}

const instance = "00000000-0000-4000-8000-000000000001"

func newSite(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme, ns string) *site {
	t.Helper()
	api, err := client.New(cfg, client.Options{Scheme: scheme})
	must(t, err)
	s := &site{t: t, ctx: ctrl.LoggerInto(t.Context(), logr.Discard()), ns: ns, api: api, clock: testclock.NewFakeClock(time.Now().Truncate(time.Second)), events: events.NewFakeRecorder(100)}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	node.Status.NodeInfo.BootID = "boot-1"
	s.workload = fake.NewClientBuilder().WithScheme(scheme).WithObjects(node).Build()
	s.Reconciler = &Reconciler{Client: s.counted(cfg, scheme), Live: api, Recorder: s.events, Clock: s.clock,
		Workloads: clustercache.NewFakeClusterCache(s.workload, client.ObjectKey{Namespace: ns, Name: "c"})}
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	cluster := &clusterv1.Cluster{ObjectMeta: s.meta("c")}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotCluster", Name: "c"}
	s.create(cluster)
	s.machines()
	s.remediation()
	return s
}

// counted returns a client that counts writes.
func (s *site) counted(cfg *rest.Config, scheme *runtime.Scheme) client.Client {
	s.t.Helper()
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	must(s.t, err)
	return interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			s.writes++
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			s.writes++
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
}

func (s *site) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.ns, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}}
}

// machines creates Machine, IngotMachine (with another name) and host.
func (s *site) machines() {
	s.t.Helper()
	machine := &clusterv1.Machine{ObjectMeta: s.meta("m")}
	machine.Spec.ClusterName, machine.Spec.Bootstrap.DataSecretName = "c", ptr.To("bootstrap")
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotMachine", Name: "im"}
	s.create(machine)
	machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: "m"}
	s.unhealthy(machine)
	im := &infrav1.IngotMachine{ObjectMeta: s.meta("im")}
	im.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: machine.UID}}
	im.Spec.ProviderID = infrav1.ProviderID{Namespace: s.ns, Host: "h1", InstanceID: instance}.String()
	im.Spec.Image = claimImage()
	s.create(im)
	im.Status.Initialization.Provisioned = ptr.To(true)
	must(s.t, s.api.Status().Update(s.ctx, im))
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "h1"}}
	host.Spec.BMC = &infrav1.BMC{Address: "redfish://192.0.2.1/redfish/v1/Systems/1", CredentialsRef: infrav1.LocalReference{Name: "bmc"}}
	host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = "52:54:00:00:00:01", "net"
	host.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "im"}, ClusterName: "c", InstanceID: instance, Attempt: 1,
		State: infrav1.ClaimProvisioned, Image: claimImage(), Cleaning: infrav1.CleaningMetadata, Hostname: "m"}
	s.create(host)
}

func claimImage() infrav1.Image {
	return infrav1.Image{URL: "http://images.example/os.raw", Format: infrav1.ImageFormatRaw,
		Checksum: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
}

// unhealthy sets the conditions of MachineHealthCheck.
func (s *site) unhealthy(machine *clusterv1.Machine) {
	s.t.Helper()
	conditions.Set(machine, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: "UnhealthyNode", Message: "x"})
	conditions.Set(machine, metav1.Condition{Type: clusterv1.MachineExternallyRemediatedCondition, Status: metav1.ConditionFalse, Reason: "WaitingForRemediation"})
	must(s.t, s.api.Status().Update(s.ctx, machine))
}

// remediation creates the remediation as MachineHealthCheck does.
func (s *site) remediation() {
	s.t.Helper()
	obj := &infrav1.IngotRemediation{ObjectMeta: s.meta("m")}
	obj.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: s.machine().UID}}
	s.create(obj)
}

func (s *site) create(obj client.Object) {
	s.t.Helper()
	must(s.t, s.api.Create(s.ctx, obj))
}

func (s *site) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.ns, Name: name}
}

func (s *site) machine() *clusterv1.Machine {
	s.t.Helper()
	m := &clusterv1.Machine{}
	must(s.t, s.api.Get(s.ctx, s.key("m"), m))
	return m
}

func (s *site) host() *infrav1.IngotHost {
	s.t.Helper()
	h := &infrav1.IngotHost{}
	must(s.t, s.api.Get(s.ctx, s.key("h1"), h))
	return h
}

// get reads the remediation; nil: it is gone.
func (s *site) get() *infrav1.IngotRemediation {
	s.t.Helper()
	obj := &infrav1.IngotRemediation{}
	err := s.api.Get(s.ctx, s.key("m"), obj)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(s.t, err)
	return obj
}

// change writes the host as another client.
func (s *site) change(edit func(*infrav1.IngotHost)) {
	s.t.Helper()
	host := s.host()
	edit(host)
	must(s.t, s.api.Update(s.ctx, host))
}

// turn reconciles until the reconciler only waits, and returns the reason of Ready.
func (s *site) turn() string {
	s.t.Helper()
	for range 10 {
		before := s.pulse()
		_, err := s.Reconcile(s.ctx, ctrl.Request{NamespacedName: s.key("m")})
		must(s.t, err)
		if s.pulse() == before {
			break
		}
	}
	obj := s.get()
	if obj == nil {
		return ""
	}
	if ready := conditions.Get(obj, infrav1.ReadyCondition); ready != nil {
		return ready.Reason
	}
	return ""
}

func (s *site) pulse() string {
	version := ""
	if obj := s.get(); obj != nil {
		version = obj.ResourceVersion
	}
	return version + s.host().ResourceVersion + s.machine().ResourceVersion
}

// wants checks the reason of Ready after a turn.
func (s *site) wants(reason string) {
	s.t.Helper()
	if got := s.turn(); got != reason {
		s.t.Fatalf("Ready's reason is %q, want %q: %+v", got, reason, s.get())
	}
}

// cycles acts as the host controller.
func (s *site) cycles() {
	s.t.Helper()
	s.change(func(h *infrav1.IngotHost) {
		cycle := h.Spec.Claim.PowerCycle
		cycle.State, cycle.ConfirmedOff, cycle.CompletionTime = infrav1.PowerCycleDone, ptr.To(true), metav1.NewTime(s.clock.Now())
	})
}

func (s *site) restarted() string {
	s.t.Helper()
	return conditions.GetReason(s.get(), infrav1.RemediationRestartedCondition)
}

// recorded returns the reasons of all events so far.
func (s *site) recorded() []string {
	var all []string
	for len(s.events.Events) > 0 {
		var kind, reason string
		_, err := fmt.Sscan(<-s.events.Events, &kind, &reason)
		must(s.t, err)
		all = append(all, reason)
	}
	return all
}
