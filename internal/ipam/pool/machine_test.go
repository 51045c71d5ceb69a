// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pool_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/ipam/pool"
	"github.com/ingot-metal/ingot/inventory/addressuse"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

var place = networkdata.PoolPlace{Place: networkdata.Place{Link: "bond0.120", Index: 1},
	Pool: infrav1.AddressPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "nodes"}}

// An address of a machine's networkData: asked for once, owned by the machine, looked at.
func testMachineClaim(t *testing.T, s *site) {
	machine := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: s.host.Namespace, Name: "m1", UID: "u1",
		Labels: map[string]string{clusterv1.WatchLabel: "mine"}}}
	asking := pool.MachineRequest{Machine: machine, Cluster: "c1", Networks: map[string]infrav1.IngotNetworkSpec{s.network.Name: s.network.Spec}}
	ask := func() (networkdata.Given, pool.Answer) {
		t.Helper()
		given, answer, err := s.pools.ClaimForMachine(t.Context(), asking, place)
		must(t, err)
		return given, answer
	}
	claim := func() *ipamv1.IPAddressClaim {
		t.Helper()
		out := &ipamv1.IPAddressClaim{}
		must(t, s.Get(t.Context(), client.ObjectKey{Namespace: machine.Namespace, Name: pool.MachineClaimName("m1", place.Place)}, out))
		return out
	}
	provide := func(spec ipamv1.IPAddressSpec) {
		t.Helper()
		asked := claim()
		given := &ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Namespace: asked.Namespace, GenerateName: asked.Name + "-"}, Spec: spec}
		given.Spec.ClaimRef.Name, given.Spec.PoolRef = asked.Name, asked.Spec.PoolRef
		must(t, s.Create(t.Context(), given))
		asked.Status.AddressRef.Name = given.Name
		must(t, s.Status().Update(t.Context(), asked))
	}
	_, answer := ask()
	s.want(answer, infrav1.ReasonWaitingForAddress, "has not answered yet")
	asked := claim()
	labels := map[string]string{clusterv1.ClusterNameLabel: "c1", clusterv1.WatchLabel: "mine"}
	if diff := cmp.Diff(labels, asked.Labels); diff != "" || !answer.Created || !metav1.IsControlledBy(asked, machine) || asked.Spec.ClusterName != "c1" || asked.Spec.PoolRef.Name != "nodes" {
		t.Errorf("claim %+v, owners %+v, made %t\n%s", asked.Spec, asked.OwnerReferences, answer.Created, diff)
	}
	if _, answer = ask(); answer.Created || claim().UID != asked.UID {
		t.Error("the claim was made twice")
	}
	for _, tc := range []struct {
		spec ipamv1.IPAddressSpec
		says string
	}{
		{ipamv1.IPAddressSpec{Address: "10.20.3.7", Prefix: ptr.To[int32](64)}, `"10.20.3.7" with prefix length 64`},
		{ipamv1.IPAddressSpec{Address: "none", Prefix: ptr.To[int32](24)}, `"none"`},
		{ipamv1.IPAddressSpec{Address: "10.20.3.7", Prefix: ptr.To[int32](22), Gateway: "2001:db8::1"}, `gateway "2001:db8::1"`},
	} {
		provide(tc.spec)
		_, answer := ask()
		s.want(answer, infrav1.ReasonAddressPoolUnusable, tc.says)
	}
	// On Ingot's networks a pool may not give what is somebody's.
	facts := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: s.host.Namespace, Name: s.host.Name}}
	facts.Spec.Address = &infrav1.RecordedAddress{NetworkName: s.network.Name, MAC: s.host.Spec.BootMACAddress, IP: "10.10.0.30"}
	must(t, s.Create(t.Context(), facts))
	forced := s.host.DeepCopy() // its system may still run
	forced.Spec.Record = &infrav1.HostRecord{Quarantine: &infrav1.Quarantine{
		Reason: infrav1.QuarantineNotFenced, StartTime: metav1.Now(), Addresses: []string{"10.10.0.31"},
	}}
	must(t, s.Update(t.Context(), forced))
	for address, says := range map[string]string{
		"10.10.0.1":  "uses otherwise",
		"10.10.0.30": "an address of IngotHost " + s.host.Namespace + "/h1",
		"10.10.0.31": "forced release",
	} {
		provide(ipamv1.IPAddressSpec{Address: address, Prefix: ptr.To[int32](24)})
		_, answer := ask()
		s.want(answer, infrav1.ReasonAddressConflict, says)
	}
	// Nor endpoints of control planes there; elsewhere that of its own Cluster, since what
	// others have may be in a network that never meets this one.
	asking.IngotCluster = client.ObjectKey{Namespace: machine.Namespace, Name: "c1"}
	asking.Endpoints = addressuse.Endpoints{
		netip.MustParseAddr("10.10.0.40"): {asking.IngotCluster}, netip.MustParseAddr("10.10.0.41"): {{Namespace: "default", Name: "c2"}},
		netip.MustParseAddr("10.20.3.9"): {asking.IngotCluster}, netip.MustParseAddr("10.20.3.7"): {{Namespace: "default", Name: "c2"}},
	}
	for address, says := range map[string]string{
		"10.10.0.40": "10.10.0.40, the control plane endpoint of IngotCluster " + machine.Namespace + "/c1: exclude it in the pool",
		"10.10.0.41": "the control plane endpoint of a cluster of another namespace",
		"10.20.3.9":  "10.20.3.9, the control plane endpoint of IngotCluster",
	} {
		provide(ipamv1.IPAddressSpec{Address: address, Prefix: ptr.To[int32](24)})
		_, answer := ask()
		s.want(answer, infrav1.ReasonAddressConflict, says)
	}
	provide(ipamv1.IPAddressSpec{Address: "10.20.3.7", Prefix: ptr.To[int32](22), Gateway: "10.20.0.1"})
	given, answer := ask()
	if given.Address.String() != "10.20.3.7/22" || given.Gateway.String() != "10.20.0.1" || given.From != "pool nodes" || answer.Problem != "" {
		t.Errorf("%+v, %+v", given, answer)
	}

	// A restored claim has lost its owner; another's is left alone.
	lost := claim()
	lost.OwnerReferences = nil
	must(t, s.Update(t.Context(), lost))
	again, answer := ask()
	if diff := cmp.Diff(given, again, cmpopts.EquateComparable(given.Address, given.Gateway)); diff != "" || answer.Problem != "" || !metav1.IsControlledBy(claim(), machine) {
		t.Errorf("%s%+v, owners %+v", diff, answer, claim().OwnerReferences)
	}
	others := claim()
	others.OwnerReferences[0].UID = "another"
	must(t, s.Update(t.Context(), others))
	_, answer = ask()
	s.want(answer, infrav1.ReasonWaitingForAddress, "belongs to a deleted IngotMachine of this name")
	others = claim()
	others.OwnerReferences[0].Name = "m1-bond0.120"
	must(t, s.Update(t.Context(), others))
	_, answer = ask()
	s.want(answer, infrav1.ReasonAddressConflict, "belongs to IngotMachine m1-bond0.120, which has its address: keep it")

	// While a system has the address, the claim is looked after.
	keep := func(has string) pool.Answer {
		t.Helper()
		answer, err := s.pools.KeepForMachine(t.Context(), asking, place, netip.MustParseAddr(has))
		must(t, err)
		return answer
	}
	s.want(keep("10.20.3.7"), infrav1.ReasonAddressConflict, "belongs to IngotMachine m1-bond0.120")
	back := claim()
	back.OwnerReferences = nil // as after a restore
	must(t, s.Update(t.Context(), back))
	if answer := keep("10.20.3.7"); answer.Problem != "" || !metav1.IsControlledBy(claim(), machine) {
		t.Errorf("%+v, owners %+v", answer, claim().OwnerReferences)
	}
	s.want(keep("10.20.3.8"), infrav1.ReasonAddressConflict, "assigned 10.20.3.7 to IPAddressClaim")

	// One that a person deletes is made again once it is gone.
	held := claim()
	held.Finalizers = []string{"ipam.example/hold"}
	must(t, s.Update(t.Context(), held))
	must(t, s.Delete(t.Context(), held))
	_, answer = ask()
	s.want(answer, infrav1.ReasonWaitingForAddress, "is being deleted")
	held = claim()
	held.Finalizers = nil
	must(t, s.Update(t.Context(), held))
	if answer := keep("10.20.3.7"); !answer.Created || answer.Reason != infrav1.ReasonWaitingForAddress {
		t.Errorf("%+v", answer)
	}
	if _, answer = ask(); answer.Created {
		t.Error("it was made twice")
	}
}

// What a pool gives again is not used while the system that has it may run, on networks
// that nobody here knows too: its claim may be gone before its server is off.
func testStillHad(t *testing.T, s *site) {
	networkData := func(pool infrav1.AddressPoolReference) *infrav1.NetworkData {
		return &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{{Name: "nic0", NIC: infrav1.NICSelector{BootNIC: infrav1.BootNICOnly},
			LinkConfig: infrav1.LinkConfig{Addresses: []infrav1.LinkAddress{{Source: infrav1.AddressPool, PoolRef: &pool}}}}}}
	}
	image := infrav1.Image{URL: "http://images.example/os.raw", Format: infrav1.ImageFormatRaw,
		Checksum: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
	// system is one installed on the host, which has its address from the pool.
	system := func(host *infrav1.IngotHost, machine, address string, pool infrav1.AddressPoolReference) {
		t.Helper()
		m := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: machine}}
		m.Spec.Image, m.Spec.NetworkData = image, networkData(pool)
		must(t, s.Create(t.Context(), m))
		host.Spec.BMC = &infrav1.BMC{Address: "redfish://192.0.2.1/redfish/v1/Systems/" + host.Name, CredentialsRef: infrav1.LocalReference{Name: "bmc"}}
		host.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: machine}, ClusterName: "c1", InstanceID: "00000000-0000-4000-8000-000000000001",
			Attempt: 1, State: infrav1.ClaimProvisioned, Image: image, Cleaning: infrav1.CleaningMetadata, Hostname: machine,
			Network: &infrav1.ClaimedNetwork{Config: "version: 2", Addresses: []string{address}}}
		must(t, s.Update(t.Context(), host))
	}
	// Of the two kinds of pools one has a namespace; IngotNetwork is a kind that has none.
	shared := infrav1.AddressPoolReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotNetwork", Name: "all"}
	other := place.Pool
	other.Name = "others"
	system(s.host, "m1", "10.20.3.7", place.Pool)
	system(s.newHost("h2", "52:54:00:00:00:02"), "m2", "10.20.3.8", other)
	system(s.newHost("h3", "52:54:00:00:00:03"), "m3", "10.20.3.9", shared)

	elsewhere := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "pool-"}}
	must(t, s.Create(t.Context(), elsewhere))
	asks := 0
	ask := func(namespace, machine, address string, from infrav1.AddressPoolReference) pool.Answer {
		t.Helper()
		asks++
		m := pool.MachineRequest{Machine: &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: machine, UID: "u"}}, Cluster: "c1"}
		at := networkdata.PoolPlace{Place: networkdata.Place{Link: "nic0", Index: asks}, Pool: from} // a claim of its own
		_, _, err := s.pools.ClaimForMachine(t.Context(), m, at)
		must(t, err)
		claim := &ipamv1.IPAddressClaim{}
		must(t, s.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: pool.MachineClaimName(machine, at.Place)}, claim))
		given := &ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claim.Name}}
		given.Spec = ipamv1.IPAddressSpec{ClaimRef: ipamv1.IPAddressClaimReference{Name: claim.Name}, PoolRef: claim.Spec.PoolRef, Address: address, Prefix: ptr.To[int32](24)}
		must(t, s.Create(t.Context(), given))
		claim.Status.AddressRef.Name = given.Name
		must(t, s.Status().Update(t.Context(), claim))
		_, answer, err := s.pools.ClaimForMachine(t.Context(), m, at)
		must(t, err)
		return answer
	}
	here, there := s.host.Namespace, elsewhere.Name
	for _, tc := range []struct {
		name, namespace, machine, address string
		pool                              infrav1.AddressPoolReference
		says                              string
	}{
		{"another machine's", here, "m9", "10.20.3.7", place.Pool, "which the system on IngotHost " + here + "/h1 may still use"},
		{"its own", here, "m1", "10.20.3.7", place.Pool, ""},
		{"of another pool", here, "m9", "10.20.3.8", place.Pool, ""},
		{"of the pool of that name elsewhere", there, "m9", "10.20.3.7", place.Pool, ""},
		{"of a pool for all", there, "m9", "10.20.3.9", shared, "on a host of another namespace"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := ask(tc.namespace, tc.machine, tc.address, tc.pool)
			if tc.says == "" && answer.Problem == "" {
				return
			}
			if answer.Reason != infrav1.ReasonAddressConflict || tc.says == "" || !strings.Contains(answer.Problem, tc.says) {
				t.Errorf("%+v, want %q", answer, tc.says)
			}
		})
	}
	s.host.Spec.Claim.State = infrav1.ClaimReleasing
	must(t, s.Update(t.Context(), s.host))
	s.want(ask(here, "m9", "10.20.3.7", place.Pool), infrav1.ReasonAddressConflict, "/h1 may still use")
	s.host.Spec.Claim.FencedTime = metav1.Now()
	must(t, s.Update(t.Context(), s.host))
	if answer := ask(here, "m9", "10.20.3.7", place.Pool); answer.Problem != "" {
		t.Errorf("its server is off: %+v", answer)
	}
}

// Two machines never mean the same claim, whatever their names and links.
func TestMachineClaimName(t *testing.T) {
	names := map[string]bool{}
	for _, of := range []struct {
		machine, link string
		index         int
	}{{"a", "b-c", 0}, {"a-b", "c", 0}, {"a-b", "c", 1}, {"a", "b", 0}, {"a-b-0", "c", 0}, {strings.Repeat("a", 250), "b", 0}, {strings.Repeat("a", 251), "b", 0}} {
		name := pool.MachineClaimName(of.machine, networkdata.Place{Link: of.link, Index: of.index})
		if names[name] || len(name) > 253 {
			t.Errorf("%v: %s, %d characters", of, name, len(name))
		}
		names[name] = true
	}
	if name := pool.MachineClaimName("workers-x7k2p", place.Place); !strings.HasPrefix(name, "workers-x7k2p-bond0.120-1-") {
		t.Errorf("%s does not say whose it is", name)
	}
}
