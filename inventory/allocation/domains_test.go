// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// C09, I11: the racks of a cluster, and which of them can serve its control plane.
func TestFailureDomains(t *testing.T) {
	host := func(name, rack string, changes ...func(Candidate)) Candidate {
		c := candidate(name, rack)
		for _, change := range changes {
			change(c)
		}
		return c
	}
	claimed := func(c Candidate) {
		c.Host.Spec.Claim = claimOf(infrav1.ClaimProvisioned)
		c.Host.Spec.Claim.FailureDomain = "r-old"
	}
	another := func(c Candidate) {
		claimed(c)
		c.Host.Spec.Claim.ClusterName = "c2"
	}
	releasing := func(c Candidate) { c.Host.Spec.Claim.State = infrav1.ClaimReleasing }
	small := func(c Candidate) { c.Hardware.Spec.MemoryBytes = 8 << 30 }
	arm := func(c Candidate) { c.Hardware.Spec.Architecture = "arm64" }
	// asking is a machine of the control plane, made at a second of its own.
	asking := func(name string, at int64, memory string) *infrav1.IngotMachine {
		m := &infrav1.IngotMachine{}
		m.Namespace, m.Name, m.CreationTimestamp = "metal", name, metav1.Unix(at, 0)
		m.Spec.HostSelector = &infrav1.HostSelector{Minimum: &infrav1.HardwareMinimum{Memory: new(resource.MustParse(memory))}}
		return m
	}
	// booting has an interface to boot from; recorded has an address there besides.
	booting := func(mac string) func(Candidate) {
		return func(c Candidate) {
			c.Host.Spec.BootMACAddress, c.Hardware.Spec.NICs = mac, []infrav1.HardwareNIC{{MAC: mac}}
		}
	}
	recorded := func(c Candidate) {
		booting("52:54:00:00:00:01")(c)
		c.Hardware.Spec.Address = &infrav1.RecordedAddress{NetworkName: "net", MAC: "52:54:00:00:00:01", IP: "10.10.0.20"}
	}
	recorded6 := func(c Candidate) {
		booting("52:54:00:00:00:01")(c)
		c.Hardware.Spec.IPv6Address = &infrav1.RecordedAddress{NetworkName: "net", MAC: "52:54:00:00:00:01", IP: "2001:db8::20"}
	}
	// networked is a machine of the control plane with that address.
	networked := func(address infrav1.LinkAddress) []*infrav1.IngotMachine {
		m := asking("cp", 1, "1Gi")
		m.Spec.NetworkData = &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{{Name: "uplink0",
			NIC: infrav1.NICSelector{BootNIC: infrav1.BootNICOnly}, LinkConfig: infrav1.LinkConfig{Addresses: []infrav1.LinkAddress{address}}}}}
		return []*infrav1.IngotMachine{m}
	}
	networks := map[string]infrav1.IngotNetworkSpec{
		"net":     {Subnet: "10.10.0.0/24", IPv6: &infrav1.NetworkIPv6{Subnet: "2001:db8::/64"}},
		"storage": {Subnet: "10.30.0.0/24", StaticLeases: []infrav1.StaticLease{{MAC: "52:54:00:00:00:0a", IP: "10.30.0.20"}}},
	}
	own := claimOf(infrav1.ClaimProvisioned).MachineRef.Name
	wrong := asking("wrong", 9, "1Gi")
	wrong.Spec.HostSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
	domains := func(of map[string]bool) []clusterv1.FailureDomain { return listDomains(of) }
	for _, tc := range []struct {
		name         string
		hosts        []Candidate
		controlPlane []*infrav1.IngotMachine
		architecture string
		named        map[string]bool
		want         []clusterv1.FailureDomain
	}{
		{name: "sorted, free hosts", hosts: []Candidate{host("b", "r2"), host("a", "r1")},
			want: []clusterv1.FailureDomain{{Name: "r1", ControlPlane: new(true)}, {Name: "r2", ControlPlane: new(true)}}},
		{name: "the claim freezes the domain", hosts: []Candidate{host("a", "r1", claimed)}, want: domains(map[string]bool{"r-old": false})},
		{name: "in use, even by this control plane: there is no second place", hosts: []Candidate{host("a", "r1", claimed)},
			controlPlane: []*infrav1.IngotMachine{asking(own, 1, "1Gi")}, want: domains(map[string]bool{"r-old": false})},
		{name: "in use, and another beside it", hosts: []Candidate{host("a", "r1", claimed), host("b", "r-old")},
			controlPlane: []*infrav1.IngotMachine{asking(own, 1, "1Gi")}, want: domains(map[string]bool{"r-old": true})},
		{name: "on its way back, with its label of today", hosts: []Candidate{host("a", "r1", claimed, releasing)}, want: domains(map[string]bool{"r1": true})},
		{name: "on its way back to another cluster", hosts: []Candidate{host("a", "r1", another, releasing)}, want: domains(map[string]bool{"r1": false})},
		{name: "on its way back, and too small", hosts: []Candidate{host("a", "r1", claimed, releasing, small)},
			controlPlane: []*infrav1.IngotMachine{asking("cp", 1, "64Gi")}, want: domains(map[string]bool{"r1": false})},
		{name: "released by force, so it will not come back", hosts: []Candidate{host("a", "r1", func(c Candidate) {
			c.Host.Spec.Record.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineNotFenced}
		})},
			want: domains(map[string]bool{"r1": false})},
		{name: "on its way back into maintenance", hosts: []Candidate{host("a", "r1", claimed, releasing, func(c Candidate) { c.Host.Spec.Maintenance = new(true) })},
			want: domains(map[string]bool{"r-old": false})},
		{name: "on its way back into quarantine, as its remediation decided", hosts: []Candidate{host("a", "r1", claimed, releasing, func(c Candidate) {
			c.Host.Spec.Claim.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineHealthFailed}
		})},
			want: domains(map[string]bool{"r-old": false})},
		{name: "free, and another machine's choice", hosts: []Candidate{host("a", "r1")}, named: map[string]bool{"a": true}, want: domains(map[string]bool{"r1": false})},
		{name: "another cluster's claim has no say", hosts: []Candidate{host("a", "r1", another)},
			controlPlane: []*infrav1.IngotMachine{asking(own, 1, "1Gi")}, want: domains(map[string]bool{"r1": false})},
		{name: "dirty for another cluster", hosts: []Candidate{host("a", "r1", func(c Candidate) { c.Host.Spec.Record.LastClusterName = "c2" })},
			want: domains(map[string]bool{"r1": false})},
		{name: "a BMC that is away changes nothing", hosts: []Candidate{host("a", "r1", func(c Candidate) { c.Host.Status = infrav1.IngotHostStatus{} })},
			want: domains(map[string]bool{"r1": true})},
		{name: "controlPlaneSelector keeps a rack out", hosts: []Candidate{host("a", "r1", func(c Candidate) { c.Host.Labels["no-control-plane"] = "" }), host("b", "r2")},
			want: domains(map[string]bool{"r1": false, "r2": true})},
		{name: "a rack with too small hosts", hosts: []Candidate{host("a", "r1", small), host("b", "r2")},
			controlPlane: []*infrav1.IngotMachine{asking("cp", 1, "64Gi")}, want: domains(map[string]bool{"r1": false, "r2": true})},
		{name: "no machine says yet what is too small", hosts: []Candidate{host("a", "r1", small)}, want: domains(map[string]bool{"r1": true})},
		{name: "the newest machine counts", hosts: []Candidate{host("a", "r1", small)},
			controlPlane: []*infrav1.IngotMachine{asking("cp-1", 2, "8Gi"), asking("cp-2", 1, "64Gi")}, want: domains(map[string]bool{"r1": true})},
		{name: "a rack that the newest machine's image is not for", hosts: []Candidate{host("a", "r1"), host("b", "r2", arm)},
			controlPlane: []*infrav1.IngotMachine{asking("cp", 1, "1Gi")}, architecture: "arm64", want: domains(map[string]bool{"r1": false, "r2": true})},
		{name: "an image of any architecture", hosts: []Candidate{host("a", "r1"), host("b", "r2", arm)},
			controlPlane: []*infrav1.IngotMachine{asking("cp", 1, "1Gi")}, want: domains(map[string]bool{"r1": true, "r2": true})},
		{name: "without facts nothing is known to suit", hosts: []Candidate{{Host: host("a", "r1").Host}},
			controlPlane: []*infrav1.IngotMachine{asking("cp", 1, "1Gi")}, want: domains(map[string]bool{"r1": false})},
		{name: "a rack whose hosts have no address recorded", hosts: []Candidate{host("a", "r1", recorded), host("b", "r2", booting("52:54:00:00:00:01"))},
			controlPlane: networked(infrav1.LinkAddress{Source: infrav1.AddressRecorded}), want: domains(map[string]bool{"r1": true, "r2": false})},
		{name: "a rack whose hosts have no IPv6 address recorded", hosts: []Candidate{host("a", "r1", recorded), host("b", "r2", recorded6)},
			controlPlane: networked(infrav1.LinkAddress{Source: infrav1.AddressRecordedIPv6}), want: domains(map[string]bool{"r1": false, "r2": true})},
		{name: "a rack that nothing is reserved for", hosts: []Candidate{host("a", "r1", booting("52:54:00:00:00:0a")), host("b", "r2", booting("52:54:00:00:00:0b"))},
			controlPlane: networked(infrav1.LinkAddress{Source: infrav1.AddressStaticLease, NetworkRef: &infrav1.LocalReference{Name: "storage"}}),
			want:         domains(map[string]bool{"r1": true, "r2": false})},
		{name: "on its way back, with its address", hosts: []Candidate{host("a", "r1", claimed, releasing, recorded)},
			controlPlane: networked(infrav1.LinkAddress{Source: infrav1.AddressRecorded}), want: domains(map[string]bool{"r1": true})},
		{name: "what a pool gives is not known", hosts: []Candidate{host("a", "r1", booting("52:54:00:00:00:01"))},
			controlPlane: networked(infrav1.LinkAddress{Source: infrav1.AddressPool, PoolRef: &infrav1.AddressPoolReference{Name: "nodes"}}), want: domains(map[string]bool{"r1": true})},
		{name: "a machine with a wrong selector has no say", hosts: []Candidate{host("a", "r1", small)},
			controlPlane: []*infrav1.IngotMachine{wrong}, want: domains(map[string]bool{"r1": true})},
		{name: "no label, not admitted, elsewhere", hosts: []Candidate{host("a", ""),
			host("b", "r1", func(c Candidate) { c.Host.Labels["kind"] = "storage" }),
			host("c", "r1", func(c Candidate) { c.Host.Namespace = "other" })}, want: []clusterv1.FailureDomain{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := request(func(r *SelectionRequest) {
				r.Cluster.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "compute"}}
				r.Cluster.Spec.ControlPlaneSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "no-control-plane", Operator: metav1.LabelSelectorOpDoesNotExist}}}
			})
			got, err := FailureDomains(tc.hosts, DomainRequest{Cluster: r.Cluster, ClusterName: "c1", ControlPlane: tc.controlPlane, Architecture: tc.architecture, Networks: networks, Named: tc.named})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("failure domains (-want +got):\n%s", diff)
			}
		})
	}
}

// I11: no control plane is sent to a rack whose free hosts are reserved, even for its own workers.
func TestFailureDomainsKeepReservations(t *testing.T) {
	controlPlane := func(count int32) infrav1.ReservedGroup {
		return infrav1.ReservedGroup{Name: "cp", ControlPlane: new(true), Count: count}
	}
	small := controlPlane(1)
	small.HostSelector = &infrav1.HostSelector{Minimum: &infrav1.HardwareMinimum{Memory: new(resource.MustParse("128Gi"))}}
	away, back, large := candidate("h9", "r2"), candidate("h9", "r2"), candidate("h9", "r2")
	away.Host.Status = infrav1.IngotHostStatus{}
	back.Host.Spec.Claim = claimOf(infrav1.ClaimReleasing)
	large.Hardware.Spec.MemoryBytes = 256 << 30
	for _, tc := range []struct {
		name     string
		hosts    []Candidate
		promises []infrav1.IngotReservation
		named    map[string]bool
		want     map[string]bool
	}{
		{"its own workers need the rack", hostsIn("r1", "r1", "r1", "r2"), []infrav1.IngotReservation{reservation("c1", controlPlane(3), workers("md", 1, "r2"))}, nil, map[string]bool{"r1": true, "r2": false}},
		{"its own workers can stand elsewhere", hostsIn("r1", "r1", "r1", "r2"), []infrav1.IngotReservation{reservation("c1", controlPlane(3), workers("md", 1))}, nil, map[string]bool{"r1": true, "r2": true}},
		{"promised to another", hostsIn("r1", "r2"), []infrav1.IngotReservation{reservation("c2", workers("md", 1, "r2"))}, nil, map[string]bool{"r1": true, "r2": false}},
		{"promised to another, which goes without anyway", hostsIn("r1", "r2"), []infrav1.IngotReservation{reservation("c2", workers("md", 1, "r3"))}, nil, map[string]bool{"r1": true, "r2": true}},
		{"all is promised to another", hostsIn("r1", "r2"), []infrav1.IngotReservation{reservation("c2", workers("md", 5))}, nil, map[string]bool{"r1": false, "r2": false}},
		{"a BMC that is away changes nothing", append(hostsIn("r1"), away), []infrav1.IngotReservation{reservation("c2", workers("md", 1, "r2"))}, nil, map[string]bool{"r1": true, "r2": false}},
		{"a BMC that is away, and the rack is its own", append(hostsIn("r1"), away), []infrav1.IngotReservation{reservation("c1", controlPlane(1), workers("md", 1, "r1"))}, nil, map[string]bool{"r1": false, "r2": true}},
		{"on its way back", append(hostsIn("r1"), back), []infrav1.IngotReservation{reservation("c2", workers("md", 1, "r1"))}, map[string]bool{"h9": true}, map[string]bool{"r1": false, "r2": true}},
		{"one that a machine has chosen is not there for the promise", hostsIn("r1", "r2", "r2"), []infrav1.IngotReservation{reservation("c2", workers("md", 1, "r2"))}, map[string]bool{"h2": true}, map[string]bool{"r1": true, "r2": false}},
		{"the promise says what the first machine asks for", append(hostsIn("r1"), large), []infrav1.IngotReservation{reservation("c1", small)}, nil, map[string]bool{"r1": false, "r2": true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := FailureDomains(tc.hosts, DomainRequest{Cluster: request(func(*SelectionRequest) {}).Cluster, ClusterName: "c1", Named: tc.named,
				Reservations: Outstanding(Snapshot{Reservations: tc.promises, Now: promisedAt}, HoldsHost)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(listDomains(tc.want), got); diff != "" {
				t.Errorf("failure domains (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTooManyFailureDomains(t *testing.T) {
	var hosts []Candidate
	for i := range MaxFailureDomains + 1 {
		hosts = append(hosts, candidate(fmt.Sprint(i), fmt.Sprint("r", i)))
	}
	of := DomainRequest{Cluster: request(func(*SelectionRequest) {}).Cluster, ClusterName: "c1"}
	if _, err := FailureDomains(hosts[1:], of); err != nil {
		t.Errorf("%d domains: %v", MaxFailureDomains, err)
	}
	for name, tc := range map[string]struct {
		provisioned *bool
		want        string
	}{
		"not provisioned":     {nil, "choose a coarser spec.failureDomainLabel, or narrow spec.hostSelector"},
		"not provisioned yet": {new(false), "choose a coarser spec.failureDomainLabel, or narrow spec.hostSelector"},
		"provisioned":         {new(true), "narrow spec.hostSelector (spec.failureDomainLabel of a provisioned cluster cannot change)"},
	} {
		of.Cluster.Status.Initialization.Provisioned = tc.provisioned
		got, err := FailureDomains(hosts, of)
		if !errors.Is(err, ErrTooManyFailureDomains) || got != nil {
			t.Fatalf("%s: %d domains, error %v", name, len(got), err)
		}
		if _, advice, _ := strings.Cut(err.Error(), "can hold 100; "); advice != tc.want {
			t.Errorf("%s: advice %q, want %q", name, advice, tc.want)
		}
	}
}

func TestTemplateCapacity(t *testing.T) {
	large, claimedSmall := candidate("large", "r1"), candidate("small", "r1")
	large.Hardware.Spec.MemoryBytes = 256 << 30
	claimedSmall.Host.Spec.Claim = claimOf(infrav1.ClaimProvisioned)
	template := &infrav1.IngotMachineTemplate{}
	template.Namespace = "metal"
	cluster := request(func(*SelectionRequest) {}).Cluster
	got, ok, err := TemplateCapacity(template, cluster, nil, []Candidate{large, claimedSmall, {Host: large.Host}})
	if err != nil || !ok {
		t.Fatalf("ok %v, error %v", ok, err)
	}
	if diff := cmp.Diff(Capacity{CPUs: 32, MemoryBytes: 64 << 30, Architecture: "amd64"}, got); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	if _, ok, _ := TemplateCapacity(template, cluster, nil, nil); ok {
		t.Error("a capacity without any host")
	}
	arm := candidate("arm", "r1")
	arm.Hardware.Spec.Architecture, arm.Hardware.Spec.MemoryBytes = "arm64", 128<<30
	image := &infrav1.IngotImage{Spec: infrav1.IngotImageSpec{Architecture: "arm64"}}
	got, ok, err = TemplateCapacity(template, cluster, image, []Candidate{large, arm, claimedSmall})
	if err != nil || !ok {
		t.Fatalf("ok %v, error %v", ok, err)
	}
	if diff := cmp.Diff(Capacity{CPUs: 32, MemoryBytes: 128 << 30, Architecture: "arm64"}, got); diff != "" {
		t.Errorf("capacity of hosts that the image is for (-want +got):\n%s", diff)
	}
}
