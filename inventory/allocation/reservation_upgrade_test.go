// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// upgrading is a reservation for an upgrade.
func upgrading(cluster string, groups ...infrav1.ReservedGroup) infrav1.IngotReservation {
	r := reservation(cluster, groups...)
	r.Spec.Purpose = infrav1.ReservationUpgrade
	return r
}

// A Cluster gets back the host that it released for its upgrade, even if other reservations lack hosts.
func TestUpgradesComeFirst(t *testing.T) {
	short := reservation("short", workers("md", 1))
	asks := func(cluster, group string) SelectionRequest {
		m := worker(cluster, group, "")
		return SelectionRequest{Machine: &m, Cluster: &infrav1.IngotCluster{}, ClusterName: cluster}
	}
	for name, tc := range map[string]struct {
		promises []infrav1.IngotReservation
		request  SelectionRequest
		hosts    []Candidate
		want     []string
	}{
		"the one that is short":                {[]infrav1.IngotReservation{short, upgrading("up", workers("md", 1))}, asks("short", "md"), hostsIn("r1"), nil},
		"the one that is upgraded":             {[]infrav1.IngotReservation{short, upgrading("up", workers("md", 1))}, asks("up", "md"), hostsIn("r1"), []string{"h1"}},
		"one that was promised nothing":        {[]infrav1.IngotReservation{short, upgrading("up", workers("md", 1))}, asks("x", "md"), hostsIn("r1", "r1"), nil},
		"enough for two":                       {[]infrav1.IngotReservation{short, upgrading("up", workers("md", 1))}, asks("short", "md"), hostsIn("r1", "r1"), []string{"h1", "h2"}},
		"what only the other one can have":     {[]infrav1.IngotReservation{short, upgrading("up", workers("md", 1, "r2"))}, asks("short", "md"), hostsIn("r1", "r2"), []string{"h1"}},
		"two upgrades, both short":             {[]infrav1.IngotReservation{upgrading("a", workers("md", 1)), upgrading("up", workers("md", 1))}, asks("up", "md"), hostsIn("r1"), []string{"h1"}},
		"a machine beyond what is promised":    {[]infrav1.IngotReservation{upgrading("up", workers("md", 1))}, asks("up", "other"), hostsIn("r1"), nil},
		"the upgrade leaves the promise one":   {[]infrav1.IngotReservation{reservation("late", workers("md", 1, "r1")), upgrading("up", workers("md", 1))}, asks("up", "md"), hostsIn("r1", "r2"), []string{"h2"}},
		"upgrades that have all they had":      {[]infrav1.IngotReservation{short, upgrading("up")}, asks("short", "md"), hostsIn("r1"), []string{"h1"}},
		"nothing is promised but for upgrades": {[]infrav1.IngotReservation{upgrading("up", workers("md", 1))}, asks("x", "md"), hostsIn("r1", "r1"), []string{"h1", "h2"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.request.Reservations = Outstanding(Snapshot{Reservations: tc.promises, Now: promisedAt}, HoldsHost)
			var got []string
			for _, c := range tc.hosts {
				ok, err := KeepsReservations(tc.request, tc.hosts, c.Host.Name)
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					got = append(got, c.Host.Name)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("hosts that it may have (-want +got):\n%s", diff)
			}
		})
	}
}

// A machine has a host if the host carries its claim. A selection does not suffice.
func TestClaimedHost(t *testing.T) {
	m := worker("c", "md", "h1")
	id, err := infrav1.ParseProviderID(m.Spec.ProviderID)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		claim *infrav1.HostClaim
		want  bool
	}{
		"no claim":            {nil, false},
		"its claim":           {&infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: m.Name}, InstanceID: id.InstanceID}, true},
		"another's":           {&infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "other"}, InstanceID: id.InstanceID}, false},
		"of an earlier claim": {&infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: m.Name}, InstanceID: "0"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			hosts := hostsIn("r1", "r1")
			hosts[0].Host.Spec.Claim = tc.claim
			holds := ClaimedHost(hosts)
			if _, ok := holds(&m); ok != tc.want {
				t.Errorf("claimed: %v", ok)
			}
			if left := Left(&infrav1.IngotReservation{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "c"},
				Spec: infrav1.IngotReservationSpec{Groups: []infrav1.ReservedGroup{workers("md", 1)}}}, []infrav1.IngotMachine{m}, holds); (left == 0) != tc.want {
				t.Errorf("%d left", left)
			}
		})
	}
	nobody := infrav1.IngotMachine{}
	if _, ok := ClaimedHost(nil)(&nobody); ok {
		t.Error("a machine without a choice has a host")
	}
}

// Machines with hosts are counted by group, with or without a reservation.
func TestHolding(t *testing.T) {
	going := worker("c", "md", "h9")
	going.DeletionTimestamp = &metav1.Time{Time: promisedAt}
	machines := []infrav1.IngotMachine{worker("c", "md", "h1"), worker("c", "md", ""), going, worker("c", "b", "h2"), worker("x", "md", "h3"), worker("c", "none", "h4"), worker("c", "scaled", "h5")}
	groups := Demand{Groups: []DemandGroup{{Name: "empty"}, {Name: "b", Count: 3}, {Name: "md", Count: 1}, {Name: "scaled"}}}
	if diff := cmp.Diff([]int{0, 1, 1, 1}, CountSelected("metal", "c", groups, machines)); diff != "" {
		t.Errorf("holding (-want +got):\n%s", diff)
	}
}
