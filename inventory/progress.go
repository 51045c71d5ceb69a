// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"strings"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// ShowProgress sets the operation's Progress, which kubectl get shows, from its step, percentage
// and bytes. The bytes are shown only if the total is unknown. nil is valid.
func ShowProgress(operation *infrav1.HostOperation) {
	if operation == nil {
		return
	}
	parts := []string{operation.Step}
	switch percent := operation.Percent; {
	case percent != nil && *percent > 0:
		parts = append(parts, fmt.Sprintf("%d%%", *percent))
	case operation.Bytes > 0:
		parts = append(parts, fmt.Sprintf("%.1fGi", float64(operation.Bytes)/(1<<30)))
	}
	operation.Progress = strings.TrimSpace(strings.Join(parts, " "))
}
