// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Whatever wakes the controller a moment after a BMC's wrong word, status.power then says
// off already: the order of a live system is not ended by that.
func TestOffOfLiveSystemIsBelievedLater(t *testing.T) {
	for unsure, want := range map[bool]string{true: "order/live-doubted", false: "order/live-stopped"} {
		s := newScene(func(s *scene) {
			s.host.Spec.Claim, s.host.Spec.Order = claimOf(infrav1.ClaimProvisioning), orderOf(infrav1.OrderInstall)
			s.host.Spec.Order.AgentKey, s.host.Spec.Order.LiveStartedAt = "key", metav1.Time{Time: day().Add(-time.Minute)}
			s.host.Status.Power, s.obs.OffUnsure = infrav1.PowerStateOff, unsure
			s.obs.LastContact, s.obs.LastReset = day().Add(-time.Minute), day().Add(-time.Hour)
		})
		d := Next(s.host, s.obs, DefaultPolicy())
		if wait, waits := d.Step.(Wait); d.Rule != want || waits != unsure || waits && !wait.Until.Equal(day().Add(DefaultPolicy().ResetInterval)) {
			t.Errorf("unsure %t: rule %s, step %+v, want %s", unsure, d.Rule, d.Step, want)
		}
	}
}
