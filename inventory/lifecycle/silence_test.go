// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestSilentPeers(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	policy := DefaultPolicy()
	type change = func(*infrav1.IngotHost)
	// waiting: booted for its order so long ago, and nobody came.
	waiting := func(d time.Duration) change {
		return func(h *infrav1.IngotHost) {
			h.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInstall, CreationTime: ago(d + time.Minute)}
			h.Status.LastResetTime, h.Status.Power = ago(d), infrav1.PowerStateOn
		}
	}
	ended := func(reason string, d time.Duration) change {
		return func(h *infrav1.IngotHost) {
			waiting(d + 20*time.Minute)(h)
			h.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderFailed, Reason: reason, CompletionTime: ago(d)}
		}
	}
	but := func(a, b change) change { return func(h *infrav1.IngotHost) { a(h); b(h) } }
	off := func(h *infrav1.IngotHost) { h.Status.Power = infrav1.PowerStateOff }
	annotated := func(name string) change {
		return func(h *infrav1.IngotHost) { h.Annotations = map[string]string{name: ""} }
	}
	for name, tc := range map[string]struct {
		heard time.Duration
		peers []change
		want  int
	}{
		"none":                        {time.Hour, nil, 0},
		"idle ones":                   {time.Hour, []change{func(*infrav1.IngotHost) {}}, 0},
		"two wait":                    {time.Hour, []change{waiting(time.Minute), waiting(20 * time.Minute)}, 2},
		"one was heard a moment ago":  {14 * time.Minute, []change{waiting(time.Minute), waiting(20 * time.Minute)}, 0},
		"one was heard too long ago":  {15 * time.Minute, []change{waiting(time.Minute)}, 1},
		"on another network":          {time.Hour, []change{but(waiting(time.Minute), func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = "other" })}, 0},
		"given up just now":           {time.Hour, []change{ended(infrav1.ReasonNoAgentContact, time.Second), ended(infrav1.ReasonNetworkUnresponsive, time.Minute)}, 2},
		"given up long ago":           {time.Hour, []change{ended(infrav1.ReasonNoAgentContact, 15*time.Minute)}, 0},
		"failed by its agent's word":  {time.Hour, []change{ended("WriteFailed", time.Minute)}, 0},
		"its live system was silent":  {time.Hour, []change{ended(infrav1.ReasonLiveSystemUnresponsive, time.Minute)}, 0},
		"an agent has the order":      {time.Hour, []change{but(waiting(time.Minute), func(h *infrav1.IngotHost) { h.Spec.Order.AgentKey = "key" })}, 0},
		"about to be booted":          {time.Hour, []change{but(waiting(time.Minute), but(off, func(h *infrav1.IngotHost) { h.Status.LastResetTime = ago(time.Hour) }))}, 1},
		"its BMC refuses every boot":  {time.Hour, []change{but(waiting(20*time.Minute), but(off, func(h *infrav1.IngotHost) { h.Status.LastResetTime = ago(time.Second) }))}, 0},
		"on, and never booted for it": {time.Hour, []change{but(waiting(20*time.Minute), func(h *infrav1.IngotHost) { h.Status.LastResetTime = ago(22 * time.Minute) })}, 0},
		"its BMC died ten days ago":   {time.Hour, []change{waiting(240 * time.Hour)}, 0},
		"paused":                      {time.Hour, []change{but(waiting(time.Minute), annotated(clusterv1.PausedAnnotation))}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			host := infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{UID: "self"}}
			host.Spec.NetworkRef.Name = "net"
			waiting(time.Hour)(&host)
			all := []infrav1.IngotHost{host}
			for i, change := range tc.peers {
				peer := infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i))}}
				peer.Spec.NetworkRef.Name = "net"
				change(&peer)
				all = append(all, peer)
			}
			if got := CountSilentPeers(&host, all, now.Add(-tc.heard), now, policy); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}

func TestSilenceDue(t *testing.T) {
	policy := DefaultPolicy()
	for name, tc := range map[string]struct {
		order                   *infrav1.HostOrder
		booted, contact, listen time.Duration
		want                    bool
	}{
		"no order":                        {nil, time.Hour, time.Hour, time.Hour, false},
		"silent":                          {&infrav1.HostOrder{}, 15 * time.Minute, time.Hour, time.Hour, true},
		"booting":                         {&infrav1.HostOrder{}, 14 * time.Minute, time.Hour, time.Hour, false},
		"heard":                           {&infrav1.HostOrder{}, time.Hour, time.Minute, time.Hour, false},
		"heard, then silent":              {&infrav1.HostOrder{}, time.Hour, 16 * time.Minute, time.Hour, true},
		"ended":                           {&infrav1.HostOrder{Result: &infrav1.OrderResult{}}, time.Hour, time.Hour, time.Hour, false},
		"a manager that has just started": {&infrav1.HostOrder{}, time.Hour, time.Hour, 14 * time.Minute, false},
	} {
		obs := Observation{Now: day(), ListeningSince: day().Add(-tc.listen), LastReset: day().Add(-tc.booted), LastContact: day().Add(-tc.contact)}
		if got := IsAgentSilent(&infrav1.IngotHost{Spec: infrav1.IngotHostSpec{Order: tc.order}}, obs, policy); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
