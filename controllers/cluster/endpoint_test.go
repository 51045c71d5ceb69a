// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// recorded creates the hardware of a host with an address.
func (s *site) recorded(namespace, name, ip string) *infrav1.IngotHardware {
	s.t.Helper()
	facts := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	facts.Spec.Address = &infrav1.RecordedAddress{NetworkName: "net", MAC: "52:54:00:00:00:77", IP: ip}
	s.create(facts)
	return facts
}

// A host that has the endpoint's address is reported and blocks nothing, unless it is the only
// control plane machine.
func testEndpointTaken(s *site) {
	at := func(host string) func(*clusterv1.Cluster, *infrav1.IngotCluster) {
		return func(_ *clusterv1.Cluster, c *infrav1.IngotCluster) {
			c.Spec.ControlPlaneEndpoint = infrav1.APIEndpoint{Host: host, Port: 6443}
		}
	}
	s.cluster("taken", at("192.0.2.77"))
	s.cluster("named", at("api.example.com"))
	s.cluster("own", at("192.0.2.76"))
	s.cluster("there", func(o *clusterv1.Cluster, _ *infrav1.IngotCluster) {
		o.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.78", Port: 6443}
	})
	s.host("h1", "a")
	facts := s.recorded(s.ns, "h1", "192.0.2.77")
	foreign := s.recorded("default", "h2", "192.0.2.78")
	for _, name := range []string{"named", "own", "taken", "there"} {
		if c := s.settle(name); !ptr.Deref(c.Status.Initialization.Provisioned, false) {
			s.t.Errorf("%s is not provisioned: %+v", name, c.Status)
		}
		s.want(name, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReasonReady, "")
	}
	is := func(name, reason, says string) {
		s.t.Helper()
		s.settle(name)
		s.want(name, infrav1.ClusterEndpointReadyCondition, metav1.ConditionTrue, reason, says)
	}
	is("named", infrav1.ReasonEndpointSet, "")
	is("own", infrav1.ReasonEndpointSet, "")
	is("there", infrav1.ReasonEndpointInUse, "192.0.2.78 is also the address of a host of another namespace")
	is("taken", infrav1.ReasonEndpointInUse, "192.0.2.77 is also the address of IngotHost "+s.ns+"/h1")
	if n := len(s.events.Events); n != 2 {
		s.t.Errorf("%d events", n)
	}

	plane := func(m *infrav1.IngotMachine) { m.Labels[clusterv1.MachineControlPlaneLabel] = "" }
	first := s.machineWith("cp-1", "taken", plane)
	is("taken", infrav1.ReasonEndpointInUse, "") // it has no host yet
	first.Spec.ProviderID = infrav1.ProviderID{Namespace: s.ns, Host: "h1", InstanceID: uuid.NewString()}.String()
	s.must(s.api.Update(s.ctx, first))
	s.machine("worker", "taken")
	s.machineWith("cp-other", "own", plane)
	is("taken", infrav1.ReasonEndpointSet, "")
	second := s.machineWith("cp-2", "taken", plane)
	is("taken", infrav1.ReasonEndpointInUse, "IngotHost "+s.ns+"/h1")
	s.must(s.api.Delete(s.ctx, facts))
	is("taken", infrav1.ReasonEndpointSet, "")
	s.must(s.api.Delete(s.ctx, second))
	s.must(s.api.Delete(s.ctx, foreign))
	is("there", infrav1.ReasonEndpointSet, "")
}
