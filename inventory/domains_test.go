// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestFailureDomains(t *testing.T) {
	host := func(name, rack string, change func(*infrav1.IngotHost)) *infrav1.IngotHost {
		h := candidate(name, rack).Host
		change(h)
		return h
	}
	as := func(*infrav1.IngotHost) {}
	claimed := func(h *infrav1.IngotHost) {
		h.Spec.Claim = claimOf(infrav1.ClaimProvisioned)
		h.Spec.Claim.FailureDomain = "r-old"
	}
	nobody := func(*infrav1.IngotHost) bool { return false }
	everybody := func(*infrav1.IngotHost) bool { return true }
	for _, tc := range []struct {
		name  string
		hosts []*infrav1.IngotHost
		owned func(*infrav1.IngotHost) bool
		want  []clusterv1.FailureDomain
	}{
		{"sorted, free hosts", []*infrav1.IngotHost{host("b", "r2", as), host("a", "r1", as)}, nobody,
			[]clusterv1.FailureDomain{{Name: "r1", ControlPlane: ptr(true)}, {Name: "r2", ControlPlane: ptr(true)}}},
		{"the claim freezes the domain", []*infrav1.IngotHost{host("a", "r1", claimed)}, nobody,
			[]clusterv1.FailureDomain{{Name: "r-old", ControlPlane: ptr(false)}}},
		{"this control plane's", []*infrav1.IngotHost{host("a", "r1", claimed)}, everybody,
			[]clusterv1.FailureDomain{{Name: "r-old", ControlPlane: ptr(true)}}},
		{"another cluster's claim has no say", []*infrav1.IngotHost{host("a", "r1", func(h *infrav1.IngotHost) {
			claimed(h)
			h.Spec.Claim.ClusterName = "c2"
		})}, nobody, []clusterv1.FailureDomain{{Name: "r1", ControlPlane: ptr(false)}}},
		{"dirty for another cluster", []*infrav1.IngotHost{host("a", "r1", func(h *infrav1.IngotHost) { h.Spec.Record.LastClusterName = "c2" })}, nobody,
			[]clusterv1.FailureDomain{{Name: "r1", ControlPlane: ptr(false)}}},
		{"a BMC that is away changes nothing", []*infrav1.IngotHost{host("a", "r1", func(h *infrav1.IngotHost) { h.Status = infrav1.IngotHostStatus{} })}, nobody,
			[]clusterv1.FailureDomain{{Name: "r1", ControlPlane: ptr(true)}}},
		{"no label, not admitted, elsewhere", []*infrav1.IngotHost{host("a", "", as),
			host("b", "r1", func(h *infrav1.IngotHost) { h.Labels["kind"] = "storage" }),
			host("c", "r1", func(h *infrav1.IngotHost) { h.Namespace = "other" })}, nobody, []clusterv1.FailureDomain{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := request(func(r *SelectionRequest) {
				r.Cluster.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "compute"}}
			})
			got, err := FailureDomains(tc.hosts, r.Cluster, "c1", tc.owned)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("failure domains (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTooManyFailureDomains(t *testing.T) {
	var hosts []*infrav1.IngotHost
	for i := range MaxFailureDomains + 1 {
		hosts = append(hosts, candidate(fmt.Sprint(i), fmt.Sprint("r", i)).Host)
	}
	cluster := request(func(*SelectionRequest) {}).Cluster
	none := func(*infrav1.IngotHost) bool { return false }
	if _, err := FailureDomains(hosts[1:], cluster, "c1", none); err != nil {
		t.Errorf("%d domains: %v", MaxFailureDomains, err)
	}
	if got, err := FailureDomains(hosts, cluster, "c1", none); !errors.Is(err, ErrTooManyFailureDomains) || got != nil {
		t.Errorf("%d domains, error %v", len(got), err)
	}
}

func TestTemplateCapacity(t *testing.T) {
	large, claimedSmall := candidate("large", "r1"), candidate("small", "r1")
	large.Hardware.Spec.MemoryBytes = 256 << 30
	claimedSmall.Host.Spec.Claim = claimOf(infrav1.ClaimProvisioned)
	template := &infrav1.IngotMachineTemplate{}
	template.Namespace = "metal"
	cluster := request(func(*SelectionRequest) {}).Cluster
	got, ok, err := TemplateCapacity(template, cluster, []Candidate{large, claimedSmall, {Host: large.Host}})
	if err != nil || !ok {
		t.Fatalf("ok %v, error %v", ok, err)
	}
	if diff := cmp.Diff(Capacity{CPUs: 32, MemoryBytes: 64 << 30, Architecture: "amd64"}, got); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	if _, ok, _ := TemplateCapacity(template, cluster, nil); ok {
		t.Error("a capacity without any host")
	}
}

func TestAllocateAddress(t *testing.T) {
	network := infrav1.IngotNetworkSpec{Subnet: "10.0.0.0/29", Gateway: "10.0.0.1", DNSServers: []string{"10.0.0.2", "8.8.8.8"},
		Range: infrav1.AddressRange{Start: "10.0.0.0", End: "10.0.0.7"}}
	taken := map[netip.Addr]bool{}
	for i := range 4 { // .3 to .6 are what is left of the range
		mac := fmt.Sprintf("52:54:00:00:00:%02x", i)
		got, err := AllocateAddress(network, taken, mac)
		if err != nil {
			t.Fatalf("address %d: %v", i, err)
		}
		again, _ := AllocateAddress(network, taken, mac)
		if last := got.As4()[3]; again != got || taken[got] || last < 3 || last > 6 {
			t.Errorf("%s gets %s, then %s", mac, got, again)
		}
		taken[got] = true
	}
	if _, err := AllocateAddress(network, taken, "m"); !errors.Is(err, ErrAddressesExhausted) {
		t.Errorf("error %v, want %v", err, ErrAddressesExhausted)
	}
	for _, bad := range []infrav1.IngotNetworkSpec{
		{Subnet: "nonsense", Range: network.Range},
		{Subnet: "fd00::/64", Range: infrav1.AddressRange{Start: "fd00::1", End: "fd00::2"}},
		{Subnet: "10.0.0.0/29", Range: infrav1.AddressRange{Start: "10.0.0.5", End: "10.0.0.4"}},
		{Subnet: "10.0.0.0/29", Range: infrav1.AddressRange{Start: "10.0.0.5", End: "10.0.0.9"}},
	} {
		if got, err := AllocateAddress(bad, nil, "m"); !errors.Is(err, ErrNetworkInvalid) {
			t.Errorf("%+v: %s, error %v", bad, got, err)
		}
	}
}
