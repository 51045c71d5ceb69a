// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/test/eventually"
)

// Namespace of hosts and Clusters.
const Namespace = "dc1"

// Site is a management cluster with Cluster API and Ingot's runtime extension.
type Site struct {
	*Extension
	Plane  *controlplane.ControlPlane
	Client client.Client
	root   string
}

// Start starts it, and stops it when the test ends.
func Start(t testing.TB) *Site {
	t.Helper()
	ctrllog.SetLogger(logr.Discard())
	set, err := tools.Open()
	must(t, err)
	clients := NewClients(t)
	plane, err := controlplane.Start(t.Context(), controlplane.Options{
		Dir: t.TempDir(), FeatureGates: []string{"RuntimeSDK", "InPlaceUpdates"}, HookClientCert: clients.Cert, HookClientKey: clients.Key,
	})
	must(t, err)
	t.Cleanup(plane.Stop)
	must(t, plane.InstallClusterAPI(t.Context()))
	s := &Site{Plane: plane, root: set.Root()}
	s.kubectl(t, "apply", "--server-side", "--filename", filepath.Join(s.root, "config", "crd", "bases"))
	s.kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "--filename", filepath.Join(s.root, "config", "crd", "bases"))
	scheme, err := app.Scheme()
	must(t, err)
	s.Client, err = client.New(plane.RESTConfig(), client.Options{Scheme: scheme})
	must(t, err)
	must(t, s.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace, Labels: map[string]string{
		InPlaceLabel: "on",
	}}}))
	s.Extension = Extend(t, plane.Kubeconfig(), s.Client, clients)
	return s
}

func (s *Site) kubectl(t testing.TB, args ...string) {
	t.Helper()
	_, err := s.Plane.Kubectl(t.Context(), args...)
	must(t, err)
}

// Host makes one that can be claimed.
func (s *Site) Host(t testing.TB, name string, labels map[string]string) {
	t.Helper()
	host := &infrav1.IngotHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, Labels: labels},
		Spec: infrav1.IngotHostSpec{
			BMC:            &infrav1.BMC{Address: "192.0.2." + digits(name), CredentialsRef: infrav1.LocalReference{Name: "bmc"}},
			BootMACAddress: "02:00:00:00:00:" + hex(name), NetworkRef: infrav1.NetworkReference{Name: "n"}, BootMode: infrav1.BootModeUEFI,
			Record: &infrav1.HostRecord{InspectedTime: metav1.Now(), SanitizedTime: metav1.Now()},
		},
	}
	must(t, s.Client.Create(t.Context(), host))
	must(t, s.Client.Create(t.Context(), &infrav1.IngotHardware{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
		Spec: infrav1.IngotHardwareSpec{Architecture: "amd64", MemoryBytes: 64 << 30, CPU: infrav1.HardwareCPU{Cores: 8, Threads: 16},
			Disks: []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: name, SizeBytes: ptr.To[int64](480e9)}}},
	}))
	host.Status.Conditions = []metav1.Condition{{
		Type: infrav1.HostAvailableCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonAvailable,
		ObservedGeneration: host.Generation, LastTransitionTime: metav1.Now(),
	}}
	must(t, s.Client.Status().Update(t.Context(), host))
}

func digits(name string) string { return strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz") }
func hex(name string) string    { return fmt.Sprintf("%02s", digits(name)) }

// Class makes a ClusterClass of the release, with its templates.
func (s *Site) Class(t testing.TB, name string) {
	t.Helper()
	s.kubectl(t, "apply", "--namespace", Namespace, "--server-side", "--filename", filepath.Join(s.root, "templates", "clusterclass-"+name+".yaml"))
}

// Cluster makes one of a class.
func (s *Site) Cluster(t testing.TB, name string, edit func(*clusterv1.Cluster)) *clusterv1.Cluster {
	t.Helper()
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}}
	c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"10.1.0.0/16"}
	c.Spec.Topology = clusterv1.Topology{
		ClassRef: clusterv1.ClusterClassRef{Name: "ingot-runtime"}, Version: "v1.36.1",
		ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To[int32](1)},
		Workers: clusterv1.WorkersTopology{MachineDeployments: []clusterv1.MachineDeploymentTopology{
			{Class: "default-worker", Name: "md-0", Replicas: ptr.To[int32](2)},
		}},
	}
	c.Spec.Topology.Variables = []clusterv1.ClusterVariable{{Name: "controlPlaneEndpoint"}}
	c.Spec.Topology.Variables[0].Value.Raw = []byte(`{"host":"192.0.2.10"}`)
	if edit != nil {
		edit(c)
	}
	// The class is to be reconciled first: its webhook refuses before.
	s.Await(t, "the Cluster's creation", func(ctx context.Context) string { return text(s.Client.Create(ctx, c)) })
	return c
}

// TopologyReconciled is what the Cluster's condition says: its status and message.
func (s *Site) TopologyReconciled(ctx context.Context, c *clusterv1.Cluster) (metav1.ConditionStatus, string) {
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
		return metav1.ConditionUnknown, err.Error()
	}
	for _, condition := range c.Status.Conditions {
		if condition.Type == clusterv1.ClusterTopologyReconciledCondition {
			return condition.Status, condition.Message
		}
	}
	return metav1.ConditionUnknown, "no condition"
}

// awaitLimit bounds every wait: a retry comes after 15 s, and machines are slow.
const awaitLimit = 2 * time.Minute

// Await waits until nothing is missing any more.
func (s *Site) Await(t testing.TB, what string, missing func(context.Context) string) {
	t.Helper()
	eventually.Wait{Limit: awaitLimit, Interval: 200 * time.Millisecond, Broken: s.Plane.Err, Explain: func() string {
		logs, _ := os.ReadDir(s.Plane.Logs())
		return fmt.Sprintf("logs: %v", logs)
	}}.Until(t, what, func(ctx context.Context) (string, error) { return missing(ctx), nil })
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
