// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

func TestSettings(t *testing.T) {
	host := func(settings map[string]string) *v1beta2.IngotHost {
		h := &v1beta2.IngotHost{}
		if settings != nil {
			h.Spec.BIOS = &v1beta2.BIOSConfiguration{Settings: settings}
		}
		return h
	}
	const secret = "hunter2"
	for _, tc := range []struct {
		name   string
		before *v1beta2.IngotHost
		after  *v1beta2.IngotHost
		field  string // empty: accepted
	}{
		{"no settings", nil, host(nil), ""},
		{"plain settings", nil, host(map[string]string{"LogicalProc": "Enabled"}), ""},
		{"a password", nil, host(map[string]string{"SetupPassword": secret}), "spec.bios.settings[SetupPassword]"},
		{"in any case", host(nil), host(map[string]string{"ADMINPASSWORD1": secret}), "spec.bios.settings[ADMINPASSWORD1]"},
		{"unchanged password", host(map[string]string{"SetupPassword": "a"}), host(map[string]string{"SetupPassword": "a", "B": "c"}), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			errs := checkSettings(tc.before, tc.after)
			if tc.field == "" {
				if len(errs) != 0 {
					t.Errorf("refused: %v", errs)
				}
				return
			}
			if len(errs) != 1 || errs[0].Field != tc.field || !strings.Contains(errs[0].Detail, "console") || strings.Contains(errs.ToAggregate().Error(), secret) {
				t.Errorf("errors %v, want one at %s with a remedy and without the value", errs, tc.field)
			}
		})
	}
}
