// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/hack/release"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/clusterapi"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/node"
)

const (
	version = "v0.1.0"
	// provisioning is the boot server's interface to the servers.
	provisioning = "prov0"
)

// bootAddress is the boot server's on the servers' network.
var bootAddress = netip.MustParsePrefix("10.77.0.2/24")

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
	built, err := release.Write(t.Context(), release.Options{Root: set.Root(), Version: version, Out: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	watch.lap("the release is written")
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
	watch.lap("the node is Ready")
	sw := network.NewSwitch()
	defer sw.Close()
	if _, err := sw.AttachTap(network.Tap{NetNS: n.NetNS(), Interface: provisioning, Address: bootAddress}); err != nil {
		t.Fatal(err)
	}
	err = n.Init(t.Context(), node.Init{
		Others:    []clusterapi.Entry{{Name: "ingot", Kind: "InfrastructureProvider", URL: built.Components}},
		Arguments: []string{"--infrastructure=ingot"},
		Env:       []string{"INGOT_BOOT_ADDRESS=" + bootAddress.Addr().String(), "INGOT_BOOT_INTERFACE=" + provisioning},
		Progress:  t.Output(),
	})
	if err != nil {
		showPods(t, n)
		t.Fatal(err)
	}
	watch.lap("clusterctl init")
	if err := n.PodsReady(t.Context()); err != nil {
		showPods(t, n)
		t.Fatal(err)
	}
}

// showPods prints what there is to know of pods that are not ready.
func showPods(t *testing.T, n *node.Node) {
	t.Helper()
	for _, arguments := range [][]string{
		{"get", "pods,events", "--all-namespaces", "--output=wide"},
		{"--namespace=ingot-system", "logs", "--selector=control-plane=boot", "--tail=50"},
		{"--namespace=ingot-system", "logs", "--selector=control-plane=controller-manager", "--tail=50"},
	} {
		out, err := n.Kubectl(t.Context(), arguments...)
		t.Logf("kubectl %q: %v\n%s", arguments, err, out)
	}
}
