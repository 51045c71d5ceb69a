// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// checkSettings refuses passwords among the BIOS settings: a host's spec is no place
// for them, and no BMC tells whether one is in force. before is nil for a new host;
// names that stood there are not looked at again. The value is not repeated.
func checkSettings(before, host *v1beta2.IngotHost) field.ErrorList {
	if host.Spec.BIOS == nil {
		return nil
	}
	stood := map[string]string{}
	if before != nil && before.Spec.BIOS != nil {
		stood = before.Spec.BIOS.Settings
	}
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(host.Spec.BIOS.Settings)) {
		if _, old := stood[name]; !old && strings.Contains(strings.ToLower(name), "password") {
			errs = append(errs, field.Invalid(field.NewPath("spec", "bios", "settings").Key(name), "***",
				"is a password by its name, which whoever may read hosts could read; remove it here and set it at the server's own console"))
		}
	}
	return errs
}
