// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestDesiredSettingsChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*infrav1.IngotHost)
		want   bool
	}{
		"root device hints": {func(h *infrav1.IngotHost) { h.Spec.RootDeviceHints = &infrav1.RootDeviceHints{Model: "x"} }, true},
		"boot mode":         {func(h *infrav1.IngotHost) { h.Spec.BootMode = infrav1.BootModeUEFI }, true},
		"claimed":           {func(h *infrav1.IngotHost) { h.Spec.Claim = &infrav1.HostClaim{ClusterName: "c"} }, false},
		"ordered":           {func(h *infrav1.IngotHost) { h.Spec.Order = &infrav1.HostOrder{ID: "o"} }, false},
		"observed":          {func(h *infrav1.IngotHost) { h.Status.Power = infrav1.PowerStateOn }, false},
	} {
		before := &infrav1.IngotHost{}
		after := before.DeepCopy()
		c.change(after)
		if got := desiredSettingsChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != c.want {
			t.Errorf("%s wakes the templates: %t", name, got)
		}
	}
}
