// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pool_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/ipam/pool"
	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// site is a namespace with a host on a network with a pool.
type site struct {
	*envtest.Indexed
	t       *testing.T
	pools   pool.Pools
	host    *infrav1.IngotHost
	network *infrav1.IngotNetwork
}

func newSite(t *testing.T, cfg *rest.Config) *site {
	t.Helper()
	c := envtest.NewIndexed(t, cfg, testscheme.Scheme(t, ipamv1.AddToScheme))
	must(t, index.Setup(t.Context(), c))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "pool-"}}
	must(t, c.Create(t.Context(), namespace))
	network := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name}}
	network.Spec = infrav1.IngotNetworkSpec{Subnet: "10.10.0.0/24", Gateway: "10.10.0.1",
		AddressPoolRef: &infrav1.AddressPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "rack-a"}}
	must(t, c.Create(t.Context(), network))
	s := &site{Indexed: c, t: t, pools: pool.Pools{Client: c}, network: network}
	s.host = s.newHost("h1", "52:54:00:00:00:01")
	return s
}

func (s *site) newHost(name, mac string) *infrav1.IngotHost {
	s.t.Helper()
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: s.network.Name, Name: name}}
	host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = mac, s.network.Name
	must(s.t, s.Create(s.t.Context(), host))
	return host
}

// claim asks for the host's address.
func (s *site) claim() pool.Answer {
	s.t.Helper()
	answer, err := s.pools.Claim(s.t.Context(), s.host, s.network)
	must(s.t, err)
	return answer
}

func (s *site) theClaim() *ipamv1.IPAddressClaim {
	s.t.Helper()
	claim := &ipamv1.IPAddressClaim{}
	must(s.t, s.Get(s.t.Context(), client.ObjectKey{Namespace: s.host.Namespace, Name: pool.ClaimName(s.host.Name, s.network.Name)}, claim))
	return claim
}

// provide does what an IPAM provider does with a claim: it makes the address, and names
// it in the claim's status.
func (s *site) provide(address string) {
	s.t.Helper()
	claim := s.theClaim()
	given := &ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, GenerateName: claim.Name + "-"}}
	given.Spec = ipamv1.IPAddressSpec{ClaimRef: ipamv1.IPAddressClaimReference{Name: claim.Name}, PoolRef: claim.Spec.PoolRef, Address: address, Prefix: ptr.To[int32](24)}
	must(s.t, s.Create(s.t.Context(), given))
	claim.Status.AddressRef.Name = given.Name
	must(s.t, s.Status().Update(s.t.Context(), claim))
}

func (s *site) refuse(reason, message string) {
	s.t.Helper()
	claim := s.theClaim()
	claim.Status.Conditions = []metav1.Condition{{Type: ipamv1.IPAddressClaimReadyCondition, Status: metav1.ConditionFalse,
		Reason: reason, Message: message, LastTransitionTime: metav1.Now()}}
	must(s.t, s.Status().Update(s.t.Context(), claim))
}

func (s *site) want(answer pool.Answer, reason, says string) {
	s.t.Helper()
	if answer.Address.IsValid() || answer.Reason != reason || !strings.Contains(answer.Problem, says) {
		s.t.Errorf("got %+v, want %s with %q", answer, reason, says)
	}
}

// TestPools runs all tests on one API server.
func TestPools(t *testing.T) {
	cfg := envtest.Start(t, envtest.IngotCRDs(t), envtest.ClusterAPICRDs(t))
	for name, run := range map[string]func(*testing.T, *site){
		"claim": testClaim, "exhausted": testExhausted, "deleted": testDeleted, "conflicts": testConflicts, "owner": testOwner, "another pool": testAnotherPool,
		"kept": testKept, "released": testReleased, "for a machine": testMachineClaim, "still had": testStillHad,
		"namespace terminating": testNamespaceTerminating,
	} {
		t.Run(name, func(t *testing.T) { run(t, newSite(t, cfg)) })
	}
	t.Run("installed", func(t *testing.T) {
		if !pool.Installed(mapper(t, cfg)) {
			t.Error("the definitions are not found")
		}
	})
}

// A claim is the host's, and its address is the host's once the provider has given it.
func testClaim(t *testing.T, s *site) {
	answer := s.claim()
	s.want(answer, infrav1.ReasonWaitingForAddress, "has not answered yet")
	if !answer.Created {
		t.Error("it is not said that the claim was made")
	}
	claim := s.theClaim()
	want := ipamv1.IPPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "InClusterIPPool", Name: "rack-a"}
	if claim.Spec.PoolRef != want || !metav1.IsControlledBy(claim, s.host) {
		t.Errorf("claim of %+v, owners %+v", claim.Spec, claim.OwnerReferences)
	}
	s.want(s.claim(), infrav1.ReasonWaitingForAddress, claim.Name)
	s.provide("10.10.0.20")
	for range 2 {
		if answer := s.claim(); answer.Address.String() != "10.10.0.20" || answer.Problem != "" || answer.Created {
			t.Errorf("%+v", answer)
		}
	}
	if got := s.theClaim().UID; got != claim.UID {
		t.Error("the claim was made twice")
	}
}

func testExhausted(t *testing.T, s *site) {
	s.claim()
	s.refuse(ipamv1.IPAddressClaimReadyPoolExhaustedReason, "all 3 addresses are taken")
	s.want(s.claim(), infrav1.ReasonAddressesExhausted, "all 3 addresses are taken")
	s.refuse(ipamv1.IPAddressClaimReadyPoolNotReadyReason, "no such pool")
	s.want(s.claim(), infrav1.ReasonWaitingForAddress, "no such pool")
}

// In a namespace that is being deleted no claim can be made. That is an answer, which names the
// way out, and no error, which would stop the host's reconcile (I23).
func testNamespaceTerminating(t *testing.T, s *site) {
	must(t, s.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.host.Namespace}}))
	s.want(s.claim(), infrav1.ReasonNamespaceTerminating, infrav1.ForceReleaseAnnotation)
}

// A claim that somebody deletes is made again, once it is gone.
func testDeleted(t *testing.T, s *site) {
	s.claim()
	s.provide("10.10.0.20")
	claim := s.theClaim()
	claim.Finalizers = []string{"ipam.example/hold"} // as providers do
	must(t, s.Update(t.Context(), claim))
	must(t, s.Delete(t.Context(), claim))
	s.want(s.claim(), infrav1.ReasonWaitingForAddress, "is being deleted")
	claim = s.theClaim()
	claim.Finalizers = nil
	must(t, s.Update(t.Context(), claim))
	if answer := s.claim(); !answer.Created {
		t.Errorf("%+v", answer)
	}
	s.provide("10.10.0.21")
	if answer := s.claim(); answer.Address.String() != "10.10.0.21" {
		t.Errorf("%+v", answer)
	}
}

// What a pool gives is looked at.
func testConflicts(t *testing.T, s *site) {
	other := s.newHost("h2", "52:54:00:00:00:02")
	facts := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: other.Namespace, Name: other.Name}}
	facts.Spec.Address = &infrav1.RecordedAddress{NetworkName: s.network.Name, MAC: other.Spec.BootMACAddress, IP: "10.10.0.30"}
	must(t, s.Create(t.Context(), facts))
	runs := s.newHost("h3", "52:54:00:00:00:03")
	runs.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m"}, ClusterName: "c", InstanceID: "4b1a7a57-5d55-4f5a-8a3c-6b1d6a0a7a57", State: infrav1.ClaimProvisioned, Cleaning: infrav1.CleaningMetadata, Hostname: "m",
		Image:   infrav1.Image{URL: "http://images.example/x", Checksum: "sha256:" + strings.Repeat("0", 64), Format: infrav1.ImageFormatRaw},
		Network: &infrav1.ClaimedNetwork{Config: "version: 2\n", Addresses: []string{"10.10.0.31"}}}
	must(t, s.Update(t.Context(), runs))
	s.claim()
	for address, want := range map[string][2]string{
		"10.10.0.31":  {infrav1.ReasonAddressConflict, "in an installed system"},
		"10.10.0.30":  {infrav1.ReasonAddressConflict, "an address of IngotHost"},
		"10.10.0.1":   {infrav1.ReasonAddressConflict, "uses otherwise"},
		"10.11.0.30":  {infrav1.ReasonAddressPoolUnusable, "not an address of 10.10.0.0/24"},
		"2001:db8::1": {infrav1.ReasonAddressPoolUnusable, "2001:db8::1"},
	} {
		s.provide(address)
		s.want(s.claim(), want[0], want[1])
	}
	for mac, mine := range map[string]bool{s.host.Spec.BootMACAddress: true, "52:54:00:00:00:02": false} {
		s.network.Spec.StaticLeases = []infrav1.StaticLease{{MAC: mac, IP: "10.10.0.32"}}
		s.provide("10.10.0.32")
		if answer := s.claim(); (answer.Address.String() == "10.10.0.32") != mine {
			t.Errorf("reserved for %s: %+v", mac, answer)
		}
	}
	s.network.Spec.StaticLeases = nil
	testEndpoints(t, s)
	claim := s.theClaim()
	claim.Status.AddressRef.Name = "gone"
	must(t, s.Status().Update(t.Context(), claim))
	s.want(s.claim(), infrav1.ReasonWaitingForAddress, "does not exist")
}

// cluster makes an IngotCluster with an endpoint.
func (s *site) cluster(namespace, name, host string) {
	s.t.Helper()
	cluster := &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	cluster.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: host, Port: 6443}
	must(s.t, s.Create(s.t.Context(), cluster))
	s.t.Cleanup(func() { must(s.t, s.Delete(context.Background(), cluster)) })
}

// The endpoint of a control plane is no host's address, unless it is reserved for its boot
// NIC, or the host has it: people make clusters that are reached by a server's own address.
func testEndpoints(t *testing.T, s *site) {
	s.cluster(s.host.Namespace, "prod", "10.10.0.40")
	s.cluster("default", "elsewhere", "10.10.0.41")
	for address, says := range map[string]string{
		"10.10.0.40": "pool rack-a assigned 10.10.0.40, the control plane endpoint of IngotCluster " + s.host.Namespace + "/prod: exclude it in the pool, then delete IPAddressClaim " + s.theClaim().Name,
		"10.10.0.41": "the control plane endpoint of a cluster of another namespace",
	} {
		s.provide(address)
		s.want(s.claim(), infrav1.ReasonAddressConflict, says)
	}
	s.provide("10.10.0.40")
	own := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: s.host.Namespace, Name: s.host.Name}}
	own.Spec.Address = &infrav1.RecordedAddress{NetworkName: s.network.Name, MAC: s.host.Spec.BootMACAddress, IP: "10.10.0.40"}
	for name, has := range map[string]func() (undo func()){
		"reserved": func() func() {
			s.network.Spec.StaticLeases = []infrav1.StaticLease{{MAC: s.host.Spec.BootMACAddress, IP: "10.10.0.40"}}
			return func() { s.network.Spec.StaticLeases = nil }
		},
		"recorded": func() func() {
			must(t, s.Create(t.Context(), own))
			return func() { must(t, s.Delete(t.Context(), own)) }
		},
	} {
		undo := has()
		if answer := s.claim(); answer.Address.String() != "10.10.0.40" {
			t.Errorf("%s: %+v", name, answer)
		}
		undo()
	}
	s.want(s.claim(), infrav1.ReasonAddressConflict, "the control plane endpoint")
}

// The owner that a backup lost is put back; another's claim is left alone.
func testOwner(t *testing.T, s *site) {
	s.claim()
	s.provide("10.10.0.20")
	claim := s.theClaim()
	claim.OwnerReferences = nil
	must(t, s.Update(t.Context(), claim))
	if answer := s.claim(); !answer.Address.IsValid() || !metav1.IsControlledBy(s.theClaim(), s.host) {
		t.Errorf("%+v, owners %+v", answer, s.theClaim().OwnerReferences)
	}
	for _, tc := range []struct{ kind, name, reason, says string }{
		{"IngotHost", "h1", infrav1.ReasonWaitingForAddress, "belongs to a deleted IngotHost of this name"},
		{"IngotHost", "h1-10", infrav1.ReasonAddressConflict, "belongs to IngotHost h1-10, which has its address: keep it, and give IngotHost h1 another name"},
		{"ConfigMap", "h1", infrav1.ReasonAddressConflict, "belongs to ConfigMap h1; if nothing uses its address, delete it"},
	} {
		claim = s.theClaim()
		claim.OwnerReferences[0].UID, claim.OwnerReferences[0].Kind, claim.OwnerReferences[0].Name = "another", tc.kind, tc.name
		must(t, s.Update(t.Context(), claim))
		for _, pool := range []string{"rack-a", "rack-b"} {
			s.network.Spec.AddressPoolRef.Name = pool
			s.want(s.claim(), tc.reason, tc.says)
			s.theClaim() // it is there still
		}
	}
}

// The network names another pool: the claim is made anew.
func testAnotherPool(t *testing.T, s *site) {
	s.claim()
	s.provide("10.10.0.20")
	s.network.Spec.AddressPoolRef.Name = "rack-b"
	s.want(s.claim(), infrav1.ReasonWaitingForAddress, "another pool")
	if answer := s.claim(); !answer.Created || s.theClaim().Spec.PoolRef.Name != "rack-b" {
		t.Errorf("%+v, %+v", answer, s.theClaim().Spec)
	}
}

// A host in use keeps the address that the earlier pool gave it, and the claim that
// holds it there; once it is free it has one of the new pool.
func testKept(t *testing.T, s *site) {
	uses := map[string]func(*infrav1.IngotHostSpec){
		"claimed":       func(spec *infrav1.IngotHostSpec) { spec.Claim = &infrav1.HostClaim{} },
		"with an order": func(spec *infrav1.IngotHostSpec) { spec.Order = &infrav1.HostOrder{} },
	}
	s.claim()
	s.network.Spec.AddressPoolRef.Name = "rack-b"
	uses["claimed"](&s.host.Spec)
	s.want(s.claim(), infrav1.ReasonWaitingForAddress, "another pool") // it has no address yet
	s.claim()
	s.provide("10.10.0.20")
	s.network.Spec.AddressPoolRef.Name = "rack-c"
	for name, use := range uses {
		s.host.Spec.Claim, s.host.Spec.Order = nil, nil
		use(&s.host.Spec)
		if answer := s.claim(); answer.Address.String() != "10.10.0.20" || s.theClaim().Spec.PoolRef.Name != "rack-b" {
			t.Errorf("%s: %+v, claim of %s", name, answer, s.theClaim().Spec.PoolRef.Name)
		}
	}
	s.host.Spec.Claim, s.host.Spec.Order = nil, nil
	s.want(s.claim(), infrav1.ReasonWaitingForAddress, "another pool")
	if answer := s.claim(); !answer.Created || s.theClaim().Spec.PoolRef.Name != "rack-c" {
		t.Errorf("%+v, %+v", answer, s.theClaim().Spec)
	}
}

// On another network the host lets its old claim go, and nobody else's.
func testReleased(t *testing.T, s *site) {
	s.claim()
	mine := s.host
	s.host = s.newHost("h2", "52:54:00:00:00:02")
	s.claim()
	must(t, s.pools.Release(t.Context(), mine, s.network.Name))
	must(t, s.pools.Release(t.Context(), mine, "another"))
	claims := &ipamv1.IPAddressClaimList{}
	must(t, s.List(t.Context(), claims, client.InNamespace(s.host.Namespace)))
	if len(claims.Items) != 1 || !metav1.IsControlledBy(&claims.Items[0], s.host) {
		t.Errorf("%d claims are left", len(claims.Items))
	}
	claim := s.theClaim()
	claim.OwnerReferences[0].UID = "another"
	must(t, s.Update(t.Context(), claim))
	must(t, s.pools.Release(t.Context(), s.host, ""))
	claim = s.theClaim()
	claim.OwnerReferences[0].UID = s.host.UID
	must(t, s.Update(t.Context(), claim))
	must(t, s.pools.Release(t.Context(), s.host, ""))
	if must(t, s.List(t.Context(), claims, client.InNamespace(s.host.Namespace))); len(claims.Items) != 0 {
		t.Errorf("%d claims are left on the network that was left", len(claims.Items))
	}
}

// Without the definitions nothing breaks, and it is said what is missing.
func TestNotInstalled(t *testing.T) {
	cfg := envtest.Start(t, envtest.IngotCRDs(t))
	if pool.Installed(mapper(t, cfg)) {
		t.Error("the definitions are said to be there")
	}
	s := newSite(t, cfg)
	s.want(s.claim(), infrav1.ReasonAddressPoolUnusable, "not installed")
	must(t, s.pools.Release(context.Background(), s.host, s.network.Name))
}

func TestClaimName(t *testing.T) {
	long := strings.Repeat("a", 250)
	names := map[string]bool{}
	for _, pair := range [][2]string{{"h1", "rack-a"}, {long, "rack-a"}, {long, "rack-b"}, {long + "b", "rack-a"}, {strings.Repeat("a.", 124) + "b", "nn"}} {
		name := pool.ClaimName(pair[0], pair[1])
		if len(name) > 253 || names[name] || strings.Contains(name, ".-") {
			t.Errorf("%.20s… on %s: %d characters, %s", pair[0], pair[1], len(name), name)
		}
		names[name] = true
	}
	if !names["h1-rack-a"] {
		t.Error("short names are not as they are read")
	}
}

func mapper(t *testing.T, cfg *rest.Config) meta.RESTMapper {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(cfg)
	must(t, err)
	m, err := apiutil.NewDynamicRESTMapper(cfg, httpClient)
	must(t, err)
	return m
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
