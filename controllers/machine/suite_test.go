// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// TestMachine runs all tests that need an API server on one.
func TestMachine(t *testing.T) {
	scheme := testscheme.Scheme(t, ipamv1.AddToScheme)
	cfg := envtest.Start(t, envtest.IngotCRDs(t), envtest.ClusterAPICRDs(t))
	for name, run := range map[string]func(*testing.T, *rest.Config, *runtime.Scheme){
		"prerequisites": testPrerequisites, "life": testLifecycle, "first boot cut off": testFirstBootInterrupted, "bootstrap failed": testBootstrapFailed, "server off": testServerOff, "silent BMC": testUnreachableBMCWithHealthyNode, "placement": testPlacement, "conflicts": testConflicts,
		"install failed": testInstallFailed, "lost": testProvisionedMachineLosesItsHost, "host back": testRestoredHostIsTheMachinesAgain, "deletion": testDeletion, "force": testForceRelease, "pause": testPause,
		"watches": testWatches, "failed for good": testPermanentLoss, "old contract": testV1Beta1Conditions,
		"failure domain of the IngotMachine": testOwnFailureDomain, "label changed": testLabelChanged,
		"status lost": testStatusLost, "late host": testLateHost, "watch filter": testWatchFilter, "late cluster": testLateCluster, "stale loss": testStaleCacheCausesNoPermanentLoss,
		"promises": testReservations, "promise after the choice": testReservationAfterTheSelection, "catalogued image": testImageReference, "refused image": testImageThatAHostRejected,
		"network data": testNetworkData, "network of a pool": testNetworkOfPool, "a network change": testNetworkChangeTriggersWaitingMachines, "address claim lost": testAddressClaimLost, "address taken": testAddressTaken, "network of others": testNetworkOfOtherNamespace, "network data with Ignition": testNetworkDataWithIgnition, "invalid Ignition": testInvalidIgnition, "data that is no text": testBootstrapDataMustBeText, "a mirror with Ignition": testMirrorWithIgnition, "the format is read once": testFormatIsReadOnce,
		"image gone": testImageGone, "image or reference": testImageOrReference,
		"the log of a life": testLog, "a busy inventory": testBusyInventory, "a host freed": testFreedHost, "changed live": testCleaningOfARunningMachine, "live system": testLiveSystem, "late claim": testLateClaim,
	} {
		t.Run(name, func(t *testing.T) { run(t, cfg, scheme) })
	}
}

// site is a test namespace with a Cluster and a reconciler.
type site struct {
	*Reconciler
	t        *testing.T
	ctx      context.Context
	ns       string
	api      *envtest.Indexed
	clock    *testclock.FakeClock
	events   *events.FakeRecorder
	recorded []string
}

var numbers = struct {
	sync.Mutex
	n int
}{}

func number() int {
	numbers.Lock()
	defer numbers.Unlock()
	numbers.n++
	return numbers.n
}

// newSite creates Cluster "c" with provisioned infrastructure.
func newSite(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) *site {
	t.Helper()
	api := envtest.NewIndexed(t, cfg, scheme)
	if err := index.Setup(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, ctx: t.Context(), ns: fmt.Sprintf("site-%d", number()), api: api,
		clock: testclock.NewFakeClock(time.Now().Truncate(time.Second)), events: events.NewFakeRecorder(1000)}
	s.Reconciler = &Reconciler{Client: api, Live: api, Recorder: s.events, Clock: s.clock, NewID: uuid.NewString}
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}})
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "c"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotCluster", Name: "c"}
	s.create(cluster)
	s.create(&infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "c"}})
	s.infrastructure(true)
	return s
}

func (s *site) create(obj client.Object) {
	s.t.Helper()
	s.must(s.api.Create(s.ctx, obj))
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.ns, Name: name}
}

// infrastructure sets whether the cluster's infrastructure is provisioned.
func (s *site) infrastructure(provisioned bool) {
	s.t.Helper()
	cluster := &clusterv1.Cluster{}
	s.must(s.api.Get(s.ctx, s.key("c"), cluster))
	base := cluster.DeepCopy()
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(provisioned)
	s.must(s.api.Status().Patch(s.ctx, cluster, client.MergeFrom(base)))
}

// machine creates a Machine with its IngotMachine after applying changes.
func (s *site) machine(name string, changes ...func(*clusterv1.Machine, *infrav1.IngotMachine)) {
	s.t.Helper()
	owner := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	owner.Spec.ClusterName = "c"
	owner.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	owner.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotMachine", Name: name}
	machine := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}}}
	machine.Spec.Image = image()
	for _, change := range changes {
		change(owner, machine)
	}
	s.create(owner)
	if machine.OwnerReferences == nil {
		machine.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: owner.UID}}
	}
	s.create(machine)
}

// unowned removes the owner: Cluster API has not adopted the IngotMachine yet.
func unowned(_ *clusterv1.Machine, m *infrav1.IngotMachine) {
	m.OwnerReferences = []metav1.OwnerReference{}
}

func image() infrav1.Image {
	return infrav1.Image{URL: "http://images.example/x.zst", Checksum: "sha256:" + strings.Repeat("0", 64), Format: infrav1.ImageFormatRaw}
}

// host creates an inspected host that can be claimed.
func (s *site) host(name, rack string) {
	s.t.Helper()
	n := number()
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	if rack != "" {
		host.Labels = map[string]string{infrav1.RackLabel: rack}
	}
	host.Spec.BootMACAddress = fmt.Sprintf("52:54:00:00:%02x:%02x", n/256, n%256)
	host.Spec.NetworkRef.Name = "net"
	host.Spec.BMC = &infrav1.BMC{Address: fmt.Sprintf("redfish://bmc-%d.example", n), CredentialsRef: infrav1.LocalReference{Name: "bmc"}}
	host.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.NewTime(s.clock.Now())}
	s.create(host)
	facts := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	facts.Spec.Architecture = "amd64"
	facts.Spec.Disks = []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: "d-" + name, SizeBytes: ptr.To[int64](500e9)}}
	facts.Spec.Address = &infrav1.RecordedAddress{NetworkName: "net", MAC: host.Spec.BootMACAddress, IP: fmt.Sprintf("192.0.2.%d", n%250+1)}
	s.create(facts)
	s.available(name)
}

// available sets the conditions of a free host.
func (s *site) available(name string) {
	s.t.Helper()
	s.hostStatus(name, func(h *infrav1.IngotHost) {
		conditions.Set(h, metav1.Condition{Type: infrav1.HostAvailableCondition, Status: metav1.ConditionTrue,
			Reason: infrav1.ReasonAvailable, ObservedGeneration: h.Generation})
	})
}

func (s *site) hostStatus(name string, change func(*infrav1.IngotHost)) {
	s.t.Helper()
	host := s.getHost(name)
	base := host.DeepCopy()
	change(host)
	s.must(s.api.Status().Patch(s.ctx, host, client.MergeFrom(base)))
}

func (s *site) editHost(name string, change func(*infrav1.IngotHost)) {
	s.t.Helper()
	host := s.getHost(name)
	base := host.DeepCopy()
	change(host)
	s.must(s.api.Patch(s.ctx, host, client.MergeFrom(base)))
}

func (s *site) getHost(name string) *infrav1.IngotHost {
	s.t.Helper()
	host := &infrav1.IngotHost{}
	s.must(s.api.Get(s.ctx, s.key(name), host))
	return host
}

// get reads an IngotMachine; nil: it is gone.
func (s *site) get(name string) *infrav1.IngotMachine {
	s.t.Helper()
	machine := &infrav1.IngotMachine{}
	err := s.api.Get(s.ctx, s.key(name), machine)
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must(err)
	return machine
}

// step reconciles once.
func (s *site) step(name string) ctrl.Result {
	s.t.Helper()
	result, err := s.Reconcile(s.ctx, ctrl.Request{NamespacedName: s.key(name)})
	s.must(err)
	if machine := s.get(name); machine != nil {
		for _, c := range machine.Status.Conditions {
			// NoMatchingHost may be longer, and texts of other components are cut.
			others := slices.Contains([]string{infrav1.ReasonNoMatchingHost, infrav1.ReasonNotClaimed, infrav1.ReasonBootstrapDataInvalid, infrav1.ReasonProvisioning, infrav1.ReasonAddressClaimLost,
				infrav1.ReasonAddressPoolUnusable, infrav1.ReasonWaitingForAddress, infrav1.ReasonAddressConflict}, c.Reason)
			if n := utf8.RuneCountInString(c.Message); !others && (n > maxMessage || strings.HasSuffix(c.Message, "…")) {
				s.t.Errorf("the message of %s %s has %d characters, or is cut: %s", c.Type, c.Reason, n, c.Message)
			}
		}
	}
	return result
}

func (s *site) settle(name string) *infrav1.IngotMachine {
	s.t.Helper()
	for range 12 {
		before := s.get(name)
		s.step(name)
		after := s.get(name)
		if after == nil || before.ResourceVersion == after.ResourceVersion {
			if after != nil && after.DeletionTimestamp.IsZero() && after.Status.Conditions != nil && !conditions.IsTrue(after, infrav1.PausedCondition) && after.Status.ObservedGeneration != after.Generation {
				s.t.Errorf("status.observedGeneration is %d, metadata.generation %d", after.Status.ObservedGeneration, after.Generation)
			}
			return after
		}
	}
	s.t.Fatalf("the machine is written to again and again: %+v", s.get(name).Status)
	return nil
}

// want checks one condition and its message.
func (s *site) want(name, kind string, status metav1.ConditionStatus, reason, says string) {
	s.t.Helper()
	c := conditions.Get(s.get(name), kind)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, says) {
		s.t.Errorf("condition %s = %+v, want %s %s with %q", kind, c, status, reason, says)
	}
}

// eventCount counts the events with the reason.
func (s *site) eventCount(reason string) int {
	for {
		select {
		case event := <-s.events.Events:
			s.recorded = append(s.recorded, event)
			continue
		default:
		}
		break
	}
	n := 0
	for _, event := range s.recorded {
		if strings.Contains(event, " "+reason+" ") {
			n++
		}
	}
	return n
}

// claimsOn lists the hosts whose claim names the machine.
func (s *site) claimsOn(machine string) []string {
	s.t.Helper()
	hosts := &infrav1.IngotHostList{}
	s.must(s.api.List(s.ctx, hosts, client.InNamespace(s.ns)))
	var names []string
	for _, host := range hosts.Items {
		if host.Spec.Claim != nil && host.Spec.Claim.MachineRef.Name == machine {
			names = append(names, host.Name)
		}
	}
	return names
}

// provision takes a machine to the commit point.
func (s *site) provision(name string) string {
	s.t.Helper()
	s.settle(name)
	hosts := s.claimsOn(name)
	if len(hosts) != 1 {
		s.t.Fatalf("%s has the hosts %v: %+v", name, hosts, s.get(name).Status.Conditions)
	}
	s.editHost(hosts[0], func(h *infrav1.IngotHost) { h.Spec.Claim.State, h.Spec.Claim.Attempt = infrav1.ClaimProvisioned, 1 })
	s.settle(name)
	return hosts[0]
}
