// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/site"
)

// Versions of Kubernetes before and after a rollout.
const (
	older = "v1.36.2"
	newer = "v1.36.3"
)

// roleLabel says what a host is for.
const (
	roleLabel    = "role"
	controlPlane = "control-plane"
	worker       = "worker"
)

// A scene has a namespace and a row of servers of its own.
type scene struct {
	*site.Site
	row int
	// joins holds the systems of the last row.
	joins *gate
	// hung are the servers whose systems hang.
	hung *hung
}

// server is the name of the row's n-th.
func (s *scene) server(n int) string { return fmt.Sprintf("r%d-s%d", s.row, n) }

// A place is where a server stands, and what for.
type place struct {
	n          int
	rack, role string
}

// register makes hosts of servers, and waits until they are free.
func (s *scene) register(t *testing.T, places ...place) {
	t.Helper()
	s.add(t, places...)
	var names []string
	for _, p := range places {
		names = append(names, s.server(p.n))
	}
	s.Await(t, "hosts registered", s.Free(names...))
}

// add makes hosts of servers, for machines that wait for them.
func (s *scene) add(t *testing.T, places ...place) {
	t.Helper()
	s.RegisterNetwork(t)
	for _, p := range places {
		for _, obj := range s.HostObjects(s.server(p.n)) {
			if host, ok := obj.(*infrav1.IngotHost); ok {
				host.Labels[site.RackLabel], host.Labels[roleLabel] = p.rack, p.role
			}
			s.Create(t, obj)
		}
	}
}

// create makes a cluster whose machines keep to the hosts of their role, and waits
// until it runs.
func (s *scene) create(t *testing.T, c site.Cluster) site.Cluster {
	t.Helper()
	variables := map[string]string{
		"INGOT_CONTROL_PLANE_HOST_LABELS": roleLabel + ": " + controlPlane,
		"INGOT_WORKER_HOST_LABELS":        roleLabel + ": " + worker,
		"INGOT_KUBE_VIP_ENABLED":          "false",
	}
	c.Variables = variables
	c = s.CreateCluster(t, c)
	s.Await(t, fmt.Sprintf("a cluster of %d and %d", c.ControlPlanes, c.Workers), s.Running(c))
	return c
}

// end deletes a cluster, and waits until all hosts of the namespace are back.
func (s *scene) end(t *testing.T, c site.Cluster) {
	t.Helper()
	s.kubectl(t, "delete", "cluster", c.Name, "--wait=false")
	s.Await(t, "the cluster's end", s.Gone(c))
	hosts := &infrav1.IngotHostList{}
	must(t, s.Client.List(t.Context(), hosts, client.InNamespace(s.Namespace)))
	var names []string
	for i := range hosts.Items {
		names = append(names, hosts.Items[i].Name)
	}
	s.Await(t, "hosts given back, wiped", site.All(s.Free(names...), s.Wiped(names...)))
}

// kubectl in the scene's namespace.
func (s *scene) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return s.Kubectl(t, append([]string{"--namespace=" + s.Namespace}, args...)...)
}

// patch merges into an object.
func (s *scene) patch(t *testing.T, kind, name, format string, args ...any) {
	t.Helper()
	s.kubectl(t, "patch", kind, name, "--type=merge", "--patch="+fmt.Sprintf(format, args...))
}

// copyTemplate is how an operator changes a template, which is immutable: a copy by
// another name.
func (s *scene) copyTemplate(t *testing.T, name, as string, edit func(*infrav1.IngotMachineSpec)) {
	t.Helper()
	template := &infrav1.IngotMachineTemplate{}
	must(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: name}, template))
	copied := &infrav1.IngotMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: as}, Spec: template.Spec}
	edit(&copied.Spec.Template.Spec)
	s.Create(t, copied)
}

// uids of machines.
func uids(machines []clusterv1.Machine) []types.UID {
	var all []types.UID
	for _, m := range machines {
		all = append(all, m.UID)
	}
	return all
}

// machines of a cluster, as they are now.
func (s *scene) machines(t *testing.T, c site.Cluster) (controlPlanes, workers []clusterv1.Machine) {
	t.Helper()
	controlPlanes, workers, err := s.Machines(t.Context(), c)
	must(t, err)
	return controlPlanes, workers
}

// replaced is missing while one of the machines is there, or the cluster does not
// run without them.
func (s *scene) replaced(c site.Cluster, machines []clusterv1.Machine) site.Missing {
	old := uids(machines)
	return func(ctx context.Context) (string, error) {
		controlPlanes, workers, err := s.Machines(ctx, c)
		if err != nil {
			return "", err
		}
		text, left := "", 0
		for _, m := range append(controlPlanes, workers...) {
			if slices.Contains(old, m.UID) {
				left++
			}
			text += fmt.Sprintf(" %s(%s, domain %q, %s)", m.Name, m.Status.Phase, m.Spec.FailureDomain, m.Spec.Version)
		}
		if left > 0 {
			return fmt.Sprintf("%d of %d are not replaced:%s", left, len(old), text), nil
		}
		return s.Running(c)(ctx)
	}
}

// hostOf a machine; nil while it has none.
func (s *scene) hostOf(t *testing.T, m clusterv1.Machine) *infrav1.IngotHost {
	t.Helper()
	machine := &infrav1.IngotMachine{}
	must(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: m.Spec.InfrastructureRef.Name}, machine))
	if machine.Status.HostRef == nil {
		return nil
	}
	return s.Host(t, machine.Status.HostRef.Name)
}

// byRack counts the control plane machines by rack; each is in the rack that its
// Machine names, if it names one.
func (s *scene) byRack(t *testing.T, c site.Cluster) map[string]int {
	t.Helper()
	controlPlanes, _ := s.machines(t, c)
	racks := map[string]int{}
	for _, m := range controlPlanes {
		host := s.hostOf(t, m)
		if host == nil {
			t.Errorf("machine %s has no host", m.Name)
			continue
		}
		rack, asked := host.Labels[site.RackLabel], m.Spec.FailureDomain
		racks[rack]++
		if (asked != "" && asked != rack) || host.Spec.Claim.FailureDomain != rack {
			t.Errorf("machine %s asks for rack %q, its claim says %q, and host %s is in %q", m.Name, asked, host.Spec.Claim.FailureDomain, host.Name, rack)
		}
	}
	return racks
}

// spread: the control plane machines by rack are as wanted.
func (s *scene) spread(t *testing.T, c site.Cluster, want map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, s.byRack(t, c)); diff != "" {
		t.Errorf("control planes by rack (-want +got):\n%s", diff)
	}
}

// versions: every node of the cluster has the version, and every machine its node.
func (s *scene) versions(t *testing.T, c site.Cluster, want string) {
	t.Helper()
	nodes := s.Nodes(t, c)
	if len(nodes) != c.ControlPlanes+c.Workers {
		t.Errorf("%d nodes, want %d", len(nodes), c.ControlPlanes+c.Workers)
	}
	for _, node := range nodes {
		if got := node.Status.NodeInfo.KubeletVersion; got != want {
			t.Errorf("node %s runs %s, want %s", node.Name, got, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
