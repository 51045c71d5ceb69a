// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/webhooks/warnings"
)

func network(name, subnet, start, end, gateway string) *v1beta2.IngotNetwork {
	return &v1beta2.IngotNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta2.IngotNetworkSpec{Subnet: subnet, Range: v1beta2.AddressRange{Start: start, End: end}, Gateway: gateway,
			AllowedNamespaces: &v1beta2.NetworkNamespaces{Selector: &metav1.LabelSelector{}}},
	}
}

// proxy returns a network of mode Proxy.
func proxy(name, subnet string) *v1beta2.IngotNetwork {
	return &v1beta2.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta2.IngotNetworkSpec{Mode: v1beta2.DHCPModeProxy, Subnet: subnet}}
}

func newNetworkValidator(t *testing.T, objects ...client.Object) *networkValidator {
	t.Helper()
	reader := newReader(t, objects...)
	return &networkValidator{reader: reader, checker: warnings.Checker{Reader: reader}}
}

func TestNetworkCreate(t *testing.T) {
	exists := network("rack-a", "10.10.0.0/24", "10.10.0.10", "10.10.0.99", "")
	tests := []struct {
		name      string
		network   *v1beta2.IngotNetwork
		wantField string
	}{
		{"valid", network("n", "10.20.0.0/24", "10.20.0.10", "10.20.0.99", "10.20.0.1"), ""},
		{"whole subnet but its ends", network("n", "10.20.0.0/24", "10.20.0.1", "10.20.0.254", ""), ""},
		{"one address", network("n", "10.20.0.0/30", "10.20.0.2", "10.20.0.2", "10.20.0.1"), ""},
		{"gateway just below", network("n", "10.20.0.0/24", "10.20.0.10", "10.20.0.99", "10.20.0.9"), ""},
		{"gateway just above", network("n", "10.20.0.0/24", "10.20.0.10", "10.20.0.99", "10.20.0.100"), ""},
		{"numbers, not text, are compared", network("n", "10.20.0.0/24", "10.20.0.9", "10.20.0.10", ""), ""},
		{"itself", exists, ""},
		{"backwards", network("n", "10.20.0.0/24", "10.20.0.99", "10.20.0.10", ""), "spec.range.start"},
		{"network address", network("n", "10.20.0.0/24", "10.20.0.0", "10.20.0.99", ""), "spec.range.start"},
		{"broadcast address", network("n", "10.20.0.0/16", "10.20.0.1", "10.20.255.255", ""), "spec.range.end"},
		{"gateway first in the range", network("n", "10.20.0.0/24", "10.20.0.10", "10.20.0.99", "10.20.0.10"), "spec.gateway"},
		{"gateway last in the range", network("n", "10.20.0.0/24", "10.20.0.10", "10.20.0.99", "10.20.0.99"), "spec.gateway"},
		{"gateway is the broadcast address", network("n", "10.20.0.0/24", "10.20.0.10", "10.20.0.99", "10.20.0.255"), "spec.gateway"},
		{"gateway is the broadcast address, with a pool", pooled("10.20.0.255"), "spec.gateway"},
		{"a gateway with a pool", pooled("10.20.0.1"), ""},
		{"a default route beside a gateway", routed("10.20.0.1", "10.30.0.0/16", "0.0.0.0/0"), "spec.routes[1].destination"},
		{"a default route without a gateway", routed("", "0.0.0.0/0"), ""},
		{"inside another", network("n", "10.10.0.128/25", "10.10.0.130", "10.10.0.140", ""), "spec.subnet"},
		{"around another", network("n", "10.0.0.0/8", "10.1.0.1", "10.1.0.2", ""), "spec.subnet"},
		{"proxy on another's subnet", proxy("n", "10.10.0.0/24"), ""},
		{"on the subnet of a proxy", network("n", "10.30.0.0/24", "10.30.0.10", "10.30.0.99", "10.30.0.1"), ""},
		{"beside another", network("n", "10.10.1.0/24", "10.10.1.1", "10.10.1.2", ""), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := newNetworkValidator(t, exists.DeepCopy(), proxy("rack-p", "10.30.0.0/24"))
			_, err := v.ValidateCreate(t.Context(), tt.network)
			checkRefusal(t, err, tt.wantField)
		})
	}
}

// pooled returns a network with an address pool.
func pooled(gateway string) *v1beta2.IngotNetwork {
	n := network("n", "10.20.0.0/24", "", "", gateway)
	n.Spec.AddressPoolRef = &v1beta2.AddressPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "p"}
	return n
}

func routed(gateway string, destinations ...string) *v1beta2.IngotNetwork {
	n := network("n", "10.20.0.0/24", "10.20.0.10", "10.20.0.99", gateway)
	for _, destination := range destinations {
		n.Spec.Routes = append(n.Spec.Routes, v1beta2.NetworkRoute{Destination: destination, Gateway: "10.20.0.2"})
	}
	return n
}

// discovering returns a network with a range for unknown clients.
func discovering(gateway, start, end string) *v1beta2.IngotNetwork {
	n := network("n", "10.20.0.0/24", "10.20.0.10", "10.20.0.99", gateway)
	n.Spec.Mode = v1beta2.DHCPModeDiscover
	n.Spec.Discover = &v1beta2.NetworkDiscovery{Namespace: "metal", Range: v1beta2.AddressRange{Start: start, End: end}}
	return n
}

func TestNetworkDiscover(t *testing.T) {
	pool := discovering("", "10.20.0.10", "10.20.0.99")
	pool.Spec.Range, pool.Spec.AddressPoolRef = v1beta2.AddressRange{}, &v1beta2.AddressPoolReference{Name: "pool"}
	names := func(change func(*v1beta2.IngotNetworkSpec)) *v1beta2.IngotNetwork {
		n := discovering("10.20.0.1", "10.20.0.100", "10.20.0.120")
		change(&n.Spec)
		return n
	}
	for name, tt := range map[string]struct {
		network   *v1beta2.IngotNetwork
		wantField string
	}{
		"a DNS server":  {names(func(s *v1beta2.IngotNetworkSpec) { s.DNSServers = []string{"10.0.0.53", "10.20.0.100"} }), "spec.discover.range.start"},
		"an NTP server": {names(func(s *v1beta2.IngotNetworkSpec) { s.NTPServers = []string{"10.20.0.120"} }), "spec.discover.range.start"},
		"a relay":       {names(func(s *v1beta2.IngotNetworkSpec) { s.Relays = []string{"10.20.0.110"} }), "spec.discover.range.start"},
		"the gateway of a route": {names(func(s *v1beta2.IngotNetworkSpec) {
			s.Routes = []v1beta2.NetworkRoute{{Destination: "10.0.0.0/8", Gateway: "10.20.0.110"}}
		}), "spec.discover.range.start"},
		"servers elsewhere": {names(func(s *v1beta2.IngotNetworkSpec) {
			s.DNSServers, s.NTPServers = []string{"10.20.0.99"}, []string{"10.20.0.121", "2001:db8::1"}
		}), ""},
		"beside the range":      {discovering("10.20.0.1", "10.20.0.100", "10.20.0.120"), ""},
		"below the range":       {discovering("10.20.0.1", "10.20.0.2", "10.20.0.9"), ""},
		"no range":              {pool, ""},
		"backwards":             {discovering("", "10.20.0.120", "10.20.0.100"), "spec.discover.range.start"},
		"last of the range":     {discovering("", "10.20.0.99", "10.20.0.120"), "spec.discover.range.start"},
		"first of the range":    {discovering("", "10.20.0.5", "10.20.0.10"), "spec.discover.range.start"},
		"around the range":      {discovering("", "10.20.0.5", "10.20.0.120"), "spec.discover.range.start"},
		"the gateway":           {discovering("10.20.0.101", "10.20.0.100", "10.20.0.120"), "spec.discover.range.start"},
		"the subnet itself":     {discovering("", "10.20.0.0", "10.20.0.5"), "spec.discover.range.start"},
		"the broadcast address": {discovering("", "10.20.0.200", "10.20.0.255"), "spec.discover.range.end"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newNetworkValidator(t)
			_, err := v.ValidateCreate(t.Context(), tt.network)
			checkRefusal(t, err, tt.wantField)
			before := discovering("", "10.20.0.150", "10.20.0.160")
			before.Spec.Gateway, before.Spec.Range, before.Spec.AddressPoolRef = tt.network.Spec.Gateway, tt.network.Spec.Range, tt.network.Spec.AddressPoolRef
			_, err = v.ValidateUpdate(t.Context(), before, tt.network)
			checkRefusal(t, err, tt.wantField)
			before.Spec.Discover = tt.network.Spec.Discover // only who has which address changes
			if strings.Contains(name, "server") || strings.Contains(name, "relay") || strings.Contains(name, "route") {
				_, err = v.ValidateUpdate(t.Context(), before, tt.network)
				checkRefusal(t, err, tt.wantField)
			}
		})
	}
}

// Hosts in use keep the addresses of a removed pool, and the change causes a warning.
func TestRemovedPoolWarnings(t *testing.T) {
	host := claimed("h1")
	free := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "h2"}}
	for _, h := range []*v1beta2.IngotHost{host, free} {
		h.Spec.NetworkRef.Name = "rack-a"
	}
	pooled := func(pool string) *v1beta2.IngotNetwork {
		n := network("rack-a", "10.10.0.0/24", "", "", "")
		n.Spec.AddressPoolRef = &v1beta2.AddressPoolReference{Kind: "GlobalInClusterIPPool", Name: pool}
		return n
	}
	for name, tt := range map[string]struct {
		hosts []client.Object
		after *v1beta2.IngotNetwork
		told  bool
	}{
		"another pool":              {[]client.Object{host, free}, pooled("b"), true},
		"a range":                   {[]client.Object{host, free}, network("rack-a", "10.10.0.0/24", "10.10.0.10", "10.10.0.99", ""), true},
		"another pool, none in use": {[]client.Object{free}, pooled("b"), false},
		"the same pool":             {[]client.Object{host, free}, pooled("a"), false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newNetworkValidator(t, tt.hosts...).ValidateUpdate(t.Context(), pooled("a"), tt.after)
			checkRefusal(t, err, "")
			if told := strings.Contains(strings.Join(got, "\n"), `1 hosts in use keep their addresses of GlobalInClusterIPPool "a"`); told != tt.told {
				t.Errorf("warned: %q", got)
			}
		})
	}
}

func TestNetworkDelete(t *testing.T) {
	host := claimed("h1")
	host.Spec.NetworkRef.Name = "rack-a"
	v := newNetworkValidator(t, host)
	used := network("rack-a", "10.10.0.0/24", "10.10.0.10", "10.10.0.99", "")
	_, err := v.ValidateDelete(t.Context(), used)
	checkRefusal(t, err, "metadata.name")
	used.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	_, err = v.ValidateDelete(t.Context(), used)
	checkRefusal(t, err, "")
	_, err = v.ValidateDelete(t.Context(), network("rack-b", "10.10.1.0/24", "10.10.1.1", "10.10.1.2", ""))
	checkRefusal(t, err, "")
}

// Installed systems and machines may need a network on which no host boots.
func TestNetworkDeleteUsed(t *testing.T) {
	system := func(name string, addresses ...string) *v1beta2.IngotHost {
		host := claimed(name)
		host.Spec.NetworkRef.Name = "rack-a"
		host.Spec.Claim.Network = &v1beta2.ClaimedNetwork{Addresses: addresses}
		return host
	}
	released := system("h1", "10.30.7.2")
	released.Spec.Claim.State, released.Spec.Claim.FencedTime = v1beta2.ClaimReleasing, metav1.Now()
	forced := system("h1")
	forced.Spec.Claim, forced.Spec.Record = nil, &v1beta2.HostRecord{Quarantine: &v1beta2.Quarantine{Reason: v1beta2.QuarantineNotFenced, Addresses: []string{"10.30.7.2"}}}
	data := func(network string) *v1beta2.NetworkData {
		return &v1beta2.NetworkData{Ethernets: []v1beta2.NetworkEthernet{{Name: "nic0", LinkConfig: v1beta2.LinkConfig{
			Addresses: []v1beta2.LinkAddress{{Source: v1beta2.AddressStaticLease, NetworkRef: &v1beta2.LocalReference{Name: network}}}}}}}
	}
	machine := func(name, network string) *v1beta2.IngotMachine {
		m := &v1beta2.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		m.Spec.NetworkData = data(network)
		return m
	}
	template := &v1beta2.IngotMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "workers"}}
	template.Spec.Template.Spec.NetworkData = data("storage")
	dual := network("storage", "10.30.0.0/16", "10.30.255.1", "10.30.255.254", "")
	dual.Spec.IPv6 = &v1beta2.NetworkIPv6{Subnet: "2001:db8:30::/64"}
	for name, tt := range map[string]struct {
		objects         []client.Object
		refused, warned string
	}{
		"nobody's":                      {[]client.Object{system("h1", "10.10.0.20"), machine("m1", "rack-a")}, "", ""},
		"an installed system":           {[]client.Object{system("h1", "10.10.0.20", "10.30.7.2"), system("h2", "10.10.0.21")}, "IngotHost ns/h1 (spec.claim", ""},
		"two, by IPv6":                  {[]client.Object{system("h1", "10.30.7.2"), system("h2", "2001:db8:30::7")}, "IngotHost ns/h1, ns/h2 (spec.claim", ""},
		"a server that is off":          {[]client.Object{released}, "", ""},
		"one that was let go by force":  {[]client.Object{forced}, "IngotHost ns/h1 (spec.claim", ""},
		"another network of the subnet": {[]client.Object{system("h1", "10.30.7.2"), proxy("storage-p", "10.30.0.0/16")}, "", ""},
		"a machine and a template":      {[]client.Object{machine("m1", "storage"), machine("m2", "rack-a"), template}, "", "networkData of IngotMachine ns/m1, IngotMachineTemplate ns/workers refers"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newNetworkValidator(t, append(tt.objects, dual.DeepCopy())...).ValidateDelete(t.Context(), dual)
			if tt.refused == "" {
				checkRefusal(t, err, "")
			} else if checkRefusal(t, err, "metadata.name"); err != nil && !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("refused with %v, want %q", err, tt.refused)
			}
			if told := strings.Join(got, "\n"); (told != "") != (tt.warned != "") || !strings.Contains(told, tt.warned) {
				t.Errorf("warned: %q, want %q", told, tt.warned)
			}
		})
	}
}

func TestLastAddress(t *testing.T) {
	tests := map[string]string{
		"10.0.0.0/8": "10.255.255.255", "10.1.2.0/24": "10.1.2.255", "10.1.2.4/30": "10.1.2.7", "192.168.0.0/23": "192.168.1.255",
	}
	for subnet, want := range tests {
		if got := lastAddress(netip.MustParsePrefix(subnet)); got.String() != want {
			t.Errorf("last address of %s: got %s, want %s", subnet, got, want)
		}
	}
}

// Unchanged fields are not checked, and a range that is too small causes a warning.
func TestNetworkUpdate(t *testing.T) {
	hosts := []client.Object{}
	for _, name := range []string{"h1", "h2", "h3"} {
		host := claimed(name)
		host.Spec.NetworkRef.Name = "rack-a"
		hosts = append(hosts, host)
	}
	broken := network("rack-a", "10.10.0.0/24", "10.10.0.20", "10.10.0.10", "")
	labelled := broken.DeepCopy()
	labelled.Labels = map[string]string{"row": "1"}
	renamed := broken.DeepCopy()
	renamed.Spec.DNSServers = []string{"10.0.0.53"}
	still := broken.DeepCopy()
	still.Spec.Gateway = "10.10.0.1"
	fits := network("rack-a", "10.10.0.0/24", "10.10.0.10", "10.10.0.12", "")
	tests := []struct {
		name      string
		after     *v1beta2.IngotNetwork
		wantField string
		want      admission.Warnings
	}{
		{"labels of a broken one", labelled, "", nil},
		{"what is not broken in a broken one", renamed, "", nil},
		{"what is", still, "spec.range.start", nil},
		{"as many addresses as hosts", fits, "", nil},
		{"fewer", network("rack-a", "10.10.0.0/24", "10.10.0.10", "10.10.0.11", ""), "", admission.Warnings{
			"spec.range: 10.10.0.10 to 10.10.0.11 has 2 addresses, but more hosts boot on the network; make it larger: Ingot does not boot some of them until then"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := newNetworkValidator(t, hosts...).ValidateUpdate(t.Context(), broken, tt.after)
			checkRefusal(t, err, tt.wantField)
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
