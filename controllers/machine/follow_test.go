// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A first boot that was cut off is told until a Node has joined all the same; what the
// host's status has lost is told by its hardware.
func testFirstBootInterrupted(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "")
	s.machine("m")
	s.provision("m")
	id, err := infrav1.ParseProviderID(s.get("m").Spec.ProviderID)
	s.must(err)
	s.hostStatus("h", func(h *infrav1.IngotHost) {
		h.Status.Booted = &infrav1.BootedStatus{InstanceID: id.InstanceID, Interrupted: ptr.To(true)}
	})
	s.settle("m")
	s.want("m", infrav1.MachineBootedCondition, isFalse, infrav1.ReasonFirstBootInterrupted, "delete Machine m")
	s.want("m", infrav1.ReadyCondition, isTrue, infrav1.ReasonReady, "")

	hardware := &infrav1.IngotHardware{}
	s.must(s.api.Get(s.ctx, s.key("h"), hardware))
	hardware.Spec.Booted = &infrav1.BootedSystem{InstanceID: id.InstanceID, Time: metav1.Now(), Interrupted: ptr.To(true)}
	s.must(s.api.Update(s.ctx, hardware))
	s.hostStatus("h", func(h *infrav1.IngotHost) { h.Status.Booted = nil })
	s.settle("m")
	s.want("m", infrav1.MachineBootedCondition, isFalse, infrav1.ReasonFirstBootInterrupted, "delete Machine m")

	owner := &clusterv1.Machine{}
	s.must(s.api.Get(s.ctx, s.key("m"), owner))
	owner.Status.NodeRef.Name = "m"
	s.must(s.api.Status().Update(s.ctx, owner))
	s.settle("m")
	s.want("m", infrav1.MachineBootedCondition, isTrue, infrav1.ReasonBooted, "")
}

// A bootstrap that left no sentinel file has failed where kubeadm's provider made its data,
// and no Node has joined; people are told once.
func testBootstrapFailed(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "")
	s.machine("m")
	s.provision("m")
	id, err := infrav1.ParseProviderID(s.get("m").Spec.ProviderID)
	s.must(err)
	booted := func(sentinel infrav1.SentinelState) {
		s.hostStatus("h", func(h *infrav1.IngotHost) {
			h.Status.Booted = &infrav1.BootedStatus{InstanceID: id.InstanceID, Sentinel: sentinel}
		})
		s.settle("m")
	}
	owner := &clusterv1.Machine{}
	s.must(s.api.Get(s.ctx, s.key("m"), owner))
	if owner.Spec.Bootstrap.ConfigRef.IsDefined() {
		t.Fatal("the bootstrap data are a provider's already")
	}
	booted(infrav1.SentinelMissing)
	s.want("m", infrav1.MachineBootedCondition, isTrue, infrav1.ReasonBooted, "")

	owner.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: "m-1"}
	s.must(s.api.Update(s.ctx, owner))
	s.settle("m")
	s.want("m", infrav1.MachineBootedCondition, isFalse, infrav1.ReasonBootstrapFailed, "KubeadmConfig m-1")
	if n := s.toldTimes(infrav1.ReasonBootstrapFailed); n != 1 {
		t.Errorf("people are told %d times", n)
	}
	booted(infrav1.SentinelPresent)
	s.want("m", infrav1.MachineBootedCondition, isTrue, infrav1.ReasonBooted, "")
	booted(infrav1.SentinelMissing)
	s.want("m", infrav1.MachineBootedCondition, isFalse, infrav1.ReasonBootstrapFailed, "delete Machine m")

	s.must(s.api.Get(s.ctx, s.key("m"), owner))
	owner.Status.NodeRef.Name = "m"
	s.must(s.api.Status().Update(s.ctx, owner))
	s.settle("m")
	s.want("m", infrav1.MachineBootedCondition, isTrue, infrav1.ReasonBooted, "")
}

// Which addresses a machine shows: those assigned and reported, or else the one recorded
// for its host on its network, of IPv6 where no IPv4 address is.
func TestInternalIPs(t *testing.T) {
	on := func(network, ip string) *infrav1.RecordedAddress {
		return &infrav1.RecordedAddress{NetworkName: network, MAC: "52:54:00:00:00:01", IP: ip}
	}
	for name, tc := range map[string]struct {
		assigned, reported []string
		ipv4, ipv6         *infrav1.RecordedAddress
		want               []string
	}{
		"recorded":                  {nil, nil, on("net", "192.0.2.7"), nil, []string{"192.0.2.7"}},
		"recorded, of both kinds":   {nil, nil, on("net", "192.0.2.7"), on("net", "2001:db8::7"), []string{"192.0.2.7"}},
		"recorded, of IPv6 alone":   {nil, nil, nil, on("net", "2001:db8::7"), []string{"2001:db8::7"}},
		"of the network before":     {nil, nil, on("before", "192.0.2.7"), on("net", "2001:db8::7"), []string{"2001:db8::7"}},
		"reported":                  {nil, []string{"2001:db8::8"}, on("net", "192.0.2.7"), on("net", "2001:db8::7"), []string{"2001:db8::8"}},
		"assigned":                  {[]string{"10.20.3.7"}, nil, on("net", "192.0.2.7"), nil, []string{"10.20.3.7"}},
		"assigned, and reported":    {[]string{"10.20.3.7"}, []string{"192.0.2.7", "10.20.3.7"}, nil, nil, []string{"10.20.3.7", "192.0.2.7"}},
		"nothing is known of it":    {nil, nil, nil, nil, nil},
		"on networks before, alone": {nil, nil, on("before", "192.0.2.7"), on("before", "2001:db8::7"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			host, hardware := &infrav1.IngotHost{}, &infrav1.IngotHardware{}
			host.Spec.NetworkRef.Name = "net"
			host.Spec.Claim = &infrav1.HostClaim{}
			if tc.assigned != nil {
				host.Spec.Claim.Network = &infrav1.ClaimedNetwork{Addresses: tc.assigned}
			}
			hardware.Spec.Address, hardware.Spec.IPv6Address = tc.ipv4, tc.ipv6
			if diff := cmp.Diff(tc.want, internalIPs(host, hardware, tc.reported)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The address of the API server is nobody's, unless it is the machine's own.
func TestWithoutEndpoint(t *testing.T) {
	const endpoint, six = "192.0.2.50", "2001:db8::50"
	for name, tc := range map[string]struct {
		endpoint, ipv4, ipv6 string
		reported, want       []string
	}{
		"a virtual address beside its own": {endpoint, "192.0.2.7", "", []string{endpoint, "192.0.2.7"}, []string{"192.0.2.7"}},
		"no virtual address":               {endpoint, "192.0.2.7", "", []string{"192.0.2.7", "192.0.2.8"}, []string{"192.0.2.7", "192.0.2.8"}},
		"the one recorded for its host":    {endpoint, endpoint, "", []string{endpoint, "192.0.2.8"}, []string{endpoint, "192.0.2.8"}},
		"the only one":                     {endpoint, "", "", []string{endpoint}, []string{endpoint}},
		"nothing reported":                 {endpoint, "192.0.2.7", "", nil, nil},
		"a virtual IPv6 address":           {six, "", "2001:db8::7", []string{six, "2001:db8::7"}, []string{"2001:db8::7"}},
		"one written another way":          {"2001:DB8:0::0050", "", "2001:db8::7", []string{six, "2001:db8::7"}, []string{"2001:db8::7"}},
		"the IPv6 one recorded for its host, and SLAAC": {six, "", six, []string{six, "2001:db8::5054:ff:fe00:1"},
			[]string{six, "2001:db8::5054:ff:fe00:1"}},
		"the same, written another way": {"2001:DB8::0050", "192.0.2.7", six, []string{six, "2001:db8::8"}, []string{six, "2001:db8::8"}},
		"a name":                        {"api.example.com", "192.0.2.7", "", []string{endpoint, "192.0.2.7"}, []string{endpoint, "192.0.2.7"}},
		"none yet":                      {"", "", "", []string{"192.0.2.7"}, []string{"192.0.2.7"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, hardware := &clusterv1.Cluster{}, &infrav1.IngotHardware{}
			cluster.Spec.ControlPlaneEndpoint.Host = tc.endpoint
			if tc.ipv4 != "" {
				hardware.Spec.Address = &infrav1.RecordedAddress{NetworkName: "net", IP: tc.ipv4}
			}
			if tc.ipv6 != "" {
				hardware.Spec.IPv6Address = &infrav1.RecordedAddress{NetworkName: "net", IP: tc.ipv6}
			}
			if diff := cmp.Diff(tc.want, withoutEndpoint(cluster, hardware, tc.reported)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What lies in the networks of Pods and Services is not the machine's, unless the servers
// are there too.
func TestWithoutPods(t *testing.T) {
	for name, tc := range map[string]struct {
		pods, services, known, reported, want []string
	}{
		"Pods and Services": {[]string{"10.244.0.0/16"}, []string{"10.96.0.0/12"}, []string{"192.0.2.7"},
			[]string{"10.96.0.1", "10.244.1.1", "192.0.2.7", "198.51.100.7"}, []string{"192.0.2.7", "198.51.100.7"}},
		"of both families": {[]string{"10.244.0.0/16", "fd00:10::/56"}, []string{"10.96.0.0/12", "fd00:20::/108"}, nil,
			[]string{"10.244.1.1", "192.0.2.7", "2001:db8::7", "fd00:10::1", "fd00:20::a"}, []string{"192.0.2.7", "2001:db8::7"}},
		"Pods among the servers": {[]string{"10.0.0.0/8"}, []string{"172.20.0.0/16"}, []string{"10.1.0.7"},
			[]string{"10.1.0.7", "172.20.0.1", "198.51.100.7"}, []string{"10.1.0.7", "198.51.100.7"}},
		"the same, nothing known": {[]string{"10.0.0.0/8"}, nil, nil, []string{"10.1.0.7", "10.1.0.8"}, []string{"10.1.0.7", "10.1.0.8"}},
		"of one family all would go": {[]string{"10.0.0.0/8", "fd00:10::/56"}, nil, nil,
			[]string{"10.1.0.7", "2001:db8::7", "fd00:10::1"}, []string{"10.1.0.7", "2001:db8::7"}},
		"no networks":       {nil, nil, nil, []string{"10.244.1.1", "192.0.2.7"}, []string{"10.244.1.1", "192.0.2.7"}},
		"not networks":      {[]string{"10.244.0.0"}, []string{""}, []string{"host"}, []string{"10.244.1.1", "192.0.2.7"}, []string{"10.244.1.1", "192.0.2.7"}},
		"nothing reported":  {[]string{"10.244.0.0/16"}, nil, []string{"192.0.2.7"}, nil, nil},
		"host bits are set": {[]string{"10.244.7.7/16"}, nil, nil, []string{"10.244.1.1", "192.0.2.7"}, []string{"192.0.2.7"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{}
			cluster.Spec.ClusterNetwork.Pods.CIDRBlocks, cluster.Spec.ClusterNetwork.Services.CIDRBlocks = tc.pods, tc.services
			if diff := cmp.Diff(tc.want, withoutPods(cluster, tc.known, tc.reported)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What Ingot recorded and assigned is known to be the host's, and a virtual address that is
// all there is beside Pods stays.
func TestAddressesOfALateReport(t *testing.T) {
	cluster := &clusterv1.Cluster{}
	cluster.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"10.0.0.0/8"}
	cluster.Spec.ClusterNetwork.Services.CIDRBlocks = []string{"172.20.0.0/16"}
	cluster.Spec.ControlPlaneEndpoint.Host = "192.0.2.50"
	for name, tc := range map[string]struct {
		assigned       []string
		recorded       *infrav1.RecordedAddress
		reported, want []string
	}{
		"recorded among Pods":                 {nil, &infrav1.RecordedAddress{NetworkName: "net", IP: "10.1.0.7"}, []string{"10.1.0.7", "172.20.0.1", "192.0.2.50"}, []string{"10.1.0.7"}},
		"assigned among Pods":                 {[]string{"10.1.0.7"}, nil, []string{"10.1.0.7", "10.1.0.8", "172.20.0.1"}, []string{"10.1.0.7", "10.1.0.8"}},
		"a virtual address beside Pods":       {nil, nil, []string{"10.244.1.1", "192.0.2.50"}, []string{"192.0.2.50"}},
		"its own, a virtual one, and a Pods'": {nil, nil, []string{"10.244.1.1", "192.0.2.7", "192.0.2.50"}, []string{"192.0.2.7"}},
	} {
		t.Run(name, func(t *testing.T) {
			host, hardware := &infrav1.IngotHost{}, &infrav1.IngotHardware{}
			host.Spec.Claim = &infrav1.HostClaim{}
			if tc.assigned != nil {
				host.Spec.Claim.Network = &infrav1.ClaimedNetwork{Addresses: tc.assigned}
			}
			hardware.Spec.Address = tc.recorded
			if diff := cmp.Diff(tc.want, machineOwn(cluster, host, hardware, tc.reported)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
