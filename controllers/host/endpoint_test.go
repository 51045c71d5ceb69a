// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// endpointOf creates an IngotCluster with an endpoint.
func endpointOf(y *fixture, name, host string) *infrav1.IngotCluster {
	y.t.Helper()
	cluster := &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: y.ns, Name: name}}
	cluster.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: host, Port: 6443}
	y.create(cluster)
	return cluster
}

// testEndpointsAreNotAssigned: no host gets the endpoint of a Cluster from its network's range.
func testEndpointsAreNotAssigned(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	network := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: y.ns + "-vip"}, Spec: infrav1.IngotNetworkSpec{
		Subnet: "198.18.0.0/24", Range: infrav1.AddressRange{Start: "198.18.0.10", End: "198.18.0.13"},
		IPv6: &infrav1.NetworkIPv6{Mode: infrav1.DHCPv6ModeStateful, Subnet: "2001:db8:18::/64", Range: infrav1.IPv6Range{Start: "2001:db8:18::10", End: "2001:db8:18::14"}}}}
	y.create(network)
	endpointOf(y, "named", "api.example.com")
	later := endpointOf(y, "four", "")
	later.Spec.ControlPlaneEndpoint.Host = "198.18.0.11"
	must(y, y.api.Update(y.ctx, later))
	endpointOf(y, "six", "2001:db8:18::11")
	recorded := map[string][2]string{}
	record := func(name string) {
		t.Helper()
		y.ready(name, func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = network.Name })
		for range 5 {
			y.step(name)
		}
		facts := &infrav1.IngotHardware{}
		must(y, client.IgnoreNotFound(y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: name}, facts)))
		recorded[name] = [2]string{ipOf(facts.Spec.Address), ipOf(facts.Spec.IPv6Address)}
	}
	for n := range 4 {
		record(fmt.Sprint("h", n))
	}
	y.want("h3", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonAddressesExhausted)
	given := [2][]string{}
	for _, name := range []string{"h0", "h1", "h2"} {
		given[0], given[1] = append(given[0], recorded[name][0]), append(given[1], recorded[name][1])
	}
	slices.Sort(given[0])
	if diff := cmp.Diff([]string{"198.18.0.10", "198.18.0.12", "198.18.0.13"}, given[0]); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	if slices.Contains(given[1], "2001:db8:18::11") || slices.Contains(given[1], "") {
		t.Errorf("recorded %v", given[1])
	}

	must(y, y.api.Delete(y.ctx, later))
	for range 5 {
		y.step("h3")
	}
	facts := &infrav1.IngotHardware{}
	must(y, y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: "h3"}, facts))
	if got := ipOf(facts.Spec.Address); got != "198.18.0.11" {
		t.Errorf("recorded %q once the Cluster is gone", got)
	}
}
