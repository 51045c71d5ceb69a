// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// The metrics count the hosts of each phase and condition without naming them, and show 0 Available
// hosts.
func TestCensus(t *testing.T) {
	host := func(namespace, name string, phase infrav1.IngotHostPhase, reachable metav1.ConditionStatus, reason string) *infrav1.IngotHost {
		return &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Status: infrav1.IngotHostStatus{
			Phase: phase, Conditions: []metav1.Condition{{Type: infrav1.HostBMCReachableCondition, Status: reachable, Reason: reason}},
		}}
	}
	hosts := fake.NewClientBuilder().WithScheme(testscheme.Scheme(t)).WithObjects(
		host("dc1", "a", infrav1.PhaseAvailable, metav1.ConditionTrue, infrav1.ReasonBMCResponding),
		host("dc1", "b", infrav1.PhaseAvailable, metav1.ConditionFalse, infrav1.ReasonBMCTimeout),
		host("dc1", "c", infrav1.PhaseQuarantined, metav1.ConditionTrue, infrav1.ReasonBMCResponding),
		host("dc2", "a", infrav1.PhaseProvisioned, metav1.ConditionTrue, infrav1.ReasonBMCResponding),
	).Build()
	want := `
# HELP ingot_host_conditions Hosts that have a condition, by namespace, type, status and reason.
# TYPE ingot_host_conditions gauge
ingot_host_conditions{namespace="dc1",reason="BMCResponding",status="True",type="BMCReachable"} 2
ingot_host_conditions{namespace="dc1",reason="BMCTimeout",status="False",type="BMCReachable"} 1
ingot_host_conditions{namespace="dc2",reason="BMCResponding",status="True",type="BMCReachable"} 1
# HELP ingot_hosts Hosts, by namespace and phase.
# TYPE ingot_hosts gauge
ingot_hosts{namespace="dc1",phase="Available"} 2
ingot_hosts{namespace="dc1",phase="Deprovisioning"} 0
ingot_hosts{namespace="dc1",phase="Inspecting"} 0
ingot_hosts{namespace="dc1",phase="Maintenance"} 0
ingot_hosts{namespace="dc1",phase="Preparing"} 0
ingot_hosts{namespace="dc1",phase="Provisioned"} 0
ingot_hosts{namespace="dc1",phase="Provisioning"} 0
ingot_hosts{namespace="dc1",phase="Quarantined"} 1
ingot_hosts{namespace="dc1",phase="Registering"} 0
ingot_hosts{namespace="dc1",phase="Unmanaged"} 0
ingot_hosts{namespace="dc2",phase="Available"} 0
ingot_hosts{namespace="dc2",phase="Deprovisioning"} 0
ingot_hosts{namespace="dc2",phase="Inspecting"} 0
ingot_hosts{namespace="dc2",phase="Maintenance"} 0
ingot_hosts{namespace="dc2",phase="Preparing"} 0
ingot_hosts{namespace="dc2",phase="Provisioned"} 1
ingot_hosts{namespace="dc2",phase="Provisioning"} 0
ingot_hosts{namespace="dc2",phase="Quarantined"} 0
ingot_hosts{namespace="dc2",phase="Registering"} 0
ingot_hosts{namespace="dc2",phase="Unmanaged"} 0
`
	if err := testutil.CollectAndCompare(leading(t, hosts), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	deaf := interceptor.NewClient(hosts, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no cache")
		},
	})
	if _, err := testutil.CollectAndLint(leading(t, deaf)); err == nil {
		t.Error("a failed list is not reported")
	}
}

// leading returns a census of a manager that leads until the test ends.
func leading(t *testing.T, hosts client.Reader) *Census {
	t.Helper()
	census := &Census{hosts: hosts}
	lead(t, census)
	return census
}

// lead lets the census count until the returned function is called.
func lead(t *testing.T, census *Census) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- census.Start(ctx) }()
	eventually.Wait{}.Until(t, "the lead", eventually.Holds(census.leads.Load))
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// Only the leader counts, also after another manager in the same process.
func TestCensusOfTheLeader(t *testing.T) {
	registry := prometheus.NewRegistry()
	hosts := fake.NewClientBuilder().WithScheme(testscheme.Scheme(t)).WithObjects(
		&infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "dc1", Name: "a"}}).Build()
	counted := func() bool {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		return len(families) > 0
	}
	first, err := NewCensus(hosts, registry)
	if err != nil {
		t.Fatal(err)
	}
	if counted() {
		t.Error("counted by one who does not lead")
	}
	end := lead(t, first)
	if !counted() {
		t.Error("not counted by the leader")
	}
	second, err := NewCensus(hosts, registry)
	if err != nil {
		t.Fatal(err)
	}
	endSecond := lead(t, second)
	end()
	if !counted() {
		t.Error("the end of the first ends the count of the second")
	}
	if endSecond(); counted() {
		t.Error("counted after the end")
	}
}
