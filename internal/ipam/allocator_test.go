// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/test/testscheme"
)

func newAllocator(t *testing.T, objects ...client.Object) *Allocator {
	t.Helper()
	scheme := testscheme.Scheme(t, ipamv1.AddToScheme)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	if err := index.Setup(t.Context(), testscheme.Indexer{ClientBuilder: builder}); err != nil {
		t.Fatal(err)
	}
	return &Allocator{Client: builder.Build(), Clock: testclock.NewFakeClock(time.Unix(1000, 0)), Memory: &Memory{},
		Warn: func(_ *infrav1.IngotHost, reason, message string) { t.Errorf("%s: %s", reason, message) }}
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// using is a host whose system was given addresses by its claim.
func using(namespace, name string, addresses ...string) *infrav1.IngotHost {
	host := &infrav1.IngotHost{ObjectMeta: named(namespace, name)}
	host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = "52:54:00:00:00:77", "rack-a"
	host.Spec.Claim = &infrav1.HostClaim{State: infrav1.ClaimProvisioned, Network: &infrav1.ClaimedNetwork{Addresses: addresses}}
	return host
}

// cluster is an IngotCluster with an endpoint.
func cluster(namespace, name, endpoint string) *infrav1.IngotCluster {
	return &infrav1.IngotCluster{ObjectMeta: named(namespace, name), Spec: infrav1.IngotClusterSpec{ControlPlaneEndpoint: infrav1.APIEndpoint{Host: endpoint, Port: 6443}}}
}

// No address is recorded that the system of another host has, whatever became of its
// record or reservation, nor one that another network of the segment reserves, nor a
// control plane's endpoint.
func TestRecordBesideOthers(t *testing.T) {
	const mac = "52:54:00:00:00:01"
	network := &infrav1.IngotNetwork{ObjectMeta: named("", "rack-a"), Spec: infrav1.IngotNetworkSpec{
		Subnet: "10.10.0.0/24", Range: infrav1.AddressRange{Start: "10.10.0.10", End: "10.10.0.12"},
		IPv6: &infrav1.NetworkIPv6{Mode: infrav1.DHCPv6ModeStateful, Subnet: "2001:db8::/64", Range: infrav1.IPv6Range{Start: "2001:db8::10", End: "2001:db8::12"}}}}
	reserving := network.DeepCopy()
	reserving.Spec.StaticLeases = []infrav1.StaticLease{{MAC: mac, IP: "10.10.0.200"}}
	proxy := func(mac string, ips ...string) *infrav1.IngotNetwork {
		out := &infrav1.IngotNetwork{ObjectMeta: named("", "proxy"), Spec: infrav1.IngotNetworkSpec{Mode: infrav1.DHCPModeProxy, Subnet: "10.10.0.0/24"}}
		for _, ip := range ips {
			out.Spec.StaticLeases = append(out.Spec.StaticLeases, infrav1.StaticLease{MAC: mac, IP: ip})
		}
		return out
	}
	recorded := &infrav1.IngotHardware{ObjectMeta: named("dc1", "b02")}
	recorded.Spec.Address = &infrav1.RecordedAddress{NetworkName: "rack-a", MAC: "52:54:00:00:00:02", IP: "10.10.0.12"}
	recorded.Spec.IPv6Address = &infrav1.RecordedAddress{NetworkName: "rack-a", MAC: "52:54:00:00:00:02", IP: "2001:db8::12"}
	reservingEndpoint := network.DeepCopy()
	reservingEndpoint.Spec.StaticLeases = []infrav1.StaticLease{{MAC: mac, IP: "10.10.0.11"}}
	free := &infrav1.IngotHost{ObjectMeta: named("dc1", "a07")}
	free.Spec.BootMACAddress, free.Spec.NetworkRef.Name = mac, "rack-a"
	for name, tc := range map[string]struct {
		network *infrav1.IngotNetwork
		host    *infrav1.IngotHost
		others  []client.Object
		want    []string // IPv4, IPv6; of a problem the words
	}{
		"what is left":         {network, free, []client.Object{recorded, using("dc1", "b03", "10.10.0.10", "2001:db8::10")}, []string{"10.10.0.11", "2001:db8::11"}},
		"of another namespace": {network, free, []client.Object{recorded, using("dc2", "b03", "10.10.0.10", "2001:DB8::10")}, []string{"10.10.0.11", "2001:db8::11"}},
		"nothing is":           {network, free, []client.Object{recorded, using("dc1", "b03", "10.10.0.10", "10.10.0.11")}, []string{"taken, reserved or endpoints of clusters"}},
		"reserved by another network of the segment": {network, free,
			[]client.Object{recorded, proxy("52:54:00:00:00:09", "10.10.0.10"), using("dc1", "b03", "2001:db8::10")}, []string{"10.10.0.11", "2001:db8::11"}},
		"reserved for it there":                {reserving, free, []client.Object{proxy(mac, "10.10.0.200"), using("dc1", "b03", "2001:db8::10", "2001:db8::12")}, []string{"10.10.0.200", "2001:db8::11"}},
		"its own, and another's system has it": {reserving, free, []client.Object{using("dc1", "b03", "10.10.0.200")}, []string{"keeps 10.10.0.200 for " + mac}},
		"an endpoint":                          {network, free, []client.Object{recorded, cluster("dc1", "c1", "10.10.0.10"), cluster("dc2", "c2", "2001:DB8::10")}, []string{"10.10.0.11", "2001:db8::11"}},
		"endpoints alone are left": {network, free, []client.Object{recorded, cluster("dc1", "c1", "10.10.0.10"), cluster("dc2", "c2", "10.10.0.11")},
			[]string{"taken, reserved or endpoints of clusters"}},
		"an endpoint that is reserved for it":      {reservingEndpoint, free, []client.Object{cluster("dc1", "c1", "10.10.0.11"), using("dc1", "b03", "2001:db8::10", "2001:db8::12")}, []string{"10.10.0.11", "2001:db8::11"}},
		"endpoints elsewhere, by name and not yet": {network, free, []client.Object{recorded, using("dc1", "b03", "10.10.0.10", "2001:db8::10"), cluster("dc1", "c1", "192.0.2.9"), cluster("dc1", "c2", "api.example.com"), cluster("dc1", "c3", "")}, []string{"10.10.0.11", "2001:db8::11"}},
		"its own system's, whose record was lost": {network, using("dc1", "a07", "10.10.0.11", "2001:db8::11"),
			[]client.Object{recorded, using("dc1", "b03", "10.10.0.10", "2001:db8::10")}, []string{"10.10.0.11", "2001:db8::11"}},
	} {
		t.Run(name, func(t *testing.T) {
			allocator := newAllocator(t, append(tc.others, tc.network, tc.host)...)
			view, got := View{Host: tc.host, Network: tc.network}, []string{}
			for range 2 {
				problem, err := allocator.Record(t.Context(), view)
				if err != nil {
					t.Fatal(err)
				}
				if problem.Message != "" {
					if len(tc.want) != 1 || !strings.Contains(problem.Message, tc.want[0]) {
						t.Errorf("%+v, want %q", problem, tc.want)
					}
					return
				}
				facts := &infrav1.IngotHardware{}
				if err := allocator.Client.Get(t.Context(), client.ObjectKeyFromObject(tc.host), facts); err != nil {
					t.Fatal(err)
				}
				view.Hardware = facts
			}
			got = append(got, view.Hardware.Spec.Address.IP, view.Hardware.Spec.IPv6Address.IP)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An address that was given a moment ago, and whose record failed, is not recorded once it
// is an endpoint; that of another host is its own business.
func TestRecordAfterEndpoint(t *testing.T) {
	network := &infrav1.IngotNetwork{ObjectMeta: named("", "rack-a"), Spec: infrav1.IngotNetworkSpec{
		Subnet: "10.10.0.0/24", Range: infrav1.AddressRange{Start: "10.10.0.10", End: "10.10.0.11"},
		IPv6: &infrav1.NetworkIPv6{Mode: infrav1.DHCPv6ModeStateful, Subnet: "2001:db8::/64", Range: infrav1.IPv6Range{Start: "2001:db8::10", End: "2001:db8::11"}}}}
	host := &infrav1.IngotHost{ObjectMeta: named("dc1", "a07")}
	host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = "52:54:00:00:00:01", "rack-a"
	allocator := newAllocator(t, network, host)
	for name, give := range map[string]func() (netip.Addr, error){
		"IPv4": func() (netip.Addr, error) {
			taken, err := allocator.taken(t.Context(), View{Host: host, Network: network}, index.HardwareByNetwork)
			if err != nil {
				return netip.Addr{}, err
			}
			return allocator.Memory.takeIPv4(network, host.Spec.BootMACAddress, taken, allocator.Clock.Now())
		},
		"IPv6": func() (netip.Addr, error) {
			taken, err := allocator.taken(t.Context(), View{Host: host, Network: network}, index.HardwareByIPv6Network)
			if err != nil {
				return netip.Addr{}, err
			}
			return allocator.Memory.takeIPv6(network, host.Spec.BootMACAddress, taken, allocator.Clock.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, err := give()
			if again, againErr := give(); err != nil || againErr != nil || again != first {
				t.Fatalf("%s, %v, then %s, %v", first, err, again, againErr)
			}
			endpoint := cluster("dc1", strings.ToLower(name), first.String())
			if err := allocator.Client.Create(t.Context(), endpoint); err != nil {
				t.Fatal(err)
			}
			if second, err := give(); err != nil || second == first {
				t.Errorf("%s, %v after it became an endpoint", second, err)
			}
		})
	}
	allocator.Memory.withdraw("52:54:00:00:00:02", map[netip.Addr]bool{netip.MustParseAddr("10.10.0.10"): true, netip.MustParseAddr("10.10.0.11"): true})
	if given := allocator.Memory.v4.byNetwork[network.Name]; len(given) != 1 {
		t.Errorf("%v, want what the host was given last", given)
	}
}

// A host in use whose record was removed gets the address again that it had, also where it
// is not the one that its MAC address would have it begin with.
func TestPutBackTheSameAddress(t *testing.T) {
	const had = "10.10.0.77"
	network := &infrav1.IngotNetwork{ObjectMeta: named("", "rack-a"), Spec: infrav1.IngotNetworkSpec{
		Subnet: "10.10.0.0/24", Range: infrav1.AddressRange{Start: "10.10.0.10", End: "10.10.0.99"}}}
	recordOf := func(name, mac string) *infrav1.IngotHardware {
		facts := &infrav1.IngotHardware{ObjectMeta: named("dc1", name)}
		facts.Spec.Address = &infrav1.RecordedAddress{NetworkName: "rack-a", MAC: mac, IP: had}
		return facts
	}
	ordered := func(h *infrav1.IngotHost) { h.Spec.Claim, h.Spec.Order = nil, &infrav1.HostOrder{} }
	reports := func(addresses ...string) func(*infrav1.IngotHost) {
		return func(h *infrav1.IngotHost) { h.Status.Addresses = addresses }
	}
	for name, tc := range map[string]struct {
		seen   bool // by this process, before it was removed
		change func(*infrav1.IngotHost)
		others []client.Object
		want   string // empty: another; "none": none is recorded
	}{
		"seen before":                     {true, func(*infrav1.IngotHost) {}, nil, had},
		"seen before, with an order":      {true, ordered, nil, had},
		"reported by the system":          {false, reports("2001:db8::7", "192.0.2.9", had), nil, had},
		"reported of another network":     {false, reports("192.0.2.9"), nil, ""},
		"not known any more":              {false, func(*infrav1.IngotHost) {}, nil, ""},
		"given to another host meanwhile": {true, reports(had), []client.Object{recordOf("b02", "52:54:00:00:00:02")}, ""},
		"of a free host":                  {true, func(h *infrav1.IngotHost) { h.Spec.Claim = nil }, nil, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			host := using("dc1", "a07")
			tc.change(host)
			allocator := newAllocator(t, append(tc.others, network, host)...)
			told := ""
			allocator.Warn = func(_ *infrav1.IngotHost, reason, _ string) { told += reason }
			if tc.seen {
				if _, err := allocator.Observe(t.Context(), View{Host: host, Network: network, Hardware: recordOf("a07", host.Spec.BootMACAddress)}); err != nil {
					t.Fatal(err)
				}
			}
			_, err := allocator.Observe(t.Context(), View{Host: host, Network: network})
			if tc.want == "none" {
				if err != nil || told != "" {
					t.Errorf("%v, told %q; want nothing to be recorded", err, told)
				}
				return
			}
			if !errors.Is(err, ErrStale) || told != infrav1.ReasonAddressRestored {
				t.Errorf("%v, told %q; want an address to be put back", err, told)
			}
			facts := &infrav1.IngotHardware{}
			if err := allocator.Client.Get(t.Context(), client.ObjectKeyFromObject(host), facts); err != nil {
				t.Fatal(err)
			}
			if got := facts.Spec.Address.IP; got != tc.want && (tc.want != "" || got == had) {
				t.Errorf("recorded %s, want %q", got, tc.want)
			}
		})
	}
}
