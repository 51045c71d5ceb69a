// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestActiveSince(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(m int) metav1.Time { return metav1.NewTime(start.Add(time.Duration(m) * time.Minute)) }
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		want       metav1.Time
	}{
		"new":              {nil, at(0)},
		"looked at first":  {[]metav1.Condition{{Type: infrav1.PausedCondition, Status: metav1.ConditionFalse, LastTransitionTime: at(7)}}, at(0)},
		"after a person":   {[]metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, LastTransitionTime: at(9)}}, at(9)},
		"a person at work": {[]metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionUnknown, LastTransitionTime: at(1)}}, at(60)},
		"an old clock":     {[]metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, LastTransitionTime: at(-1)}}, at(0)},
		"another's":        {[]metav1.Condition{{Type: infrav1.RemediationRestartedCondition, Status: metav1.ConditionTrue, LastTransitionTime: at(20)}}, at(0)},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &infrav1.IngotRemediation{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(0)}}
			obj.Status.Conditions = c.conditions
			if got := activeSince(obj, at(60).Time); !got.Equal(c.want.Time) {
				t.Errorf("active since %s, want %s", got, c.want)
			}
		})
	}
}
