// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/site"
)

// quorum is the least of control planes that loses one and goes on.
const quorum = 3

// TestControlPlaneLost burns a control plane's server: it is off, and its BMC answers no
// more. Cluster API's health check has the Machine replaced; a person who has looked at
// the server tells Ingot that nothing of it runs (force-release), since no BMC ever
// will; and the spare server takes its place, in etcd too.
//
// INGOT_CLUSTER_QUORUM asks for it (make e2e-quorum): it needs root, four servers of
// 3 GiB, and an hour on two cores without KVM.
func TestControlPlaneLost(t *testing.T) {
	o := fromEnvironment()
	o.servers, o.controlPlanes, o.workers = quorum+1, quorum, 0
	if o.version == "" || os.Getenv("INGOT_CLUSTER_QUORUM") == "" {
		t.Skip("set INGOT_CLUSTER_VERSION to the version of a node image and INGOT_CLUSTER_QUORUM=1, as make e2e-quorum does; needs root")
	}
	s := setUp(t, o)
	s.play(t, []scene{
		{"servers become Available", register},
		{"a cluster with three control planes", create},
		{"Nodes are their Machines", identify},
		{"a control plane's server burns", burn},
		{"Nodes are their Machines still", identify},
		{"deletion", removeBurnt},
	})
	t.Logf("quorum: %d of %d control planes ready after one was lost for good, %.0f s", s.ready, quorum, time.Since(s.began).Seconds())
}

// burn takes the server that was made last for good: its Machine is replaced on the spare.
func burn(t *testing.T, s *stage) {
	// As long as it takes to be sure; a real one would be given time to reboot.
	s.suspectControlPlanes(t, time.Minute)
	lost := s.lastControlPlane(t)
	s.burnt = hostOf(t, lost)
	server := s.world.Server(s.burnt)
	server.BMC.Down()
	check(t, server.VM.PowerOff())
	s.site.AwaitFor(t, patience, "its replacement wanted, but for its server", s.releasing(lost.Name))
	// The replacement stands still for longer than that while it joins: it is one of three on
	// two cores.
	s.suspectControlPlanes(t, 15*time.Minute)
	s.site.Kubectl(t, "annotate", "ingothost", s.burnt, infrav1.ForceReleaseAnnotation+"="+time.Now().UTC().Format(time.RFC3339)+",burnt, and unplugged by J. Doe")
	s.site.AwaitFor(t, patience, "the Machine's end", func(ctx context.Context) (string, error) {
		controlPlanes, _, err := s.site.Machines(ctx, s.cluster)
		for _, m := range controlPlanes {
			if m.Name == lost.Name {
				return "machine " + m.Name + " is " + m.Status.Phase, err
			}
		}
		return "", err
	})
	s.site.AwaitFor(t, 2*patience, "as many control planes as before", s.upToDate(true))
	s.awaitCluster(t)
}

// suspectControlPlanes sets how long a control plane's Node says nothing before its Machine
// is replaced. In the template it is 15 minutes.
func (s *stage) suspectControlPlanes(t *testing.T, after time.Duration) {
	t.Helper()
	s.patch(t, "machinehealthcheck", s.cluster.Name+"-control-plane", `{"spec":{"checks":{"unhealthyNodeConditions":[`+
		`{"type":"Ready","status":"Unknown","timeoutSeconds":%d},{"type":"Ready","status":"False","timeoutSeconds":900}]}}}`, int(after.Seconds()))
}

// lastControlPlane is the youngest Machine of the control plane: hardly the leader of
// everything.
func (s *stage) lastControlPlane(t *testing.T) clusterv1.Machine {
	t.Helper()
	controlPlanes, _, err := s.site.Machines(t.Context(), s.cluster)
	check(t, err)
	last := controlPlanes[0]
	for _, m := range controlPlanes {
		if m.CreationTimestamp.After(last.CreationTimestamp.Time) {
			last = m
		}
	}
	return last
}

// releasing says what is missing until a Machine is deleted and only its server, which
// nobody can switch off, keeps it.
func (s *stage) releasing(machine string) site.Missing {
	return func(ctx context.Context) (string, error) {
		controlPlanes, _, err := s.site.Machines(ctx, s.cluster)
		if err != nil {
			return "", err
		}
		for _, m := range controlPlanes {
			if m.Name != machine {
				continue
			}
			host := &infrav1.IngotHost{}
			if err := s.site.Client.Get(ctx, client.ObjectKey{Namespace: s.site.Namespace, Name: s.burnt}, host); err != nil {
				return "", err
			}
			if claim := host.Spec.Claim; claim != nil && claim.State == infrav1.ClaimReleasing {
				return "", nil
			}
			return fmt.Sprintf("it is %s: %s", m.Status.Phase, conditions.GetMessage(&m, clusterv1.MachineReadyCondition)), nil
		}
		return "it is gone though its server was never confirmed off", nil
	}
}

// removeBurnt is the cluster's end; the burnt server stays out of service, and says why.
func removeBurnt(t *testing.T, s *stage) {
	s.site.Kubectl(t, "delete", "cluster", s.cluster.Name, "--wait=false")
	s.site.AwaitFor(t, patience, "the cluster's end", s.site.Gone(s.cluster))
	var others []string
	for _, name := range s.world.Servers() {
		if name != s.burnt {
			others = append(others, name)
		}
	}
	s.site.AwaitFor(t, patience, "hosts given back, wiped", site.All(s.site.Free(others...), s.site.Wiped(others...)))
	host := s.site.Host(t, s.burnt)
	if q := host.Spec.Record.Quarantine; q == nil || q.Reason != infrav1.QuarantineNotFenced {
		t.Errorf("the burnt host's quarantine is %+v, want %s", q, infrav1.QuarantineNotFenced)
	}
}
