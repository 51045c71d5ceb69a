// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/test/site"
)

// waiting: machines that are sent to a rack without a free host wait for one there,
// though another rack has one, say why, and are placed as soon as a host comes:
// registered, given back by a person, or by another machine.
func waiting(t *testing.T, s *scene) {
	s.register(t, place{1, "a", controlPlane}, place{2, "b", worker}, place{3, "c", worker})
	c := s.create(t, site.Cluster{Name: "crowded", ControlPlanes: 1})
	md := c.Name + "-md-0"
	s.patch(t, "machinedeployment", md, `{"spec":{"replicas":2,"template":{"spec":{"failureDomain":"b"}}}}`)
	told := s.awaitWaiter(t, c)
	for _, want := range []string{`failure domain "b"`, roleLabel + "=" + worker, "Nearest miss: " + s.server(3)} {
		if !strings.Contains(told, want) {
			t.Errorf("a machine that waits says %q, want that it names %s", told, want)
		}
	}
	t.Logf("kubectl get ingotmachines:\n%s", s.kubectl(t, "get", "ingotmachines"))
	t.Logf("clusterctl describe:\n%s", s.Clusterctl(t, nil, "describe", "cluster", c.Name, "--namespace="+s.Namespace, "--show-conditions=IngotMachine", "--grouping=false").Stdout)

	s.add(t, place{4, "b", worker})
	c.Workers = 2
	s.Await(t, "the machine runs on the host that was registered", s.Running(c))

	s.register(t, place{5, "b", worker})
	s.patch(t, "ingothost", s.server(5), `{"spec":{"maintenance":true}}`)
	s.patch(t, "machinedeployment", md, `{"spec":{"replicas":3}}`)
	if told := s.awaitWaiter(t, c); !strings.Contains(told, "(in maintenance)") {
		t.Errorf("a machine that waits says %q", told)
	}
	s.patch(t, "ingothost", s.server(5), `{"spec":{"maintenance":null}}`)
	c.Workers = 3
	s.Await(t, "the machine runs on the host that a person gave back", s.Running(c))

	s.patch(t, "machinedeployment", md, `{"spec":{"replicas":4}}`)
	s.awaitWaiter(t, c)
	_, workers := s.machines(t, c)
	running := slices.DeleteFunc(workers, func(m clusterv1.Machine) bool { return !m.Status.NodeRef.IsDefined() })
	host := s.hostOf(t, running[0])
	instance := host.Spec.Claim.InstanceID
	s.kubectl(t, "delete", "machine", running[0].Name, "--wait=false")
	s.Await(t, "a machine is placed on the host that another gave back", s.Hosts([]string{host.Name}, func(h *infrav1.IngotHost) string {
		if h.Spec.Claim == nil || h.Spec.Claim.InstanceID == instance {
			return "it is not claimed anew"
		}
		return ""
	}))
	if claim := s.Host(t, s.server(3)).Spec.Claim; claim != nil {
		t.Errorf("machine %s was placed outside of its failure domain", claim.MachineRef.Name)
	}
	s.end(t, c)
}

// awaitWaiter waits until one worker says that there is no host for it, and returns
// what it says.
func (s *scene) awaitWaiter(t *testing.T, c site.Cluster) string {
	t.Helper()
	message := ""
	s.Await(t, "a machine says why it waits", func(ctx context.Context) (string, error) {
		list := &infrav1.IngotMachineList{}
		if err := s.Client.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: c.Name}); err != nil {
			return "", err
		}
		for i := range list.Items {
			claimed := conditions.Get(&list.Items[i], infrav1.MachineHostClaimedCondition)
			if claimed != nil && claimed.Reason == infrav1.ReasonNoMatchingHost {
				message = claimed.Message
				return "", nil
			}
		}
		return "no machine waits", nil
	})
	t.Logf("HostClaimed: %s", message)
	return message
}

// failing: servers lose their power, and Cluster API's health checks replace their
// machines, on the same hosts: there is no other.
func failing(t *testing.T, s *scene) {
	s.register(t, place{1, "a", controlPlane}, place{2, "b", controlPlane}, place{3, "c", controlPlane}, place{4, "d", worker}, place{5, "e", worker})
	c := s.create(t, site.Cluster{Name: "frail", ControlPlanes: 3, Workers: 2})
	for _, check := range []string{"-md-0", "-control-plane"} {
		s.patch(t, "machinehealthcheck", c.Name+check, `{"spec":{"checks":{"unhealthyNodeConditions":[`+
			`{"type":"Ready","status":"Unknown","timeoutSeconds":5},{"type":"Ready","status":"False","timeoutSeconds":5}]}}}`)
	}
	h := s.Record(t, &infrav1.IngotHostList{})
	controlPlanes, workers := s.machines(t, c)
	for _, failed := range []struct {
		what    string
		machine clusterv1.Machine
	}{{"a worker", workers[0]}, {"a control plane", controlPlanes[0]}} {
		host := s.hostOf(t, failed.machine)
		must(t, s.World.Server(host.Name).Simulated.Power(t.Context(), bmc.Off))
		s.Await(t, failed.what+" that failed is replaced", s.replaced(c, []clusterv1.Machine{failed.machine}))
		s.wipedBetween(t, h, host.Name, host.Spec.Claim.InstanceID)
	}
	s.spread(t, c, oneEach)
	s.end(t, c)
}
