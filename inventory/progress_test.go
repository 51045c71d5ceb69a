// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestShowProgress(t *testing.T) {
	for name, tc := range map[string]struct {
		operation infrav1.HostOperation
		want      string
	}{
		"a step only":                {infrav1.HostOperation{Step: "Verifying"}, "Verifying"},
		"a step that begins":         {infrav1.HostOperation{Step: "Booting", Percent: new(int32(0))}, "Booting"},
		"a percentage":               {infrav1.HostOperation{Step: "Writing", Percent: new(int32(42)), Bytes: 3 << 30}, "Writing 42%"},
		"bytes of an unknown total":  {infrav1.HostOperation{Step: "Writing", Percent: new(int32(0)), Bytes: 3 << 29}, "Writing 1.5Gi"},
		"an operation without steps": {infrav1.HostOperation{}, ""},
	} {
		ShowProgress(&tc.operation)
		if diff := cmp.Diff(tc.want, tc.operation.Progress); diff != "" {
			t.Errorf("%s: progress (-want +got):\n%s", name, diff)
		}
	}
	ShowProgress(nil)
}
