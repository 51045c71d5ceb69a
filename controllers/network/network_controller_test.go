// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// reconciled returns the status of network "net" after two reconciles, of which the second writes
// nothing.
func reconciled(t *testing.T, spec infrav1.IngotNetworkSpec, others ...client.Object) infrav1.IngotNetworkStatus {
	t.Helper()
	network := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "net", Generation: 3}, Spec: spec}
	builder := fake.NewClientBuilder().WithScheme(testscheme.Scheme(t)).WithStatusSubresource(network).WithObjects(append(others, network)...)
	if err := index.Setup(t.Context(), testscheme.Indexer{ClientBuilder: builder}); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Client: builder.Build()}
	var versions []string
	for range 2 {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "net"}}); err != nil {
			t.Fatal(err)
		}
		if err := r.Client.Get(t.Context(), client.ObjectKey{Name: "net"}, network); err != nil {
			t.Fatal(err)
		}
		versions = append(versions, network.ResourceVersion)
	}
	if versions[0] != versions[1] {
		t.Errorf("a reconcile without a change wrote the network: resource versions %v", versions)
	}
	return network.Status
}

// host is on network "net". With an address, it has it by record.
func host(name, address string) []client.Object {
	h := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: name}}
	h.Spec.NetworkRef.Name = "net"
	objects := []client.Object{h}
	if address != "" {
		hardware := &infrav1.IngotHardware{ObjectMeta: h.ObjectMeta}
		hardware.Spec.Address = &infrav1.RecordedAddress{NetworkName: "net", MAC: "52:54:00:00:00:01", IP: address}
		objects = append(objects, hardware)
	}
	return objects
}

func discovered(n int) []client.Object {
	var objects []client.Object
	for i := range n {
		more := host(fmt.Sprint("new-", i), fmt.Sprint("10.10.0.1", i))
		more[0].SetLabels(map[string]string{infrav1.EnrolledLabel: ""})
		objects = append(objects, more...)
	}
	return objects
}

func TestReconcile(t *testing.T) {
	spec := infrav1.IngotNetworkSpec{Mode: infrav1.DHCPModeReserve, Subnet: "10.10.0.0/24", Range: infrav1.AddressRange{Start: "10.10.0.10", End: "10.10.0.11"}}
	discovering := *spec.DeepCopy()
	discovering.Mode, discovering.Range.End, discovering.Discover = infrav1.DHCPModeDiscover, "10.10.0.19", &infrav1.NetworkDiscovery{MaxHosts: 3}
	proxy := infrav1.IngotNetworkSpec{Mode: infrav1.DHCPModeProxy, Subnet: "10.10.0.0/24"}
	endpoint := &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "c1"}}
	endpoint.Spec.ControlPlaneEndpoint.Host, endpoint.Spec.ControlPlaneEndpoint.Port = "10.10.0.11", 6443
	other := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	other.Spec.StaticLeases = []infrav1.StaticLease{{MAC: "52:54:00:00:00:09", IP: "10.10.0.11"}}
	installed := host("installed", "")
	installed[0].(*infrav1.IngotHost).Spec.Claim = &infrav1.HostClaim{State: infrav1.ClaimProvisioned, Network: &infrav1.ClaimedNetwork{Addresses: []string{"10.10.0.11"}}}
	objects := func(lists ...[]client.Object) (all []client.Object) {
		for _, list := range lists {
			all = append(all, list...)
		}
		return all
	}
	for name, tc := range map[string]struct {
		spec      infrav1.IngotNetworkSpec
		objects   []client.Object
		hosts     int32
		usage     *infrav1.AddressUsage
		condition metav1.Condition
	}{
		"without hosts":                    {spec, nil, 0, usage(2, 0), ready("")},
		"an address is free":               {spec, objects(host("a", "10.10.0.10"), host("b", "")), 2, usage(2, 1), ready("")},
		"every host has an address":        {spec, objects(host("a", "10.10.0.10"), host("b", "10.10.0.11")), 2, usage(2, 2), ready("")},
		"a host waits, and none is free":   {spec, objects(host("a", "10.10.0.10"), host("b", "10.10.0.11"), host("c", "")), 3, usage(2, 2), exhaustedBy(1)},
		"an endpoint has the last":         {spec, objects(host("a", "10.10.0.10"), host("b", ""), []client.Object{endpoint}), 2, usage(2, 2), exhaustedBy(1)},
		"another network leases the last":  {spec, objects(host("a", "10.10.0.10"), host("b", ""), []client.Object{other}), 2, usage(2, 2), exhaustedBy(1)},
		"an installed system has the last": {spec, objects(host("a", "10.10.0.10"), installed), 2, usage(2, 2), exhaustedBy(1)},
		"another DHCP server":              {proxy, host("a", ""), 1, nil, ready("")},
		"discovered hosts":                 {discovering, discovered(2), 2, usage(10, 2), ready("2 discovered hosts wait for approval.")},
		"as many as may wait":              {discovering, discovered(3), 3, usage(10, 3), ready("3 discovered hosts wait for approval, as many as spec.discover.maxHosts allows. Ingot registers no more servers until you approve or delete some.")},
	} {
		t.Run(name, func(t *testing.T) {
			got := reconciled(t, tc.spec, tc.objects...)
			condition := conditions.Get(&infrav1.IngotNetwork{Status: got}, infrav1.ReadyCondition)
			if condition == nil {
				t.Fatal("no condition Ready")
			}
			condition.LastTransitionTime = metav1.Time{}
			got.Conditions = []metav1.Condition{*condition}
			want := infrav1.IngotNetworkStatus{ObservedGeneration: 3, Hosts: &tc.hosts, IPv4: tc.usage, Conditions: []metav1.Condition{tc.condition}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if n := len(condition.Message); n > inventory.MaxText {
				t.Errorf("the message has %d characters", n)
			}
		})
	}
}

func usage(total, used int64) *infrav1.AddressUsage {
	return &infrav1.AddressUsage{Total: &total, Used: &used, Free: new(total - used)}
}

func ready(message string) metav1.Condition {
	return metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonReady, Message: message, ObservedGeneration: 3}
}

func exhaustedBy(waiting int) metav1.Condition {
	c := ready(fmt.Sprintf("No address of spec.range is free, and %d hosts have none. Ingot does not boot them. Enlarge spec.range, or delete hosts that no longer exist.", waiting))
	c.Status, c.Reason = metav1.ConditionFalse, infrav1.ReasonAddressesExhausted
	return c
}

// Only changes of a host that change the status of its network cause a reconcile.
func TestChanges(t *testing.T) {
	before := &infrav1.IngotHost{}
	before.Spec.NetworkRef.Name = "net"
	for name, tc := range map[string]struct {
		change func(*infrav1.IngotHost)
		want   bool
	}{
		"another network": {func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = "other" }, true},
		"approved":        {func(h *infrav1.IngotHost) { h.Labels = map[string]string{infrav1.EnrolledLabel: ""} }, true},
		"installed": {func(h *infrav1.IngotHost) {
			h.Spec.Claim = &infrav1.HostClaim{Network: &infrav1.ClaimedNetwork{Addresses: []string{"10.10.0.10"}}}
		}, true},
		"claimed only":         {func(h *infrav1.IngotHost) { h.Spec.Claim = &infrav1.HostClaim{} }, false},
		"another power state":  {func(h *infrav1.IngotHost) { h.Status.Power = infrav1.PowerStateOn }, false},
		"switched by its user": {func(h *infrav1.IngotHost) { h.Spec.Maintenance = new(true) }, false},
	} {
		after := before.DeepCopy()
		tc.change(after)
		if got := hostChanged(before, after); got != tc.want {
			t.Errorf("%s: changed %t, want %t", name, got, tc.want)
		}
	}
	requests := networksOf(t.Context(), &infrav1.IngotHardware{Spec: infrav1.IngotHardwareSpec{
		Address: &infrav1.RecordedAddress{NetworkName: "a"}, IPv6Address: &infrav1.RecordedAddress{NetworkName: "a"}}})
	if diff := cmp.Diff([]ctrl.Request{{NamespacedName: client.ObjectKey{Name: "a"}}}, requests); diff != "" {
		t.Errorf("networks of an address in both families (-want +got):\n%s", diff)
	}
}
