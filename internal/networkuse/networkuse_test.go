// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkuse_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/networkuse"
	"github.com/ingot-metal/ingot/test/testscheme"
)

const tenant = "tenant-a"

// hosts are those of a namespace, the oldest first.
func hosts(namespace string, count int) (out []client.Object) {
	for i := range count {
		host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("h%d", i),
			CreationTimestamp: metav1.NewTime(time.Unix(int64(1000+i), 0))}}
		host.Spec.NetworkRef.Name = "rack"
		out = append(out, host)
	}
	return out
}

// Who may boot on a network: by default the namespaces with the label, and otherwise those
// that it lists or selects, each with no more hosts than its share.
func TestCheck(t *testing.T) {
	labeled := map[string]string{infrav1.NetworksLabel: infrav1.NetworksAllowed}
	selects := func(labels map[string]string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: labels}
	}
	discover := &infrav1.NetworkDiscovery{Namespace: tenant}
	one := infrav1.IngotNetworkSpec{AllowedNamespaces: &infrav1.NetworkNamespaces{MaxHosts: ptr.To[int32](1)}}
	ten := infrav1.AddressRange{Start: "192.0.2.10", End: "192.0.2.19"}
	for name, tc := range map[string]struct {
		labels map[string]string
		spec   infrav1.IngotNetworkSpec
		which  int // of the tenant's hosts; those before it are older
		joins  bool
		has    []string // hosts with an address on the network
		want   string
		says   string
	}{
		"nothing says so":                                {want: infrav1.ReasonNamespaceNotAllowed, says: "label it " + infrav1.NetworksLabel + "=allowed"},
		"by the label":                                   {labels: labeled},
		"another value of the label":                     {labels: map[string]string{infrav1.NetworksLabel: "true"}, want: infrav1.ReasonNamespaceNotAllowed},
		"listed":                                         {spec: infrav1.IngotNetworkSpec{AllowedNamespaces: &infrav1.NetworkNamespaces{Names: []string{"x", tenant}}}},
		"others are listed":                              {labels: labeled, spec: infrav1.IngotNetworkSpec{AllowedNamespaces: &infrav1.NetworkNamespaces{Names: []string{"x"}}}, want: infrav1.ReasonNamespaceNotAllowed, says: "add it to spec.allowedNamespaces"},
		"selected":                                       {labels: map[string]string{"team": "a"}, spec: infrav1.IngotNetworkSpec{AllowedNamespaces: &infrav1.NetworkNamespaces{Selector: selects(map[string]string{"team": "a"})}}},
		"others are selected":                            {labels: labeled, spec: infrav1.IngotNetworkSpec{AllowedNamespaces: &infrav1.NetworkNamespaces{Selector: selects(map[string]string{"team": "a"})}}, want: infrav1.ReasonNamespaceNotAllowed},
		"all are selected":                               {spec: infrav1.IngotNetworkSpec{AllowedNamespaces: &infrav1.NetworkNamespaces{Selector: selects(nil)}}},
		"a selector that selects nothing":                {spec: infrav1.IngotNetworkSpec{AllowedNamespaces: &infrav1.NetworkNamespaces{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}}}, want: infrav1.ReasonNamespaceNotAllowed},
		"machines found there are enrolled in":           {spec: infrav1.IngotNetworkSpec{Discover: discover}},
		"a quota alone allows none":                      {spec: infrav1.IngotNetworkSpec{AllowedNamespaces: &infrav1.NetworkNamespaces{MaxHosts: ptr.To[int32](9)}}, want: infrav1.ReasonNamespaceNotAllowed},
		"within the quota":                               {labels: labeled, spec: infrav1.IngotNetworkSpec{AllowedNamespaces: &infrav1.NetworkNamespaces{MaxHosts: ptr.To[int32](3)}}, which: 2},
		"beyond the quota":                               {labels: labeled, spec: infrav1.IngotNetworkSpec{AllowedNamespaces: &infrav1.NetworkNamespaces{MaxHosts: ptr.To[int32](3)}}, which: 3, want: infrav1.ReasonNetworkQuotaExceeded, says: "3 hosts (spec.allowedNamespaces.maxHosts)"},
		"within the share":                               {labels: labeled, spec: infrav1.IngotNetworkSpec{Range: ten, AllowedNamespaces: &infrav1.NetworkNamespaces{MaxRangePercent: ptr.To[int32](20)}}, which: 1},
		"beyond the share":                               {labels: labeled, spec: infrav1.IngotNetworkSpec{Range: ten, AllowedNamespaces: &infrav1.NetworkNamespaces{MaxRangePercent: ptr.To[int32](20)}}, which: 2, want: infrav1.ReasonNetworkQuotaExceeded, says: "2 hosts (spec.allowedNamespaces.maxRangePercent)"},
		"the share is one at least":                      {labels: labeled, spec: infrav1.IngotNetworkSpec{Range: ten, AllowedNamespaces: &infrav1.NetworkNamespaces{MaxRangePercent: ptr.To[int32](1)}}},
		"the lower of the two":                           {labels: labeled, spec: infrav1.IngotNetworkSpec{Range: ten, AllowedNamespaces: &infrav1.NetworkNamespaces{MaxHosts: ptr.To[int32](1), MaxRangePercent: ptr.To[int32](90)}}, which: 1, want: infrav1.ReasonNetworkQuotaExceeded, says: "maxHosts"},
		"an older one, when a younger has the address":   {labels: labeled, spec: one, has: []string{"h1"}, which: 0, want: infrav1.ReasonNetworkQuotaExceeded},
		"the younger one, which has the address":         {labels: labeled, spec: one, has: []string{"h1"}, which: 1},
		"the younger of two that have one, as a mistake": {labels: labeled, spec: one, has: []string{"h0", "h1"}, which: 1, want: infrav1.ReasonNetworkQuotaExceeded},
		"one joins, and is the youngest":                 {labels: labeled, spec: one, joins: true, which: 0, want: infrav1.ReasonNetworkQuotaExceeded},
		"a share of no range":                            {labels: labeled, spec: infrav1.IngotNetworkSpec{Mode: infrav1.DHCPModeProxy, AllowedNamespaces: &infrav1.NetworkNamespaces{MaxRangePercent: ptr.To[int32](1)}}, which: 3},
	} {
		t.Run(name, func(t *testing.T) {
			mine := hosts(tenant, 4)
			for i, name := range tc.has {
				facts := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name}}
				if entry := (&infrav1.RecordedAddress{NetworkName: "rack"}); i == 0 {
					facts.Spec.Address = entry
				} else {
					facts.Spec.IPv6Address = entry
				}
				mine = append(mine, facts)
			}
			objects := append(append(mine, hosts("tenant-b", 9)...), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant, Labels: tc.labels}})
			reader := fake.NewClientBuilder().WithScheme(testscheme.Scheme(t)).WithObjects(objects...).
				WithIndex(&infrav1.IngotHost{}, index.HostByNetwork, func(o client.Object) []string {
					return []string{o.(*infrav1.IngotHost).Spec.NetworkRef.Name}
				}).WithIndex(&infrav1.IngotHardware{}, index.HardwareByNetwork, recordedOn(func(s infrav1.IngotHardwareSpec) *infrav1.RecordedAddress { return s.Address })).
				WithIndex(&infrav1.IngotHardware{}, index.HardwareByIPv6Network, recordedOn(func(s infrav1.IngotHardwareSpec) *infrav1.RecordedAddress { return s.IPv6Address })).Build()
			host := mine[tc.which].(*infrav1.IngotHost).DeepCopy()
			if tc.joins {
				host.CreationTimestamp = metav1.Time{}
			}
			network := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "rack"}, Spec: tc.spec}
			why, err := networkuse.Check(t.Context(), reader, host, network)
			if err != nil {
				t.Fatal(err)
			}
			if got := ptr.Deref(why, networkuse.Refusal{}); got.Reason != tc.want || !strings.Contains(got.Message+got.Remedy, tc.says) {
				t.Errorf("refusal %+v, want reason %q with %q", got, tc.want, tc.says)
			}
		})
	}
}

// recordedOn indexes hardware by the network of an address, as package index does.
func recordedOn(of func(infrav1.IngotHardwareSpec) *infrav1.RecordedAddress) client.IndexerFunc {
	return func(o client.Object) []string {
		if entry := of(o.(*infrav1.IngotHardware).Spec); entry != nil {
			return []string{entry.NetworkName}
		}
		return nil
	}
}

// A host that was there before goes on; one that names another's NIC or network is new.
func TestEstablished(t *testing.T) {
	const mac = "52:54:00:00:00:01"
	recorded := &infrav1.RecordedAddress{NetworkName: "rack", MAC: mac, IP: "192.0.2.7"}
	inspected := &infrav1.HostRecord{InspectedTime: metav1.NewTime(time.Unix(1, 0))}
	facts := func(change func(*infrav1.IngotHardwareSpec)) *infrav1.IngotHardware {
		out := &infrav1.IngotHardware{}
		change(&out.Spec)
		return out
	}
	nic := func(mac string) *infrav1.IngotHardware {
		return facts(func(s *infrav1.IngotHardwareSpec) { s.NICs = []infrav1.HardwareNIC{{MAC: mac}} })
	}
	for name, tc := range map[string]struct {
		claim    *infrav1.HostClaim
		record   *infrav1.HostRecord
		hardware *infrav1.IngotHardware
		want     bool
	}{
		"new":                         {},
		"new, and its BMC was asked":  {record: &infrav1.HostRecord{}, hardware: facts(func(*infrav1.IngotHardwareSpec) {})},
		"claimed":                     {claim: &infrav1.HostClaim{}, want: true},
		"with an address":             {hardware: facts(func(s *infrav1.IngotHardwareSpec) { s.Address = recorded }), want: true},
		"with an IPv6 address":        {hardware: facts(func(s *infrav1.IngotHardwareSpec) { s.IPv6Address = recorded }), want: true},
		"with one on another network": {hardware: facts(func(s *infrav1.IngotHardwareSpec) { s.Address = recorded.DeepCopy(); s.Address.NetworkName = "other" })},
		"with another NIC's address": {hardware: facts(func(s *infrav1.IngotHardwareSpec) {
			s.Address = recorded.DeepCopy()
			s.Address.MAC = "52:54:00:00:00:02"
		})},
		"inspected": {record: inspected, hardware: nic(mac), want: true},
		"inspected, with an address on another network": {record: inspected, hardware: facts(func(s *infrav1.IngotHardwareSpec) {
			s.NICs, s.IPv6Address = []infrav1.HardwareNIC{{MAC: mac}}, &infrav1.RecordedAddress{NetworkName: "other", MAC: mac}
		})},
		"inspected, and its MAC changed": {record: inspected, hardware: nic("52:54:00:00:00:02")},
		"its facts alone":                {hardware: nic(mac)},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IngotHost{}
			host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = mac, "rack"
			host.Spec.Claim, host.Spec.Record = tc.claim, tc.record
			if got := networkuse.Established(host, tc.hardware); got != tc.want {
				t.Errorf("established: %t, want %t", got, tc.want)
			}
		})
	}
}
