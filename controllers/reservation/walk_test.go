// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/machine"
	"github.com/ingot-metal/ingot/controllers/reservation"
	"github.com/ingot-metal/ingot/inventory/allocation"
	"github.com/ingot-metal/ingot/test/needs"
	"github.com/ingot-metal/ingot/test/testscheme"
)

const ns = "metal"

// world is an API server in memory with its actors and reservations.
type world struct {
	t         *testing.T
	api       client.WithWatch
	clock     *testclock.FakeClock
	scheduler *scheduler
}

func newWorld(t *testing.T, seed uint64, hosts int) *world {
	t.Helper()
	w := &world{t: t, clock: testclock.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)), scheduler: newTurns(seed)}
	w.api = fake.NewClientBuilder().WithScheme(testscheme.Scheme(t)).WithStatusSubresource(
		&infrav1.IngotMachine{}, &infrav1.IngotHost{}, &infrav1.IngotReservation{}).Build()
	for i := range hosts {
		w.host(fmt.Sprintf("h%d", i+1))
	}
	for _, name := range []string{"x", "y", "z"} {
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID("uid-" + name)}}
		cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotCluster", Name: name}
		cluster.Status.Initialization.InfrastructureProvisioned = new(true)
		w.create(cluster, &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
	}
	return w
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.api.Create(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) host(name string) {
	w.t.Helper()
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	host.Spec.BMC = &infrav1.BMC{Address: "redfish://" + name + ".example"}
	host.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.NewTime(w.clock.Now())}
	conditions.Set(host, metav1.Condition{Type: infrav1.HostAvailableCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonAvailable})
	facts := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	facts.Spec.Architecture = "amd64"
	facts.Spec.Disks = []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: "d-" + name, SizeBytes: new(int64(500e9))}}
	w.create(host, facts)
}

// machine creates a Machine and an IngotMachine of MachineDeployment "md" of a Cluster.
func (w *world) machine(cluster, name string) {
	w.t.Helper()
	owner := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID("uid-" + name)}}
	owner.Spec.ClusterName, owner.Spec.Bootstrap.DataSecretName = cluster, new("bootstrap")
	owner.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotMachine", Name: name}
	m := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID("uid-im-" + name),
		Labels:          map[string]string{clusterv1.ClusterNameLabel: cluster, clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: owner.UID}},
	}}
	m.Spec.Image = infrav1.Image{URL: "http://images.example/x.zst", Checksum: "sha256:" + strings.Repeat("0", 64)}
	w.create(owner, m)
}

// manager is a process that claims hosts, with its own cache and memory.
func (w *world) manager(name string) *machine.Reconciler {
	live := w.scheduler.client(name, w.api)
	return &machine.Reconciler{Client: w.scheduler.lagging(live), Live: live, Recorder: events.NewFakeRecorder(10000), Clock: w.clock, NewID: uuid.NewString}
}

// replica is a process that reserves hosts.
func (w *world) replica(name string) *reservation.Planner {
	live := w.scheduler.client(name, w.api)
	return &reservation.Planner{Client: w.scheduler.lagging(live), Live: live, Clock: w.clock}
}

func asksFor(cluster string, count int) allocation.PlanRequest {
	return allocation.PlanRequest{Namespace: ns, ClusterName: cluster, Demand: allocation.Demand{Groups: []allocation.DemandGroup{{Name: "md", Count: count}}}}
}

// snapshot is the true state, in which only claims take hosts.
func (w *world) snapshot() allocation.Snapshot {
	hosts, facts := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}
	machines, reservations := &infrav1.IngotMachineList{}, &infrav1.IngotReservationList{}
	for _, list := range []client.ObjectList{hosts, facts, machines, reservations} {
		if err := w.api.List(w.t.Context(), list); err != nil {
			w.t.Fatal(err)
		}
	}
	claimed := map[string]bool{}
	for _, host := range hosts.Items {
		if host.Spec.Claim != nil {
			claimed[host.Spec.Claim.MachineRef.Name] = true
		}
	}
	for i := range machines.Items {
		if !claimed[machines.Items[i].Name] {
			machines.Items[i].Spec.ProviderID = ""
		}
	}
	promised := slices.DeleteFunc(reservations.Items, func(r infrav1.IngotReservation) bool { return r.Spec.State != infrav1.ReservationReserved })
	return allocation.Snapshot{Candidates: allocation.Candidates(hosts.Items, facts.Items), Machines: machines.Items, Reservations: promised, Now: w.clock.Now()}
}

// check names a reservation that cannot be met; empty: none.
func (w *world) check() string {
	snapshot := w.snapshot()
	for i := range snapshot.Reservations {
		plan, err := allocation.PlanReservation(allocation.RequestOf(&snapshot.Reservations[i]), snapshot)
		if err != nil || !plan.Satisfied {
			return fmt.Sprintf("the promise to %s is broken: %s (%v)", snapshot.Reservations[i].Name, plan.Message, err)
		}
	}
	return ""
}

func (w *world) promised() []string {
	var names []string
	for _, r := range w.snapshot().Reservations {
		names = append(names, r.Name)
	}
	return names
}

// Two Clusters request the last three hosts from two replicas. Whatever the order of their API
// requests, one gets all of them and the other a reason, and at no moment both have them.
func TestTwoClustersWantTheLastThreeHosts(t *testing.T) {
	won := map[string]int{}
	for seed := range needs.Sample(40) {
		w := newWorld(t, seed, 3)
		answers := map[string]allocation.ReservationPlan{}
		ask := func(cluster, replica string) actor {
			planner := w.replica(replica)
			return func(ctx context.Context) {
				for range 4 { // as Cluster API retries
					plan, err := planner.Reserve(ctx, types.UID("uid-"+cluster), asksFor(cluster, 3))
					if err == nil {
						answers[cluster] = plan
					}
				}
			}
		}
		w.scheduler.run(t, func() string { return w.check() }, map[string]actor{
			"x by a": ask("x", "a"), "y by b": ask("y", "b"), "x by b": ask("x", "b"),
		})
		if len(w.promised()) != 1 {
			t.Fatalf("seed %d: promised to %v, want one", seed, w.promised())
		}
		winner := w.promised()[0]
		loser := map[string]string{"x": "y", "y": "x"}[winner]
		won[winner]++
		again, err := w.replica("c").Reserve(t.Context(), types.UID("uid-"+loser), asksFor(loser, 3))
		if err != nil || again.Satisfied || !strings.HasPrefix(again.Message, "3 hosts are missing: machine deployment md lacks 3 of 3 hosts; of 3 hosts that suit 3 are free, but 3 of these are reserved") {
			t.Fatalf("seed %d: %s hears %+v, %v", seed, loser, again, err)
		}
		if again, err := w.replica("c").Reserve(t.Context(), types.UID("uid-"+winner), asksFor(winner, 3)); err != nil || !again.Satisfied {
			t.Fatalf("seed %d: %s asks again and hears %+v, %v", seed, winner, again, err)
		}
	}
	t.Logf("won: %v", won)
	if won["x"] == 0 || won["y"] == 0 {
		t.Errorf("one always wins: the walks are one-sided: %v", won)
	}
}

// Machines of a Cluster without a reservation claim hosts, from the leader and from a former
// leader, while another Cluster requests hosts: reserved hosts stay claimable.
func TestClaimsRaceWithReservations(t *testing.T) {
	promised, blocked, claims := 0, 0, 0
	for seed := range needs.Sample(20) {
		w := newWorld(t, seed, 4)
		for i := range 3 {
			w.machine("z", fmt.Sprintf("z%d", i+1))
		}
		claim := func(name string) actor {
			manager := w.manager(name)
			return func(ctx context.Context) {
				for range 9 {
					for _, m := range []string{"z1", "z2", "z3"} {
						_, _ = manager.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: ns, Name: m}}) // conflicts are retried
					}
				}
			}
		}
		planner := w.replica("a")
		w.scheduler.run(t, func() string { return w.check() }, map[string]actor{
			"leader": claim("leader"), "late leader": claim("late leader"),
			"x": func(ctx context.Context) {
				for range w.scheduler.rand.IntN(120) { // at some time while the others claim
					w.scheduler.step()
				}
				for range 4 {
					_, _ = planner.Reserve(ctx, "uid-x", asksFor("x", 2))
				}
			},
		})
		if len(w.promised()) == 1 {
			promised++
		} else {
			blocked++
		}
		claims += w.claimsOf("z")
	}
	t.Logf("%d promised, %d blocked, %d claims", promised, blocked, claims)
	if promised == 0 || blocked == 0 || claims < 10 {
		t.Errorf("the walks are one-sided")
	}
}

// A Cluster with a reservation claims all its hosts while others want them.
func TestClusterGetsItsReservedHosts(t *testing.T) {
	for seed := range needs.Sample(10) {
		w := newWorld(t, seed, 4)
		if plan, err := w.replica("a").Reserve(t.Context(), "uid-x", asksFor("x", 3)); err != nil || !plan.Satisfied {
			t.Fatalf("%+v, %v", plan, err)
		}
		names := []string{"x1", "x2", "x3", "z1", "z2"}
		for _, name := range names {
			w.machine(name[:1], name)
		}
		claim := func(manager *machine.Reconciler, order []string) actor {
			return func(ctx context.Context) {
				for range 14 {
					for _, m := range order {
						_, _ = manager.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: ns, Name: m}}) // conflicts are retried
					}
				}
			}
		}
		leader := w.manager("leader")
		w.scheduler.run(t, func() string { return w.check() }, map[string]actor{
			"x": claim(leader, names[:3]), "z": claim(leader, names[3:]),
		})
		if x, z := w.claimsOf("x"), w.claimsOf("z"); x != 3 || z != 1 {
			t.Fatalf("seed %d: x has %d hosts, z has %d; want 3 and 1", seed, x, z)
		}
	}
}

func (w *world) claimsOf(cluster string) int {
	n := 0
	for _, c := range w.snapshot().Candidates {
		if c.Host.Spec.Claim != nil && c.Host.Spec.Claim.ClusterName == cluster {
			n++
		}
	}
	return n
}

// A replica crashes between request and reservation: the hosts are held for a minute, then another
// planner withdraws the request. If the first returns, it notices and requests again.
func TestStaleRequestIsWithdrawn(t *testing.T) {
	w := newWorld(t, 1, 3)
	forgotten := &infrav1.IngotReservation{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}}
	forgotten.Spec = infrav1.IngotReservationSpec{State: infrav1.ReservationRequested, RequestTime: metav1.NewTime(w.clock.Now()),
		Groups: []infrav1.ReservedGroup{{Name: "md", Count: 3}}}
	w.create(forgotten)
	planner := w.replica("a")
	if plan, err := planner.Reserve(t.Context(), "uid-y", asksFor("y", 1)); err != nil || plan.Satisfied {
		t.Fatalf("the hosts are asked for, and y hears %+v, %v", plan, err)
	}
	w.clock.Step(2 * time.Minute)
	reconciler := &reservation.Reconciler{Client: w.api, Recorder: events.NewFakeRecorder(10), Clock: w.clock}
	if _, err := reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(forgotten)}); err != nil {
		t.Fatal(err)
	}
	if plan, err := planner.Reserve(t.Context(), "uid-y", asksFor("y", 1)); err != nil || !plan.Satisfied {
		t.Fatalf("y hears %+v, %v", plan, err)
	}
	late := forgotten.DeepCopy()
	late.Spec.State = infrav1.ReservationReserved
	if err := w.api.Update(t.Context(), late); err == nil {
		t.Error("what was withdrawn was promised")
	}
	if plan, err := planner.Reserve(t.Context(), "uid-x", asksFor("x", 3)); err != nil || plan.Satisfied || plan.Missing[0].Missing != 1 {
		t.Errorf("x hears %+v, %v", plan, err)
	}
}

func randomly(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }
