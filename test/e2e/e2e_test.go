// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/hack/release"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/clusterapi"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/node"
	"github.com/ingot-metal/ingot/test/site"
)

// provisioning is the boot server's interface to the servers.
const provisioning = "prov0"

// stopwatch tells how long each step takes.
type stopwatch struct {
	t     *testing.T
	began time.Time
	last  time.Time
}

func newStopwatch(t *testing.T) *stopwatch {
	now := time.Now()
	return &stopwatch{t: t, began: now, last: now}
}

// lap prints what is done, and how long that and all so far took.
func (s *stopwatch) lap(what string) {
	s.t.Helper()
	now := time.Now()
	s.t.Logf("%6.1f s, after %6.1f s: %s", now.Sub(s.last).Seconds(), now.Sub(s.began).Seconds(), what)
	s.last = now
}

func TestManagementCluster(t *testing.T) {
	if os.Getenv("INGOT_E2E") == "" {
		t.Skip("set INGOT_E2E=1 to run a management cluster with pods, as make e2e-clusterctl does; needs root")
	}
	watch := newStopwatch(t)
	set, err := tools.Open()
	if err != nil {
		t.Fatal(err)
	}
	built, err := release.Write(t.Context(), release.Options{Root: set.Root(), Version: site.Version, Out: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	watch.lap("the release is written")
	n := startNode(t, built)
	watch.lap("the node is Ready")
	world := site.NewWorld(t, site.WorldConfig{Racks: 3, ServersPerRack: 2, Address: n.HostAddress()})
	s := site.Attach(t, site.Config{World: world}, n)
	initialize(t, n, s, built)
	watch.lap("clusterctl init, every pod Ready")
	t.Cleanup(func() {
		if t.Failed() {
			showPods(t, n)
		}
	})
	s.Register(t, world.Servers()...)
	s.Await(t, "free hosts", s.Free(world.Servers()...))
	watch.lap("the hosts are inspected and Available")
	if err := n.PodsReady(t.Context()); err != nil {
		t.Error(err)
	}
}

// startNode starts a node that has the release's image.
func startNode(t *testing.T, built *release.Release) *node.Node {
	t.Helper()
	n, err := node.Start(t.Context(), node.Config{
		Archives: []string{built.Archive}, Audit: true, AuditBodies: []string{"infrastructure.cluster.x-k8s.io"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// initialize plugs the node into the servers' network and installs cert-manager,
// Cluster API and the release by clusterctl.
func initialize(t *testing.T, n *node.Node, s *site.Site, built *release.Release) {
	t.Helper()
	address := s.BootAddress()
	tap := network.Tap{NetNS: n.NetNS(), Interface: provisioning, Address: address}
	if _, err := s.World.DataCentre.Switch.AttachTap(tap); err != nil {
		t.Fatal(err)
	}
	err := n.Init(t.Context(), node.Init{
		Others:    []clusterapi.Entry{{Name: "ingot", Kind: "InfrastructureProvider", URL: built.Components}},
		Arguments: []string{"--infrastructure=ingot"},
		Env: []string{
			"CLUSTER_TOPOLOGY=true",
			"INGOT_BOOT_ADDRESS=" + address.Addr().String(), "INGOT_BOOT_INTERFACE=" + provisioning,
		},
		Progress: t.Output(),
	})
	if err == nil {
		err = n.AwaitPods(t.Context())
	}
	if err != nil {
		showPods(t, n)
		t.Fatal(err)
	}
}

// showPods prints what there is to know of pods that are not ready.
func showPods(t *testing.T, n *node.Node) {
	t.Helper()
	for _, arguments := range [][]string{
		{"get", "ingothosts", "--all-namespaces", "--output=wide"},
		{"get", "pods,events", "--all-namespaces", "--output=wide"},
		{"--namespace=ingot-system", "logs", "--selector=control-plane=boot", "--tail=50"},
		{"--namespace=ingot-system", "logs", "--selector=control-plane=controller-manager", "--tail=50"},
	} {
		out, err := n.Kubectl(context.Background(), arguments...) // also after the test
		t.Logf("kubectl %q: %v\n%s", arguments, err, out)
	}
}
