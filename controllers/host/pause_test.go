// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
)

func TestPausedCondition(t *testing.T) {
	host := func(annotations ...string) *infrav1.IngotHost {
		h := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
		for _, name := range annotations {
			h.Annotations[name] = ""
		}
		return h
	}
	cluster := func(paused *bool) *clusterv1.Cluster {
		return &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: paused}}
	}
	for name, tc := range map[string]struct {
		host    *infrav1.IngotHost
		cluster *clusterv1.Cluster
		status  metav1.ConditionStatus
		reason  string
		says    []string
	}{
		"at work":                {host(), nil, metav1.ConditionFalse, infrav1.ReasonNotPaused, nil},
		"its cluster at work":    {host(), cluster(nil), metav1.ConditionFalse, infrav1.ReasonNotPaused, nil},
		"its cluster is paused":  {host(), cluster(ptr.To(true)), metav1.ConditionTrue, infrav1.ReasonPaused, []string{"spec.paused"}},
		"a person paused it":     {host(clusterv1.PausedAnnotation), nil, metav1.ConditionTrue, infrav1.ReasonPaused, []string{clusterv1.PausedAnnotation}},
		"for a move":             {host(infrav1.MovePausedAnnotation), nil, metav1.ConditionTrue, infrav1.ReasonMovePaused, []string{"clusterctl move", "unpaused", "remove annotation " + infrav1.MovePausedAnnotation}},
		"for a move, with all":   {host(infrav1.MovePausedAnnotation, clusterv1.PausedAnnotation), cluster(ptr.To(true)), metav1.ConditionTrue, infrav1.ReasonMovePaused, []string{"clusterctl move", "spec.paused", clusterv1.PausedAnnotation}},
		"block-move is no pause": {host(clusterctlv1.BlockMoveAnnotation), nil, metav1.ConditionFalse, infrav1.ReasonNotPaused, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := pausedCondition(tc.host, tc.cluster)
			if got.Type != infrav1.PausedCondition || got.Status != tc.status || got.Reason != tc.reason || (got.Message == "") != (tc.says == nil) {
				t.Errorf("condition %+v, want %s %s", got, tc.status, tc.reason)
			}
			for _, text := range tc.says {
				if !strings.Contains(got.Message, text) {
					t.Errorf("message %q does not tell %q", got.Message, text)
				}
			}
		})
	}
}

func (y *fixture) annotate(name string, annotations map[string]string) {
	y.t.Helper()
	y.edit(name, func(h *infrav1.IngotHost) { h.Annotations = annotations })
}

func (y *fixture) blocked(name string) bool {
	y.t.Helper()
	_, blocked := y.get(name).Annotations[clusterctlv1.BlockMoveAnnotation]
	return blocked
}

// I10: block-move is removed only after the pause was written and an agent that writes had time to
// stop.
func testMovePause(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.ready("idle")
	y.inspect("idle")
	y.ready("wiped", func(h *infrav1.IngotHost) {
		h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.NewTime(y.clock.Now()), CleaningDue: infrav1.CleaningMetadata}
	})
	y.untilBoot("wiped", infrav1.OrderClean)
	y.edit("wiped", func(h *infrav1.IngotHost) { h.Spec.Order.AgentKey = strings.Repeat("a", 64) })
	moving := func() map[string]string {
		return map[string]string{clusterctlv1.BlockMoveAnnotation: "", infrav1.MovePausedAnnotation: y.clock.Now().UTC().Format(time.RFC3339)}
	}
	reads := y.bmc.readsSoFar()
	for _, name := range []string{"idle", "wiped"} {
		y.annotate(name, moving())
	}
	y.step("idle")
	y.want("idle", infrav1.PausedCondition, metav1.ConditionTrue, infrav1.ReasonMovePaused)
	if y.blocked("idle") {
		t.Error("a host at rest still blocks the move")
	}
	if after := y.step("wiped").RequeueAfter; after <= 0 || after > agentStopTime || !y.blocked("wiped") {
		t.Errorf("looked at again after %s; blocks the move: %t", after, y.blocked("wiped"))
	}
	y.want("wiped", infrav1.PausedCondition, metav1.ConditionTrue, infrav1.ReasonMovePaused)
	y.clock.Step(agentStopTime)
	y.step("wiped")
	if y.blocked("wiped") {
		t.Error("blocks the move though its agent has had its time")
	}
	// A paused host costs nothing.
	before := y.get("wiped").ResourceVersion
	for range 3 {
		y.clock.Step(time.Hour)
		if after := y.step("wiped").RequeueAfter; after != y.Poll {
			t.Errorf("looked at again after %s", after)
		}
	}
	if writes := y.bmc.took(); y.get("wiped").ResourceVersion != before || y.bmc.readsSoFar() != reads || writes != "" {
		t.Errorf("a host that stands still was written to, asked or switched: %q", writes)
	}
	// The move is abandoned: the deadline of the agent starts again.
	y.annotate("wiped", nil)
	y.step("wiped")
	y.want("wiped", infrav1.PausedCondition, metav1.ConditionFalse, infrav1.ReasonNotPaused)
	y.step("wiped")
	if order := y.get("wiped").Spec.Order; order == nil || order.Result != nil || y.bmc.took() != "" {
		t.Errorf("the agent is given up: %+v", order)
	}
	y.finish("wiped")
	y.until("wiped", "available", func(h *infrav1.IngotHost) bool { return conditions.IsTrue(h, infrav1.HostAvailableCondition) })
}

// I10: a cleaning that another management cluster started begins again with power-off and does not
// count as a failure.
func testMovedCleaningStartsAgain(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.bmc.power = bmc.PowerOn
	y.ready("h", func(h *infrav1.IngotHost) {
		h.Annotations = map[string]string{infrav1.MovePausedAnnotation: "2026-01-02T03:04:05Z"}
		h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.NewTime(y.clock.Now()), CleaningDue: infrav1.CleaningMetadata}
		h.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderClean, ID: "22222222-2222-4222-8222-222222222222", Attempt: 2,
			CreationTime: metav1.NewTime(y.clock.Now()), HostUID: "of-the-source", AgentKey: strings.Repeat("a", 64)}
	})
	for range 3 {
		y.step("h")
	}
	if writes := y.bmc.took(); writes != "" || y.bmc.readsSoFar() != 0 {
		t.Errorf("switched before the move is over: %q", writes)
	}
	if phase := y.get("h").Status.Phase; phase != infrav1.PhaseDeprovisioning {
		t.Errorf("while it stands still people see the phase %q", phase)
	}
	y.annotate("h", nil)
	for range 3 {
		y.step("h")
	}
	if writes := y.bmc.took(); writes != string(bmc.ActionForceOff) {
		t.Fatalf("the BMC gets %q, want a forced power-off", writes)
	}
	y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOff })
	y.untilBoot("h", infrav1.OrderClean)
	host := y.get("h")
	if order := host.Spec.Order; order.Attempt != 1 || order.HostUID != string(host.UID) || host.Spec.Record.Failures != 0 {
		t.Errorf("order %+v, %d failures, want a new one", order, host.Spec.Record.Failures)
	}
}

// lateCluster shows live that the Cluster is paused, which the cache does not know
// yet.
type lateCluster struct {
	client.Reader
	cluster *clusterv1.Cluster
}

func (l lateCluster) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if cluster, ok := obj.(*clusterv1.Cluster); ok {
		if l.cluster == nil {
			return apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("clusters").GroupResource(), key.Name)
		}
		l.cluster.DeepCopyInto(cluster)
		return nil
	}
	return l.Reader.Get(ctx, key, obj, opts...)
}

// I10: no BMC is called after the Cluster's pause, even if the cache does not show it yet.
func testPauseOfClusterStopsCallsAtOnce(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.ready("h")
	y.inspect("h")
	y.claim("h")
	y.Live = lateCluster{y.api, &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: ptr.To(true)}}}
	for range 5 {
		y.step("h")
		y.clock.Step(31 * time.Second)
	}
	if writes := y.bmc.took(); writes != "" {
		t.Errorf("switched after the pause: %q", writes)
	}
	y.Live = y.api
	y.untilBoot("h", infrav1.OrderInstall)
}

// A free host gets no BMC calls once all Clusters of its namespace are paused, before its own
// pause.
func testFreeHostStopsWithPausedClusters(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: y.ns, Name: "c"}, Spec: clusterv1.ClusterSpec{Paused: ptr.To(true)}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotCluster", Name: "c"}
	y.create(cluster)
	y.ready("h")
	for range 5 {
		y.step("h")
		y.clock.Step(31 * time.Second)
	}
	if writes := y.bmc.took(); writes != "" {
		t.Errorf("switched while all Clusters are paused: %q", writes)
	}
	cluster.Spec.Paused = nil
	must(y, y.api.Update(y.ctx, cluster))
	y.untilBoot("h", infrav1.OrderInspect)
}

func TestPauseShowsPendingDeletion(t *testing.T) {
	const says = "the host is deleted when the pause ends"
	host := &infrav1.IngotHost{}
	host.Annotations = map[string]string{infrav1.MovePausedAnnotation: "2026-11-20T12:00:00Z"}
	if c := pausedCondition(host, nil); c.Status != metav1.ConditionTrue || strings.Contains(c.Message, says) {
		t.Errorf("a host that stays: %+v", c)
	}
	host.DeletionTimestamp = ptr.To(metav1.Now())
	if c := pausedCondition(host, nil); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, says) {
		t.Errorf("a host that is being deleted: %+v", c)
	}
}
