// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// One wrong report of off does not end the order of a live system, even if the controller runs again
// with the new status.power.
func TestOffOfLiveSystemNeedsConfirmation(t *testing.T) {
	for _, tc := range []struct {
		claim  infrav1.ClaimState
		unsure bool
		want   string
	}{
		{infrav1.ClaimProvisioning, true, "order/live-doubted"},
		{infrav1.ClaimProvisioning, false, "order/live-stopped"},
		{infrav1.ClaimReleasing, true, "order/misfit-live-doubted"},
		{infrav1.ClaimReleasing, false, "order/misfit-drop"},
	} {
		s := newScene(func(s *scene) {
			s.host.Spec.Claim, s.host.Spec.Order = claimOf(tc.claim), orderOf(infrav1.OrderInstall)
			s.host.Spec.Order.AgentKey, s.host.Spec.Order.LiveStartTime = "key", metav1.Time{Time: day().Add(-time.Minute)}
			s.host.Status.Power, s.obs.OffUnconfirmed = infrav1.PowerStateOff, tc.unsure
			s.obs.LastContact, s.obs.LastReset = day().Add(-time.Minute), day().Add(-time.Hour)
		})
		d := Next(s.host, s.obs, DefaultPolicy())
		if wait, waits := d.Step.(Wait); d.Rule != tc.want || waits != tc.unsure || waits && !wait.Until.Equal(day().Add(DefaultPolicy().ResetInterval)) {
			t.Errorf("%s, unsure %t: rule %s, step %+v, want %s", tc.claim, tc.unsure, d.Rule, d.Step, tc.want)
		}
	}
}
