// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/test/testscheme"
	"github.com/ingot-metal/ingot/webhooks/warnings"
)

func newChecker(t *testing.T, objects ...client.Object) warnings.Checker {
	t.Helper()
	scheme := testscheme.Scheme(t)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	if err := index.Setup(t.Context(), testscheme.Indexer{ClientBuilder: builder}); err != nil {
		t.Fatal(err)
	}
	return warnings.Checker{Reader: builder.Build()}
}

// host returns a host with labels as pairs of key and value.
func host(name string, labels ...string) *v1beta2.IngotHost {
	out := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{}}}
	for i := 0; i < len(labels); i += 2 {
		out.Labels[labels[i]] = labels[i+1]
	}
	out.Spec.NetworkRef.Name = "rack-a"
	return out
}

func hardware(name, arch string, cores int32, memoryGiB, diskGB int64) *v1beta2.IngotHardware {
	out := &v1beta2.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	out.Spec.Architecture = arch
	out.Spec.CPU.Cores = cores
	out.Spec.MemoryBytes = memoryGiB << 30
	out.Spec.NICs = []v1beta2.HardwareNIC{{MAC: "52:54:00:00:00:01", Name: "eth0", Driver: "igb"}}
	out.Spec.Disks = []v1beta2.HardwareDisk{{Name: "/dev/sda", SerialNumber: "S-" + name, SizeBytes: new(diskGB * 1_000_000_000), Rotational: new(false)}}
	return out
}

// recorded returns the hardware of a host before its inspection: only an address.
func recorded(name string) *v1beta2.IngotHardware {
	out := &v1beta2.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	out.Spec.Address = &v1beta2.RecordedAddress{NetworkName: "rack-a", MAC: "52:54:00:00:00:09", IP: "10.0.0.9"}
	return out
}

func check(t *testing.T, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func labelled(labels map[string]string) *v1beta2.HostSelector {
	return &v1beta2.HostSelector{MatchLabels: labels}
}

const waits = "its machines wait until then"

func TestMachine(t *testing.T) {
	inventory := []client.Object{
		host("h1", "tier", "gold"), hardware("h1", "amd64", 64, 128, 500),
		host("h2", "tier", "gold"), hardware("h2", "amd64", 16, 512, 2000),
		host("h3", "tier", "iron"), hardware("h3", "arm64", 128, 1024, 4000),
		host("new", "tier", "new"),
		host("addressed", "tier", "new"), recorded("addressed"),
	}
	gold := func(change func(*v1beta2.HostSelector)) v1beta2.IngotMachineSpec {
		s := labelled(map[string]string{"tier": "gold"})
		change(s)
		return v1beta2.IngotMachineSpec{HostSelector: s}
	}
	least := func(cores int32, memory, disk string) func(*v1beta2.HostSelector) {
		return func(s *v1beta2.HostSelector) {
			s.Minimum = &v1beta2.HardwareMinimum{Cores: &cores, Memory: new(resource.MustParse(memory)), Disk: new(resource.MustParse(disk))}
		}
	}
	hinting := func(hints v1beta2.RootDeviceHints) v1beta2.IngotMachineSpec {
		return v1beta2.IngotMachineSpec{RootDeviceHints: &hints}
	}
	spinning := hinting(v1beta2.RootDeviceHints{Rotational: new(true)})
	driver := func(name string) v1beta2.IngotMachineSpec {
		return v1beta2.IngotMachineSpec{NetworkData: &v1beta2.NetworkData{Ethernets: []v1beta2.NetworkEthernet{
			{Name: "uplink0", NIC: v1beta2.NICSelector{Driver: name}}}}}
	}
	tests := []struct {
		name      string
		namespace string
		spec      v1beta2.IngotMachineSpec
		want      []string
	}{
		{"anything", "ns", v1beta2.IngotMachineSpec{}, nil},
		{"labels that exist", "ns", gold(func(*v1beta2.HostSelector) {}), nil},
		{"no hosts at all", "empty", gold(func(*v1beta2.HostSelector) {}), []string{
			`metadata.namespace: "empty" has no IngotHost; register hosts there: machines use only hosts of their own namespace, and wait until then`}},
		{"labels that none has", "ns", v1beta2.IngotMachineSpec{HostSelector: labelled(map[string]string{"tier": "silver"})}, []string{
			`spec.hostSelector: "tier=silver" matches no IngotHost of namespace ns; label the hosts, or correct it: ` + waits}},
		{"an expression that none satisfies", "ns", v1beta2.IngotMachineSpec{HostSelector: &v1beta2.HostSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpDoesNotExist}}}}, []string{
			`spec.hostSelector: "!tier" matches no IngotHost of namespace ns; label the hosts, or correct it: ` + waits}},
		{"an expression that does not parse is refused elsewhere", "ns", v1beta2.IngotMachineSpec{HostSelector: &v1beta2.HostSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Gt"}}}}, nil},
		{"a minimum that one has", "ns", gold(least(64, "128Gi", "500G")), nil},
		{"a minimum that none has", "ns", gold(least(65, "513Gi", "2001G")), []string{
			"spec.hostSelector.minimum.cores: none of the 2 inspected hosts has 65 cores (maximum: 64); correct it, or register such hosts: " + waits,
			"spec.hostSelector.minimum.memory: none of the 2 inspected hosts has 513Gi (maximum: 512Gi); correct it, or register such hosts: " + waits,
			"spec.hostSelector.minimum.disk: none of the 2 inspected hosts has a root disk of 2001G (maximum: 2T); correct it, or register such hosts: " + waits}},
		{"a minimum whose parts are on different hosts", "ns", gold(least(64, "512Gi", "100G")), []string{
			"spec: none of the 2 inspected hosts has everything that hostSelector, rootDeviceHints and networkData require, though other hosts have each part; correct it, or register such hosts: " + waits}},
		{"an architecture that other hosts have", "ns", gold(func(s *v1beta2.HostSelector) { s.Architecture = "arm64" }), []string{
			`spec.hostSelector.architecture: none of the 2 inspected hosts has architecture "arm64"; correct it, or register such hosts: ` + waits}},
		{"hints that choose nothing", "ns", spinning, []string{
			"spec.rootDeviceHints.rotational: true: none of the 3 inspected hosts has a matching disk; correct it, or register such hosts: " + waits}},
		{"hints of which two hold for nothing", "ns", hinting(v1beta2.RootDeviceHints{SerialNumber: "S-9", MinSize: new(resource.MustParse("5000G")), Rotational: new(false)}), []string{
			`spec.rootDeviceHints.serialNumber: "S-9": none of the 3 inspected hosts has a matching disk; correct it, or register such hosts: ` + waits,
			"spec.rootDeviceHints.minSize: \"5T\": none of the 3 inspected hosts has a matching disk; correct it, or register such hosts: " + waits}},
		{"hints that hold for different disks", "ns", hinting(v1beta2.RootDeviceHints{SerialNumber: "S-h1", MinSize: new(resource.MustParse("1000G"))}), []string{
			"spec.rootDeviceHints: none of the 3 inspected hosts has a matching disk; correct it, or register such hosts: " + waits}},
		{"hints that a host has a disk for", "ns", hinting(v1beta2.RootDeviceHints{SerialNumber: "S-h2", MinSize: new(resource.MustParse("1000G"))}), nil},
		{"a mirror on hosts with one disk each", "ns", v1beta2.IngotMachineSpec{SoftwareRAID: &v1beta2.SoftwareRAID{Level: v1beta2.SoftwareRAIDLevel1}}, []string{
			"spec.softwareRAID: none of the 3 inspected hosts has two suitable disks; correct it, or register such hosts: " + waits}},
		{"interfaces that hosts have", "ns", driver("igb"), nil},
		{"interfaces that none has", "ns", driver("mlx5_cor"), []string{
			`spec.networkData.ethernets[0].nic: {"driver":"mlx5_cor"}: none of the 3 inspected hosts has an interface for uplink0 (nearest: IngotHost h1: ` +
				"none of 1 interface have driver mlx5_cor); correct it, or register such hosts: " + waits}},
		{"hosts that nobody has inspected say nothing", "ns", v1beta2.IngotMachineSpec{HostSelector: &v1beta2.HostSelector{
			MatchLabels: map[string]string{"tier": "new"}, Architecture: "arm64"}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, tt.want, newChecker(t, inventory...).Machine(t.Context(), tt.namespace, field.NewPath("spec"), tt.spec))
		})
	}
}

func TestCluster(t *testing.T) {
	inventory := []client.Object{host("h1", "tier", "gold", "example.com/row", "1"), host("h2", "tier", "iron", "role", "control-plane")}
	selector := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	tests := []struct {
		name      string
		namespace string
		spec      v1beta2.IngotClusterSpec
		want      []string
	}{
		{"everything, by racks that nobody labelled", "ns", v1beta2.IngotClusterSpec{FailureDomainLabel: v1beta2.RackLabel}, nil},
		{"no hosts at all", "empty", v1beta2.IngotClusterSpec{}, []string{
			`metadata.namespace: "empty" has no IngotHost; register hosts there: machines use only hosts of their own namespace, and wait until then`}},
		{"rows", "ns", v1beta2.IngotClusterSpec{FailureDomainLabel: "example.com/row"}, nil},
		{"rows, which the cluster's hosts do not have", "ns", v1beta2.IngotClusterSpec{HostSelector: selector("tier", "iron"), FailureDomainLabel: "example.com/row"}, []string{
			`spec.failureDomainLabel: no IngotHost for this cluster has the label "example.com/row"; label the hosts, or correct it: the cluster has no failure domains until then`}},
		{"no such hosts", "ns", v1beta2.IngotClusterSpec{HostSelector: selector("tier", "silver"), ControlPlaneSelector: selector("role", "x")}, []string{
			`spec.hostSelector: "tier=silver" matches no IngotHost of namespace ns; label the hosts, or correct it: ` + waits}},
		{"control planes", "ns", v1beta2.IngotClusterSpec{ControlPlaneSelector: selector("role", "control-plane")}, nil},
		{"control planes, but not of the cluster's", "ns", v1beta2.IngotClusterSpec{HostSelector: selector("tier", "gold"), ControlPlaneSelector: selector("role", "control-plane")}, []string{
			`spec.controlPlaneSelector: "role=control-plane" matches no IngotHost that hostSelector matches; label the hosts, or correct it: ` + waits}},
		{"a label that is none", "ns", v1beta2.IngotClusterSpec{FailureDomainLabel: "a..b/c"}, []string{
			`spec.failureDomainLabel: no IngotHost for this cluster has the label "a..b/c"; label the hosts, or correct it: the cluster has no failure domains until then`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, tt.want, newChecker(t, inventory...).Cluster(t.Context(), tt.namespace, field.NewPath("spec"), tt.spec))
		})
	}
}

func TestMissingDomainLabels(t *testing.T) {
	const row = "example.com/row"
	byRow := &v1beta2.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	byRow.Spec.FailureDomainLabel = row
	byRow.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
	racked := host("other", v1beta2.RackLabel, "1", "tier", "gold", row, "1")
	warning := func(label string) []string {
		return []string{"metadata.labels[" + label + "]: is not set, but other hosts of namespace ns have the label; set it: the host is in no failure domain until then"}
	}
	tests := []struct {
		name         string
		exist        []client.Object
		before, host *v1beta2.IngotHost
		want         []string
	}{
		{"the first host", nil, nil, host("h"), nil},
		{"where nobody has one", []client.Object{host("other")}, nil, host("h"), nil},
		{"where others have one", []client.Object{racked}, nil, host("h"), warning(v1beta2.RackLabel)},
		{"with one", []client.Object{racked}, nil, host("h", v1beta2.RackLabel, "2"), nil},
		{"taken away", []client.Object{racked}, host("h", v1beta2.RackLabel, "2"), host("h"), warning(v1beta2.RackLabel)},
		{"never had, and changed in another way", []client.Object{racked}, host("h", "a", "b"), host("h"), nil},
		{"a cluster that goes by rows", []client.Object{racked, byRow}, nil, host("h", "tier", "gold", v1beta2.RackLabel, "1"), warning(row)},
		{"a cluster that does not draw on it", []client.Object{racked, byRow}, nil, host("h", "tier", "iron"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, tt.want, newChecker(t, tt.exist...).MissingDomainLabels(t.Context(), tt.before, tt.host))
		})
	}
}

func TestNetworks(t *testing.T) {
	network := func(name, start, end string) *v1beta2.IngotNetwork {
		return &v1beta2.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1beta2.IngotNetworkSpec{Range: v1beta2.AddressRange{Start: start, End: end}}}
	}
	ipv6 := func(mode v1beta2.DHCPv6Mode, start, end string) *v1beta2.IngotNetwork {
		n := network("rack-a", "", "")
		n.Spec.IPv6 = &v1beta2.NetworkIPv6{Mode: mode, Range: v1beta2.IPv6Range{Start: start, End: end}}
		return n
	}
	both := ipv6(v1beta2.DHCPv6ModeStateful, "2001:db8::1", "2001:db8::2")
	both.Spec.Range = v1beta2.AddressRange{Start: "10.0.0.1", End: "10.0.0.9"}
	fullIPv6 := `spec.networkRef.name: IngotNetwork "rack-a" has 2 addresses in spec.ipv6.range, and as many other hosts; make the range larger, or use another network: Ingot does not boot the host until then`
	smallIPv6 := "spec.ipv6.range: 2001:db8::1 to 2001:db8::2 has 2 addresses, but more hosts boot on the network; make it larger: Ingot does not boot some of them until then"
	three := []client.Object{host("h1"), host("h2"), host("h3")}
	full := `spec.networkRef.name: IngotNetwork "rack-a" has 2 addresses in spec.range, and as many other hosts; make the range larger, or use another network: Ingot does not boot the host until then`
	small := "spec.range: 10.0.0.1 to 10.0.0.2 has 2 addresses, but more hosts boot on the network; make it larger: Ingot does not boot some of them until then"
	tests := []struct {
		name    string
		hosts   []client.Object
		network *v1beta2.IngotNetwork
		host    []string // for host h3 on the network
		ofRange []string // for the network
	}{
		{"room", []client.Object{host("h1")}, network("rack-a", "10.0.0.1", "10.0.0.2"), nil, nil},
		{"the host itself does not count", []client.Object{host("h1"), host("h3")}, network("rack-a", "10.0.0.1", "10.0.0.2"), nil, nil},
		{"full", []client.Object{host("h1"), host("h2")}, network("rack-a", "10.0.0.1", "10.0.0.2"), []string{full}, nil},
		{"more than full", []client.Object{host("h1"), host("h2"), host("h3")}, network("rack-a", "10.0.0.1", "10.0.0.2"), []string{full}, []string{small}},
		{"another network", []client.Object{host("h1"), host("h2"), host("h3")}, network("rack-b", "10.0.0.1", "10.0.0.2"), nil, nil},
		{"no range", []client.Object{host("h1")}, network("rack-a", "10.0.0.2", "10.0.0.1"), nil, nil},
		{"as large as they come", []client.Object{host("h1")}, network("rack-a", "0.0.0.0", "255.255.255.255"), nil, nil},
		{"IPv6 alone", three, ipv6(v1beta2.DHCPv6ModeStateful, "2001:db8::1", "2001:db8::2"), []string{fullIPv6}, []string{smallIPv6}},
		{"IPv6 beside, which each host needs too", three, both, []string{fullIPv6}, []string{smallIPv6}},
		{"IPv6 that hosts make", three, ipv6(v1beta2.DHCPv6ModeStateless, "2001:db8::1", "2001:db8::2"), nil, nil},
		{"IPv6, as large as they come", three, ipv6(v1beta2.DHCPv6ModeStateful, "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), nil, nil},
		{"IPv6, of two halves", three, ipv6(v1beta2.DHCPv6ModeStateful, "2001:db8:0:1::ffff", "2001:db8:0:2::1"), nil, nil},
		{"a range of both families", three, network("rack-a", "10.0.0.1", "2001:db8::1"), nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newChecker(t, append(tt.hosts, tt.network)...)
			check(t, tt.host, c.FullNetwork(t.Context(), host("h3")))
			check(t, tt.ofRange, c.Network(t.Context(), tt.network))
		})
	}
}
