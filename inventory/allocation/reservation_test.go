// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

var promisedAt = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// reservation of hosts for a Cluster in the namespace of the tests.
func reservation(cluster string, groups ...infrav1.ReservedGroup) infrav1.IngotReservation {
	r := infrav1.IngotReservation{Spec: infrav1.IngotReservationSpec{State: infrav1.ReservationReserved, Groups: groups}}
	r.Namespace, r.Name = "metal", cluster
	return r
}

// workers in racks, any if none is named.
func workers(name string, count int32, racks ...string) infrav1.ReservedGroup {
	return infrav1.ReservedGroup{Name: name, Count: count, FailureDomains: racks}
}

// worker is a machine of a group of a Cluster, with its host if one is named.
func worker(cluster, group, host string) infrav1.IngotMachine {
	m := infrav1.IngotMachine{}
	m.Namespace, m.Name = "metal", cluster+"-"+group+"-"+host
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster, clusterv1.ClusterTopologyMachineDeploymentNameLabel: group}
	if host != "" {
		m.Spec.ProviderID = infrav1.ProviderID{Namespace: "metal", Host: host, InstanceID: "1b0e5e0c-9c3e-4b59-9a6c-6a1f0c3f6f11"}.String()
	}
	return m
}

func hostsIn(racks ...string) []Candidate {
	var list []Candidate
	for i, rack := range racks {
		list = append(list, candidate(fmt.Sprintf("h%d", i+1), rack))
	}
	return list
}

// verified is a host in r1 that boots by virtual media, over a BMC that proves itself.
func verified(name string) Candidate {
	c := candidate(name, "r1")
	c.Host.Spec.BootMethod = infrav1.BootMethodVirtualMedia
	c.Host.Spec.BMC = &infrav1.BMC{Address: "redfish://192.0.2.1"}
	return c
}

// carded are hosts with one network card each, of a driver.
func carded(driver string, names ...string) []Candidate {
	var list []Candidate
	for _, name := range names {
		c := candidate(name, "r1")
		c.Hardware.Spec.NICs = []infrav1.HardwareNIC{{MAC: "52:54:00:00:00:01", Name: "eth0", PCI: "0000:02:00.0", Driver: driver}}
		list = append(list, c)
	}
	return list
}

func demand(groups ...DemandGroup) PlanRequest {
	return PlanRequest{Namespace: "metal", ClusterName: "mine", Demand: Demand{Groups: groups}}
}

func TestPlanPromise(t *testing.T) {
	large := candidate("large", "r2")
	large.Hardware.Spec.MemoryBytes = 256 << 30
	bigger := infrav1.IngotMachineSpec{HostSelector: &infrav1.HostSelector{Minimum: &infrav1.HardwareMinimum{Memory: new(resource.MustParse("128Gi"))}}}
	md := func(count int, racks ...string) DemandGroup {
		return DemandGroup{Name: "md", Count: count, FailureDomains: racks}
	}
	gone := reservation("rival", workers("md", 2))
	gone.Spec.ExpirationTime = metav1.NewTime(promisedAt)
	asked := reservation("rival", workers("md", 2))
	asked.Spec.State = infrav1.ReservationRequested
	held := hostsIn("r1", "r1", "r1")
	elsewhere := candidate("h9", "r1")
	elsewhere.Host.Namespace = "elsewhere"
	surge := demand(md(1))
	surge.Surge = true
	picky := demand(md(1))
	picky.Cluster.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "storage"}}
	trusting := demand(md(2))
	trusting.Cluster.BootTrust = infrav1.BootTrustVerified
	trusted := reservation("rival", workers("md", 1))
	trusted.Spec.BootTrust = infrav1.BootTrustVerified
	for _, tc := range []struct {
		name     string
		request  PlanRequest
		snapshot Snapshot
		want     []string // of each group that goes short, a part of the message
	}{
		{"enough", demand(md(3)), Snapshot{Candidates: hostsIn("r1", "r2", "r2")}, nil},
		{"two are missing", demand(md(5)), Snapshot{Candidates: hostsIn("r1", "r2", "r2")}, []string{"machine deployment md lacks 2 of 5 hosts; of 3 hosts that suit 3 are free"}},
		{"a strict failure domain", demand(md(2, "r1")), Snapshot{Candidates: hostsIn("r1", "r2", "r2")},
			[]string{"lacks 1 of 2 hosts in failure domain r1 (label " + infrav1.RackLabel + "); of 1 hosts that suit 1 are free"}},
		{"any of several failure domains", demand(md(2, "r1", "r3")), Snapshot{Candidates: hostsIn("r1", "r2", "r3")}, nil},
		{"one host is not counted twice", demand(md(1), DemandGroup{Name: "big", Count: 1, Template: bigger}), Snapshot{Candidates: []Candidate{large}},
			[]string{"machine deployment big lacks 1 of 1 hosts; asked for 128Gi memory; of 1 hosts that suit 1 are free, but 1 of these are reserved"}},
		{"the large host is left for those who need it", demand(md(1), DemandGroup{Name: "big", Count: 1, Template: bigger}),
			Snapshot{Candidates: []Candidate{large, candidate("small", "r1")}}, nil},
		{"the control plane", demand(DemandGroup{ControlPlane: true, Name: "cp", Count: 1}), Snapshot{}, []string{"the control plane lacks 1 of 1 hosts; no host suits"}},
		{"promised to another", demand(md(2)), Snapshot{Candidates: hostsIn("r1", "r1", "r1"), Reservations: []infrav1.IngotReservation{reservation("rival", workers("md", 2))}},
			[]string{"lacks 1 of 2 hosts; of 3 hosts that suit 3 are free, but 2 of these are reserved for other Clusters"}},
		{"asked for by another", demand(md(2)), Snapshot{Candidates: hostsIn("r1", "r1", "r1"), Reservations: []infrav1.IngotReservation{asked}}, []string{"lacks 1 of 2"}},
		{"promised to another, and had", demand(md(1)), Snapshot{Candidates: held, Reservations: []infrav1.IngotReservation{reservation("rival", workers("md", 2))},
			Machines: []infrav1.IngotMachine{worker("rival", "md", "h1"), worker("rival", "md", "h2")}}, nil},
		{"promised to another, expired", demand(md(3)), Snapshot{Candidates: hostsIn("r1", "r1", "r1"), Reservations: []infrav1.IngotReservation{gone}}, nil},
		{"a promise that needs other hosts", demand(md(1, "r1")), Snapshot{Candidates: hostsIn("r1", "r2"), Reservations: []infrav1.IngotReservation{reservation("rival", workers("md", 1, "r2"))}}, nil},
		{"a promise that can move over", demand(md(1, "r1")), Snapshot{Candidates: hostsIn("r1", "r2"), Reservations: []infrav1.IngotReservation{reservation("rival", workers("md", 1))}}, nil},
		{"a promise that cannot be kept anyway keeps nothing more", demand(md(1, "r1")), Snapshot{Candidates: hostsIn("r1"), Reservations: []infrav1.IngotReservation{reservation("rival", workers("md", 9, "r2"))}}, nil},
		{"its own promise", demand(md(3)), Snapshot{Candidates: hostsIn("r1", "r1", "r1"), Reservations: []infrav1.IngotReservation{reservation("mine", workers("md", 3))}}, nil},
		{"its own hosts", demand(md(3)), Snapshot{Candidates: held[:1], Machines: []infrav1.IngotMachine{worker("mine", "md", "h8"), worker("mine", "md", "h9")}}, nil},
		{"chosen by a machine", demand(md(3)), Snapshot{Candidates: held, Machines: []infrav1.IngotMachine{worker("rival", "md", "h2")}}, []string{"lacks 1 of 3 hosts; of 3 hosts that suit 2 are free"}},
		{"of another namespace", demand(md(1)), Snapshot{Candidates: []Candidate{elsewhere}}, []string{"no host suits"}},
		{"a surge is on top", surge, Snapshot{Candidates: hostsIn("r1", "r1"), Reservations: []infrav1.IngotReservation{reservation("mine", workers("md", 2))}}, []string{"lacks 1 of 1"}},
		{"another part of the inventory", picky, Snapshot{Candidates: hostsIn("r1")}, []string{"cluster labels kind=storage; no host suits"}},
		{"of another architecture", demand(DemandGroup{Name: "md", Count: 1, Architecture: "arm64"}), Snapshot{Candidates: hostsIn("r1")}, []string{"asked for arm64; no host suits"}},
		{"by network only, where a verified boot is demanded", trusting, Snapshot{Candidates: append(hostsIn("r1", "r1"), verified("v1"))}, []string{"lacks 1 of 2 hosts; asked for a verified boot; of 1 hosts that suit 1 are free"}},
		{"verified boots, of hosts that look alike", trusting, Snapshot{Candidates: append(hostsIn("r1", "r1"), verified("v1"), verified("v2"))}, nil},
		{"verified boots that were promised", demand(md(2)), Snapshot{Candidates: append(hostsIn("r1"), verified("v1")), Reservations: []infrav1.IngotReservation{trusted}},
			[]string{"lacks 1 of 2 hosts; of 2 hosts that suit 2 are free, but 1 of these are reserved"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.snapshot.Now = promisedAt
			plan, err := PlanReservation(tc.request, tc.snapshot)
			if err != nil {
				t.Fatal(err)
			}
			if plan.Satisfied != (len(tc.want) == 0) || len(plan.Missing) != len(tc.want) || (plan.Message == "") != plan.Satisfied {
				t.Fatalf("satisfied %v, missing %+v, message %q; want %q", plan.Satisfied, plan.Missing, plan.Message, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(plan.Missing[i].Message, want) || !strings.Contains(plan.Message, want) {
					t.Errorf("got %q, want %q in it", plan.Message, want)
				}
			}
			if strings.Contains(plan.Message, "rival") {
				t.Errorf("the message names another Cluster: %q", plan.Message)
			}
		})
	}
}

// The reservation has the requirements of the demand, in a canonical order.
func TestPlanPromiseWritesTheReservation(t *testing.T) {
	request := demand(
		DemandGroup{Name: "cp", ControlPlane: true, Count: 3, FailureDomains: []string{"r2", "r1", "r2"}, Architecture: "amd64"},
		DemandGroup{Name: "none", Count: 0},
		DemandGroup{Name: "md", Count: 2, Template: infrav1.IngotMachineSpec{HostSelector: &infrav1.HostSelector{Architecture: "amd64"}, RootDeviceHints: &infrav1.RootDeviceHints{Model: "x"}, SoftwareRAID: mirror()}},
		DemandGroup{Name: "any", Count: 1, Template: infrav1.IngotMachineSpec{HostSelector: &infrav1.HostSelector{MatchLabels: map[string]string{}, Minimum: &infrav1.HardwareMinimum{}}}},
	)
	request.Cluster = infrav1.IngotClusterSpec{FailureDomainLabel: "row", HostSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, BootTrust: infrav1.BootTrustVerified}
	plan, err := PlanReservation(request, Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	want := infrav1.IngotReservationSpec{
		FailureDomainLabel: "row", HostSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, BootTrust: infrav1.BootTrustVerified,
		Groups: []infrav1.ReservedGroup{
			{Name: "cp", ControlPlane: new(true), Count: 3, FailureDomains: []string{"r1", "r2"}, Architecture: "amd64"},
			{Name: "md", Count: 2, HostSelector: &infrav1.HostSelector{Architecture: "amd64"}, RootDeviceHints: &infrav1.RootDeviceHints{Model: "x"}, SoftwareRAID: mirror()},
			{Name: "any", Count: 1}, // a selector that says nothing is none: the schema takes no empty one
		},
	}
	again := RequestOf(&infrav1.IngotReservation{Spec: plan.Reservation}).reservation()
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("asked for again (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, plan.Reservation); diff != "" {
		t.Errorf("reservation (-want +got):\n%s", diff)
	}
}

func TestPlanPromiseExplanationIsBounded(t *testing.T) {
	var groups []DemandGroup
	for i := range 60 {
		groups = append(groups, DemandGroup{Name: strings.Repeat("n", 200) + fmt.Sprint(i), Count: 7, FailureDomains: []string{strings.Repeat("ü", 256)}})
	}
	plan, err := PlanReservation(demand(groups...), Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len([]rune(plan.Message)); n > MaxExplanation || !strings.HasPrefix(plan.Message, "420 hosts are missing: ") || !strings.Contains(plan.Message, "more groups lack hosts") {
		t.Errorf("%d characters: %s", n, plan.Message)
	}
}

func TestPlanPromiseRefusesSelectors(t *testing.T) {
	bad := demand(DemandGroup{Name: "md", Count: 1})
	bad.Cluster.HostSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	if _, err := PlanReservation(bad, Snapshot{}); err == nil {
		t.Error("a selector that does not parse was taken")
	}
	// Somebody else's keeps nothing, and stops nobody.
	other := reservation("other", workers("md", 1))
	other.Spec.HostSelector = bad.Cluster.HostSelector
	plan, err := PlanReservation(demand(DemandGroup{Name: "md", Count: 1}), Snapshot{Candidates: hostsIn("r1"), Reservations: []infrav1.IngotReservation{other}})
	if err != nil || !plan.Satisfied {
		t.Errorf("got %+v, %v", plan, err)
	}
}

func TestOutstanding(t *testing.T) {
	deleting := worker("c", "md", "h1")
	deleting.DeletionTimestamp = &metav1.Time{Time: promisedAt}
	plain := worker("c", "md", "h1")
	plain.Labels = map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentNameLabel: "md"}
	controlPlane := worker("c", "md", "h1")
	controlPlane.Labels = map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachineControlPlaneLabel: ""}
	groups := []infrav1.ReservedGroup{{Name: "md", ControlPlane: new(true), Count: 1}, {Name: "md", Count: 2}}
	for _, tc := range []struct {
		name     string
		machines []infrav1.IngotMachine
		want     []int
	}{
		{"none", nil, []int{1, 2}},
		{"without a host", []infrav1.IngotMachine{worker("c", "md", "")}, []int{1, 2}},
		{"with a host", []infrav1.IngotMachine{worker("c", "md", "h1")}, []int{1, 1}},
		{"without a topology", []infrav1.IngotMachine{plain}, []int{1, 1}},
		{"control plane", []infrav1.IngotMachine{controlPlane}, []int{0, 2}},
		{"being deleted", []infrav1.IngotMachine{deleting}, []int{1, 2}},
		{"of another Cluster", []infrav1.IngotMachine{worker("d", "md", "h1")}, []int{1, 2}},
		{"of another group", []infrav1.IngotMachine{worker("c", "other", "h1")}, []int{1, 2}},
		{"more than promised", []infrav1.IngotMachine{worker("c", "md", "h1"), worker("c", "md", "h2"), worker("c", "md", "h3")}, []int{1, 0}},
		{"all", []infrav1.IngotMachine{controlPlane, worker("c", "md", "h1"), worker("c", "md", "h2")}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			promises := Outstanding(Snapshot{Machines: tc.machines, Reservations: []infrav1.IngotReservation{reservation("c", groups...)}, Now: promisedAt}, HoldsHost)
			var got []int
			if len(promises) > 0 {
				got = promises[0].Needs
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("needs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelectHonorsReservations(t *testing.T) {
	promised := func(groups ...infrav1.ReservedGroup) func(*SelectionRequest) {
		return func(r *SelectionRequest) {
			r.Reservations = Outstanding(Snapshot{Reservations: []infrav1.IngotReservation{reservation("other", groups...)}, Now: promisedAt}, HoldsHost)
		}
	}
	own := func(r *SelectionRequest) {
		r.Machine.Labels = worker("c1", "a", "").Labels
		r.Reservations = Outstanding(Snapshot{Reservations: []infrav1.IngotReservation{reservation("c1", workers("a", 1), workers("b", 1, "r1"))}, Now: promisedAt}, HoldsHost)
	}
	for _, tc := range []struct {
		name   string
		change func(*SelectionRequest)
		hosts  []Candidate
		want   string
	}{
		{"none is left", promised(workers("md", 2)), hostsIn("r1", "r1"), "Of 2 hosts: 2 reserved for others."},
		{"one is left", promised(workers("md", 1, "r2")), hostsIn("r2", "r2", "r2")[:2], "h"},
		{"not the one that others need", promised(workers("md", 1, "r1")), hostsIn("r1", "r2"), "h2"},
		{"a broken promise keeps what there is", promised(workers("md", 3)), hostsIn("r1"), "1 reserved for others"},
		{"not a verified boot that others need", func(r *SelectionRequest) {
			promised(workers("md", 1))(r)
			r.Reservations[0].Spec.BootTrust = infrav1.BootTrustVerified
		}, append([]Candidate{verified("a")}, hostsIn("r1")...), "h1"},
		{"its own", own, hostsIn("r2", "r1"), "h1"},
		{"not what another group of its own needs", own, hostsIn("r1", "r2"), "h2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Select(request(tc.change), tc.hosts)
			text := got.Counts
			if got.Host != nil {
				text = got.Host.Name
			}
			if !strings.Contains(text, tc.want) || (got.Host == nil) != strings.Contains(tc.want, " ") {
				t.Errorf("got %q, want %q", text, tc.want)
			}
		})
	}
}

// The interfaces of networkData count for the demand and for reservations.
func TestPlanPromiseByInterfaces(t *testing.T) {
	fast := workers("md", 3)
	fast.Ethernets = []infrav1.ReservedEthernet{{Name: "uplink0", NIC: infrav1.NICSelector{Driver: "mlx5_core"}}}
	template := infrav1.IngotMachineSpec{NetworkData: &infrav1.NetworkData{
		Ethernets: []infrav1.NetworkEthernet{{Name: "uplink0", NIC: infrav1.NICSelector{Driver: "mlx5_core"}}}}}
	asks := func(count int) PlanRequest {
		return demand(DemandGroup{Name: "md", Count: count, Template: template})
	}
	whatever := func(count int) PlanRequest { return demand(DemandGroup{Name: "md", Count: count}) }
	promised := []infrav1.IngotReservation{reservation("rival", fast)}
	for name, tc := range map[string]struct {
		request  PlanRequest
		promised []infrav1.IngotReservation
		want     string // a part of the message; empty: satisfied
	}{
		"that enough hosts have":                     {asks(3), nil, ""},
		"that too few hosts have":                    {asks(4), nil, "lacks 1 of 4 hosts; asked for 1 ethernets in networkData; of 3 hosts that suit 3 are free"},
		"beside hosts whose interfaces are promised": {whatever(3), promised, ""},
		"of hosts whose interfaces are promised":     {whatever(4), promised, "lacks 1 of 4 hosts; of 6 hosts that suit 6 are free, but 3 of these are reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			cards := append(carded("mlx5_core", "f1", "f2", "f3"), carded("igb", "s1", "s2", "s3")...)
			plan, err := PlanReservation(tc.request, Snapshot{Candidates: cards, Reservations: tc.promised, Now: promisedAt})
			if err != nil || plan.Satisfied != (tc.want == "") || !strings.Contains(plan.Message, tc.want) {
				t.Errorf("%+v, %v; want %q", plan, err, tc.want)
			}
		})
	}
}

// A reservation by interfaces keeps such hosts from machines of other Clusters without networkData.
func TestReservationsKeepInterfaces(t *testing.T) {
	cards := append(carded("mlx5_core", "f1", "f2"), carded("igb", "s1")...)
	mine := demand(DemandGroup{Name: "md", Count: 2, Template: infrav1.IngotMachineSpec{NetworkData: &infrav1.NetworkData{
		Ethernets: []infrav1.NetworkEthernet{{Name: "uplink0", NIC: infrav1.NICSelector{Driver: "mlx5_core", MinSpeedMbps: new(int32(0))}}}}}})
	plan, err := PlanReservation(mine, Snapshot{Candidates: cards, Now: promisedAt})
	if err != nil || !plan.Satisfied {
		t.Fatalf("%+v, %v", plan, err)
	}
	want := []infrav1.ReservedEthernet{{Name: "uplink0", NIC: infrav1.NICSelector{Driver: "mlx5_core", MinSpeedMbps: new(int32(0))}}}
	if diff := cmp.Diff(want, plan.Reservation.Groups[0].Ethernets); diff != "" {
		t.Fatal(diff)
	}
	promised := infrav1.IngotReservation{Spec: plan.Reservation}
	promised.Namespace, promised.Name = "metal", "mine"
	snapshot := Snapshot{Candidates: cards, Reservations: []infrav1.IngotReservation{promised}, Now: promisedAt}
	other := request(func(r *SelectionRequest) { r.Reservations = Outstanding(snapshot, HoldsHost) })
	if got := Select(other, cards); got.Host == nil || got.Host.Name != "s1" {
		t.Errorf("another Cluster's machine gets %+v", got)
	}
	if again, err := PlanReservation(RequestOf(&promised), snapshot); err != nil || !again.Satisfied || !cmp.Equal(again.Reservation.Groups, promised.Spec.Groups) {
		t.Errorf("what was promised is asked for as %+v, %v", again, err)
	}
}
