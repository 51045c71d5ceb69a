// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/ipam/pool"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// onBootNIC requests one link with addresses of these sources.
func onBootNIC(addresses ...infrav1.LinkAddress) func(*clusterv1.Machine, *infrav1.IngotMachine) {
	return func(_ *clusterv1.Machine, m *infrav1.IngotMachine) {
		m.Spec.NetworkData = &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{{Name: "uplink0",
			NIC: infrav1.NICSelector{BootNIC: infrav1.BootNICOnly}, LinkConfig: infrav1.LinkConfig{Addresses: addresses}}}}
	}
}

// network creates the boot network.
func (s *site) network() *infrav1.IngotNetwork {
	s.t.Helper()
	network := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "net"}}
	network.Spec = infrav1.IngotNetworkSpec{Subnet: "192.0.2.0/24", Gateway: "192.0.2.254", Range: infrav1.AddressRange{Start: "192.0.2.1", End: "192.0.2.253"}}
	s.create(network)
	s.t.Cleanup(func() { _ = s.api.Delete(context.Background(), network) }) // the test's context has ended then
	return network
}

// nics gives a host its boot NIC.
func (s *site) nics(name string) {
	s.t.Helper()
	facts := &infrav1.IngotHardware{}
	s.must(s.api.Get(s.ctx, s.key(name), facts))
	facts.Spec.NICs = []infrav1.HardwareNIC{{MAC: s.getHost(name).Spec.BootMACAddress, Name: "eth0", PCI: "0000:02:00.0"}}
	s.must(s.api.Update(s.ctx, facts))
}

// internal returns the InternalIP addresses of the machine.
func (s *site) internal(name string) (ips []string) {
	s.t.Helper()
	for _, a := range s.get(name).Status.Addresses {
		if a.Type == clusterv1.MachineInternalIP {
			ips = append(ips, a.Address)
		}
	}
	return ips
}

// A host without the interfaces is not selected. The resolved networkData is copied to the claim
// and does not change afterwards.
func testNetworkData(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	network := s.network()
	s.host("h", "a")
	s.machine("m", onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressRecorded}))
	s.settle("m")
	s.want("m", infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonNoMatchingHost, "networkData.ethernets[0].nic of uplink0: none of 0 interfaces boot the host")
	s.nics("h")
	s.provision("m")
	host := s.getHost("h")
	facts := &infrav1.IngotHardware{}
	s.must(s.api.Get(s.ctx, s.key("h"), facts))
	ip := facts.Spec.Address.IP
	want := &infrav1.ClaimedNetwork{Addresses: []string{ip}, Config: strings.Join([]string{"version: 2", "ethernets:", "  uplink0:",
		"    match:", `      macaddress: "` + host.Spec.BootMACAddress + `"`, "    set-name: uplink0", "    addresses:", `      - "` + ip + `/24"`,
		"    routes:", `      - to: "0.0.0.0/0"`, `        via: "192.0.2.254"`, ""}, "\n")}
	if diff := cmp.Diff(want, host.Spec.Claim.Network); diff != "" {
		t.Error(diff)
	}
	if got := s.internal("m"); !slices.Equal(got, []string{ip}) {
		t.Errorf("addresses %v, want what was assigned", got)
	}
	network.Spec.Gateway = "192.0.2.1"
	s.must(s.api.Update(s.ctx, network))
	s.Reconciler = &Reconciler{Client: s.api, Live: s.api, Recorder: s.events, Clock: s.clock, NewID: s.NewID} // restarted
	s.settle("m")
	if diff := cmp.Diff(want, s.getHost("h").Spec.Claim.Network); diff != "" {
		t.Error(diff)
	}
	id, err := infrav1.ParseProviderID(s.get("m").Spec.ProviderID)
	s.must(err)
	s.must(s.api.Get(s.ctx, s.key("h"), facts))
	facts.Spec.Booted = &infrav1.BootedSystem{InstanceID: id.InstanceID, ReportTime: metav1.NewTime(s.clock.Now()), Addresses: []string{"198.51.100.7", ip}}
	s.must(s.api.Update(s.ctx, facts))
	s.settle("m")
	if got := s.internal("m"); !slices.Equal(got, []string{ip, "198.51.100.7"}) {
		t.Errorf("addresses %v, want what was assigned and what is reported", got)
	}
}

// A pool address is claimed before a host and belongs to the machine.
func testNetworkOfPool(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.network()
	s.host("h", "a")
	s.nics("h")
	nodes := infrav1.AddressPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "nodes"}
	s.machine("m", onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressPool, PoolRef: &nodes}))
	s.settle("m")
	name := pooledClaim("m")
	s.want("m", infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonWaitingForAddress, name)
	if hosts := s.claimsOn("m"); len(hosts) != 0 || s.get("m").Spec.ProviderID != "" {
		t.Errorf("%v is held while the pool has no address", hosts)
	}
	claim := &ipamv1.IPAddressClaim{}
	s.must(s.api.Get(s.ctx, s.key(name), claim))
	if !metav1.IsControlledBy(claim, s.get("m")) {
		t.Errorf("owners %+v: it would not go with the machine", claim.OwnerReferences)
	}
	own := &infrav1.IngotCluster{} // the pool holds its virtual address
	s.must(s.api.Get(s.ctx, s.key("c"), own))
	own.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: "10.20.3.5", Port: 6443}
	s.must(s.api.Update(s.ctx, own))
	s.provide("m", "10.20.3.5")
	s.settle("m")
	s.want("m", infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonAddressConflict, "the control plane endpoint of IngotCluster "+s.ns+"/c")
	s.must(s.api.Get(s.ctx, s.key(name), claim))
	given := &ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	given.Spec = ipamv1.IPAddressSpec{ClaimRef: ipamv1.IPAddressClaimReference{Name: claim.Name}, PoolRef: claim.Spec.PoolRef,
		Address: "10.20.3.7", Prefix: ptr.To[int32](22), Gateway: "10.20.0.1"}
	s.create(given)
	claim.Status.AddressRef.Name = given.Name
	s.must(s.api.Status().Update(s.ctx, claim))
	s.provision("m")
	network := s.getHost("h").Spec.Claim.Network
	if network == nil || !slices.Equal(network.Addresses, []string{"10.20.3.7"}) || !strings.Contains(network.Config, `- "10.20.3.7/22"`) || !strings.Contains(network.Config, `via: "10.20.0.1"`) {
		t.Errorf("%+v", network)
	}
	// The address stays the machine's as long as the machine exists.
	s.must(s.api.Delete(s.ctx, s.get("m")))
	s.settle("m")
	s.must(s.api.Get(s.ctx, client.ObjectKeyFromObject(claim), claim))
	if !claim.DeletionTimestamp.IsZero() {
		t.Error("the address is given back before the host was confirmed off")
	}
}

// pooledClaim is the name of the claim for the first address of uplink0.
func pooledClaim(machine string) string {
	return pool.MachineClaimName(machine, networkdata.Place{Link: "uplink0"})
}

// provide acts as the IPAM provider for a machine's claim.
func (s *site) provide(machine, address string) *ipamv1.IPAddressClaim {
	s.t.Helper()
	claim := &ipamv1.IPAddressClaim{}
	s.must(s.api.Get(s.ctx, s.key(pooledClaim(machine)), claim))
	given := &ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, GenerateName: claim.Name + "-"}}
	given.Spec = ipamv1.IPAddressSpec{ClaimRef: ipamv1.IPAddressClaimReference{Name: claim.Name}, PoolRef: claim.Spec.PoolRef, Address: address, Prefix: ptr.To[int32](22)}
	s.create(given)
	claim.Status.AddressRef.Name = given.Name
	s.must(s.api.Status().Update(s.ctx, claim))
	return claim
}

// The IPAddressClaim of a running system is recreated, with a warning that the pool may assign the
// address again.
func testAddressClaimLost(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.network()
	s.host("h", "a")
	s.nics("h")
	nodes := infrav1.AddressPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "nodes"}
	s.machine("m", onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressPool, PoolRef: &nodes}))
	s.settle("m")
	claim := s.provide("m", "10.20.3.7")
	s.provision("m")
	s.want("m", infrav1.MachineHostClaimedCondition, metav1.ConditionTrue, infrav1.ReasonHostClaimed, "")
	s.must(s.api.Delete(s.ctx, claim))
	s.settle("m")
	s.want("m", infrav1.MachineHostClaimedCondition, metav1.ConditionTrue, infrav1.ReasonAddressClaimLost, "uses 10.20.3.7: exclude it from pool nodes")
	if n := s.eventCount(infrav1.ReasonAddressClaimLost); n != 1 {
		t.Errorf("%d events", n)
	}
	s.want("m", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReasonReady, "")
	s.provide("m", "10.20.3.9")
	s.settle("m")
	s.want("m", infrav1.MachineHostClaimedCondition, metav1.ConditionTrue, infrav1.ReasonAddressClaimLost, "pool nodes assigned 10.20.3.9")
	s.provide("m", "10.20.3.7")
	s.settle("m")
	s.want("m", infrav1.MachineHostClaimedCondition, metav1.ConditionTrue, infrav1.ReasonHostClaimed, "")
	if got := s.internal("m"); !slices.Equal(got, []string{"10.20.3.7"}) {
		t.Errorf("addresses %v", got)
	}

	// clusterctl move does not copy status: the provider gets time to answer again.
	s.must(s.api.Get(s.ctx, client.ObjectKeyFromObject(claim), claim))
	claim.Status = ipamv1.IPAddressClaimStatus{}
	s.must(s.api.Status().Update(s.ctx, claim))
	s.clock.SetTime(claim.CreationTimestamp.Time)
	for range 2 {
		if result := s.step("m"); result.RequeueAfter <= 0 || result.RequeueAfter > timing.Default().PoolAnswer {
			t.Errorf("comes again after %s", result.RequeueAfter)
		}
	}
	s.want("m", infrav1.MachineHostClaimedCondition, metav1.ConditionTrue, infrav1.ReasonHostClaimed, "")
	s.clock.Step(2 * timing.Default().PoolAnswer)
	s.step("m")
	s.want("m", infrav1.MachineHostClaimedCondition, metav1.ConditionTrue, infrav1.ReasonAddressClaimLost, "has not answered yet")
}

// An address of a machine's system is given to no other machine, even if the lease moves or another
// machine requests it, nor is an address that the network reserves.
func testAddressTaken(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	network := s.network()
	for _, name := range []string{"h1", "h2"} {
		s.host(name, "a")
		s.nics(name)
	}
	reserve := func(host string) {
		t.Helper()
		s.must(s.api.Get(s.ctx, client.ObjectKeyFromObject(network), network))
		network.Spec.Range = infrav1.AddressRange{Start: "192.0.2.100", End: "192.0.2.150"}
		network.Spec.StaticLeases = []infrav1.StaticLease{{MAC: s.getHost(host).Spec.BootMACAddress, IP: "192.0.2.252"}}
		s.must(s.api.Update(s.ctx, network))
	}
	reserve("h1")
	reserved := onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressStaticLease, NetworkRef: &infrav1.LocalReference{Name: network.Name}})
	s.machine("first", reserved)
	if host := s.provision("first"); host != "h1" {
		t.Fatalf("on %s", host)
	}
	other := &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "other"}}
	other.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: "192.0.2.201", Port: 6443}
	s.create(other)
	own := &infrav1.IngotCluster{}
	s.must(s.api.Get(s.ctx, s.key("c"), own))
	own.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: "192.0.2.202", Port: 6443}
	s.must(s.api.Update(s.ctx, own))
	cluster := &clusterv1.Cluster{}
	s.must(s.api.Get(s.ctx, s.key("c"), cluster))
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.203", Port: 6443}
	s.must(s.api.Update(s.ctx, cluster))
	reserve("h2")
	s.machine("second", reserved)
	s.settle("second")
	s.want("second", infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonNoMatchingHost, "by the claim of the system installed there")
	for address, says := range map[string]string{"192.0.2.252/24": "by the claim of the system", "192.0.2.254/24": "or of no interface, of IngotNetwork", "192.0.2.120/24": "given to hosts of IngotNetwork",
		"192.0.2.201/24": "control plane's endpoint of another Cluster",
		"192.0.2.202/24": "for a control plane alone", "192.0.2.203/24": "for a control plane alone"} {
		name := strings.NewReplacer(".", "-", "/", "-").Replace("static-" + address)
		s.machine(name, onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressStatic, Address: address}))
		s.settle(name)
		s.want(name, infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonNoMatchingHost, says)
	}
	s.machine("third", onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressStatic, Address: "192.0.2.200/24"}))
	if host := s.provision("third"); host != "h2" {
		t.Errorf("on %s", host)
	}
	s.host("h3", "a")
	s.nics("h3")
	s.machine("plane", onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressStatic, Address: "192.0.2.202/24"}), func(owner *clusterv1.Machine, _ *infrav1.IngotMachine) {
		owner.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	})
	if host := s.provision("plane"); host != "h3" {
		t.Errorf("on %s", host)
	}
}

// I22: static leases are for allowed namespaces only. A tenant with root access can forge the MAC
// addresses of a server.
func testNetworkOfOtherNamespace(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.network()
	s.host("h", "a")
	s.nics("h")
	storage := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: s.ns + "-storage"}}
	storage.Spec = infrav1.IngotNetworkSpec{Subnet: "203.0.113.0/24", Range: infrav1.AddressRange{Start: "203.0.113.1", End: "203.0.113.9"},
		StaticLeases: []infrav1.StaticLease{{MAC: s.getHost("h").Spec.BootMACAddress, IP: "203.0.113.7"}}}
	s.create(storage)
	s.machine("m", onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressStaticLease, NetworkRef: &infrav1.LocalReference{Name: storage.Name}}))
	s.settle("m")
	s.want("m", infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonNoMatchingHost, "add it to spec.allowedNamespaces")
	storage.Spec.AllowedNamespaces = &infrav1.NetworkNamespaces{Names: []string{s.ns}}
	s.must(s.api.Update(s.ctx, storage))
	if host := s.provision("m"); host != "h" {
		t.Errorf("on %s", host)
	}
}

func TestWithoutRecorded(t *testing.T) {
	hardware := &infrav1.IngotHardware{Spec: infrav1.IngotHardwareSpec{Address: &infrav1.RecordedAddress{IP: "10.10.0.1"}, IPv6Address: &infrav1.RecordedAddress{IP: "2001:DB8::1"}}}
	other := netip.MustParseAddr("10.10.0.2")
	got := withoutRecorded([]netip.Addr{netip.MustParseAddr("10.10.0.1"), other, netip.MustParseAddr("2001:db8::1")}, hardware)
	if len(got) != 1 || got[0] != other {
		t.Errorf("%v", got)
	}
}

func testNetworkChangeTriggersWaitingMachines(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.machine("waits", onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressRecorded}))
	s.machine("plain")
	var woken []string
	for _, request := range s.machinesOfNetwork(s.ctx, &infrav1.IngotNetwork{}) {
		if request.Namespace == s.ns {
			woken = append(woken, request.Name)
		}
	}
	if !slices.Equal(woken, []string{"waits"}) {
		t.Errorf("woken %v, want the one with networkData", woken)
	}
}

// networkData with Ignition holds no host, claims no pool address, and shows the remedy. The
// machine continues with cloud-init data.
func testNetworkDataWithIgnition(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.network()
	s.host("h", "a")
	s.nics("h")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "bootstrap"}, Data: map[string][]byte{"value": []byte("{}"), "format": []byte("ignition")}}
	s.create(secret)
	nodes := infrav1.AddressPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "nodes"}
	s.machine("pooled", onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressPool, PoolRef: &nodes}))
	s.machine("m", onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressRecorded}))
	for _, name := range []string{"pooled", "m"} {
		s.settle(name)
		s.want(name, infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonNetworkDataWithIgnition, "Configure the network in Ignition")
		if hosts := s.claimsOn(name); len(hosts) != 0 || s.get(name).Spec.ProviderID != "" {
			t.Errorf("%v is held for %s", hosts, name)
		}
	}
	claims := &ipamv1.IPAddressClaimList{}
	s.must(s.api.List(s.ctx, claims, client.InNamespace(s.ns)))
	if len(claims.Items) != 0 {
		t.Errorf("%d addresses are asked for", len(claims.Items))
	}
	secret.Data["format"] = []byte("cloud-config")
	s.must(s.api.Update(s.ctx, secret))
	s.provision("m")
	if network := s.getHost("h").Spec.Claim.Network; network == nil {
		t.Error("the network is not given")
	}
}
