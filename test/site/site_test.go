// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package site_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/management"
	"github.com/ingot-metal/ingot/test/needs"
	"github.com/ingot-metal/ingot/test/objecthistory"
	"github.com/ingot-metal/ingot/test/site"
)

// TestCluster is a cluster's life by the release's own template: a control plane of
// three over three racks with two workers, one worker less, and its end.
func TestCluster(t *testing.T) {
	needs.ClusterAPI(t)
	world := site.NewWorld(t, site.WorldConfig{Racks: 3, ServersPerRack: 2})
	s := site.Start(t, site.Config{World: world})
	h := s.Record(t, &infrav1.IngotHostList{}, &clusterv1.MachineList{})
	s.Register(t, world.Servers()...)
	s.Await(t, "free hosts", s.Free(world.Servers()...))

	began := time.Now()
	c := s.CreateCluster(t, site.Cluster{Name: "c1", ControlPlanes: 3, Workers: 2})
	s.Await(t, "machines that run", s.Running(c))
	t.Logf("cluster of five: %s", time.Since(began).Round(time.Second))
	spread(t, s, c)
	nodes(t, s, c)
	quiet(t, s)

	s.Kubectl(t, "scale", "machinedeployment", c.Name+"-md-0", "--replicas=1")
	c.Workers = 1
	s.Await(t, "one worker less", s.Running(c))
	nodes(t, s, c)

	s.Kubectl(t, "delete", "cluster", c.Name, "--wait=false")
	s.Await(t, "the cluster's end", s.Gone(c))
	s.Await(t, "hosts given back, wiped", site.All(s.Free(world.Servers()...), s.Wiped(world.Servers()...)))
	if world.Workload.Serving(c.Endpoint) {
		t.Error("the API server of a cluster that was deleted answers")
	}
	for _, node := range s.Nodes(t, c) {
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				t.Errorf("node %s of a cluster that was deleted is Ready", node.Name)
			}
		}
	}
	recorded(t, s, h)
}

// quiet: Ingot writes nothing while nobody touches anything. Each host is polled
// every two seconds here, so that half a minute is many polls; test/idle has more
// hosts and time.
func quiet(t *testing.T, s *site.Site) {
	t.Helper()
	s.Await(t, "silence", s.Silent(5*time.Second))
	from := time.Now()
	time.Sleep(30 * time.Second)
	writes, _, err := s.Writes(from, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range writes {
		t.Errorf("written at rest: %s", site.Text(e))
	}
}

// spread: one control plane machine in each failure domain, in the rack that the
// domain names.
func spread(t *testing.T, s *site.Site, c site.Cluster) {
	t.Helper()
	controlPlanes, _, err := s.Machines(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	machines := &infrav1.IngotMachineList{}
	if err := s.Client.List(t.Context(), machines); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range controlPlanes {
		for i := range machines.Items {
			if machines.Items[i].Name != m.Spec.InfrastructureRef.Name {
				continue
			}
			id, err := infrav1.ParseProviderID(machines.Items[i].Spec.ProviderID)
			if err != nil {
				t.Fatal(err)
			}
			got[m.Spec.FailureDomain] = s.World.Rack(id.Host)
		}
	}
	want := map[string]string{"rack-1": "rack-1", "rack-2": "rack-2", "rack-3": "rack-3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("racks of the control plane by failure domain (-want +got):\n%s", diff)
	}
}

// nodes: each Machine has a Node that names the host and instance of its claim, and
// there is no other.
func nodes(t *testing.T, s *site.Site, c site.Cluster) {
	t.Helper()
	controlPlanes, workers, err := s.Machines(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]string{}, map[string]string{}
	for _, node := range s.Nodes(t, c) {
		got[node.Name] = fmt.Sprintf("%s %s", node.Spec.ProviderID, node.Status.NodeInfo.KubeletVersion)
	}
	for _, m := range append(controlPlanes, workers...) {
		want[m.Status.NodeRef.Name] = fmt.Sprintf("%s %s", m.Spec.ProviderID, site.DefaultKubernetes)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

// recorded: the history has the whole life of each host that was used, and the
// audit log who wrote it.
func recorded(t *testing.T, s *site.Site, h *objecthistory.History) {
	t.Helper()
	if err := h.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	versions, err := h.Versions()
	if err != nil {
		t.Fatal(err)
	}
	states := map[string][]string{}
	for _, v := range versions {
		host, ok := v.Object.(*infrav1.IngotHost)
		if !ok {
			continue
		}
		state := "free"
		if host.Spec.Claim != nil {
			state = string(host.Spec.Claim.State)
		}
		if seen := states[host.Name]; len(seen) == 0 || seen[len(seen)-1] != state {
			states[host.Name] = append(seen, state)
		}
	}
	lives := 0
	for name, seen := range states {
		if len(seen) == 1 {
			continue
		}
		if diff := cmp.Diff([]string{"free", "Provisioning", "Provisioned", "Releasing", "free"}, seen); diff != "" {
			t.Errorf("claims of %s (-want +got):\n%s", name, diff)
		}
		lives++
	}
	if lives != 5 {
		t.Errorf("%d hosts were used, want 5", lives)
	}
	written := map[string]bool{}
	for _, e := range s.Changes(t, management.Username, time.Time{}) {
		written[e.Object.Resource] = true
	}
	if !written["ingothosts"] || !written["ingotmachines"] || !written["ingotclusters"] {
		t.Errorf("by the audit log Ingot wrote only %v", written)
	}
	for name, count := range s.World.Counts() {
		if count.Reads == 0 || count.Writes == 0 || count.Powered {
			t.Errorf("server %s: %+v", name, count)
		}
	}
}
