// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
	"github.com/ingot-metal/ingot/test/testscheme"
)

const namespace = "dc1"

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func templateRef(kind, name string) clusterv1.ClusterClassTemplateReference {
	return clusterv1.ClusterClassTemplateReference{APIVersion: infrav1.GroupVersion.String(), Kind: kind, Name: name}
}

// class returns a ClusterClass of Ingot, with or without images of the catalog.
func class(name string, usesCatalog bool) *clusterv1.ClusterClass {
	c := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.Spec.Infrastructure.TemplateRef = templateRef(kindClusterTemplate, "ct")
	c.Spec.ControlPlane.MachineInfrastructure.TemplateRef = templateRef(kindMachineTemplate, "cp")
	c.Spec.Workers.MachineDeployments = []clusterv1.MachineDeploymentClass{{Class: "default-worker"}}
	c.Spec.Workers.MachineDeployments[0].Infrastructure.TemplateRef = templateRef(kindMachineTemplate, "worker")
	if usesCatalog {
		c.Spec.Patches = []clusterv1.ClusterClassPatch{{Name: "inventory", External: &clusterv1.ExternalPatchDefinition{GeneratePatchesExtension: "generate-patches.ingot"}}}
	}
	return c
}

func variable(name, value string) clusterv1.ClusterVariable {
	return clusterv1.ClusterVariable{Name: name, Value: apiextensionsv1.JSON{Raw: []byte(value)}}
}

// cluster returns a Cluster with one control plane machine and workers in md-0.
func cluster(class string, workers int32, edits ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1", UID: "u1"}}
	c.Spec.Topology = clusterv1.Topology{
		ClassRef: clusterv1.ClusterClassRef{Name: class}, Version: "v1.36.1",
		ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To[int32](1)},
		Workers:      clusterv1.WorkersTopology{MachineDeployments: []clusterv1.MachineDeploymentTopology{{Class: "default-worker", Name: "md-0", Replicas: &workers}}},
	}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

// isBuilt sets infrastructureRef and controlPlaneRef.
func isBuilt(c *clusterv1.Cluster) {
	c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kindCluster, Name: "c1"}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "c1-cp"}
}

func ofAnother(c *clusterv1.Cluster) {
	c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "DockerCluster", Name: "c1"}
}

func with(variables ...clusterv1.ClusterVariable) func(*clusterv1.Cluster) {
	return func(c *clusterv1.Cluster) { c.Spec.Topology.Variables = variables }
}

// free returns n claimable amd64 hosts.
func free(n int, labels map[string]string) []client.Object {
	var out []client.Object
	for i := range n {
		name := fmt.Sprintf("h%d", i)
		out = append(out, &infrav1.IngotHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
			Spec:       infrav1.IngotHostSpec{BMC: &infrav1.BMC{Address: "https://192.0.2.1"}, BootMACAddress: "02:00:00:00:00:01", Record: &infrav1.HostRecord{InspectedTime: metav1.Unix(1, 0), SanitizedTime: metav1.Unix(2, 0)}},
			Status: infrav1.IngotHostStatus{Conditions: []metav1.Condition{
				{Type: infrav1.HostAvailableCondition, Status: metav1.ConditionTrue}, {Type: infrav1.HostBMCReachableCondition, Status: metav1.ConditionTrue},
			}},
		}, &infrav1.IngotHardware{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: infrav1.IngotHardwareSpec{Architecture: "amd64", MemoryBytes: 64 << 30, CPU: infrav1.HardwareCPU{Cores: 8},
				Disks: []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: "s", SizeBytes: ptr.To[int64](480e9)}}},
		})
	}
	return out
}

func image(version, architecture string) *infrav1.IngotImage {
	return &infrav1.IngotImage{ObjectMeta: metav1.ObjectMeta{Name: "os-" + version + "-" + architecture},
		Spec: infrav1.IngotImageSpec{KubernetesVersion: version, Architecture: architecture, OS: "os", URL: "https://x/" + version}}
}

// ofSystem sets the operating system of an image.
func ofSystem(system string, i *infrav1.IngotImage) *infrav1.IngotImage {
	i.Name, i.Spec.OS = i.Name+"-"+system, system
	return i
}

// machineOf returns a machine of c1: of a MachineDeployment, or of the control plane if it is empty.
func machineOf(name, deployment string) *infrav1.IngotMachine {
	m := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}}}
	m.Labels[clusterv1.MachineControlPlaneLabel] = ""
	if deployment != "" {
		delete(m.Labels, clusterv1.MachineControlPlaneLabel)
		m.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] = deployment
	}
	return m
}

// holding sets the host of a machine.
func holding(m *infrav1.IngotMachine, host string) *infrav1.IngotMachine {
	m.Spec.ProviderID = infrav1.ProviderID{Namespace: namespace, Host: host, InstanceID: "1b0e5e0c-9c3e-4b59-9a6c-6a1f0c3f6f11"}.String()
	return m
}

// rollout returns an existing control plane and workers with their maxSurge.
func rollout(controlPlane, workers int) []client.Object {
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1-cp"}}
	kcp.Spec.Replicas = ptr.To[int32](3)
	kcp.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt(controlPlane))
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1-md-0", Labels: map[string]string{
		clusterv1.ClusterNameLabel: "c1", clusterv1.ClusterTopologyOwnedLabel: "", clusterv1.ClusterTopologyMachineDeploymentNameLabel: "md-0",
	}}}
	md.Spec.Replicas = ptr.To[int32](2)
	md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt(workers))
	return []client.Object{kcp, md}
}

// planner is a Planner that keeps reservations in memory.
type planner struct {
	client client.Client
	err    error
	asked  []allocation.PlanRequest
	// finished lists the Clusters with a completed upgrade.
	finished []types.NamespacedName
}

func (p *planner) EndUpgrade(_ context.Context, _ types.UID, cluster types.NamespacedName) error {
	p.finished = append(p.finished, cluster)
	return p.err
}

func (p *planner) Reserve(ctx context.Context, _ types.UID, request allocation.PlanRequest) (allocation.ReservationPlan, error) {
	p.asked = append(p.asked, request)
	if p.err != nil {
		return allocation.ReservationPlan{}, p.err
	}
	snapshot, err := p.Snapshot(ctx, request.Namespace)
	if err != nil {
		return allocation.ReservationPlan{}, err
	}
	return allocation.PlanReservation(request, snapshot)
}

// Snapshot lists the inventory.
func (p *planner) Snapshot(ctx context.Context, namespace string) (allocation.Snapshot, error) {
	hosts, facts := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}
	machines, reservations := &infrav1.IngotMachineList{}, &infrav1.IngotReservationList{}
	for _, list := range []client.ObjectList{hosts, facts, machines, reservations} {
		if err := p.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return allocation.Snapshot{}, err
		}
	}
	return allocation.Snapshot{Candidates: allocation.Candidates(hosts.Items, facts.Items), Machines: machines.Items,
		Reservations: reservations.Items, Now: time.Unix(10, 0)}, nil
}

var errContendedTest = errors.New("contended")

// site is a set of objects with the handlers.
type site struct {
	Options
	client  client.Client
	planner *planner
	events  *events.FakeRecorder
}

func newSite(t *testing.T, objects ...client.Object) *site {
	t.Helper()
	scheme := testscheme.Scheme(t, controlplanev1.AddToScheme)
	base := []client.Object{
		class("ingot", false), class("ingot-runtime", true),
		&infrav1.IngotClusterTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ct"}},
		&infrav1.IngotMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cp"}},
		&infrav1.IngotMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "worker"}},
		&infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}},
	}
	hosted := class("hosted", true)
	hosted.Spec.ControlPlane.MachineInfrastructure = clusterv1.ControlPlaneClassMachineInfrastructureTemplate{}
	mixed := class("mixed", true)
	mixed.Spec.Workers.MachineDeployments[0].Infrastructure.TemplateRef.Kind = "DockerMachineTemplate"
	foreign := mixed.DeepCopy()
	foreign.Name, foreign.Spec.ControlPlane.MachineInfrastructure = "foreign", hosted.Spec.ControlPlane.MachineInfrastructure
	base = append(base, hosted, mixed, foreign)
	docker := class("docker", false)
	docker.Spec.Infrastructure.TemplateRef.Kind = "DockerClusterTemplate"
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(append(base, docker), objects...)...).Build()
	s := &site{client: c, planner: &planner{client: c}, events: events.NewFakeRecorder(10)}
	s.Options = Options{
		Inventory: Inventory{Cache: c, Live: c, Snapshot: s.planner.Snapshot},
		Planner:   s.planner, Contended: errContendedTest, Recorder: s.events,
	}
	return s
}
