// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package site_test

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/test/needs"
	"github.com/ingot-metal/ingot/test/site"
)

// TestTwoSites: two management clusters on one world, each with hosts of its own,
// and a clusterctl that reaches both.
func TestTwoSites(t *testing.T) {
	needs.Full(t)
	needs.ClusterAPI(t)
	world := site.NewWorld(t, site.WorldConfig{Racks: 2})
	a := site.Start(t, site.Config{World: world, Name: "a"})
	b := site.Start(t, site.Config{World: world, Name: "b", Namespace: "elsewhere"})
	a.Register(t, "r1-s1")
	b.Register(t, "r2-s1")
	a.Await(t, "a's host", a.Free("r1-s1"))
	b.Await(t, "b's host", b.Free("r2-s1"))
	if counts := world.Counts(); counts["r1-s1"].Writes == 0 || counts["r2-s1"].Writes == 0 {
		t.Errorf("counts %+v", counts)
	}
	b.StopManager()
	if _, err := a.TryClusterctl(t.Context(), nil, "move", "--namespace=default", "--to-kubeconfig="+b.Kubeconfig()+"-none"); err == nil {
		t.Error("clusterctl moved to nowhere")
	}
	out := a.Clusterctl(t, nil, "move", "--namespace=default", "--to-kubeconfig="+b.Kubeconfig(), "--dry-run", "--v=5")
	if !strings.Contains(string(out.Stderr), "r1-s1") && !strings.Contains(string(out.Stdout), "r1-s1") {
		t.Errorf("clusterctl move --dry-run does not speak of the host:\n%s\n%s", out.Stdout, out.Stderr)
	}
}
