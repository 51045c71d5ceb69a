// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/hack/release"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/clusterapi"
	"github.com/ingot-metal/ingot/lab/datacenter"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/node"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/test/site"
)

// provisioning is the management cluster's interface in the servers' network.
const provisioning = "prov0"

// setUp starts the management cluster and the servers, each in a rack of its own.
func setUp(t *testing.T, o options) *stage {
	t.Helper()
	s := &stage{options: o, whole: t, began: time.Now()}
	if s.out != "" {
		check(t, clearResults(s.out))
	}
	set, err := tools.Open()
	check(t, err)
	s.release, err = release.Write(t.Context(), release.Options{Root: set.Root(), Version: site.Version, Out: t.TempDir()})
	check(t, err)
	s.node, err = node.Start(t.Context(), node.Config{Archives: []string{s.release.Archive}, Audit: true})
	check(t, err)
	t.Cleanup(func() {
		if err := s.node.Close(); err != nil {
			t.Error(err)
		}
	})
	images := map[string]string{s.version: disk(t, s.version), s.first(): disk(t, s.first())}
	var probe qemu.Probe
	s.world = site.NewWorld(t, site.WorldConfig{
		Racks: o.servers, Address: s.node.HostAddress(),
		Virtual: &site.Virtual{
			Server: datacenter.ServerSpec{Firmware: qemu.BIOS, MemoryMiB: 3072, CPUs: 2, DiskBytes: 12 << 30},
			Accel:  probe.Accel(t.Context()).WithRoom(512),
			Images: images,
		},
	})
	s.operator, err = network.NewStack(s.world.DataCenter.Switch, network.StackConfig{Name: "operator", Address: operatorAddress})
	check(t, err)
	t.Cleanup(func() { _ = s.operator.Close() })
	s.site = site.Attach(t, site.Config{World: s.world, Interval: lookEvery}, s.node)
	initialize(t, s)
	s.recorder = record(t, s)
	prefer(t, s)
	t.Logf("management cluster ready after %.1f s", time.Since(s.began).Seconds())
	return s
}

// disk is the image of a node with that version of Kubernetes, by its own name: the
// link to the latest may be set anew meanwhile.
func disk(t *testing.T, version string) string {
	t.Helper()
	cache, err := tools.CacheDir()
	check(t, err)
	path, err := filepath.EvalSymlinks(filepath.Join(cache, "images", "node-"+version, "current", "disk.raw.zst"))
	if err != nil {
		t.Fatalf("no image of a node: make node-image KUBERNETES_VERSION=%s: %v", version, err)
	}
	return path
}

// initialize plugs the management cluster into the servers' network and installs
// cert-manager, Cluster API and the release by clusterctl.
func initialize(t *testing.T, s *stage) {
	t.Helper()
	address := s.site.BootAddress()
	s.tap = network.Tap{NetNS: s.node.NetNS(), Interface: provisioning, Address: address}
	_, err := s.world.DataCenter.Switch.AttachTap(s.tap)
	check(t, err)
	err = s.node.Init(t.Context(), node.Init{
		Others: []clusterapi.Entry{
			{Name: "ingot", Kind: "InfrastructureProvider", URL: s.release.Components},
			{Name: "ingot", Kind: "AddonProvider", URL: s.release.BootComponents},
		},
		Arguments: []string{"--infrastructure=ingot:" + filepath.Base(s.release.Dir), "--addon=ingot:" + filepath.Base(s.release.Dir)},
		Env: []string{
			"CLUSTER_TOPOLOGY=true",
			// The image is where this machine is.
			"INGOT_IMAGE_SOURCES=0.0.0.0/0",
			"INGOT_BOOT_ADDRESS=" + address.Addr().String(), "INGOT_BOOT_INTERFACE=" + provisioning,
		},
		Progress: t.Output(),
	})
	if err == nil {
		err = s.node.AwaitPods(t.Context())
	}
	if err != nil {
		s.explain(t)
		t.Fatal(err)
	}
	// Servers need a way out for kubeadm to choose its address, and a name server for
	// CoreDNS to forward to, if none is there.
	network := &infrav1.IngotNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: site.Network},
		Spec: infrav1.IngotNetworkSpec{
			Subnet: address.Masked().String(), Gateway: address.Addr().String(), DNSServers: []string{address.Addr().String()},
			Range:             infrav1.AddressRange{Start: "10.77.0.100", End: "10.77.0.249"},
			AllowedNamespaces: &infrav1.NetworkNamespaces{Selector: &metav1.LabelSelector{}},
		},
	}
	s.site.Create(t, network)
}

// explain prints what there is to know when a scene failed.
func (s *stage) explain(t *testing.T) {
	t.Helper()
	for _, arguments := range [][]string{
		{"get", "ingothosts,machines,ingotmachines,kubeadmcontrolplanes,ingotremediations", "--all-namespaces", "--output=wide"},
		{"get", "pods", "--all-namespaces", "--output=wide"},
		{"get", "events", "--all-namespaces", "--field-selector=type=Warning"},
		{"--namespace=ingot-boot-system", "logs", "--selector=control-plane=boot", "--tail=50"},
		{"--namespace=ingot-system", "logs", "--selector=control-plane=controller-manager", "--tail=50"},
	} {
		out, err := s.node.Kubectl(context.Background(), arguments...) // also after the test
		t.Logf("kubectl %q: %v\n%s", arguments, err, out)
	}
	if s.workload != nil {
		// Also after the test; what was never watched before would be waited for.
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		t.Log(s.workload.describe(ctx))
	}
	for _, server := range s.world.DataCenter.Servers {
		text, _ := os.ReadFile(server.VM.SerialLog()) // none yet: nothing said
		t.Logf("the console of %s ends in:\n%s", server.Spec.Name, text[max(0, len(text)-5000):])
	}
}
