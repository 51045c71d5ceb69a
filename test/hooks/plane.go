// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/test/envtest"
)

// Plane is an API server with the kinds that hooks are about, and no controller: what
// Cluster API would ask, a test asks.
type Plane struct {
	Client     client.Client
	Kubeconfig string
}

// StartPlane starts one, and stops it when the test ends.
func StartPlane(t testing.TB) *Plane {
	t.Helper()
	ctrllog.SetLogger(logr.Discard())
	set, err := tools.Open()
	must(t, err)
	capi, err := set.ModuleDir(t.Context(), "capi", "sigs.k8s.io/cluster-api")
	must(t, err)
	env := envtest.Environment(t, envtest.IngotCRDs(t), envtest.ClusterAPICRDs(t), filepath.Join(capi, "controlplane", "kubeadm", "config", "crd", "bases"))
	config := envtest.StartEnvironment(t, env)
	config.QPS, config.Burst = -1, 0 // the tests fill it with thousands of objects
	scheme, err := app.Scheme()
	must(t, err)
	p := &Plane{Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	must(t, os.WriteFile(p.Kubeconfig, env.KubeConfig, 0o600))
	p.Client, err = client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	return p
}

// Class of the Clusters of a Plane, and the names of its templates.
const Class = "c"

// Namespace makes one with a ClusterClass of Ingot's, and hosts that can be claimed: h0,
// h1, and so on.
func (p *Plane) Namespace(t testing.TB, name string, hosts int) {
	t.Helper()
	must(t, p.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	meta := metav1.ObjectMeta{Namespace: name, Name: Class}
	machine := &infrav1.IngotMachineTemplate{ObjectMeta: meta}
	machine.Spec.Template.Spec.Image = infrav1.Image{URL: "https://images.example/os.raw.zst", Checksum: checksum, Format: infrav1.ImageFormatRaw}
	class := &clusterv1.ClusterClass{ObjectMeta: meta}
	ref := func(version, kind string) clusterv1.ClusterClassTemplateReference {
		return clusterv1.ClusterClassTemplateReference{APIVersion: version, Kind: kind, Name: Class}
	}
	class.Spec.Infrastructure.TemplateRef = ref(infrav1.GroupVersion.String(), "IngotClusterTemplate")
	class.Spec.ControlPlane.TemplateRef = ref(controlplanev1.GroupVersion.String(), "KubeadmControlPlaneTemplate")
	class.Spec.ControlPlane.MachineInfrastructure.TemplateRef = ref(infrav1.GroupVersion.String(), "IngotMachineTemplate")
	workers := clusterv1.MachineDeploymentClass{Class: "default-worker"}
	workers.Bootstrap.TemplateRef = ref("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate")
	workers.Infrastructure.TemplateRef = ref(infrav1.GroupVersion.String(), "IngotMachineTemplate")
	class.Spec.Workers.MachineDeployments = []clusterv1.MachineDeploymentClass{workers}
	cluster := &infrav1.IngotClusterTemplate{ObjectMeta: meta}
	cluster.Spec.Template.Spec.FailureDomainLabel = infrav1.RackLabel
	for _, o := range []client.Object{cluster, machine, class} {
		must(t, p.Client.Create(t.Context(), o))
	}
	const together = 16
	var made errgroup.Group
	made.SetLimit(together)
	for i := range hosts {
		made.Go(func() error { return p.host(t.Context(), name, i) })
	}
	must(t, made.Wait())
}

// checksum of an image that nobody fetches.
const checksum = "sha256:abababababababababababababababababababababababababababababababab"

func (p *Plane) host(ctx context.Context, namespace string, i int) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("h%d", i), Labels: map[string]string{infrav1.RackLabel: fmt.Sprintf("r%d", i%40)}}
	host := &infrav1.IngotHost{ObjectMeta: meta, Spec: infrav1.IngotHostSpec{
		BMC:            &infrav1.BMC{Address: fmt.Sprintf("redfish://10.0.%d.%d", i>>8, i&0xff), CredentialsRef: infrav1.LocalReference{Name: "bmc"}},
		BootMACAddress: fmt.Sprintf("02:00:00:00:%02x:%02x", i>>8, i&0xff), NetworkRef: infrav1.NetworkReference{Name: "n"}, BootMode: infrav1.BootModeUEFI,
		Record: &infrav1.HostRecord{InspectedTime: metav1.Now(), SanitizedTime: metav1.Now()},
	}}
	hardware := &infrav1.IngotHardware{ObjectMeta: meta, Spec: infrav1.IngotHardwareSpec{
		Architecture: "amd64", MemoryBytes: int64(64<<(i%4)) << 30, CPU: infrav1.HardwareCPU{Cores: 8, Threads: 16},
		Disks: []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: meta.Name, SizeBytes: ptr.To[int64](480e9)}},
	}}
	for _, o := range []client.Object{host, hardware} {
		if err := p.Client.Create(ctx, o); err != nil {
			return fmt.Errorf("host %s: %w", meta.Name, err)
		}
	}
	host.Status.Conditions = []metav1.Condition{{
		Type: infrav1.HostAvailableCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonAvailable,
		ObservedGeneration: host.Generation, LastTransitionTime: metav1.Now(),
	}}
	return p.Client.Status().Update(ctx, host)
}

// Topology is a Cluster as Cluster API sends it: one control plane, and workers.
func Topology(namespace, name string, workers int32) clusterv1.Cluster {
	c := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uidOf(namespace, name)}}
	c.Spec.Topology = clusterv1.Topology{
		ClassRef: clusterv1.ClusterClassRef{Name: Class}, Version: "v1.36.1", ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To[int32](1)},
		Workers: clusterv1.WorkersTopology{MachineDeployments: []clusterv1.MachineDeploymentTopology{{Class: "default-worker", Name: "md-0", Replicas: &workers}}},
	}
	return c
}
