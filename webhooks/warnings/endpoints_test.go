// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// fullNetwork returns a network with every kind of address range.
func fullNetwork() *v1beta2.IngotNetwork {
	return &v1beta2.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "rack-a"}, Spec: v1beta2.IngotNetworkSpec{
		Mode: v1beta2.DHCPModeDiscover, Subnet: "10.10.0.0/24", Gateway: "10.10.0.1", Range: v1beta2.AddressRange{Start: "10.10.0.10", End: "10.10.0.99"},
		Discover:     &v1beta2.NetworkDiscovery{Range: v1beta2.AddressRange{Start: "10.10.0.200", End: "10.10.0.239"}},
		StaticLeases: []v1beta2.StaticLease{{MAC: "52:54:00:00:00:01", IP: "10.10.0.150"}},
		IPv6:         &v1beta2.NetworkIPv6{Mode: v1beta2.DHCPv6ModeStateful, Subnet: "2001:db8::/64", Range: v1beta2.IPv6Range{Start: "2001:db8::10", End: "2001:db8::99"}},
	}}
}

// given returns hardware with a recorded address.
func given(namespace, name, ip string) *v1beta2.IngotHardware {
	out := &v1beta2.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	out.Spec.Address = &v1beta2.RecordedAddress{NetworkName: "rack-a", MAC: "52:54:00:00:00:07", IP: ip}
	return out
}

func reached(namespace, name, host string) *v1beta2.IngotCluster {
	out := &v1beta2.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	out.Spec.ControlPlaneEndpoint = v1beta2.APIEndpoint{Host: host, Port: 6443}
	return out
}

// An endpoint that Ingot assigns or that a host has causes a warning on the cluster.
func TestEndpoint(t *testing.T) {
	const at, remedy = "spec.controlPlaneEndpoint.host: ", " of IngotNetwork rack-a; use another address, or make that range smaller. Ingot no longer assigns this address to hosts"
	held := func(address, by string) string {
		return fmt.Sprintf("%s%q is already an address of %s; use another address, "+
			"or delete that IngotHost and register it again, unless it is the only control plane or a load balancer", at, address, by)
	}
	installed := host("h3")
	installed.Spec.Claim = &v1beta2.HostClaim{State: v1beta2.ClaimProvisioned, Network: &v1beta2.ClaimedNetwork{Addresses: []string{"10.10.0.8"}}}
	c := newChecker(t, fullNetwork(), given("ns", "h1", "10.10.0.20"), given("other", "h2", "10.10.0.7"), installed)
	for name, tc := range map[string]struct {
		host string
		want []string
	}{
		"beside all":                  {"10.10.0.5", nil},
		"none":                        {"", nil},
		"a name":                      {"api.example.com", nil},
		"a router":                    {"10.10.0.1", nil}, // it may be a load balancer
		"on another network":          {"192.0.2.20", nil},
		"in the range":                {"10.10.0.21", []string{at + `"10.10.0.21" is in the range that is given to hosts` + remedy}},
		"in the IPv6 range":           {"[2001:DB8::20]", []string{at + `"[2001:DB8::20]" is in the range that is given to hosts` + remedy}},
		"lent":                        {"10.10.0.200", []string{at + `"10.10.0.200" is in the range that is lent to unknown machines` + remedy}},
		"reserved":                    {"10.10.0.150", []string{at + `"10.10.0.150" is reserved for an interface by IngotNetwork rack-a; use another address, unless that server is the only control plane`}},
		"a host's, in the range":      {"10.10.0.20", []string{at + `"10.10.0.20" is in the range that is given to hosts` + remedy, held("10.10.0.20", "IngotHost ns/h1")}},
		"of another namespace":        {"10.10.0.7", []string{held("10.10.0.7", "a host of another namespace")}},
		"that of an installed system": {"10.10.0.8", []string{held("10.10.0.8", "IngotHost ns/h3")}},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, tc.want, c.Endpoint(t.Context(), "ns", field.NewPath("spec", "controlPlaneEndpoint", "host"), tc.host))
		})
	}
}

// A network causes one warning per range with control plane endpoints.
func TestNetworkOfEndpoints(t *testing.T) {
	const whose, smaller = " (see: kubectl get ingotclusters -A); ", "make it smaller (Ingot does not assign these addresses)"
	const has = ". A host already has %s (see kubectl get ihw -A, and spec.claim.network.addresses of the IngotHosts): delete it and register it again, " +
		"unless it is the only control plane or a load balancer"
	for name, tc := range map[string]struct {
		exist []client.Object
		want  []string
	}{
		"none in it": {[]client.Object{reached("ns", "a", "10.10.0.5"), reached("ns", "b", "api.example.com"), reached("ns", "c", "192.0.2.20"), reached("ns", "d", "")}, nil},
		"in all": {[]client.Object{reached("ns", "a", "10.10.0.21"), reached("ns", "b", "2001:db8::20"), reached("other", "c", "10.10.0.200"), reached("ns", "d", "10.10.0.150")}, []string{
			"spec.discover.range: contains the control plane endpoints 10.10.0.200" + whose + smaller, "spec.ipv6.range: contains the control plane endpoints 2001:db8::20" + whose + smaller, "spec.range: contains the control plane endpoints 10.10.0.21" + whose + smaller,
			"spec.staticLeases: contains the control plane endpoints 10.10.0.150" + whose + "reserve another address, unless that server is the only control plane"}},
		"many, and two that hosts have": {[]client.Object{reached("ns", "a", "10.10.0.24"), reached("ns", "b", "10.10.0.23"), reached("ns", "c", "10.10.0.22"), reached("ns", "d", "10.10.0.21"),
			given("ns", "h1", "10.10.0.24"), given("other", "h2", "10.10.0.21")},
			[]string{"spec.range: contains the control plane endpoints 10.10.0.21, 10.10.0.22, 10.10.0.23 and 1 more" + whose + smaller + fmt.Sprintf(has, "10.10.0.21, 10.10.0.24")}},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, tc.want, newChecker(t, tc.exist...).Network(t.Context(), fullNetwork()))
		})
	}
}
