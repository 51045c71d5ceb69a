// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ingot-metal/ingot/test/site"
)

// move takes a cluster and all hosts to a second management cluster, on a node of
// its own beside the first. No server is touched; then the cluster lives and ends
// there.
func move(t *testing.T, s *stage) {
	c := s.site.CreateCluster(t, site.Cluster{Name: "moved", ControlPlanes: 1, Workers: 1})
	s.site.Await(t, "machines that run", s.site.Running(c))
	free := s.free(t, c)
	s.watch.lap("a cluster to be moved")

	target := startNode(t, s.next)
	there := site.Attach(t, site.Config{World: s.world, Name: "target"}, target)
	initialize(t, target, there, s.next)
	s.watch.lap("a second management cluster")

	before := s.world.Counts()
	s.site.Clusterctl(t, nil, "move", "--to-kubeconfig="+target.Kubeconfig())
	s.watch.lap("clusterctl move")
	there.Await(t, "the cluster on the target", site.All(there.Running(c), there.Free(free...)))
	for name, count := range s.world.Counts() {
		if diff := cmp.Diff(before[name], count, cmpopts.IgnoreFields(site.Count{}, "Reads")); diff != "" {
			t.Errorf("%s was touched by the move (-before +after):\n%s", name, diff)
		}
	}
	if left := s.site.Kubectl(t, "get", "ingothosts,ingothardwares,ingotmachines,clusters,machines", "--output=name"); left != "" {
		t.Errorf("left behind on the source:\n%s", left)
	}
	moved := &stage{node: target, site: there, world: s.world, watch: s.watch}
	described(t, moved, c)
	there.Kubectl(t, "scale", "machinedeployment", c.Name+"-md-0", "--replicas=2")
	c.Workers = 2
	there.Await(t, "one worker more", there.Running(c))
	deleteCluster(t, moved, c)
	if err := target.PodsReady(t.Context()); err != nil {
		showPods(t, target)
		t.Error(err)
	}
}

// free names the servers that no machine of a cluster has.
func (s *stage) free(t *testing.T, c site.Cluster) []string {
	t.Helper()
	var free []string
	for _, name := range s.world.Servers() {
		if s.site.Host(t, name).Spec.Claim == nil {
			free = append(free, name)
		}
	}
	if want := len(s.world.Servers()) - c.ControlPlanes - c.Workers; len(free) != want {
		t.Fatalf("%d free hosts, want %d", len(free), want)
	}
	return free
}
