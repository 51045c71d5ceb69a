// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

const (
	paused  = infrav1.MovePausedAnnotation
	blocked = clusterctlv1.BlockMoveAnnotation
	leaving = clusterctlv1.DeleteForMoveAnnotation
)

func clusterOf(name string, pause *bool) clusterv1.Cluster {
	return clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: name}, Spec: clusterv1.ClusterSpec{Paused: pause}}
}

func TestStateOf(t *testing.T) {
	for name, tc := range map[string]struct {
		clusters []clusterv1.Cluster
		want     State
	}{
		"none":                      {nil, Empty},
		"one that says nothing":     {[]clusterv1.Cluster{clusterOf("a", nil)}, Active},
		"one that is not paused":    {[]clusterv1.Cluster{clusterOf("a", ptr.To(false))}, Active},
		"one that is paused":        {[]clusterv1.Cluster{clusterOf("a", ptr.To(true))}, AllPaused},
		"one of two that is paused": {[]clusterv1.Cluster{clusterOf("a", ptr.To(true)), clusterOf("b", nil)}, Active},
		"all that are paused":       {[]clusterv1.Cluster{clusterOf("a", ptr.To(true)), clusterOf("b", ptr.To(true))}, AllPaused},
	} {
		t.Run(name, func(t *testing.T) {
			if got := StateOf(tc.clusters); got != tc.want {
				t.Errorf("StateOf = %s, want %s", got, tc.want)
			}
		})
	}
}

func hostWith(annotations ...string) *infrav1.IngotHost {
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "h"}}
	for _, name := range annotations {
		if host.Annotations == nil {
			host.Annotations = map[string]string{}
		}
		host.Annotations[name] = "x"
	}
	return host
}

// deleted deletes a host that Ingot paused at that time; zero: the pause is older than the object.
func deleted(host *infrav1.IngotHost, paused time.Time) *infrav1.IngotHost {
	host.CreationTimestamp, host.DeletionTimestamp = metav1.Unix(100, 0), ptr.To(metav1.Unix(200, 0))
	metav1.SetMetaDataAnnotation(&host.ObjectMeta, infrav1.MovePausedAnnotation, paused.UTC().Format(time.RFC3339))
	return host
}

// All combinations of annotations, Cluster states and machines (I10).
func TestDecide(t *testing.T) {
	for _, tc := range []struct {
		name     string
		host     *infrav1.IngotHost
		state    State
		resolved bool
		want     Change
	}{
		{"new, clusters at work", hostWith(), Active, true, Change{Block: true}},
		{"new with a claim that does not resolve", hostWith(), Active, false, Change{Block: true}},
		{"new, all clusters paused", hostWith(), AllPaused, true, Change{Pause: true}},
		{"new, no cluster", hostWith(), Empty, true, Change{}},
		{"at rest", hostWith(blocked), Active, true, Change{}},
		{"a move begins", hostWith(blocked), AllPaused, true, Change{Pause: true}},
		{"a move begins, claim dangles", hostWith(blocked), AllPaused, false, Change{Pause: true}},
		{"the last cluster is deleted", hostWith(blocked), Empty, true, Change{Unblock: true}},
		{"pausing", hostWith(paused, blocked), AllPaused, true, Change{}},
		{"standing still", hostWith(paused), AllPaused, true, Change{}},
		{"arrived before its cluster", hostWith(paused), Empty, false, Change{}},
		{"arrived with its cluster, which is paused", hostWith(paused), AllPaused, false, Change{}},
		{"the cluster is unpaused, the machine is not here", hostWith(paused), Active, false, Change{}},
		{"the cluster is unpaused, all is here", hostWith(paused), Active, true, Change{Lift: true, Block: true}},
		{"aborted before it stood still", hostWith(paused, blocked), Active, true, Change{Lift: true}},
		{"aborted before it stood still, claim dangles", hostWith(paused, blocked), Active, false, Change{}},
		{"clusters vanish while it is pausing", hostWith(paused, blocked), Empty, true, Change{Unblock: true}},
		{"deleted after the last cluster has gone", deleted(hostWith(paused), time.Unix(150, 0)), Empty, true, Change{Lift: true}},
		{"deleted while it is pausing, the last cluster has gone", deleted(hostWith(paused, blocked), time.Unix(150, 0)), Empty, true, Change{Lift: true, Unblock: true}},
		{"deleted after the last cluster has gone, and rests", deleted(hostWith(paused), time.Unix(150, 0)), Empty, false, Change{}},
		{"deleted while all clusters are paused", deleted(hostWith(paused), time.Unix(150, 0)), AllPaused, true, Change{}},
		{"removed from the source after the last cluster has gone", deleted(hostWith(leaving, paused), time.Unix(150, 0)), Empty, true, Change{}},
		{"deleted before its cluster has arrived", deleted(hostWith(paused), time.Unix(50, 0)), Empty, true, Change{}},
		{"deleted while paused by hand", func() *infrav1.IngotHost {
			host := deleted(hostWith(), time.Time{})
			host.Annotations[infrav1.MovePausedAnnotation] = ""
			return host
		}(), Empty, true, Change{}},
		{"being removed from the source", hostWith(leaving), AllPaused, true, Change{}},
		{"being removed from the source, clusters gone", hostWith(leaving), Empty, true, Change{}},
		{"being removed, another cluster at work", hostWith(leaving), Active, true, Change{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.host.DeepCopy()
			got := Decide(tc.host, tc.state, tc.resolved)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Decide (-want +got):\n%s", diff)
			}
			if got == (Change{}) {
				return
			}
			// What was written is not written again.
			tc.host.Annotations = got.Apply(tc.host.Annotations, time.Unix(0, 0))
			if again := Decide(tc.host, tc.state, tc.resolved); again != (Change{}) {
				t.Errorf("after the write: %+v", again)
			}
			if _, has := tc.host.Annotations[paused]; tc.state == Active && has && !cmp.Equal(before.Annotations, tc.host.Annotations) && tc.resolved {
				t.Errorf("paused in a namespace at work: %v", tc.host.Annotations)
			}
		})
	}
}

func TestNeedsMachine(t *testing.T) {
	for state, want := range map[infrav1.ClaimState]bool{
		"": false, infrav1.ClaimProvisioning: true, infrav1.ClaimProvisioned: true, infrav1.ClaimReleasing: false,
	} {
		host := hostWith()
		if state != "" {
			host.Spec.Claim = &infrav1.HostClaim{State: state}
		}
		if got := needsMachine(host); got != want {
			t.Errorf("NeedsMachine with claim %q = %t, want %t", state, got, want)
		}
	}
}

func TestApply(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("CET", 3600))
	for name, tc := range map[string]struct {
		change       Change
		before, want map[string]string
	}{
		"pause":          {Change{Pause: true}, map[string]string{"mine": "1", blocked: ""}, map[string]string{"mine": "1", blocked: "", paused: "2026-03-04T04:06:07Z"}},
		"pause, none":    {Change{Pause: true}, nil, map[string]string{paused: "2026-03-04T04:06:07Z"}},
		"lift and block": {Change{Lift: true, Block: true}, map[string]string{"mine": "1", paused: "x"}, map[string]string{"mine": "1", blocked: ""}},
		"unblock":        {Change{Unblock: true}, map[string]string{blocked: ""}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			given := map[string]string{}
			for k, v := range tc.before {
				given[k] = v
			}
			if diff := cmp.Diff(tc.want, tc.change.Apply(tc.before, now)); diff != "" {
				t.Errorf("Apply (-want +got):\n%s", diff)
			}
			if tc.before != nil && !cmp.Equal(given, tc.before) {
				t.Error("the annotations given were changed")
			}
		})
	}
}
