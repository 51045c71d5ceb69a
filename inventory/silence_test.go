// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
			h.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInstall, CreatedAt: ago(d + time.Minute)}
			h.Status.LastResetTime = ago(d)
		}
	}
	ended := func(reason string, d time.Duration) change {
		return func(h *infrav1.IngotHost) {
			waiting(d + 20*time.Minute)(h)
			h.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderFailed, Reason: reason, At: ago(d)}
		}
	}
	both := func(a, b change) change { return func(h *infrav1.IngotHost) { a(h); b(h) } }
	taken := func(h *infrav1.IngotHost) { h.Spec.Order.AgentKey = "key" }
	heardAgo := func(d time.Duration) change {
		return func(h *infrav1.IngotHost) {
			h.Status.Operation = &infrav1.HostOperation{StartedAt: h.Spec.Order.CreatedAt, LastContactTime: ago(d)}
		}
	}
	idle := func(*infrav1.IngotHost) {}
	for name, tc := range map[string]struct {
		peers []change
		want  int
	}{
		"none":                             {nil, 0},
		"idle ones":                        {[]change{idle, idle}, 0},
		"two wait":                         {[]change{waiting(time.Minute), waiting(time.Hour)}, 2},
		"two wait on another network":      {[]change{both(waiting(time.Minute), func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = "other" }), waiting(time.Minute)}, 1},
		"two were given up":                {[]change{ended(infrav1.ReasonNoAgentContact, time.Second), ended(infrav1.ReasonNetworkSilent, time.Minute)}, 2},
		"one was just started anew":        {[]change{both(waiting(time.Hour), func(h *infrav1.IngotHost) { h.Spec.Order.CreatedAt = ago(time.Second) })}, 1},
		"one never came on":                {[]change{both(waiting(time.Hour), func(h *infrav1.IngotHost) { h.Status.LastResetTime = ago(24 * time.Hour) })}, 0},
		"one is heard":                     {[]change{waiting(time.Minute), waiting(time.Minute), both(both(waiting(time.Minute), taken), heardAgo(time.Minute))}, 0},
		"one was heard long ago":           {[]change{waiting(time.Minute), waiting(time.Minute), both(both(waiting(time.Hour), taken), heardAgo(20*time.Minute))}, 2},
		"the manager's own note of a boot": {[]change{waiting(time.Minute), both(waiting(time.Minute), heardAgo(time.Second))}, 2},
		"the agent of an earlier order": {[]change{waiting(time.Minute), both(both(waiting(time.Minute), taken), func(h *infrav1.IngotHost) {
			h.Status.Operation = &infrav1.HostOperation{StartedAt: ago(time.Hour), LastContactTime: ago(time.Second)}
		})}, 1},
		"an agent has reported a failure": {[]change{waiting(time.Minute), ended("WriteFailed", time.Minute)}, 0},
		"one was inspected just now":      {[]change{waiting(time.Minute), func(h *infrav1.IngotHost) { h.Spec.Record = &infrav1.HostRecord{InspectedAt: ago(time.Minute)} }}, 0},
		"one was wiped just now":          {[]change{waiting(time.Minute), func(h *infrav1.IngotHost) { h.Spec.Record = &infrav1.HostRecord{SanitizedAt: ago(time.Minute)} }}, 0},
		"one was wiped yesterday":         {[]change{waiting(time.Minute), func(h *infrav1.IngotHost) { h.Spec.Record = &infrav1.HostRecord{SanitizedAt: ago(24 * time.Hour)} }}, 1},
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
			if got := SilentPeers(&host, all, now, policy); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}

func TestSilenceDue(t *testing.T) {
	policy := DefaultPolicy()
	for name, tc := range map[string]struct {
		order           *infrav1.HostOrder
		booted, contact time.Duration
		want            bool
	}{
		"no order":           {nil, time.Hour, time.Hour, false},
		"silent":             {&infrav1.HostOrder{}, 15 * time.Minute, time.Hour, true},
		"booting":            {&infrav1.HostOrder{}, 14 * time.Minute, time.Hour, false},
		"heard":              {&infrav1.HostOrder{}, time.Hour, time.Minute, false},
		"heard, then silent": {&infrav1.HostOrder{}, time.Hour, 16 * time.Minute, true},
		"ended":              {&infrav1.HostOrder{Result: &infrav1.OrderResult{}}, time.Hour, time.Hour, false},
	} {
		obs := Observation{Now: day(), LastReset: day().Add(-tc.booted), LastContact: day().Add(-tc.contact)}
		if got := SilenceDue(&infrav1.IngotHost{Spec: infrav1.IngotHostSpec{Order: tc.order}}, obs, policy); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
