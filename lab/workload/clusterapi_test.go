// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package workload_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/lab/workload"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/needs"
)

// TestKubeadmControlPlane shows that the real controllers of Cluster API work with a cluster on a
// plane. The infrastructure consists of kinds without a schema, whose machines boot as soon as they
// have bootstrap data.
func TestKubeadmControlPlane(t *testing.T) {
	needs.Full(t)
	needs.ClusterAPI(t)
	s := newStage(t)
	s.create(t, "Cluster", s.cluster())
	s.create(t, "KubeadmControlPlane", s.controlPlane(1))
	s.await(t, "a control plane of one", s.controlPlaneReady(1))
	s.create(t, "KubeadmConfigTemplate", workerConfig())
	s.create(t, "MachineDeployment", s.workers(1))
	s.await(t, "a worker with a Node", s.machinesRun(2))
	s.scale(t, 3)
	s.await(t, "a control plane of three", s.controlPlaneReady(3))

	node := s.nodeOf(t, "workers")
	s.await(t, "the worker to be healthy", s.nodeHealth(node, metav1.ConditionTrue))
	s.powerOff(node)
	s.await(t, "the Machine to see that its server is off", s.nodeHealth(node, metav1.ConditionUnknown))
	s.powerOn(node)
	s.await(t, "the Machine to see the same Node again", s.nodeHealth(node, metav1.ConditionTrue))
	s.scale(t, 1)
	s.await(t, "a control plane of one again", s.controlPlaneReady(1))
}

// group is the API group of the infrastructure.
var group = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

const kubernetesVersion = "v1.36.3"

// stage is a management cluster with this infrastructure.
type stage struct {
	plane    *controlplane.ControlPlane
	client   client.Client
	workload *workload.Plane
	endpoint netip.AddrPort

	mu    sync.Mutex
	hosts map[string]*host
	tasks sync.WaitGroup
}

// host is a minimal server that boots its user data.
type host struct {
	os     server.System
	cancel context.CancelFunc
	done   chan struct{}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	cp, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(cp.Stop)
	must(t, cp.InstallClusterAPI(t.Context()))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme, apiextensionsv1.AddToScheme, corev1.AddToScheme,
	} {
		must(t, add(scheme))
	}
	c, err := client.New(cp.RESTConfig(), client.Options{Scheme: scheme})
	must(t, err)
	s := &stage{plane: cp, client: c, hosts: map[string]*host{}}
	s.workload, err = workload.Start(t.Context(), workload.Config{Address: netip.MustParseAddr("127.0.0.1")})
	must(t, err)
	t.Cleanup(func() { must(t, s.workload.Close()) })
	s.endpoint, err = s.workload.Reserve()
	must(t, err)
	for _, kind := range []string{"LabCluster", "LabMachine", "LabMachineTemplate"} {
		s.define(t, kind)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s.tasks.Go(func() { s.provide(ctx) })
	t.Cleanup(func() {
		cancel()
		s.tasks.Wait()
		for name := range s.hosts {
			s.powerOff(name)
		}
	})
	return s
}

// define installs a kind without a schema.
func (s *stage) define(t *testing.T, kind string) {
	t.Helper()
	singular := strings.ToLower(kind)
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: singular + "s." + group.Group, Labels: map[string]string{"cluster.x-k8s.io/v1beta2": group.Version},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: singular + "s", Singular: singular},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: group.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}},
			}},
		},
	}
	must(t, s.client.Create(t.Context(), crd))
	s.await(t, kind+" to be served", func(ctx context.Context) string {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(group.WithKind(kind + "List"))
		if err := s.client.List(ctx, list); err != nil {
			return err.Error()
		}
		return ""
	})
}

// provide is the controller of the infrastructure: it provisions clusters at once, and machines after
// they have bootstrap data and are powered on.
func (s *stage) provide(ctx context.Context) {
	for ctx.Err() == nil {
		_ = s.reconcile(ctx) // repeated at the next tick
		time.Sleep(100 * time.Millisecond)
	}
}

func (s *stage) reconcile(ctx context.Context) error {
	clusters, machines := &unstructured.UnstructuredList{}, &unstructured.UnstructuredList{}
	clusters.SetGroupVersionKind(group.WithKind("LabClusterList"))
	machines.SetGroupVersionKind(group.WithKind("LabMachineList"))
	if err := s.client.List(ctx, clusters); err != nil {
		return err
	}
	for i := range clusters.Items {
		if err := s.provisioned(ctx, &clusters.Items[i]); err != nil {
			return err
		}
	}
	if err := s.client.List(ctx, machines); err != nil {
		return err
	}
	living := map[string]bool{}
	for i := range machines.Items {
		living[machines.Items[i].GetName()] = true
		if err := s.machine(ctx, &machines.Items[i]); err != nil {
			return err
		}
	}
	s.mu.Lock()
	var gone []string
	for name := range s.hosts {
		if !living[name] {
			gone = append(gone, name)
		}
	}
	s.mu.Unlock()
	for _, name := range gone {
		s.powerOff(name)
		s.mu.Lock()
		delete(s.hosts, name)
		s.mu.Unlock()
	}
	return nil
}

func (s *stage) provisioned(ctx context.Context, obj *unstructured.Unstructured) error {
	if done, _, _ := unstructured.NestedBool(obj.Object, "status", "initialization", "provisioned"); done {
		return nil
	}
	obj.Object["status"] = map[string]any{"initialization": map[string]any{"provisioned": true}}
	return s.client.Status().Update(ctx, obj)
}

func (s *stage) machine(ctx context.Context, obj *unstructured.Unstructured) error {
	name := obj.GetName()
	s.mu.Lock()
	known := s.hosts[name] != nil
	s.mu.Unlock()
	if known {
		return s.provisioned(ctx, obj)
	}
	owners := obj.GetOwnerReferences()
	if len(owners) == 0 {
		return nil
	}
	machine := &clusterv1.Machine{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: owners[0].Name}, machine); err != nil || machine.Spec.Bootstrap.DataSecretName == nil {
		return err
	}
	secret := &corev1.Secret{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: *machine.Spec.Bootstrap.DataSecretName}, secret); err != nil {
		return err
	}
	id := "lab://default/" + name
	if err := unstructured.SetNestedField(obj.Object, id, "spec", "providerID"); err != nil {
		return err
	}
	if err := s.client.Update(ctx, obj); err != nil {
		return err
	}
	s.mu.Lock()
	s.hosts[name] = &host{os: server.System{
		Server: name, UUID: "6a1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa", UserData: string(secret.Data["value"]),
		MetaData: fmt.Sprintf("instance-id: %s-1\nlocal-hostname: %s\nprovider_id: %s\n", name, name, id),
		Address:  netip.MustParseAddr("10.0.0.1"), Event: func(string, ...any) {},
	}}
	s.mu.Unlock()
	s.powerOn(name)
	return nil
}

// powerOn boots a host, which has no user data after its first boot.
func (s *stage) powerOn(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[name]
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel, h.done = cancel, make(chan struct{})
	os := h.os
	h.os.UserData = ""
	go func() { defer close(h.done); s.workload.Boot(ctx, os) }()
}

func (s *stage) powerOff(name string) {
	s.mu.Lock()
	h := s.hosts[name]
	s.mu.Unlock()
	h.cancel()
	<-h.done
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *stage) create(t *testing.T, what string, obj client.Object) {
	t.Helper()
	if err := s.client.Create(t.Context(), obj); err != nil {
		t.Fatalf("create %s: %v", what, err)
	}
}

// await waits until nothing is missing. Minutes are needed only on a very busy machine.
func (s *stage) await(t *testing.T, what string, missing func(context.Context) string) {
	t.Helper()
	eventually.Wait{Limit: 5 * time.Minute, Interval: 200 * time.Millisecond, Report: time.Minute, Broken: s.plane.Err}.
		Until(t, what, func(ctx context.Context) (string, error) { return missing(ctx), nil })
}

func ref(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: group.Group, Kind: kind, Name: name}
}

// cluster also creates the infrastructure objects.
func (s *stage) cluster() *clusterv1.Cluster {
	for kind, spec := range map[string]map[string]any{
		"LabCluster":         {"controlPlaneEndpoint": map[string]any{"host": s.endpoint.Addr().String(), "port": int64(s.endpoint.Port())}},
		"LabMachineTemplate": {"template": map[string]any{"spec": map[string]any{}}},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		obj.SetGroupVersionKind(group.WithKind(kind))
		obj.SetNamespace("default")
		obj.SetName("c1")
		if err := s.client.Create(context.Background(), obj); err != nil {
			panic(err)
		}
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Namespace: "default"}}
	cluster.Spec.InfrastructureRef = ref("LabCluster", "c1")
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "c1"}
	return cluster
}

// registration passes the provider ID to the kubelet through instance metadata.
func registration() bootstrapv1.NodeRegistrationOptions {
	return bootstrapv1.NodeRegistrationOptions{
		Name:             "{{ ds.meta_data.local_hostname }}",
		KubeletExtraArgs: []bootstrapv1.Arg{{Name: "provider-id", Value: ptr.To("{{ ds.meta_data.provider_id }}")}},
	}
}

func (s *stage) controlPlane(replicas int32) *controlplanev1.KubeadmControlPlane {
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "c1", Namespace: "default"}}
	kcp.Spec.Replicas, kcp.Spec.Version = ptr.To(replicas), kubernetesVersion
	kcp.Spec.MachineTemplate.Spec.InfrastructureRef = ref("LabMachineTemplate", "c1")
	kcp.Spec.KubeadmConfigSpec.InitConfiguration.NodeRegistration = registration()
	kcp.Spec.KubeadmConfigSpec.JoinConfiguration.NodeRegistration = registration()
	return kcp
}

func workerConfig() *bootstrapv1.KubeadmConfigTemplate {
	config := &bootstrapv1.KubeadmConfigTemplate{ObjectMeta: metav1.ObjectMeta{Name: "workers", Namespace: "default"}}
	config.Spec.Template.Spec.JoinConfiguration.NodeRegistration = registration()
	return config
}

func (s *stage) workers(replicas int32) *clusterv1.MachineDeployment {
	labels := map[string]string{"pool": "workers"}
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "workers", Namespace: "default"}}
	md.Spec.ClusterName, md.Spec.Replicas = "c1", ptr.To(replicas)
	md.Spec.Selector.MatchLabels, md.Spec.Template.Labels = labels, labels
	md.Spec.Template.Spec.ClusterName, md.Spec.Template.Spec.Version = "c1", kubernetesVersion
	md.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfigTemplate", Name: "workers",
	}
	md.Spec.Template.Spec.InfrastructureRef = ref("LabMachineTemplate", "c1")
	return md
}

func (s *stage) scale(t *testing.T, replicas int32) {
	t.Helper()
	kcp := &controlplanev1.KubeadmControlPlane{}
	must(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "c1"}, kcp))
	base := kcp.DeepCopy()
	kcp.Spec.Replicas = ptr.To(replicas)
	must(t, s.client.Patch(t.Context(), kcp, client.MergeFrom(base)))
}

// controlPlaneReady returns the missing condition of a control plane with n nodes: KCP must report
// healthy pods and etcd members.
func (s *stage) controlPlaneReady(replicas int32) func(context.Context) string {
	return func(ctx context.Context) string {
		kcp := &controlplanev1.KubeadmControlPlane{}
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "c1"}, kcp); err != nil {
			return err.Error()
		}
		for _, condition := range []string{
			controlplanev1.KubeadmControlPlaneAvailableCondition, controlplanev1.KubeadmControlPlaneEtcdClusterHealthyCondition,
			controlplanev1.KubeadmControlPlaneControlPlaneComponentsHealthyCondition,
		} {
			if !conditions.IsTrue(kcp, condition) {
				return condition + ": " + conditions.GetMessage(kcp, condition)
			}
		}
		if n, ready := ptr.Deref(kcp.Status.Replicas, 0), ptr.Deref(kcp.Status.ReadyReplicas, 0); n != replicas || ready != replicas {
			return fmt.Sprintf("%d of %d ready, want %d", ready, n, replicas)
		}
		return ""
	}
}

// machinesRun returns the missing condition until n Machines have their Nodes.
func (s *stage) machinesRun(count int) func(context.Context) string {
	return func(ctx context.Context) string {
		list := &clusterv1.MachineList{}
		if err := s.client.List(ctx, list); err != nil {
			return err.Error()
		}
		for i := range list.Items {
			if m := &list.Items[i]; m.Status.Phase != string(clusterv1.MachinePhaseRunning) || !m.Status.NodeRef.IsDefined() {
				return fmt.Sprintf("%s is %s: %s", m.Name, m.Status.Phase, conditions.GetMessage(m, clusterv1.MachineReadyCondition))
			}
		}
		if len(list.Items) != count {
			return fmt.Sprintf("%d machines, want %d", len(list.Items), count)
		}
		return ""
	}
}

// nodeOf returns the node of a MachineDeployment's only Machine.
func (s *stage) nodeOf(t *testing.T, pool string) string {
	t.Helper()
	list := &clusterv1.MachineList{}
	must(t, s.client.List(t.Context(), list, client.MatchingLabels{"pool": pool}))
	if len(list.Items) != 1 {
		t.Fatalf("%d machines in %s, want 1", len(list.Items), pool)
	}
	return list.Items[0].Status.NodeRef.Name
}

// nodeHealth returns the missing condition until the Machine of a node reports its state.
func (s *stage) nodeHealth(node string, want metav1.ConditionStatus) func(context.Context) string {
	return func(ctx context.Context) string {
		list := &clusterv1.MachineList{}
		if err := s.client.List(ctx, list); err != nil {
			return err.Error()
		}
		for i := range list.Items {
			m := &list.Items[i]
			if m.Status.NodeRef.Name != node {
				continue
			}
			c := conditions.Get(m, clusterv1.MachineNodeHealthyCondition)
			if c == nil || c.Status != want {
				return fmt.Sprintf("NodeHealthy %v, want %s", c, want)
			}
			return ""
		}
		return "no machine has node " + node
	}
}
