// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// The deadline of an agent holds if its order is in the future because the clock was set back: from
// the boot, and from now if the boot is unknown.
func TestAgentDeadlineAfterClockWasSetBack(t *testing.T) {
	for name, tc := range map[string]struct {
		reset, contact time.Duration // before now; 0: never
		want           string
	}{
		"booted long ago":          {16 * time.Minute, 0, "order/silent"},
		"heard a moment ago":       {16 * time.Minute, time.Minute, "order/running"},
		"booted a moment ago":      {time.Minute, 0, "order/running"},
		"neither booted nor heard": {0, 0, "order/forgotten"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(func(s *scene) {
				s.host.Spec.Order, s.host.Spec.Record.CleaningDue = orderOf(infrav1.OrderClean), infrav1.CleaningMetadata
				s.host.Spec.Order.CreationTime = metav1.Time{Time: day().Add(time.Hour)}
				s.obs.Power = infrav1.PowerStateOn
				if tc.reset > 0 {
					s.obs.LastReset = day().Add(-tc.reset)
				}
				if tc.contact > 0 {
					s.obs.LastContact = day().Add(-tc.contact)
				}
			})
			if d := Next(s.host, s.obs, DefaultPolicy()); d.Rule != tc.want {
				t.Errorf("rule %s, want %s: %s", d.Rule, tc.want, d.Message)
			}
		})
	}
}
