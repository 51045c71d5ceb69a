// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
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
)

// onBootNIC asks for one link, with addresses of these sources.
func onBootNIC(addresses ...infrav1.LinkAddress) func(*clusterv1.Machine, *infrav1.IngotMachine) {
	return func(_ *clusterv1.Machine, m *infrav1.IngotMachine) {
		m.Spec.NetworkData = &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{{Name: "uplink0",
			NIC: infrav1.NICSelector{BootNIC: infrav1.BootNICOnly}, LinkConfig: infrav1.LinkConfig{Addresses: addresses}}}}
	}
}

// network makes the one that hosts of the tests boot on.
func (s *site) network() *infrav1.IngotNetwork {
	s.t.Helper()
	network := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "net"}}
	network.Spec = infrav1.IngotNetworkSpec{Subnet: "192.0.2.0/24", Gateway: "192.0.2.254", Range: infrav1.AddressRange{Start: "192.0.2.1", End: "192.0.2.253"}}
	s.create(network)
	s.t.Cleanup(func() { _ = s.api.Delete(context.Background(), network) }) // the test's context has ended then
	return network
}

// nics gives a host the interface that it boots from.
func (s *site) nics(name string) {
	s.t.Helper()
	facts := &infrav1.IngotHardware{}
	s.must(s.api.Get(s.ctx, s.key(name), facts))
	facts.Spec.NICs = []infrav1.HardwareNIC{{MAC: s.getHost(name).Spec.BootMACAddress, Name: "eth0", PCI: "0000:02:00.0"}}
	s.must(s.api.Update(s.ctx, facts))
}

// internal are the addresses that the machine shows.
func (s *site) internal(name string) (ips []string) {
	s.t.Helper()
	for _, a := range s.get(name).Status.Addresses {
		if a.Type == clusterv1.MachineInternalIP {
			ips = append(ips, a.Address)
		}
	}
	return ips
}

// A host without the interfaces is not chosen; with them, what networkData comes to is
// frozen with the claim: neither another manager nor a changed network changes it.
func testNetworkData(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	network := s.network()
	s.host("h", "a")
	s.machine("m", onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressRecorded}))
	s.settle("m")
	s.want("m", infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonNoMatchingHost, "uplink0: none of 0 interfaces boot the host")
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
	facts.Spec.Booted = &infrav1.BootedSystem{InstanceID: id.InstanceID, Time: metav1.NewTime(s.clock.Now()), Addresses: []string{"198.51.100.7", ip}}
	s.must(s.api.Update(s.ctx, facts))
	s.settle("m")
	if got := s.internal("m"); !slices.Equal(got, []string{ip, "198.51.100.7"}) {
		t.Errorf("addresses %v, want what was assigned and what is reported", got)
	}
}

// An address of a pool is asked for before a host is held, and belongs to the machine.
func testNetworkOfPool(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.network()
	s.host("h", "a")
	s.nics("h")
	pool := infrav1.AddressPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "nodes"}
	s.machine("m", onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressPool, PoolRef: &pool}))
	s.settle("m")
	s.want("m", infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonWaitingForAddress, "m-uplink0-0")
	if hosts := s.claimsOn("m"); len(hosts) != 0 || s.get("m").Spec.ProviderID != "" {
		t.Errorf("%v is held while the pool has no address", hosts)
	}
	claim := &ipamv1.IPAddressClaim{}
	s.must(s.api.Get(s.ctx, s.key("m-uplink0-0"), claim))
	if !metav1.IsControlledBy(claim, s.get("m")) {
		t.Errorf("owners %+v: it would not go with the machine", claim.OwnerReferences)
	}
	given := &ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "m-uplink0-0"}}
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
	// While the machine is there, whatever becomes of its host, the address is its own.
	s.must(s.api.Delete(s.ctx, s.get("m")))
	s.settle("m")
	s.must(s.api.Get(s.ctx, client.ObjectKeyFromObject(claim), claim))
	if !claim.DeletionTimestamp.IsZero() {
		t.Error("the address is given back before the host was confirmed off")
	}
}

// A network that changes may be what a machine without a host waits for.
func testNetworkWakes(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
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

// Ignition reads no networkData, on any host: none is held, no address of a pool is asked
// for, and the machine says what to do. It goes on where the data is for cloud-init.
func testNetworkDataWithIgnition(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.network()
	s.host("h", "a")
	s.nics("h")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "bootstrap"}, Data: map[string][]byte{"value": []byte("{}"), "format": []byte("ignition")}}
	s.create(secret)
	pool := infrav1.AddressPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "nodes"}
	s.machine("pooled", onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressPool, PoolRef: &pool}))
	s.machine("m", onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressRecorded}))
	for _, name := range []string{"pooled", "m"} {
		s.settle(name)
		s.want(name, infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonNetworkDataWithIgnition, "Leave networkData out")
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
