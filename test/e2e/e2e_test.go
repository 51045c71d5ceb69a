// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"testing"

	"github.com/ingot-metal/ingot/hack/release"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/node"
	"github.com/ingot-metal/ingot/test/site"
)

// A stage is what the scenes play on.
type stage struct {
	// first is the version of Ingot that is installed first, next the one after.
	first, next *release.Release
	versions    versions

	node  *node.Node
	site  *site.Site
	world *site.World
	watch *stopwatch
}

// TestManagementCluster is what an operator does with a release, in this order:
// each scene builds on those before it.
func TestManagementCluster(t *testing.T) {
	if os.Getenv("INGOT_E2E") == "" {
		t.Skip("set INGOT_E2E=1 to run a management cluster with pods, as make e2e-clusterctl does; needs root")
	}
	s := setUp(t)
	for _, scene := range []struct {
		name string
		play func(*testing.T, *stage)
	}{
		{"hosts become Available", registerHosts},
		{"mistakes are answered", mistakes},
		{"a server that nobody registered", unknownServer},
		{"a cluster over three racks", haCluster},
		{"a cluster of a class", topologyCluster},
		{"the runtime extension", runtimeExtension},
		{"no pod was restarted", podsAreWell},
		{"every right is used", everyRightIsUsed},
		{"a move to another management cluster", move},
	} {
		if !t.Run(scene.name, func(t *testing.T) { scene.play(t, s) }) {
			showPods(t, s.node)
			t.Fatalf("scene %q failed; those after it need it", scene.name)
		}
		s.watch.lap(scene.name)
	}
}

// setUp writes the release, starts a node and installs by clusterctl.
func setUp(t *testing.T) *stage {
	t.Helper()
	s := &stage{watch: newStopwatch(t)}
	set, err := tools.Open()
	if err != nil {
		t.Fatal(err)
	}
	s.first, s.next, s.versions = writeReleases(t, set.Root())
	s.watch.lap("two releases are written")
	s.node = startNode(t, s.first, s.next)
	s.watch.lap("the node is Ready")
	s.world = site.NewWorld(t, site.WorldConfig{Racks: 3, ServersPerRack: 2, Address: s.node.HostAddress()})
	s.site = site.Attach(t, site.Config{World: s.world}, s.node)
	initialize(t, s.node, s.site, s.first)
	s.watch.lap("clusterctl init, every pod Ready")
	return s
}

func registerHosts(t *testing.T, s *stage) {
	s.site.Register(t, s.world.Servers()...)
	s.site.Await(t, "free hosts", s.site.Free(s.world.Servers()...))
}

func podsAreWell(t *testing.T, s *stage) {
	if err := s.node.PodsReady(t.Context()); err != nil {
		t.Error(err)
	}
}
