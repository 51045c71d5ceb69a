// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// M43, M44, M65 on a real API server: the watches trigger, and nothing changes while the Cluster is
// paused. The watch filter (M41) applies to operators' objects, not to IngotHardware.
func TestOnServer(t *testing.T) {
	scheme := testscheme.Scheme(t)
	cfg := envtest.Start(t, envtest.IngotCRDs(t), envtest.ClusterAPICRDs(t))
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	s := &server{t: t, ctx: t.Context()}
	s.must(err)
	s.must((&Reconciler{Client: mgr.GetClient(), WatchFilterValue: "mine"}).SetupWithManager(mgr, controller.Options{}))
	s.api, err = client.New(cfg, client.Options{Scheme: scheme})
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		s.must(<-done)
	}()

	mine := map[string]string{clusterv1.WatchLabel: "mine"}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", Labels: mine}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotCluster", Name: "c"}
	s.must(s.api.Create(s.ctx, cluster))
	s.must(s.api.Create(s.ctx, &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", Labels: mine}}))
	template := &infrav1.IngotMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "t", Labels: mine,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: cluster.UID}}}}
	template.Spec.Template.Spec.Image = infrav1.Image{URL: "http://x.example/i", Checksum: "sha256:" + strings.Repeat("0", 64), Format: infrav1.ImageFormatRaw}
	s.must(s.api.Create(s.ctx, template))
	s.eventually("is not paused", func(m *infrav1.IngotMachineTemplate) bool {
		return conditions.IsFalse(m, infrav1.PausedCondition)
	})
	s.host("h1", "52:54:00:00:00:01", 64)
	s.eventually("counts a host", func(m *infrav1.IngotMachineTemplate) bool {
		return m.Status.Capacity.Cpu().Value() == 64 && m.Status.ObservedGeneration == m.Generation
	})
	cluster.Spec.Paused = ptr.To(true)
	s.must(s.api.Update(s.ctx, cluster))
	s.eventually("is paused with its Cluster", func(m *infrav1.IngotMachineTemplate) bool {
		return conditions.IsTrue(m, infrav1.PausedCondition)
	})
	s.host("h2", "52:54:00:00:00:02", 8)
	cluster.Spec.Paused = nil
	if m := s.get(); m.Status.Capacity.Cpu().Value() != 64 {
		t.Errorf("capacity %v changed while paused", m.Status.Capacity)
	}
	s.must(s.api.Update(s.ctx, cluster))
	s.eventually("counts the smaller host after the pause", func(m *infrav1.IngotMachineTemplate) bool {
		return m.Status.Capacity.Cpu().Value() == 8 && m.Status.NodeInfo == infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"}
	})

	named := template.DeepCopy()
	named.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "named", Labels: mine, OwnerReferences: template.OwnerReferences}
	named.Spec.Template.Spec.Image, named.Spec.Template.Spec.ImageRef = infrav1.Image{}, &infrav1.ImageReference{Name: "arm"}
	s.must(s.api.Create(s.ctx, named))
	s.watched = "named"
	s.eventually("counts all hosts while its image is not there", func(m *infrav1.IngotMachineTemplate) bool { return m.Status.Capacity.Cpu().Value() == 8 })
	s.must(s.api.Create(s.ctx, &infrav1.IngotImage{ObjectMeta: metav1.ObjectMeta{Name: "arm"}, Spec: infrav1.IngotImageSpec{
		KubernetesVersion: "v1.36.1", Architecture: "arm64", OS: "debian-13", URL: "http://x.example/i", Checksum: template.Spec.Template.Spec.Image.Checksum}}))
	s.eventually("counts no host of another architecture", func(m *infrav1.IngotMachineTemplate) bool { return len(m.Status.Capacity) == 0 })
}

type server struct {
	t   *testing.T
	ctx context.Context
	api client.Client
	// watched is the name of the watched template; empty: t.
	watched string
}

func (s *server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) host(name, mac string, threads int32) {
	s.t.Helper()
	h := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{clusterv1.WatchLabel: "mine"}}}
	h.Spec.BootMACAddress, h.Spec.NetworkRef.Name = mac, "net"
	h.Spec.BMC = &infrav1.BMC{Address: "redfish://" + name, CredentialsRef: infrav1.LocalReference{Name: "bmc"}}
	s.must(s.api.Create(s.ctx, h))
	facts := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	facts.Spec.Architecture, facts.Spec.MemoryBytes, facts.Spec.CPU.Threads = "amd64", 1<<36, threads
	facts.Spec.Disks = []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: name, SizeBytes: ptr.To[int64](500e9)}}
	s.must(s.api.Create(s.ctx, facts))
}

func (s *server) get() *infrav1.IngotMachineTemplate {
	s.t.Helper()
	m := &infrav1.IngotMachineTemplate{}
	s.must(s.api.Get(s.ctx, client.ObjectKey{Namespace: "default", Name: cmp.Or(s.watched, "t")}, m))
	return m
}

func (s *server) eventually(what string, done func(*infrav1.IngotMachineTemplate) bool) {
	s.t.Helper()
	explain := func() string { return fmt.Sprintf("%+v", s.get().Status) }
	eventually.Wait{Explain: explain}.Until(s.t, "a template that "+what, eventually.Holds(func() bool { return done(s.get()) }))
}
