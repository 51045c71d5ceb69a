// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/hardware"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/personality"
)

const (
	namespace = "metal"
	instance  = "11111111-1111-4111-8111-111111111111"
	released  = "22222222-2222-4222-8222-222222222222"
	// oldPassword of all BMCs.
	oldPassword = "secret"
)

// metal is a server that does what its BMC says, at once.
type metal struct {
	labbmc.BootSetting
	mu sync.Mutex
	on bool
}

func (m *metal) Powered() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.on
}

func (m *metal) Power(_ context.Context, action labbmc.Action) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on = action == labbmc.On || action == labbmc.Reset || action == labbmc.Reboot
	return nil
}

// yard are the servers with their BMCs, which both management clusters can reach.
type yard struct {
	t    *testing.T
	ca   *labbmc.Authority
	bmcs map[string]*labbmc.BMC
	// ipams are the IPAM providers, by their management clusters.
	ipams map[string]*ipam
}

func newYard(t *testing.T) *yard {
	t.Helper()
	ca, err := labbmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return &yard{t: t, ca: ca, bmcs: map[string]*labbmc.BMC{}, ipams: map[string]*ipam{}}
}

// add racks a server and returns its host's object.
func (y *yard) add(name string, machine labbmc.Machine) *infrav1.IngotHost {
	y.t.Helper()
	mac := fmt.Sprintf("52:54:00:00:00:%02x", len(y.bmcs)+1)
	var maker labbmc.Personality
	if _, counts := machine.(*labbmc.Bench); counts { // its boots, which firmware waits for
		maker, _ = personality.Named("standard")
	}
	b, err := labbmc.Start(labbmc.Config{
		Authority: y.ca, Machine: machine, Username: "root", Password: oldPassword, Personality: maker,
		System: labbmc.System{UUID: name, Serial: name, MACs: []string{mac}},
	})
	if err != nil {
		y.t.Fatal(err)
	}
	y.t.Cleanup(func() { _ = b.Close() })
	y.bmcs[name] = b
	return &infrav1.IngotHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels: map[string]string{infrav1.RackLabel: "a"}, Annotations: map[string]string{"example.com/mine": name}},
		Spec: infrav1.IngotHostSpec{
			BootMACAddress: mac, NetworkRef: infrav1.NetworkReference{Name: "net"},
			BMC: &infrav1.BMC{Address: b.Address(), CredentialsRef: infrav1.LocalReference{Name: "bmc"}, CABundleRef: &infrav1.CABundleReference{Name: "bmc-ca"}},
		},
	}
}

// actions are what the BMCs were told to do to the servers, so far.
func (y *yard) actions() map[string][]string {
	out := map[string][]string{}
	for name, b := range y.bmcs {
		out[name] = b.Actions()
	}
	return out
}

func past() metav1.Time { return metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second)) }

func image() infrav1.Image {
	return infrav1.Image{URL: "http://images.example/x.zst", Checksum: "sha256:" + strings.Repeat("0", 64), Format: infrav1.ImageFormatRaw}
}

func claimOf(machine, id string, state infrav1.ClaimState) *infrav1.HostClaim {
	return &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: machine}, ClusterName: "c1", InstanceID: id, Attempt: 1,
		State: state, Image: image(), Cleaning: infrav1.CleaningMetadata, Hostname: machine}
}

// orderOf is an order for which the server is on. An agent at work on a wipe would
// have clusterctl wait for it; that is seen in test/lifecycle.
func orderOf(host *infrav1.IngotHost, kind infrav1.OrderKind) *infrav1.HostOrder {
	order := &infrav1.HostOrder{Kind: kind, ID: "33333333-3333-4333-8333-333333333333", Attempt: 1, CreationTime: past(), HostUID: string(host.UID)}
	if kind == infrav1.OrderInspect {
		order.AgentKey = strings.Repeat("a", 64)
	}
	return order
}

// fill makes a namespace as it is in the middle of its life: a cluster with a
// machine, and hosts in every state.
func (y *yard) fill(p *plane) {
	y.t.Helper()
	p.create(&infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "net"}, Spec: infrav1.IngotNetworkSpec{
		AllowedNamespaces: &infrav1.NetworkNamespaces{Selector: &metav1.LabelSelector{}},
		Mode:              infrav1.DHCPModeReserve, Subnet: "192.0.2.0/24", Range: infrav1.AddressRange{Start: "192.0.2.10", End: "192.0.2.99"}}})
	p.create(secretOf("bmc"))
	p.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bmc-ca"}, Data: map[string]string{"ca.crt": string(y.ca.PEM())}})
	inspected := &infrav1.HostRecord{InspectedTime: past()}

	free := y.add("free", &metal{})
	free.Spec.Record = inspected
	provisioned := y.add("provisioned", &metal{on: true})
	provisioned.Spec.Claim, provisioned.Spec.Record = claimOf("m1", instance, infrav1.ClaimProvisioned), inspected
	releasing := y.add("releasing", &metal{on: true})
	releasing.Spec.Claim, releasing.Spec.Record = claimOf("gone", released, infrav1.ClaimReleasing), inspected
	releasing.Spec.Claim.FencedTime = past()
	inspecting := y.add("inspecting", &metal{on: true})
	quarantined := y.add("quarantined", &metal{})
	quarantined.Spec.BMC.CABundleRef.Name = infrav1.RootCAConfigMap
	quarantined.Spec.Record = &infrav1.HostRecord{InspectedTime: past(), CleaningDue: infrav1.CleaningMetadata,
		Quarantine: &infrav1.Quarantine{Reason: infrav1.QuarantineCleanFailed, Message: "disk 3 fails", StartTime: past()}}
	for i, host := range append([]*infrav1.IngotHost{free, provisioned, releasing, inspecting, quarantined}, y.halfway(p)...) {
		p.create(host)
		facts := y.hardwareOf(p, host)
		facts.Spec.Address = &infrav1.RecordedAddress{NetworkName: "net", MAC: host.Spec.BootMACAddress, IP: fmt.Sprintf("192.0.2.%d", 50+i)}
		p.create(facts)
	}
	y.order(p, releasing, infrav1.OrderClean)
	y.order(p, inspecting, infrav1.OrderInspect)
	y.cluster(p)
}

// hardwareOf is what an inspection found of a host that was created.
func (y *yard) hardwareOf(p *plane, host *infrav1.IngotHost) *infrav1.IngotHardware {
	y.t.Helper()
	facts, err := hardware.New(host, p.client.Scheme())
	if err != nil {
		y.t.Fatal(err)
	}
	facts.Spec.MemoryBytes = 64 << 30
	facts.Spec.NICs = []infrav1.HardwareNIC{{Name: "eth0", MAC: host.Spec.BootMACAddress}}
	facts.Spec.Disks = []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: host.Name, SizeBytes: ptr.To[int64](480e9)}}
	return facts
}

func (y *yard) order(p *plane, host *infrav1.IngotHost, kind infrav1.OrderKind) {
	y.t.Helper()
	base := host.DeepCopy()
	host.Spec.Order = orderOf(host, kind)
	if err := p.client.Patch(y.t.Context(), host, client.MergeFrom(base)); err != nil {
		y.t.Fatal(err)
	}
}

// cluster makes a Cluster with one Machine, in the state that clusterctl asks for.
func (y *yard) cluster(p *plane) {
	y.t.Helper()
	owner := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}}
	owner.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotCluster", Name: "c1"}
	p.create(owner)
	p.create(&infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1", OwnerReferences: y.owned(owner, "Cluster")}})

	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m1",
		Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}, OwnerReferences: y.owned(owner, "Cluster")}}
	machine.Spec.ClusterName = "c1"
	machine.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotMachine", Name: "m1"}
	p.create(machine)
	bond := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m1", Finalizers: []string{infrav1.MachineFinalizer},
		Labels: map[string]string{clusterv1.ClusterNameLabel: "c1", clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-0"}, OwnerReferences: y.owned(machine, "Machine")}}
	bond.Spec.Image = image()
	bond.Spec.ProviderID = infrav1.ProviderID{Namespace: namespace, Host: "provisioned", InstanceID: instance}.String()
	p.create(bond)
	y.clusterAPI(p)
}

// clusterAPI writes the status that Cluster API, which does not run here, would
// build, and that clusterctl asks for.
func (y *yard) clusterAPI(p *plane) {
	y.t.Helper()
	owner, machine := &clusterv1.Cluster{}, &clusterv1.Machine{}
	if !p.get(owner, "c1") || !p.get(machine, "m1") {
		y.t.Fatalf("%s: no cluster", p.name)
	}
	owner.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	conditions.Set(owner, metav1.Condition{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized"})
	machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: "m1"}
	for _, object := range []client.Object{owner, machine} {
		if err := p.client.Status().Update(y.t.Context(), object); err != nil {
			y.t.Fatal(err)
		}
	}
}

func (y *yard) owned(owner client.Object, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID()}}
}
