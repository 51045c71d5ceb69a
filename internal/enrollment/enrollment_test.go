// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package enrollment_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/enrollment"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// TestEnrol runs all tests on one API server.
func TestEnrol(t *testing.T) {
	scheme := testscheme.Scheme(t)
	cfg := envtest.Start(t, envtest.IngotCRDs(t), envtest.ClusterAPICRDs(t))
	cfg.QPS, cfg.Burst = 1000, 1000
	for _, test := range []struct {
		name string
		run  func(*testing.T, *site)
	}{
		{"one machine, two NICs, two replicas", testOneMachine}, {"never over another", testNotOver}, {"made-up NICs", testMadeUpNICs}, {"made-up system", testMadeUpSystem}, {"refused", testRefused},
		{"cap", testCap}, {"pace", testPace}, {"a clock that was ahead", testAhead}, {"a host of this manager", testLabelled}, {"flood", testFlood}, {"cut off", testCutOff}, {"boot", testBoot},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, newSite(t, cfg, scheme)) })
	}
}

// site is a namespace with a network of mode Discover.
type site struct {
	*envtest.Indexed
	t       *testing.T
	clock   *testclock.FakePassiveClock
	events  *events.FakeRecorder
	network *infrav1.IngotNetwork
	// group distinguishes the machines of the tests, which share an API server.
	group byte
}

var groups atomic.Int32

func newSite(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) *site {
	t.Helper()
	c := envtest.NewIndexed(t, cfg, scheme)
	must(t, index.Setup(t.Context(), c))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "enrol-"}}
	must(t, c.Create(t.Context(), namespace))
	network := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name}}
	network.Spec = infrav1.IngotNetworkSpec{Mode: infrav1.DHCPModeDiscover, Subnet: "192.168.0.0/16",
		Range: infrav1.AddressRange{Start: "192.168.1.1", End: "192.168.1.200"},
		Discover: &infrav1.NetworkDiscovery{Namespace: namespace.Name,
			Range: infrav1.AddressRange{Start: "192.168.2.1", End: "192.168.2.200"}}}
	must(t, c.Create(t.Context(), network))
	if d := network.Spec.Discover; d.MaxHosts != 100 || d.PerMinute != 10 {
		t.Errorf("defaults: %+v", d)
	}
	s := &site{Indexed: c, t: t, clock: testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		events: events.NewFakeRecorder(10000), network: network, group: byte(groups.Add(1))}
	t.Cleanup(func() {
		ctx := context.Background()     // the test's has ended
		must(t, c.Delete(ctx, network)) // no two may be on one segment
		must(t, c.DeleteAllOf(ctx, &infrav1.IngotHost{}, client.InNamespace(namespace.Name)))
		must(t, c.DeleteAllOf(ctx, &infrav1.IngotHardware{}, client.InNamespace(namespace.Name)))
	})
	return s
}

func (s *site) registrar() *enrollment.Registrar {
	return &enrollment.Registrar{Client: s, Live: s, Recorder: s.events, Clock: s.clock}
}

func (s *site) hosts() []infrav1.IngotHost {
	s.t.Helper()
	list := &infrav1.IngotHostList{}
	must(s.t, s.List(s.t.Context(), list, client.InNamespace(s.network.Name)))
	return list.Items
}

// machine returns the report of the n-th machine of a test, with two NICs.
func (s *site) machine(n int) enrollment.Report {
	group := s.group
	mac := func(nic int) string { return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", group, nic, n>>8, n&0xff) }
	facts := infrav1.IngotHardwareSpec{BootMode: infrav1.BootModeBIOS, NICs: []infrav1.HardwareNIC{{MAC: mac(0)}, {MAC: mac(1)}}}
	facts.System.UUID = fmt.Sprintf("4c4c4544-0000-1000-80%02x-%012x", group, n)
	facts.System.SerialNumber, facts.System.Manufacturer = fmt.Sprintf("S%d-%d", group, n), "ACME"
	return enrollment.Report{Network: s.network.Name, MAC: mac(0), Source: netip.MustParseAddr("192.168.2.7"), Facts: facts}
}

// Both NICs of a machine boot repeatedly, at both replicas.
func testOneMachine(t *testing.T, s *site) {
	var wg sync.WaitGroup
	for i := range 16 {
		report := s.machine(1)
		report.MAC = report.Facts.NICs[i%2].MAC
		wg.Go(func() {
			r := s.registrar()
			for {
				_, err := r.Enroll(t.Context(), report)
				if _, ok := enrollment.RetryAfter(err); !ok {
					if err != nil {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	hosts := s.hosts()
	if len(hosts) != 1 {
		t.Fatalf("%d hosts were made for one machine", len(hosts))
	}
	host := hosts[0]
	if host.Name != "enrolled-"+s.machine(1).Facts.System.UUID || host.Spec.BMC != nil || host.Spec.BootMode != infrav1.BootModeBIOS ||
		host.Spec.NetworkRef.Name != s.network.Name || host.Annotations[infrav1.ApproveAnnotation] != "" {
		t.Errorf("host %s: %+v", host.Name, host.Spec)
	}
	facts := &infrav1.IngotHardware{}
	must(t, s.Get(t.Context(), client.ObjectKeyFromObject(&host), facts))
	if diff := cmp.Diff(s.machine(1).Facts, facts.Spec); diff != "" || !metav1.IsControlledBy(facts, &host) {
		t.Errorf("hardware (-want +got):\n%s", diff)
	}
	if n := s.said(infrav1.ReasonEnrolled); n != 1 {
		t.Errorf("the enrolment was told %d times", n)
	}
}

// said counts the events with a reason, and drains all events.
func (s *site) said(reason string) (n int) {
	for {
		select {
		case event := <-s.events.Events:
			if strings.Contains(event, " "+reason+" ") {
				n++
			}
		default:
			return n
		}
	}
}

// A report does not change registered hosts.
func testNotOver(t *testing.T, s *site) {
	registered := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: s.network.Name, Name: "mine"}}
	registered.Spec.BootMACAddress, registered.Spec.NetworkRef.Name = s.machine(1).Facts.NICs[1].MAC, "elsewhere"
	must(t, s.Create(t.Context(), registered))
	key, err := s.registrar().Enroll(t.Context(), s.machine(1))
	if err != nil || key.Name != "mine" {
		t.Errorf("the second NIC of a host: %s, %v", key, err)
	}
	must(t, s.Delete(t.Context(), registered))

	// Another machine has the name, and the UUID that the vendor gives all machines.
	other := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: s.network.Name, Name: "enrolled-" + s.machine(2).Facts.System.UUID}}
	other.Spec.BootMACAddress, other.Spec.NetworkRef.Name = "02:00:00:00:00:99", s.network.Name
	must(t, s.Create(t.Context(), other))
	key, err = s.registrar().Enroll(t.Context(), s.machine(2))
	if want := "enrolled-" + strings.ReplaceAll(s.machine(2).MAC, ":", "-"); err != nil || key.Name != want {
		t.Errorf("name %s, %v; want %s", key, err, want)
	}
	left := &infrav1.IngotHost{}
	must(t, s.Get(t.Context(), client.ObjectKeyFromObject(other), left))
	if left.ResourceVersion != other.ResourceVersion {
		t.Error("another machine's host was changed")
	}
	// A known server, by UUID and serial number, has new NICs.
	approved := &infrav1.IngotHost{}
	must(t, s.Get(t.Context(), key, approved))
	approved.Labels = nil
	must(t, s.Update(t.Context(), approved))
	report := s.machine(2)
	report.Facts.NICs = []infrav1.HardwareNIC{{MAC: "02:00:00:00:00:98"}}
	report.MAC = "02:00:00:00:00:98"
	if again, err := s.registrar().Enroll(t.Context(), report); err != nil || again != key {
		t.Errorf("a known server with new NICs: %s, %v", again, err)
	}
	if n := len(s.hosts()); n != 2 {
		t.Errorf("%d hosts", n)
	}
}

// A machine that reports another one's UUID and serial number does not hide the other while it waits for
// approval.
func testMadeUpSystem(t *testing.T, s *site) {
	liar, real := s.machine(1), s.machine(2)
	liar.Facts.System = real.Facts.System
	fake, err := s.registrar().Enroll(t.Context(), liar)
	must(t, err)
	s.clock.SetTime(s.clock.Now().Add(time.Hour))
	key, err := s.registrar().Enroll(t.Context(), real)
	if want := "enrolled-" + strings.ReplaceAll(real.MAC, ":", "-"); err != nil || key.Name != want {
		t.Errorf("the machine with the UUID: %s, %v; want %s", key, err, want)
	}
	for name, report := range map[string]enrollment.Report{fake.Name: liar, key.Name: real} {
		if again, err := s.registrar().Enroll(t.Context(), report); err != nil || again.Name != name {
			t.Errorf("again: %s, %v; want %s", again, err, name)
		}
	}
}

// A machine that reports NICs of others does not hide the others.
func testMadeUpNICs(t *testing.T, s *site) {
	liar, real := s.machine(1), s.machine(2)
	liar.Facts.NICs = append(liar.Facts.NICs, real.Facts.NICs...)
	fake, err := s.registrar().Enroll(t.Context(), liar)
	must(t, err)
	s.clock.SetTime(s.clock.Now().Add(time.Hour))
	key, err := s.registrar().Enroll(t.Context(), real)
	if want := "enrolled-" + real.Facts.System.UUID; err != nil || key.Name != want {
		t.Errorf("the machine with the NICs: %s, %v; want %s", key, err, want)
	}
	for name, report := range map[string]enrollment.Report{fake.Name: liar, key.Name: real} {
		if again, err := s.registrar().Enroll(t.Context(), report); err != nil || again.Name != name {
			t.Errorf("again: %s, %v; want %s", again, err, name)
		}
	}
	// After its approval, its NICs are trusted.
	host := &infrav1.IngotHost{}
	must(t, s.Get(t.Context(), fake, host))
	host.Labels = nil
	must(t, s.Update(t.Context(), host))
	third := s.machine(3)
	third.Facts.NICs = append(third.Facts.NICs, liar.Facts.NICs[1])
	if again, err := s.registrar().Enroll(t.Context(), third); err != nil || again != fake {
		t.Errorf("a NIC of an approved host: %s, %v; want %s", again, err, fake)
	}
	if n := len(s.hosts()); n != 2 {
		t.Errorf("%d hosts", n)
	}
}

func testRefused(t *testing.T, s *site) {
	for name, change := range map[string]func(*enrollment.Report){
		"no such network":     func(r *enrollment.Report) { r.Network = "gone" },
		"not the NIC":         func(r *enrollment.Report) { r.MAC = "02:00:00:00:00:77" },
		"from elsewhere":      func(r *enrollment.Report) { r.Source = netip.MustParseAddr("192.168.1.7") },
		"says nothing":        func(r *enrollment.Report) { r.Facts = infrav1.IngotHardwareSpec{} },
		"namespace not there": func(*enrollment.Report) { s.change(func(d *infrav1.NetworkDiscovery) { d.Namespace = "not-there" }) },
	} {
		t.Run(name, func(t *testing.T) {
			report := s.machine(1)
			change(&report)
			_, err := s.registrar().Enroll(t.Context(), report)
			if !errors.Is(err, enrollment.ErrRejected) {
				t.Errorf("refused with %v", err)
			}
			s.change(func(d *infrav1.NetworkDiscovery) { d.Namespace = s.network.Name })
		})
	}
	if n := s.said(infrav1.ReasonEnrollmentRejected); n != 1 {
		t.Errorf("%d events tell of a namespace that is not there", n)
	}
	must(t, s.Get(t.Context(), client.ObjectKeyFromObject(s.network), s.network))
	s.network.Spec.Mode, s.network.Spec.Discover = infrav1.DHCPModeReserve, nil
	must(t, s.Update(t.Context(), s.network))
	if _, err := s.registrar().Enroll(t.Context(), s.machine(1)); !errors.Is(err, enrollment.ErrRejected) {
		t.Errorf("in mode Reserve: %v", err)
	}
	if n := len(s.hosts()); n != 0 {
		t.Errorf("%d hosts were made", n)
	}
}

func (s *site) change(edit func(*infrav1.NetworkDiscovery)) {
	s.t.Helper()
	must(s.t, s.Get(s.t.Context(), client.ObjectKeyFromObject(s.network), s.network))
	edit(s.network.Spec.Discover)
	must(s.t, s.Update(s.t.Context(), s.network))
}

// Many machines report at many replicas: never more than maxHosts hosts wait.
func testCap(t *testing.T, s *site) {
	const most, machines = 5, 30
	s.change(func(d *infrav1.NetworkDiscovery) { d.MaxHosts, d.PerMinute = most, 60 })
	for range 4 {
		var wg sync.WaitGroup
		for n := range machines {
			report := s.machine(n)
			wg.Go(func() {
				for range 6 {
					if _, err := s.registrar().Enroll(t.Context(), report); err == nil {
						return
					} else if _, ok := enrollment.RetryAfter(err); !ok {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		if n := len(s.hosts()); n > most {
			t.Fatalf("%d hosts wait, at most %d may", n, most)
		}
		s.clock.SetTime(s.clock.Now().Add(time.Minute))
	}
	for n := 0; len(s.hosts()) < most && n < machines; n++ {
		s.clock.SetTime(s.clock.Now().Add(time.Minute))
		_, _ = s.registrar().Enroll(t.Context(), s.machine(n))
	}
	_, err := s.registrar().Enroll(t.Context(), s.machine(machines))
	if _, ok := enrollment.RetryAfter(err); !ok || len(s.hosts()) != most || s.said(infrav1.ReasonEnrollmentRejected) == 0 {
		t.Errorf("%d hosts, and then %v", len(s.hosts()), err)
	}
	// An approval allows another enrollment.
	host := s.hosts()[0]
	delete(host.Labels, infrav1.EnrolledLabel)
	must(t, s.Update(t.Context(), &host))
	s.clock.SetTime(s.clock.Now().Add(time.Minute))
	if _, err := s.registrar().Enroll(t.Context(), s.machine(machines)); err != nil {
		t.Error(err)
	}
}

func testPace(t *testing.T, s *site) {
	made := 0
	for n := range 60 {
		if _, err := s.registrar().Enroll(t.Context(), s.machine(n)); err == nil {
			made++
		}
		s.clock.SetTime(s.clock.Now().Add(time.Second))
	}
	if made != 10 {
		t.Errorf("%d machines were enrolled in a minute, want 10", made)
	}
}

// A time in the future, by a wrong clock, does not block other machines.
func testAhead(t *testing.T, s *site) {
	now := s.clock.Now()
	s.clock.SetTime(now.Add(24 * time.Hour))
	if _, err := s.registrar().Enroll(t.Context(), s.machine(1)); err != nil {
		t.Fatal(err)
	}
	s.clock.SetTime(now)
	if _, err := s.registrar().Enroll(t.Context(), s.machine(2)); err != nil {
		t.Error(err)
	}
}

// A manager with --watch-filter labels the hosts that it enrolls (M41).
func testLabelled(t *testing.T, s *site) {
	r := s.registrar()
	r.WatchFilterValue = "mine"
	if _, err := r.Enroll(t.Context(), s.machine(1)); err != nil {
		t.Fatal(err)
	}
	if host := s.hosts()[0]; host.Labels[clusterv1.WatchLabel] != "mine" {
		t.Errorf("labels %v", host.Labels)
	}
}

// counted is a Reader that counts its reads.
type counted struct {
	client.Reader
	reads atomic.Int32
}

func (c *counted) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.reads.Add(1)
	return c.Reader.Get(ctx, key, obj, opts...)
}

func (c *counted) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.reads.Add(1)
	return c.Reader.List(ctx, list, opts...)
}

// Reports cost few reads of the API server per enrollment, none while the network is full, and one event.
func testFlood(t *testing.T, s *site) {
	live := &counted{Reader: s}
	registrar := s.registrar()
	registrar.Live, registrar.RateLimiter = live, &enrollment.RateLimiter{}
	for n := range 100 {
		report := s.machine(n)
		report.Key = "k"
		_, err := registrar.Enroll(t.Context(), report)
		if _, ok := enrollment.RetryAfter(err); err != nil && !ok {
			t.Fatal(err)
		}
	}
	const looks = 10 * 4 // perMinute, times what is allowed for each
	if got := live.reads.Load(); got == 0 || got > 2*looks {
		t.Errorf("%d reads of the API server, want at most two for each of %d looks", got, looks)
	}
	s.change(func(d *infrav1.NetworkDiscovery) { d.MaxHosts = 1 })
	s.clock.SetTime(s.clock.Now().Add(time.Minute))
	live.reads.Store(0)
	for n := range 10 {
		report := s.machine(2000 + n)
		if _, err := registrar.Enroll(t.Context(), report); err == nil {
			t.Error("enrolled on a network that is full")
		}
	}
	if got, told := live.reads.Load(), s.said(infrav1.ReasonEnrollmentRejected); got != 0 || told != 1 {
		t.Errorf("%d reads for a network that is full, and told %d times", got, told)
	}
	late := s.machine(0)
	late.Key = "another"
	if _, err := registrar.Enroll(t.Context(), late); !errors.Is(err, enrollment.ErrRejected) {
		t.Errorf("a second key with the same token: %v", err)
	}
}

// A manager ends between creating the host and its hardware, or before the host.
func testCutOff(t *testing.T, s *site) {
	key, err := s.registrar().Enroll(t.Context(), s.machine(1))
	must(t, err)
	facts := &infrav1.IngotHardware{}
	must(t, s.Get(t.Context(), key, facts))
	must(t, s.Delete(t.Context(), facts))
	s.change(func(d *infrav1.NetworkDiscovery) { d.MaxHosts = 1 }) // its own host takes the last place
	if again, err := s.registrar().Enroll(t.Context(), s.machine(1)); err != nil || again != key {
		t.Fatalf("%s, %v", again, err)
	}
	must(t, s.Get(t.Context(), key, &infrav1.IngotHardware{}))
	s.change(func(d *infrav1.NetworkDiscovery) { d.MaxHosts = 100 })
	must(t, s.Delete(t.Context(), &s.hosts()[0])) // its turn is in the status, and it is not there
	must(t, s.Delete(t.Context(), facts))
	s.clock.SetTime(s.clock.Now().Add(7 * time.Second))
	if _, err := s.registrar().Enroll(t.Context(), s.machine(2)); err == nil {
		t.Error("the next one does not wait for a machine whose host may be about to be made")
	}
	s.clock.SetTime(s.clock.Now().Add(time.Minute))
	if _, err := s.registrar().Enroll(t.Context(), s.machine(2)); err != nil {
		t.Error(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
