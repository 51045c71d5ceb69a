// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/hack/release"
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

// startNode starts a node that has the images of releases.
func startNode(t *testing.T, releases ...*release.Release) *node.Node {
	t.Helper()
	var archives []string
	for _, built := range releases {
		archives = append(archives, built.Archive)
	}
	n, err := node.Start(t.Context(), node.Config{
		Archives: archives, Audit: true, AuditBodies: []string{"infrastructure.cluster.x-k8s.io"},
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

// variables are what the installation is told. An upgrade must be told again:
// clusterctl keeps no variables.
func variables(s *site.Site) map[string]string {
	return map[string]string{
		"CLUSTER_TOPOLOGY": "true",
		"EXP_RUNTIME_SDK":  "true",
		// The images are where the node is.
		"INGOT_IMAGE_SOURCES":  "0.0.0.0/0",
		"INGOT_BOOT_ADDRESS":   s.BootAddress().Addr().String(),
		"INGOT_BOOT_INTERFACE": provisioning,
	}
}

// assignments are variables as an environment has them.
func assignments(variables map[string]string) []string {
	var all []string
	for name, value := range variables {
		all = append(all, name+"="+value)
	}
	return all
}

// initialize plugs the node into the servers' network and installs cert-manager,
// Cluster API and the release by clusterctl.
func initialize(t *testing.T, n *node.Node, s *site.Site, built *release.Release) {
	t.Helper()
	address := s.BootAddress()
	tap := network.Tap{NetNS: n.NetNS(), Interface: provisioning, Address: address}
	if _, err := s.World.DataCenter.Switch.AttachTap(tap); err != nil {
		t.Fatal(err)
	}
	err := n.Init(t.Context(), node.Init{
		Others: []clusterapi.Entry{
			{Name: "ingot", Kind: "InfrastructureProvider", URL: built.Components},
			{Name: "ingot", Kind: "RuntimeExtensionProvider", URL: built.RuntimeComponents},
			{Name: "ingot", Kind: "AddonProvider", URL: built.BootComponents},
		},
		Arguments: []string{"--infrastructure=ingot:" + filepath.Base(built.Dir), "--addon=ingot:" + filepath.Base(built.Dir)},
		Env:       assignments(variables(s)),
		Progress:  t.Output(),
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
		{"get", "machines,pods", "--all-namespaces", "--output=wide"},
		{"get", "events", "--all-namespaces", "--field-selector=type=Warning"},
		{"--namespace=ingot-boot-system", "logs", "--selector=control-plane=boot", "--tail=50"},
		{"--namespace=ingot-system", "logs", "--selector=control-plane=controller-manager", "--tail=50"},
	} {
		out, err := n.Kubectl(context.Background(), arguments...) // also after the test
		t.Logf("kubectl %q: %v\n%s", arguments, err, out)
	}
}
