// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// yielding is how much a server that is no control plane leaves the processors to one:
// by the scheduler's weights nine tenths of what both want.
const yielding = 10

// prefer has the servers of control planes go first, until the test ends. Servers of metal
// share no processors; here one that is being installed would take an API server the time
// to answer its probes, and the kubelet would start it again.
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

// niceness of servers, by name: none of those on which a control plane is installed, which
// its Machine's provider ID says.
func niceness(servers []string, machines []clusterv1.Machine) map[string]int {
	nice := map[string]int{}
	for _, name := range servers {
		nice[name] = yielding
	}
	for _, m := range machines {
		_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
		if id, err := infrav1.ParseProviderID(m.Spec.ProviderID); err == nil && controlPlane {
			nice[id.Host] = 0
		}
	}
	return nice
}

func TestNiceness(t *testing.T) {
	const instance = "/6a1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa"
	machine := func(controlPlane bool, providerID string) (m clusterv1.Machine) {
		if controlPlane {
			m.ObjectMeta = metav1.ObjectMeta{Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""}}
		}
		m.Spec.ProviderID = providerID
		return m
	}
	got := niceness([]string{"serves", "works", "free"}, []clusterv1.Machine{
		machine(true, "ingot://default/serves"+instance), machine(false, "ingot://default/works"+instance), machine(true, ""),
	})
	if diff := cmp.Diff(map[string]int{"serves": 0, "works": yielding, "free": yielding}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
