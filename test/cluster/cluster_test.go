// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/hack/release"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/datacentre"
	"github.com/ingot-metal/ingot/lab/node"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/test/site"
)

const (
	// patience bounds each wait; a server boots three times until its Node is ready.
	patience = 25 * time.Minute
	// pods is the network of pods of the cluster.
	pods = "10.244.0.0/16"
)

// endpoint is an address of the servers' network that nobody has but kube-vip.
var endpoint = netip.MustParseAddrPort("10.77.0.50:6443")

// A stage is what the scenes play on.
type stage struct {
	version string
	release *release.Release
	node    *node.Node
	world   *site.World
	site    *site.Site
	cluster site.Cluster
	// workload is the cluster that was made; nil before.
	workload *workloadCluster
	began    time.Time
	// ready are its Nodes, counted when all were.
	ready int
}

// TestCluster is the short life of a cluster of one control plane and one worker.
func TestCluster(t *testing.T) {
	version := os.Getenv("INGOT_CLUSTER_VERSION")
	if version == "" {
		t.Skip("set INGOT_CLUSTER_VERSION to the version of a node image, as make e2e-cluster does; needs root")
	}
	s := setUp(t, version)
	for _, scene := range []struct {
		name string
		play func(*testing.T, *stage)
	}{
		{"servers become Available", register},
		{"a cluster by the template", create},
		{"Nodes are their Machines", identify},
		{"a pod runs", runPod},
		{"deletion", remove},
	} {
		began := time.Now()
		if !t.Run(scene.name, func(t *testing.T) { scene.play(t, s) }) {
			s.explain(t)
			t.Fatalf("scene %q failed; those after it need it", scene.name)
		}
		t.Logf("%6.1f s, after %6.1f s: %s", time.Since(began).Seconds(), time.Since(s.began).Seconds(), scene.name)
	}
	t.Logf("cluster: %d of %d nodes ready with provider ID, deleted clean, %.0f s",
		s.ready, s.cluster.ControlPlanes+s.cluster.Workers, time.Since(s.began).Seconds())
}

// setUp starts the management cluster and two servers in racks of their own.
func setUp(t *testing.T, version string) *stage {
	t.Helper()
	s := &stage{version: version, began: time.Now()}
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
	cache, err := tools.CacheDir()
	check(t, err)
	var probe qemu.Probe
	s.world = site.NewWorld(t, site.WorldConfig{
		Racks: 2, Address: s.node.HostAddress(),
		Virtual: &site.Virtual{
			Server: datacentre.ServerSpec{Firmware: qemu.BIOS, MemoryMiB: 3072, CPUs: 2, DiskBytes: 12 << 30},
			Accel:  probe.Accel(t.Context()).WithRoom(512),
			Images: map[string]string{version: filepath.Join(cache, "images", "node-"+version, "current", "disk.raw.zst")},
		},
	})
	s.site = site.Attach(t, site.Config{World: s.world}, s.node)
	initialize(t, s)
	t.Logf("management cluster ready after %.1f s", time.Since(s.began).Seconds())
	return s
}

// kubeVIPImage is the one that the disk holds.
func kubeVIPImage(t *testing.T, version string) string {
	t.Helper()
	cache, err := tools.CacheDir()
	check(t, err)
	names, err := os.ReadFile(filepath.Join(cache, "images", "node-"+version, "current", "images.txt"))
	check(t, err)
	for _, name := range strings.Fields(string(names)) {
		if strings.Contains(name, "/kube-vip:") {
			return name
		}
	}
	t.Fatalf("no kube-vip in the image: %s", names)
	return ""
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
