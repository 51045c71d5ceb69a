// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

func TestReservationSelectors(t *testing.T) {
	wrong := []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn}}
	for _, tc := range []struct {
		name string
		spec v1beta2.IngotReservationSpec
		want string
	}{
		{name: "good", spec: v1beta2.IngotReservationSpec{HostSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}},
		{name: "cluster", spec: v1beta2.IngotReservationSpec{HostSelector: &metav1.LabelSelector{MatchExpressions: wrong}}, want: "spec.hostSelector.matchExpressions[0].values"},
		{name: "control plane", spec: v1beta2.IngotReservationSpec{ControlPlaneSelector: &metav1.LabelSelector{MatchExpressions: wrong}}, want: "spec.controlPlaneSelector.matchExpressions[0].values"},
		{name: "group", spec: v1beta2.IngotReservationSpec{Groups: []v1beta2.ReservedGroup{{}, {HostSelector: &v1beta2.HostSelector{MatchExpressions: wrong}}}}, want: "spec.groups[1].hostSelector.matchExpressions[0].values"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &v1beta2.IngotReservation{Spec: tc.spec}
			_, err := reservationValidator{}.ValidateCreate(t.Context(), r)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("create: %v, want %q", err, tc.want)
			}
			if _, err := (reservationValidator{}).ValidateUpdate(t.Context(), r, r); err != nil {
				t.Errorf("an unchanged reservation was rejected: %v", err)
			}
			later := r.DeepCopy()
			later.Spec.ExpirationTime = metav1.Now()
			if _, err := (reservationValidator{}).ValidateUpdate(t.Context(), r, later); err != nil {
				t.Errorf("a longer reservation with unchanged selectors was rejected: %v", err)
			}
			if _, err := (reservationValidator{}).ValidateUpdate(t.Context(), &v1beta2.IngotReservation{}, r); (err == nil) != (tc.want == "") {
				t.Errorf("update: %v, want %q", err, tc.want)
			}
			if _, err := (reservationValidator{}).ValidateDelete(t.Context(), r); err != nil {
				t.Errorf("delete: %v", err)
			}
		})
	}
}
