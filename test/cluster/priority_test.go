// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

const (
	// yielding is how much a server that is no control plane leaves the processors to one:
	// by the scheduler's weights nine tenths of what both want.
	yielding = 10
	// joining is how much a control plane that joins leaves to those that serve: three
	// quarters. With none, etcd's members did not answer in the two seconds that kubeadm
	// gives them (docs/decisions/0186); as much as a worker's might hold up the quorum
	// that it is part of before its Node is there.
	joining = 5
)

// prefer has the servers of control planes go first, those that serve before those that
// join, until the test ends. Servers of metal share no processors; here one that is being
// installed would take an API server the time to answer its probes, and the kubelet would
// start it again.
func prefer(t *testing.T, s *stage) {
	t.Helper()
	every(t, lookEvery, func(ctx context.Context) {
		list := &clusterv1.MachineList{}
		if s.site.Client.List(ctx, list, client.InNamespace(s.site.Namespace)) != nil {
			return // the next look may tell
		}
		for host, nice := range niceness(s.world.Servers(), list.Items) {
			if err := s.world.Server(host).VM.SetNice(nice); err != nil {
				t.Errorf("server %s: %v", host, err)
			}
		}
	})
}

// niceness of servers, by name: none of those that serve as control planes, which their
// Machines' Nodes say, nor of the first on which one is installed, which the Machine's
// provider ID says.
func niceness(servers []string, machines []clusterv1.Machine) map[string]int {
	nice := map[string]int{}
	for _, name := range servers {
		nice[name] = yielding
	}
	controlPlanes := slices.DeleteFunc(slices.Clone(machines), func(m clusterv1.Machine) bool { return !util.IsControlPlaneMachine(&m) })
	serves := func(m clusterv1.Machine) bool { return m.Status.NodeRef.IsDefined() }
	first := !slices.ContainsFunc(controlPlanes, serves)
	for _, m := range controlPlanes {
		id, err := infrav1.ParseProviderID(m.Spec.ProviderID)
		switch {
		case err != nil: // nothing is installed yet
		case first, serves(m):
			nice[id.Host] = 0
		default:
			nice[id.Host] = joining
		}
	}
	return nice
}

func TestNiceness(t *testing.T) {
	const instance = "/6a1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa"
	worker := func(host, node string) (m clusterv1.Machine) {
		m.Status.NodeRef.Name = node
		if host != "" {
			m.Spec.ProviderID = "ingot://default/" + host + instance
		}
		return m
	}
	controlPlane := func(host, node string) clusterv1.Machine {
		m := worker(host, node)
		m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
		return m
	}
	servers := []string{"a", "b", "c"}
	for _, tc := range []struct {
		name     string
		machines []clusterv1.Machine
		want     map[string]int
	}{
		{"nothing is installed", []clusterv1.Machine{controlPlane("", "")}, map[string]int{"a": yielding, "b": yielding, "c": yielding}},
		{"the first control plane", []clusterv1.Machine{controlPlane("a", ""), worker("b", "")}, map[string]int{"a": 0, "b": yielding, "c": yielding}},
		{"one serves and one joins", []clusterv1.Machine{controlPlane("b", ""), controlPlane("a", "n1"), worker("c", "n3")}, map[string]int{"a": 0, "b": joining, "c": yielding}},
		{"both serve", []clusterv1.Machine{controlPlane("a", "n1"), controlPlane("b", "n2")}, map[string]int{"a": 0, "b": 0, "c": yielding}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, niceness(servers, tc.machines)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
