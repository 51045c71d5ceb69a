// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

func TestHealthy(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*scene)
		status metav1.ConditionStatus
		reason string
		text   string
	}{
		"well":      {func(s *scene) { s.obs.Health = HealthOK }, metav1.ConditionTrue, infrav1.ReasonHealthOK, "no fault"},
		"not asked": {func(*scene) {}, metav1.ConditionUnknown, infrav1.ReasonHealthUnknown, "reports no health"},
		"not told":  {func(s *scene) { s.obs.Health = HealthUnknown }, metav1.ConditionUnknown, infrav1.ReasonHealthUnknown, "reports no health"},
		"no BMC":    {func(s *scene) { s.host.Spec.BMC = nil }, metav1.ConditionUnknown, infrav1.ReasonUnmanaged, "no BMC"},
		"no answer": {func(s *scene) { s.obs.BMC, s.obs.Health = BMCTimeout, HealthOK }, metav1.ConditionUnknown, infrav1.ReasonHealthUnknown, "BMCReachable"},
		"warning":   {func(s *scene) { s.obs.Health, s.obs.HealthDetail = HealthWarning, `Fan "2" is Warning` }, metav1.ConditionFalse, infrav1.ReasonHealthWarning, `Fan "2"`},
		"critical":  {func(s *scene) { s.obs.Health = HealthCritical }, metav1.ConditionFalse, infrav1.ReasonHealthCritical, "names no part"},
		"parts that are not read again yet": {func(s *scene) {
			s.obs.Health = HealthCritical
			s.host.Status.Conditions = []metav1.Condition{inventory.FalseCondition(infrav1.HostHealthyCondition, infrav1.ReasonHealthCritical, "as before")}
		}, metav1.ConditionFalse, infrav1.ReasonHealthCritical, "as before"},
		"parts of another state": {func(s *scene) {
			s.obs.Health = HealthCritical
			s.host.Status.Conditions = []metav1.Condition{inventory.FalseCondition(infrav1.HostHealthyCondition, infrav1.ReasonHealthWarning, "as before")}
		}, metav1.ConditionFalse, infrav1.ReasonHealthCritical, "names no part"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(tc.change)
			decision := Next(s.host, s.obs, DefaultPolicy())
			conditions := Conditions(s.host, s.obs, decision)
			c := meta.FindStatusCondition(conditions, infrav1.HostHealthyCondition)
			if c == nil || c.Status != tc.status || c.Reason != tc.reason || !strings.Contains(c.Message, tc.text) {
				t.Errorf("condition %+v, want %s %s …%s…", c, tc.status, tc.reason, tc.text)
			}
			well := newScene(func(s *scene) { s.obs.Health = HealthOK })
			if s.host.Spec.BMC != nil && s.obs.BMC == BMCOK && decision.Rule != Next(well.host, well.obs, DefaultPolicy()).Rule {
				t.Errorf("health changes what is done: %s", decision.Rule)
			}
		})
	}
}

// A dead BMC must not cost a write at every try.
func TestBMCMessageIsStable(t *testing.T) {
	s := newScene(func(s *scene) { s.obs.BMC, s.obs.BMCMessage, s.obs.FailingSince = BMCUnreachable, "no route", day() })
	first := Next(s.host, s.obs, DefaultPolicy()).Message
	s.obs.Now, s.obs.RetryAt = s.obs.Now.Add(time.Hour), s.obs.Now.Add(time.Hour+time.Minute)
	if later := Next(s.host, s.obs, DefaultPolicy()).Message; later != first || !strings.Contains(first, "since "+day().Format(time.RFC3339)) {
		t.Errorf("first %q, an hour later %q", first, later)
	}
}

func TestFailingSince(t *testing.T) {
	host := newScene(func(*scene) {}).host
	if !FailingSince(host).IsZero() {
		t.Error("a host without conditions fails")
	}
	for i, c := range []metav1.Condition{
		inventory.TrueCondition(infrav1.HostBMCReachableCondition, "x", ""), inventory.FalseCondition(infrav1.HostCredentialsValidCondition, "y", ""), inventory.FalseCondition(infrav1.ReadyCondition, "z", ""),
	} {
		c.LastTransitionTime = metav1.NewTime(day().Add(time.Duration(i) * time.Hour))
		host.Status.Conditions = append(host.Status.Conditions, c)
	}
	if got := FailingSince(host); !got.Equal(day().Add(time.Hour)) {
		t.Errorf("failing since %s", got)
	}
}
