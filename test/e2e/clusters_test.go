// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/hack/release"
	"github.com/ingot-metal/ingot/lab/management"
	"github.com/ingot-metal/ingot/test/site"
)

// haCluster is a cluster's life by the template: a control plane of three with two
// workers, one worker less, and its end.
func haCluster(t *testing.T, s *stage) {
	c := s.site.CreateCluster(t, site.Cluster{Name: "ha", ControlPlanes: 3, Workers: 2})
	s.site.Await(t, "machines that run", s.site.Running(c))
	s.watch.lap("a control plane of three and two workers")
	if diff := cmp.Diff(map[string]int{"rack-1": 1, "rack-2": 1, "rack-3": 1}, controlPlaneRacks(t, s, c)); diff != "" {
		t.Errorf("control planes by rack (-want +got):\n%s", diff)
	}
	described(t, s, c)

	s.site.Kubectl(t, "scale", "machinedeployment", c.Name+"-md-0", "--replicas=1")
	c.Workers = 1
	s.site.Await(t, "one worker less", s.site.Running(c))
	deleteCluster(t, s, c)
}

// topologyCluster is one of the ClusterClass that the release brings, which is
// scaled as an operator does it, by the Cluster alone; by the next version of Ingot,
// since that is installed meanwhile.
func topologyCluster(t *testing.T, s *stage) {
	c := s.site.CreateCluster(t, site.Cluster{
		Name: "topology", Flavor: "clusterclass", ControlPlanes: 1, Workers: 1,
		Variables: map[string]string{"INGOT_KUBE_VIP_ENABLED": "false"},
	})
	s.site.Await(t, "machines that run", s.site.Running(c))
	s.watch.lap("a control plane of one and a worker, by a class")
	described(t, s, c)
	upgrade(t, s)

	const workers = "/spec/topology/workers/machineDeployments/0/replicas"
	s.site.Kubectl(t, "patch", "cluster", c.Name, "--type=json", `--patch=[{"op":"replace","path":"`+workers+`","value":2}]`)
	c.Workers = 2
	s.site.Await(t, "one worker more", s.site.Running(c))
	deleteCluster(t, s, c)
}

// upgrade brings the next version of Ingot. No server notices.
func upgrade(t *testing.T, s *stage) {
	t.Helper()
	before := s.world.Counts()
	s.site.Clusterctl(t, variables(s.site), "upgrade", "apply", "--infrastructure=ingot:"+s.versions.next, "--addon=ingot:"+s.versions.next, "--wait-providers")
	if err := s.node.AwaitPods(t.Context()); err != nil {
		t.Fatal(err)
	}
	const image = "--output=jsonpath={range .items[*]}{.spec.template.spec.containers[0].image}{\"\\n\"}{end}"
	for _, namespace := range []string{management.Namespace, management.BootNamespace} {
		if diff := cmp.Diff(release.DefaultImage+":"+s.versions.next+"\n", s.site.Kubectl(t, "--namespace="+namespace, "get", "deployments", image)); diff != "" {
			t.Errorf("images of the Deployments in %s (-want +got):\n%s", namespace, diff)
		}
	}
	for name, count := range s.world.Counts() {
		if diff := cmp.Diff(before[name], count, cmpopts.IgnoreFields(site.Count{}, "Reads")); diff != "" {
			t.Errorf("%s was touched by the upgrade (-before +after):\n%s", name, diff)
		}
	}
	s.watch.lap("clusterctl upgrade to " + s.versions.next)
}

// deleteCluster ends a cluster and waits until its hosts are free, and their disks
// empty.
func deleteCluster(t *testing.T, s *stage, c site.Cluster) {
	t.Helper()
	s.site.Kubectl(t, "delete", "cluster", c.Name, "--wait=false")
	s.site.Await(t, "the cluster's end", s.site.Gone(c))
	s.site.Await(t, "hosts given back, wiped", site.All(s.site.Free(s.world.Servers()...), s.site.Wiped(s.world.Servers()...)))
}

// described: "clusterctl describe cluster" shows the cluster, all of it well.
func described(t *testing.T, s *stage, c site.Cluster) {
	t.Helper()
	out := s.site.Clusterctl(t, nil, "describe", "cluster", c.Name).Stdout
	t.Logf("clusterctl describe cluster %s:\n%s", c.Name, out)
	for _, want := range []string{"Cluster default/" + c.Name, "IngotCluster default/", "KubeadmControlPlane default/", "MachineDeployment default/"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("clusterctl describe does not show %s", want)
		}
	}
	if bytes.Contains(out, []byte("False")) {
		t.Error("clusterctl describe shows something that is False")
	}
}

// controlPlaneRacks counts a cluster's control planes by the racks of the hosts
// that their IngotMachines name.
func controlPlaneRacks(t *testing.T, s *stage, c site.Cluster) map[string]int {
	t.Helper()
	controlPlanes, _, err := s.site.Machines(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	racks := map[string]int{}
	for _, m := range controlPlanes {
		machine := &infrav1.IngotMachine{}
		if err := s.site.Client.Get(t.Context(), client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.InfrastructureRef.Name}, machine); err != nil {
			t.Fatal(err)
		}
		id, err := infrav1.ParseProviderID(machine.Spec.ProviderID)
		if err != nil {
			t.Fatal(err)
		}
		racks[s.world.Rack(id.Host)]++
	}
	return racks
}
